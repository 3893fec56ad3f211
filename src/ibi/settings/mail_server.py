"""How a mail server is reached, as operators write it.

    mail.example.org:25                         in the open; for a server on this machine or in this network
    smtp+starttls://user@mail.example.org:587   TLS from the second word on, or not at all
    smtps://user@mail.example.org:465           TLS from the first byte

A user is written with %40 for "@", or as it is. The password is never part of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote

from ibi.errors import ParseError, SetupError
from ibi.protocol.messages import split_hostport

_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}

_FORMS: Final = "`smtp` is host:port, smtp+starttls://user@host:port or smtps://user@host:port"


class MailServer(NamedTuple):
    """`way`: "smtp", "smtp+starttls" or "smtps"; `user`: "" where nobody has to say who he is."""

    way: str
    host: str
    port: int
    user: str


def mail_server(text: str) -> MailServer:
    """Read it. Raises SetupError, which tells nothing that may be a password."""
    way, mark, rest = text.partition("://")
    if not mark:
        way, rest = "smtp", text
    user, at, address = rest.rpartition("@")
    if way not in _PORTS or (at and not user):
        raise SetupError(_FORMS)
    if ":" in user:
        raise SetupError(
            "no password stands in `smtp`: put it into a file, and name that in smtp_password_file"
        )
    if user and way == "smtp":
        raise SetupError("no password goes to a mail server in the open: use smtps:// or smtp+starttls://")
    try:
        host, port = split_hostport(address.removesuffix("/"))
        return MailServer(way, host, port or _PORTS[way], unquote(user, errors="strict"))
    except (ParseError, UnicodeDecodeError):
        raise SetupError(_FORMS) from None
