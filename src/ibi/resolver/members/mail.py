"""Mail to administrators: registered, applied, moved, held, a new key.

One thread sends the mails over SMTP, so that no request waits for a mail server. Where the server cannot be reached,
or asks to come again (4xx), a mail is tried again after growing pauses. Without a server, none are sent. A mail never
contains a key. See REG-01: registration; T17: replayed inclusions; T41: forged registrations.
"""

from __future__ import annotations

import logging
import smtplib
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import localtime, make_msgid
from pathlib import Path
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Final

from ibi.http.request import host_of
from ibi.runtime.i18n import LANGUAGES, say
from ibi.runtime.settings import mail_server
from ibi.runtime.settings.institution import Institution
from ibi.runtime.settings.rules import is_mail_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.identifier.forms import IBI
    from ibi.resolver.model.archive import Move, RegisteredArchive


SMTP_SECONDS: Final = 10.0
"""How long a mail server may take for each step."""

MOST_WAITING: Final = 200
"""Mails that wait, also those that are tried again; further ones are not sent."""

RETRY_SECONDS: Final = (60.0, 300.0, 1800.0)
"""Seconds until a mail is tried again, after each failure that may pass; then it is given up."""

_KEY_STOLEN = "If you did not move it, somebody else has its key: ask for a new one."
_MOVED_BY_YOU = (
    "If you did, switch it off at the old address, or ask the administrator of the resolver "
    "to allow the move."
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
        "refused",
        "Your application was refused",
        "The application of the Archive {ibi} was refused at the resolver {resolver}.",
        "The reason: {reason}",
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
        "It is not responding at {before}; if this continues, its address is changed.",
        _KEY_STOLEN,
        _MOVED_BY_YOU,
    ),
    (
        "rotated",
        "Your Archive has a new key",
        "The Archive {ibi} was given a new registration key at the resolver {resolver}; the old one is void.",
        "If you did not ask for it, write to the administrator of the resolver.",
    ),
)
"""Kind, subject, and the sentences of each mail."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _WaitingMail:
    """A mail, when it is to be sent (of the monotonic clock), and how often that has failed."""

    message: EmailMessage
    due: float
    failures: int = 0


class MailSender:
    """Sends mail through the server `smtp` (see `mail_server`; "": sends none), from the address `sender`.

    `resolver` is the address at which readers reach the resolver; `password_file` has the password of the
    user of `smtp`; it is read for each mail, so it may change. `institution` returns the one that runs the
    resolver now, whose name the mails bear. Raises SetupError for a faulty `smtp`.
    """

    def __init__(
        self,
        smtp: str,
        sender: str,
        resolver: str,
        password_file: str = "",
        institution: Callable[[], Institution] = Institution,
    ) -> None:
        self._server = mail_server(smtp) if smtp else None
        self._password_file = password_file
        self._sender = sender
        self._resolver = resolver
        self._institution = institution
        self._waiting: list[_WaitingMail] = []
        self._thread: Thread | None = None
        self._changed = Condition()  # guards both

    @property
    def sends(self) -> bool:
        """Whether mail is sent at all."""
        return bool(self._server and self._sender)

    def registered(self, service_ibi: IBI, to: str) -> None:
        """Tell an administrator that the Archive may switch itself on now (REG-01: registration)."""
        self._post("registered", to, ibi=service_ibi)

    def applied(self, service_ibi: IBI, address: str, to: str) -> None:
        """Tell the administrator of the resolver that an Archive has applied."""
        self._post("applied", to, ibi=service_ibi, address=address)

    def refused(self, service_ibi: IBI, to: str, reason: str) -> None:
        """Tell an applicant why the Archive was not registered."""
        self._post("refused", to, ibi=service_ibi, reason=reason)

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
        """Send the mails that wait, each once and without pauses, for `seconds` at most."""
        with self._changed:
            thread, self._thread = self._thread, None  # a mail that comes meanwhile starts another thread
            self._changed.notify_all()
        if thread is None:
            return
        thread.join(seconds)
        with self._changed:
            if self._waiting and self._thread is None:
                _log.warning("mails that were not sent before the end: %d", len(self._waiting))
                self._waiting.clear()

    def _post(self, kind: str, to: str, **details: object) -> None:
        """Put a mail into the queue of the sending thread; return at once."""
        if not self.sends or not to:
            return
        try:
            message = self._message(kind, to, details)
        except (ValueError, LookupError, MessageError) as error:
            _log.warning("a mail cannot be sent to this address: %s", error)
            return
        with self._changed:
            # Bounded and without waiting: a mail server that hangs must not hold up registrations.
            if len(self._waiting) >= MOST_WAITING:
                _log.warning("a mail was not sent: too many wait")
                return
            self._waiting.append(_WaitingMail(message, time.monotonic()))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="mail", daemon=True)
                self._thread.start()

    def _message(self, kind: str, to: str, details: Mapping[str, object]) -> EmailMessage:
        """Write a mail. Raises ValueError, LookupError or MessageError for text that no header can hold."""
        if not is_mail_address(to):
            raise ValueError("not a plain mail address")
        title, *sentences = next(text[1:] for text in _TEXTS if text[0] == kind)
        message, institution = EmailMessage(policy=SMTP), self._institution()
        message["From"] = Address(institution.text("name", LANGUAGES[0]), addr_spec=self._sender)
        message["To"] = Address(addr_spec=to)
        message["Subject"] = " / ".join(dict.fromkeys(say(title, language) for language in LANGUAGES))
        message["Date"] = localtime()
        message["Message-ID"] = make_msgid(domain=host_of(self._resolver) or None)
        message["Auto-Submitted"] = "auto-generated"
        # In every language that we write: the one that the reader prefers is not known.
        parts = []
        for language in LANGUAGES:
            name = institution.text("name", language)
            known = {**details, "resolver": f"{name} ({self._resolver})" if name else self._resolver}
            parts.append("\n".join(say(sentence, language, **known) for sentence in sentences))
        message.set_content("\n\n".join(dict.fromkeys(parts)) + "\n")
        return message

    def _run(self) -> None:
        while (mail := self._next()) is not None:
            try:
                self._send(mail.message)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                self._fail(mail, error)

    def _next(self) -> _WaitingMail | None:
        """Wait until a mail is due, and take it out; None where none is left and this thread is to end."""
        with self._changed:
            while True:
                ends = self._thread is not current_thread()
                if not self._waiting:
                    if ends:
                        return None
                    self._changed.wait()
                    continue
                mail = min(self._waiting, key=lambda each: each.due)
                wait = mail.due - time.monotonic()
                if ends or wait <= 0:
                    self._waiting.remove(mail)
                    return mail
                self._changed.wait(wait)

    def _fail(self, mail: _WaitingMail, error: Exception) -> None:
        """Have a mail sent again later, if its failure may pass and it has not failed too often."""
        # Only the kind of error is logged: the answer of a mail server may repeat an address or a password.
        kind = type(error).__name__
        with self._changed:
            ends = self._thread is not current_thread()
            if ends or mail.failures >= len(RETRY_SECONDS) or not _may_pass(error):
                _log.warning("a mail was not sent: %s", kind)
                return
            pause = RETRY_SECONDS[mail.failures]
            again = _WaitingMail(mail.message, time.monotonic() + pause, mail.failures + 1)
            self._waiting.append(again)
        _log.warning("a mail is sent again in %d s: %s", pause, kind)

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
        with closing(server):
            if way == "smtp+starttls":
                server.starttls(context=tls)
            if user:
                server.login(user, Path(self._password_file).read_text(encoding="utf-8").rstrip("\r\n"))
            server.send_message(message)
            # It is accepted: an error now must not have it sent twice.
            with suppress(OSError, smtplib.SMTPException):
                server.quit()


def _may_pass(error: Exception) -> bool:
    """Whether a failure may be over later: of the connection, or a reply 4xx (RFC 5321, 4.2.1)."""
    match error:
        case smtplib.SMTPResponseException():
            return _is_transient(error.smtp_code)
        case smtplib.SMTPRecipientsRefused():
            return all(_is_transient(code) for code, _ in error.recipients.values())
        case smtplib.SMTPServerDisconnected():
            return True
        # A file that is missing or cannot be read is that of the password.
        case (
            smtplib.SMTPException() | ssl.SSLCertVerificationError() | FileNotFoundError() | PermissionError()
        ):
            return False
        case _:
            return isinstance(error, OSError)


def _is_transient(code: int) -> bool:
    return code // 100 == 4  # noqa: PLR2004 - the class of a reply
