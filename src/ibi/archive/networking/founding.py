"""The beginning of an Archive: settings from an administrator's wishes, and its registration (REG-01, note 23)."""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.directory import generator_of
from ibi.archive.networking.joining import checked_key, key_warnings, new_key, root
from ibi.errors import IbiError, MintingError, NotOurs, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import LabelGenerator, is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.minting.subsystem import granularity_of
from ibi.protocol.messages import split_hostport
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from ibi.archive.directory import ArchiveDirectory

MAIL_SUBJECT: Final = "Solicitação de cadastro de um novo Arquivo"
"""What registration mails are headed with (R15 Example 7.1)."""

_PLACEHOLDER = IBIForms.parse("rep archive.example/w/2000/01.01.00.00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an administrator says of a new Archive; None or "" for what is left to us."""

    address: str
    ip: str
    service_ibi: str | None = None
    mint_host: str | None = None
    mint_port: int | None = None
    mint_ip: str | None = None
    mint_ip_port: int = 800
    granularity: str = "auto"
    for_trying: bool = False
    admin: str = ""
    platform_software: str | None = None
    resolver: str = ""
    key: str | None = None


def found(directory: ArchiveDirectory, wishes: Wishes) -> tuple[ArchiveSettings, list[IbiError]]:
    """Make an Archive in a data directory; returns its settings, and what its administrator should know.

    Everything is checked before anything is made. Raises SetupError, ParseError or NotOurs.
    """
    settings, warnings = _settings(wishes)
    directory.begin()
    if not wishes.service_ibi:
        generator = generator_of(settings)
        assert generator is not None  # noqa: S101 - _settings saw to it
        settings = replace(settings, service=next(directory.labels(generator, settings.granularity, 1)))
    directory.make(settings)
    return settings, warnings


@dataclass(frozen=True, slots=True)
class Answers:
    """Checks one answer of an administrator at a time; each gives it back as it is kept, or raises an IbiError.

    `mints_host`, `mints_ip`: whether new labels will spell the address, and the IP address.
    """

    mints_host: bool
    mints_ip: bool
    for_trying: bool

    def address(self, text: str) -> str:
        """Where the Archive will answer."""
        host, port = split_hostport(text)
        if self.mints_host:
            LabelGenerator(host, port or 80, for_trying=self.for_trying)
        return text

    def ip(self, text: str) -> str:
        """The IP address of its server."""
        found = canonical_ip(text)
        if self.mints_ip and not self.for_trying and not is_public_ip(found):
            raise NotOurs("the address {ip} is not public, so its labels are only for trying out", ip=found)
        return found

    @staticmethod
    def admin(text: str) -> str:
        """The administrator's mail address."""
        ArchiveSettings(
            address="archive.example",
            ip="192.0.2.1",
            service=_PLACEHOLDER,
            key=new_key(),
            secret="",
            admin=text,
        )
        return text

    @staticmethod
    def resolver(text: str) -> str:
        """The root of a resolver, or nothing yet."""
        return root(text) if text else ""


def register_command(service: IBIForms, key: str) -> str:
    """The line with which a resolver's administrator registers an Archive."""
    words = ["--archive-service", str(service.main), "--key", key]
    return f"ibi resolver register --data DIR {shlex.join(words)}"


def mail_text(service: IBIForms, key: str) -> str:
    """The text of the registration mail (REG-01)."""
    return f"archiveserviceibi = {service.main}\nregistrationkey = {key}\n"


def _settings(wishes: Wishes) -> tuple[ArchiveSettings, list[IbiError]]:
    host, port = split_hostport(wishes.address)
    granularity_of(wishes.granularity)
    settings = ArchiveSettings(
        address=wishes.address,
        ip=canonical_ip(wishes.ip),
        service=IBIForms.of(parse_ibi(wishes.service_ibi)) if wishes.service_ibi else _PLACEHOLDER,
        key=checked_key(wishes.key) if wishes.key else new_key(),
        secret=secrets.token_hex(32),
        admin=wishes.admin or f"admin@{host}",
        platform_software=IBIForms.of(parse_ibi(wishes.platform_software))
        if wishes.platform_software
        else None,
        resolver=root(wishes.resolver) if wishes.resolver else "",
        mint_host=(wishes.mint_host or host).lower(),
        mint_port=wishes.mint_port or (80 if wishes.mint_host else port or 80),
        mint_ip=canonical_ip(wishes.mint_ip or wishes.ip),
        mint_ip_port=wishes.mint_ip_port,
        granularity=wishes.granularity,
        for_trying=wishes.for_trying,
    )
    warnings = key_warnings(settings.resolver, settings.key)
    if not wishes.admin:
        warnings.append(IbiError("no --admin was given; the resolver is told {mail}", mail=settings.admin))
    try:
        generator_of(settings)
    except (MintingError, ParseError) as error:
        if wishes.mint_host or wishes.mint_ip or not wishes.service_ibi:
            raise _cannot_mint(error, given=bool(wishes.service_ibi)) from None
        warnings.append(IbiError("this Archive will give no labels: {reason}", reason=error))
        settings = replace(settings, mint_host="", mint_ip="")
    return settings, warnings


def _cannot_mint(error: IbiError, *, given: bool) -> IbiError:
    if given or not isinstance(error, MintingError):
        return SetupError("no labels can be made under this name ({reason}): see --mint-host", reason=error)
    problem = "{reason}; give --mint-host and --mint-ip of your own, or --service-ibi, or --for-trying"
    return NotOurs(problem, reason=error)
