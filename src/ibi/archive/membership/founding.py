"""Creates an Archive from an administrator's options: settings, service item, registration.

It also checks later changes of settings before they are written (ARC-10: facts of an Archive; REG-08: repeating is
harmless). The service IBI never changes; keys belong to resolvers and are changed in `joining`. See REG-01:
registration; note 23: two names of an Archive.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.membership.joining import check_key, key_warnings, new_key, split_base_url
from ibi.archive.store.data_directory import label_generator
from ibi.archive.store.files import group_number
from ibi.errors import IbiError, MintingError, MintingNotAllowed, ParseError, SetupError
from ibi.identifier.dates import granularity_of
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import LabelGenerator, is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import split_hostport
from ibi.runtime.settings import PLACEHOLDER, ArchiveSettings
from ibi.runtime.settings.rules import ARCHIVE_RULES, check_networks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """The settings after a change, the names of the changed ones, and warnings for the administrator."""

    settings: ArchiveSettings
    changed: tuple[str, ...]
    notes: tuple[IbiError, ...]


def change_settings(settings: ArchiveSettings, changes: Mapping[str, Any]) -> ChangedSettings:
    """Return the settings with some changes. Raises SetupError or ParseError for invalid values.

    A former address becomes an alias, so that links with it still lead here.
    """
    values = {name: _checked(name, value) for name, value in changes.items()}
    if "address" in values:
        aliases = [*values.get("aliases", settings.aliases), settings.address]
        values["aliases"] = tuple(
            alias for alias in dict.fromkeys(aliases) if alias.lower() != values["address"].lower()
        )
    changed = replace(settings, **values)
    # Checked before anything is written, because without labels the Archive could accept no deposits.
    if any(name.startswith(("mint_", "for_trying")) for name in values):
        try:
            label_generator(changed)
        except (MintingError, ParseError) as error:
            problem = "no labels can be made under this name ({reason}); the setting {name} gives another one"
            raise SetupError(problem, reason=error, name="mint_host") from None
    names = tuple(name for name in values if getattr(settings, name) != getattr(changed, name))
    return ChangedSettings(changed, names, tuple(_notes(settings, changed, names)))


def _checked(name: str, value: Any) -> Any:
    """Return a value as it is stored, if its rule accepts it; else the rule raises an error."""
    rule, kept = ARCHIVE_RULES.get(name), _KEPT.get(name)
    if kept is not None:
        value = kept(value)
    if rule is not None:
        rule(name, value)
    return value


def _address(text: str) -> str:
    split_hostport(text)
    return text


def _admin(text: str) -> str:
    if not text.strip():
        raise SetupError("give the administrator a mail address, such as maria@archive.example")
    return text


def _addresses(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_address(text) for text in texts if text))


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    check_networks("networks", given := [text for text in texts if text])
    return tuple(dict.fromkeys(str(ip_network(text)) for text in given))


def _geo_database(text: str) -> str:
    if text and not Path(text).is_file():
        raise SetupError("{path} does not exist", path=text)
    return str(Path(text).resolve()) if text else ""


def _group(text: str) -> str:
    if text:
        group_number(text)
    return text


def _notes(before: ArchiveSettings, after: ArchiveSettings, names: tuple[str, ...]) -> list[IbiError]:
    found: list[IbiError] = []
    if "address" in names:
        old, new = before.address, after.address
        problem = "links with {old} go on being answered, as long as that name leads here"
        found.append(IbiError(problem, old=old))
        if split_hostport(old)[1] != split_hostport(new)[1]:
            problem = (
                "a running server goes on listening where it is; for another port, start it anew: "
                "ibi archive serve --bind"
            )
            found.append(IbiError(problem))
        if after.mint_host and "mint_host" not in names:
            problem = "labels are still made under {host}, until the setting {name} is changed"
            found.append(IbiError(problem, host=after.mint_host, name="mint_host"))
    if "ip" in names and after.mint_ip and after.mint_ip == before.ip:
        # An IBIp is an IP address and a moment: the next owner of the address could make the same one.
        problem = (
            "IBIps are still made of {ip}, until the setting {name} is changed; "
            "the next owner of that IP address may make the same ones"
        )
        found.append(IbiError(problem, ip=after.mint_ip, name="mint_ip"))
    if after.largest_upload > before.largest_upload:
        found.append(IbiError("larger files are accepted over HTTP once the Archive is restarted"))
    if "files_redirect" in names and after.files_redirect and not after.files:
        problem = "readers are sent to an S3 store as soon as the files are in one: {command}"
        found.append(IbiError(problem, command="ibi archive move-files --to s3://BUCKET/PREFIX"))
    return found


_KEPT: Final[dict[str, Callable[[Any], Any]]] = {
    "admin": _admin,
    "address": _address,
    "aliases": _addresses,
    "public_url": lambda text: text.removesuffix("/"),
    "ip": canonical_ip,
    "mint_ip": lambda text: canonical_ip(text) if text else "",
    "networks": _networks,
    "trusted_resolvers": _networks,
    "trusted_proxies": _networks,
    "metrics_networks": _networks,
    "geo_database": _geo_database,
    "backup_folder": lambda text: str(Path(text).resolve()) if text else "",
    "files_group": _group,
}
