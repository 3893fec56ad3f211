"""A registration mail (REG-01: registration; R15 Example 7.1), alone or inside a whole message (RFC 5322).

    archiveserviceibi = dpi.inpe.br/banon/1999/01.09.22.14
    registrationkey = 1234567890

A mail proves nothing about its sender (T41: forged registrations), so a person decides whether to register the
Archive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import is_key
from ibi.runtime.settings.rules import is_mail_address

if TYPE_CHECKING:
    from ibi.identifier.forms import IBI

LONGEST_MAIL: Final = 1 << 20
"""Bytes of a mail that are read."""

_LONGEST_SHOWN: Final = 100  # characters of a header that are shown
_HEADER = re.compile(
    rb"(?:from|to|subject|date|received|return-path|message-id|mime-version|delivered-to|content-type):",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"[ \t>]*(archiveserviceibi|registrationkey)[ \t]*=[ \t]*(\S+)[ \t]*", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RegistrationMail:
    """The request in a mail; `sender`, `name` and `subject` are from its headers, unproved, "" if missing."""

    service_ibi: IBI
    key: str = field(repr=False)
    sender: str = ""
    name: str = ""
    subject: str = ""


def read_registration(raw: bytes) -> RegistrationMail:
    """Read a mail, or the text of one. Raises ParseError, which shows no key."""
    if len(raw) > LONGEST_MAIL:
        raise _fault("the mail is too long: at most {most} bytes are read", most=LONGEST_MAIL)
    message = _message(raw) if _HEADER.match(raw) or raw.startswith(b"From ") else None
    pairs = _pairs(_text(message) if message else _decoded(raw, "utf-8"))
    key = pairs["registrationkey"]
    if not is_key(key):
        raise _fault("a key is ten or more digits, perhaps a hyphen and ten or more digits again")
    service_ibi = parse_ibi(pairs["archiveserviceibi"])
    if message is None:
        return RegistrationMail(service_ibi, key)
    name, sender = parseaddr(_header(message, "from"))
    return RegistrationMail(
        service_ibi,
        key,
        sender if is_mail_address(sender) else "",
        _printable(name),
        _printable(_header(message, "subject")),
    )


def _message(raw: bytes) -> EmailMessage:
    """Parse a whole message. Raises ParseError where the mail library fails."""
    try:
        return BytesParser(EmailMessage, policy=policy.default).parsebytes(raw)
    except Exception:  # noqa: BLE001 - the library has faults of its own on broken headers
        raise _fault("the mail cannot be read") from None


def _text(message: EmailMessage) -> str:
    """Return the plain text of a message. Raises ParseError."""
    try:
        body = message.get_body(("plain",))
        charset = body.get_content_charset("utf-8") if body is not None else "utf-8"
        raw = body.get_payload(decode=True) if body is not None else None
    except Exception:  # noqa: BLE001 - as above
        raw, charset = None, ""
    if not isinstance(raw, bytes):
        raise _fault("the mail has no plain text")
    return _decoded(raw, charset)


def _decoded(raw: bytes, charset: str) -> str:
    # The pairs are ASCII; the rest of the mail may be in any encoding.
    try:
        return raw.decode(charset)
    except (UnicodeError, LookupError, ValueError):
        return raw.decode("latin-1")


def _pairs(text: str) -> dict[str, str]:
    """Read the two pairs, each named once. Raises ParseError."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _PAIR.fullmatch(line)
        if match is None:
            continue
        name, value = match[1].lower(), match[2]
        # The same pair again is no fault: replies quote the mail that they answer.
        if found.setdefault(name, value) != value:
            raise _fault("the mail names two different values for {name}", name=name)
    for name in ("archiveserviceibi", "registrationkey"):
        if name not in found:
            raise _fault("the mail has no line: {name} = ...", name=name)
    return found


def _header(message: EmailMessage, name: str) -> str:
    try:
        return str(message.get(name, ""))
    except Exception:  # noqa: BLE001 - as above
        return ""


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST_SHOWN].strip()


def _fault(sentence: str, **details: Any) -> ParseError:
    return ParseError("registration mail", "", sentence, **details)
