"""Creates an Archive from an administrator's options: settings, service item, registration.

See REG-01: registration; REG-08: repeating is harmless; note 23: two names of an Archive.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.membership.joining import check_key, key_warnings, new_key, split_base_url
from ibi.archive.store.data_directory import label_generator
from ibi.errors import IbiError, MintingError, MintingNotAllowed, ParseError, SetupError
from ibi.identifier.dates import granularity_of
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import LabelGenerator, is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import split_hostport
from ibi.runtime.settings import PLACEHOLDER, ArchiveSettings

if TYPE_CHECKING:
    from ibi.archive.store.data_directory import DataDirectory

MAIL_SUBJECT: Final = "Solicitação de cadastro de um novo Arquivo"
"""The subject of registration mails (R15 Example 7.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArchiveOptions:
    """The options of an administrator for a new Archive; None or "" means the default."""

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
    store: str = ""
    files: str = ""


def create_archive(
    directory: DataDirectory, options: NewArchiveOptions
) -> tuple[ArchiveSettings, list[IbiError]]:
    """Create an Archive in a data directory; return its settings, and warnings for its administrator.

    Everything is checked before anything is written. Raises SetupError, ParseError or MintingNotAllowed.
    """
    settings, warnings = _settings(options)
    # Reserved before a label is minted, so that a second command in the same directory cannot mint.
    directory.reserve()
    if not options.service_ibi:
        generator = label_generator(settings)
        assert generator is not None  # noqa: S101 - _settings has checked it
        settings = replace(settings, service=next(directory.mint_labels(generator, settings.granularity, 1)))
    directory.create(settings)
    return settings, warnings


@dataclass(frozen=True, slots=True)
class AnswerChecks:
    """Checks answers of an administrator; each method returns an answer as it is stored, or raises IbiError.

    `mints_host`, `mints_ip`: whether new labels will contain the address, and the IP address.
    """

    mints_host: bool
    mints_ip: bool
    for_trying: bool

    def address(self, text: str) -> str:
        """Check the address at which the Archive will answer."""
        host, port = split_hostport(text)
        if self.mints_host:
            name = trial_host(host) if self.for_trying else host
            LabelGenerator(name, port or 80, for_trying=self.for_trying)
        return text

    def ip(self, text: str) -> str:
        """Check the IP address of its server."""
        ip = canonical_ip(text)
        if self.mints_ip and not self.for_trying and not is_public_ip(ip):
            raise MintingNotAllowed(
                "the address {ip} is not public, so its labels are only for trying out", ip=ip
            )
        return ip

    @staticmethod
    def admin(text: str) -> str:
        """Check the administrator's mail address."""
        ArchiveSettings(
            address="archive.example",
            ip="192.0.2.1",
            service=PLACEHOLDER,
            key=new_key(),
            secret="",
            admin=text,
        )
        return text

    @staticmethod
    def resolver(text: str) -> str:
        """Check the base URL of a resolver; "" if none is joined yet."""
        return "/".join(filter(None, split_base_url(text))) if text else ""


def trial_host(host: str) -> str:
    """Return the host for labels for trying: the Archive's own, else a name under "localhost"."""
    word = host.lower().removesuffix(".")
    if word == "localhost" or ":" in word or word.replace(".", "").isdecimal():
        word = "archive"
    return word if "." in word else f"{word}.localhost"


def register_command(service: IBIForms, key: str) -> str:
    """Return the command with which a resolver's administrator registers an Archive."""
    words = ["--archive-service", str(service.main), "--key", key]
    return f"ibi resolver register --data DIR {shlex.join(words)}"


def mail_text(service: IBIForms, key: str) -> str:
    """Return the text of the registration mail, with the headings of Example 7.1 (REG-01: registration)."""
    return (
        f"IBI do serviço de Arquivo:\narchiveserviceibi = {service.main}\n\n"
        f"Chave de cadastro:\nregistrationkey = {key}\n"
    )


def _settings(options: NewArchiveOptions) -> tuple[ArchiveSettings, list[IbiError]]:
    host, port = split_hostport(options.address)
    granularity_of(options.granularity)
    resolver, resolver_service = split_base_url(options.resolver) if options.resolver else ("", "")
    settings = ArchiveSettings(
        address=options.address,
        ip=canonical_ip(options.ip),
        service=_forms(options.service_ibi) or PLACEHOLDER,
        key=check_key(options.key) if options.key else new_key(),
        secret=secrets.token_hex(32),
        admin=options.admin or f"admin@{'localhost' if ':' in host else host}",
        platform_software=_forms(options.platform_software),
        resolver=resolver,
        resolver_service=resolver_service,
        mint_host=(options.mint_host or (trial_host(host) if options.for_trying else host)).lower(),
        mint_port=options.mint_port or (80 if options.mint_host else port or 80),  # the port that links need
        mint_ip=canonical_ip(options.mint_ip or options.ip),
        mint_ip_port=options.mint_ip_port,
        granularity=options.granularity,
        for_trying=options.for_trying,
        store=options.store,
        files=options.files,
    ).with_environment()
    warnings = key_warnings(settings.resolver, settings.key)
    if not options.admin:
        warnings.append(IbiError("no --admin was given; the resolver receives {mail}", mail=settings.admin))
    try:
        label_generator(settings)
    except (MintingError, ParseError) as error:
        if not options.service_ibi and isinstance(error, MintingError):
            problem = (
                "{reason}; give --mint-host and --mint-ip of your own, or --service-ibi, or --for-trying"
            )
            raise MintingNotAllowed(problem, reason=error) from None
        if options.mint_host or options.mint_ip or not options.service_ibi:
            problem = "no labels can be made under this name ({reason}): see --mint-host"
            raise SetupError(problem, reason=error) from None
        warnings.append(IbiError("this Archive will give no labels: {reason}", reason=error))
        settings = replace(settings, mint_host="", mint_ip="")
    return settings, warnings


def _forms(text: str | None) -> IBIForms | None:
    return IBIForms.of(parse_ibi(text)) if text else None
