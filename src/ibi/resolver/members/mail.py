"""Mail to administrators: registered, applied, moved, held, a new key (REG-01, threats T17 and T41).

One thread sends the mails over SMTP, so that no request waits for a mail server. Without a server, none are
sent. A mail never contains a key.
"""

from __future__ import annotations

import logging
import smtplib
import ssl
from contextlib import suppress
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import localtime, make_msgid
from pathlib import Path
from queue import Full, Queue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from ibi.http.request import host_of
from ibi.runtime.i18n import LANGUAGES, say
from ibi.runtime.settings import mail_server
from ibi.runtime.settings.rules import is_mail_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.identifier.forms import IBI
    from ibi.resolver.model.archive import Move, RegisteredArchive


SMTP_SECONDS: Final = 10.0
"""How long a mail server may take for each step."""

MOST_WAITING: Final = 200
"""Mails that wait; further ones are not sent."""

_KEY_STOLEN = "If you did not move it, somebody else has its key: ask for a new one."
_MOVED_BY_YOU = (
    "If you did, switch it off at the old address, or ask whoever runs the resolver to allow the move."
)
_NAMES_ANOTHER = (
    "At the resolver {resolver}, a request with the key of the Archive {ibi} names a new address: {address}."
)
_TEXTS: Final = (
    (
        "registered",
        "Your Archive is registered",
        "The Archive {ibi} is registered at the resolver {resolver}.",
        "It is included as soon as it is switched on.",
    ),
    (
        "applied",
        "An Archive has applied for registration",
        "The Archive {ibi} at {address} has applied for registration at the resolver {resolver}.",
        "To decide: ibi resolver applications, then ibi resolver approve or refuse.",
    ),
    (
        "moved",
        "Your Archive answers at a new address",
        "The resolver {resolver} asks the Archive {ibi} at {address} from now on; before, it was at {before}.",
        _KEY_STOLEN,
    ),
    (
        "held-answers",
        "Somebody wants to move your Archive",
        _NAMES_ANOTHER,
        "It still answers at {before}, so nothing was changed.",
        _KEY_STOLEN,
        _MOVED_BY_YOU,
    ),
    (
        "held-silent",
        "Somebody wants to move your Archive",
        _NAMES_ANOTHER,
        "It is silent at {before}; if it stays so, it is moved.",
        _KEY_STOLEN,
        _MOVED_BY_YOU,
    ),
    (
        "rotated",
        "Your Archive has a new key",
        "The Archive {ibi} was given a new registration key at the resolver {resolver}; the old one is void.",
        "If you did not ask for it, write to whoever runs the resolver.",
    ),
)
"""Kind, subject, and the sentences of each mail."""

_log = logging.getLogger(__name__)


class MailSender:
    """Sends mail through the server `smtp` (see `mail_server`; "": sends none), from the address `sender`.

    `resolver` is the address at which readers reach the resolver; `password_file` has the password of the
    user of `smtp`; it is read for each mail, so it may change. Raises SetupError for a faulty `smtp`.
    """

    def __init__(self, smtp: str, sender: str, resolver: str, password_file: str = "") -> None:
        self._server = mail_server(smtp) if smtp else None
        self._password_file = password_file
        self._sender = sender
        self._resolver = resolver
        self._waiting: Queue[EmailMessage | None] = Queue(MOST_WAITING)
        self._thread: Thread | None = None
        self._thread_lock = Lock()

    @property
    def sends(self) -> bool:
        """Whether mail is sent at all."""
        return bool(self._server and self._sender)

    def registered(self, service_ibi: IBI, to: str) -> None:
        """Tell an administrator that the Archive may switch itself on now (REG-01)."""
        self._post("registered", to, ibi=service_ibi)

    def applied(self, service_ibi: IBI, address: str, to: str) -> None:
        """Tell the administrator of the resolver that an Archive has applied."""
        self._post("applied", to, ibi=service_ibi, address=address)

    def moved(self, known: RegisteredArchive, address: str) -> None:
        """Tell an administrator that the Archive is asked at another address from now on."""
        before = known.confirmed_address
        self._post("moved", known.mail, ibi=known.service_ibi, address=address, before=before)

    def held(self, known: RegisteredArchive, move: Move, *, answers: bool) -> None:
        """Tell an administrator that a request with the key names another address; the move waits."""
        kind, before = "held-answers" if answers else "held-silent", known.confirmed_address
        self._post(kind, known.mail, ibi=known.service_ibi, address=move.address, before=before)

    def rotated(self, known: RegisteredArchive) -> None:
        """Tell an administrator that the Archive has a new key, without the key."""
        self._post("rotated", known.mail, ibi=known.service_ibi)

    def close(self, seconds: float = SMTP_SECONDS) -> None:
        """Send the mails that wait, for `seconds` at most."""
        with self._thread_lock:
            thread, self._thread = self._thread, None  # a mail that comes meanwhile starts another thread
            if thread is not None:
                with suppress(Full):
                    self._waiting.put_nowait(None)
        if thread is not None:
            thread.join(seconds)

    def _post(self, kind: str, to: str, **details: object) -> None:
        """Put a mail into the queue of the sending thread; return at once."""
        if not self.sends or not to:
            return
        try:
            # Bounded and without waiting: a mail server that hangs must not hold up registrations.
            self._waiting.put_nowait(self._message(kind, to, details))
        except (ValueError, LookupError, MessageError) as error:
            _log.warning("a letter cannot be sent to this address: %s", error)
            return
        except Full:
            _log.warning("a letter was not sent: too many wait")
            return
        with self._thread_lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="mail", daemon=True)
                self._thread.start()

    def _message(self, kind: str, to: str, details: Mapping[str, object]) -> EmailMessage:
        """Write a mail. Raises ValueError, LookupError or MessageError for text that no header can hold."""
        if not is_mail_address(to):
            raise ValueError("not a plain mail address")
        title, *sentences = next(text[1:] for text in _TEXTS if text[0] == kind)
        message = EmailMessage(policy=SMTP)
        message["From"] = Address(addr_spec=self._sender)
        message["To"] = Address(addr_spec=to)
        message["Subject"] = " / ".join(dict.fromkeys(say(title, language) for language in LANGUAGES))
        message["Date"] = localtime()
        message["Message-ID"] = make_msgid(domain=host_of(self._resolver) or None)
        message["Auto-Submitted"] = "auto-generated"
        known = {**details, "resolver": self._resolver}
        # In every language that we write: the one that the reader prefers is not known.
        parts = (
            "\n".join(say(sentence, language, **known) for sentence in sentences) for language in LANGUAGES
        )
        message.set_content("\n\n".join(dict.fromkeys(parts)) + "\n")
        return message

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            try:
                self._send(message)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                # Only the kind of error: the answer of a mail server may repeat an address or a password.
                _log.warning("a letter was not sent: %s", type(error).__name__)

    def _send(self, message: EmailMessage) -> None:
        """Send a mail. Raises OSError, SMTPException, ValueError."""
        if self._server is None:
            return
        way, host, port, user = self._server
        # With verified certificates, and never without TLS if it is configured: a password may be sent.
        tls = ssl.create_default_context()
        if way == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=SMTP_SECONDS, context=tls)
        else:
            server = smtplib.SMTP(host, port, timeout=SMTP_SECONDS)
        with server:
            if way == "smtp+starttls":
                server.starttls(context=tls)
            if user:
                server.login(user, Path(self._password_file).read_text(encoding="utf-8").rstrip("\r\n"))
            server.send_message(message)
