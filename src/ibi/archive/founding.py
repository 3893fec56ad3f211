"""The beginning of an Archive: settings from an administrator's wishes, and its registration (REG-01, note 23)."""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.directory import generator_of
from ibi.archive.membership import resolver_address
from ibi.errors import IbiError, MintingError, NotOurs, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.minting.subsystem import granularity_of
from ibi.protocol.messages import is_key, split_hostport
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from ibi.archive.directory import ArchiveDirectory

STRONG_KEY: Final = 20
"""Digits of the keys that we make; shorter ones can be guessed (note 34)."""

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


def joined(
    settings: ArchiveSettings, resolver: str, key: str | None
) -> tuple[ArchiveSettings, list[IbiError]]:
    """The settings of an Archive that takes part at a resolver, and warnings. Raises SetupError."""
    changed = replace(settings, resolver=_root(resolver), key=_key(key) if key else settings.key)
    return changed, _warnings(changed)


def register_command(settings: ArchiveSettings) -> str:
    """The line with which the resolver's administrator registers the Archive."""
    words = ["--archive-service", str(settings.service.main), "--key", settings.key]
    return f"ibi resolver register --data DIR {shlex.join(words)}"


def mail_text(settings: ArchiveSettings) -> str:
    """The text of the registration mail (REG-01)."""
    return f"archiveserviceibi = {settings.service.main}\nregistrationkey = {settings.key}\n"


def _settings(wishes: Wishes) -> tuple[ArchiveSettings, list[IbiError]]:
    host, port = split_hostport(wishes.address)
    granularity_of(wishes.granularity)
    settings = ArchiveSettings(
        address=wishes.address,
        ip=canonical_ip(wishes.ip),
        service=IBIForms.of(parse_ibi(wishes.service_ibi)) if wishes.service_ibi else _PLACEHOLDER,
        key=_key(wishes.key) if wishes.key else str(secrets.randbelow(10**STRONG_KEY)).zfill(STRONG_KEY),
        secret=secrets.token_hex(32),
        admin=wishes.admin or f"admin@{host}",
        platform_software=IBIForms.of(parse_ibi(wishes.platform_software))
        if wishes.platform_software
        else None,
        resolver=_root(wishes.resolver) if wishes.resolver else "",
        mint_host=(wishes.mint_host or host).lower(),
        mint_port=wishes.mint_port or (80 if wishes.mint_host else port or 80),
        mint_ip=canonical_ip(wishes.mint_ip or wishes.ip),
        mint_ip_port=wishes.mint_ip_port,
        granularity=wishes.granularity,
        for_trying=wishes.for_trying,
    )
    warnings = _warnings(settings)
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


def _root(resolver: str) -> str:
    return f"http://{resolver_address(resolver)}"


def _key(text: str) -> str:
    if not is_key(text):
        raise SetupError("a key is ten digits or more, perhaps twice with a hyphen between")
    return text


def _warnings(settings: ArchiveSettings) -> list[IbiError]:
    found: list[IbiError] = []
    if sum(char.isdigit() for char in settings.key) < STRONG_KEY:
        found.append(IbiError("a key of fewer than {digits} digits can be guessed", digits=STRONG_KEY))
    if settings.resolver and not _private(settings.resolver):
        found.append(
            IbiError(
                "the key travels to {resolver} over plain http, where it can be read",
                resolver=settings.resolver,
            )
        )
    return found


def _private(root: str) -> bool:
    """Whether a resolver is on this machine or a network of the house, as far as its address tells."""
    host = split_hostport(resolver_address(root))[0]
    try:
        return not is_public_ip(canonical_ip(host))
    except ParseError:
        return "." not in host
