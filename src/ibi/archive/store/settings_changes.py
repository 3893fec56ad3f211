"""Checks changes of an Archive's settings before they are written, and returns them as they are stored.

The service IBI never changes; keys belong to resolvers, and are changed in `archive.membership.joining` (ARC-10: facts
of an Archive).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.store.data_directory import label_generator
from ibi.archive.store.files import group_number
from ibi.errors import IbiError, MintingError, ParseError, SetupError
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import split_hostport
from ibi.runtime.settings.rules import ARCHIVE_RULES, check_networks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.runtime.settings import ArchiveSettings


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
