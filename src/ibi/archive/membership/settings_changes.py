"""Settings that an administrator changes later: checked before they are written (ARC-10, REG-08).

The service IBI is none of them: it never changes. Nor are keys, which belong to resolvers (`joining`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.store.data_directory import label_generator
from ibi.errors import IbiError, MintingError, ParseError, SetupError
from ibi.identifier.ibip import canonical_ip
from ibi.minting.subsystem import granularity_of
from ibi.protocol.messages import split_hostport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.runtime.settings import ArchiveSettings

LARGEST_VALUES: Final = {
    "reuse_seconds": 86_400,
    "largest_upload": 1 << 50,
    "audit_days": 3_650,
    "refresh_hours": 8_760,
    "page_rate": 100_000,
    "page_burst": 1_000_000,
    "costly_rate": 100_000,
    "costly_burst": 1_000_000,
}
"""The largest value of each number that may be set; the least is 0, or 1 where 0 would refuse everything."""

_AT_LEAST_ONE: Final = frozenset({"largest_upload", "page_burst", "costly_burst"})


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """Changed settings, the names of those that changed, and warnings for the administrator."""

    settings: ArchiveSettings
    changed: tuple[str, ...]
    notes: tuple[IbiError, ...]


def change_settings(settings: ArchiveSettings, changes: Mapping[str, Any]) -> ChangedSettings:
    """Change some settings. Raises SetupError or ParseError for values that cannot be.

    An address that is given up stays an alias, so that links which name it still lead here.
    """
    values = {name: _checked(name, value) for name, value in changes.items()}
    if "address" in values:
        # Links and persistent URLs in the world name the old address.
        aliases = [*values.get("aliases", settings.aliases), settings.address]
        values["aliases"] = tuple(
            alias for alias in dict.fromkeys(aliases) if alias.lower() != values["address"].lower()
        )
    changed = replace(settings, **values)
    # Before anything is written: an Archive that can mint no labels can take no deposits.
    if any(name.startswith(("mint_", "for_trying")) for name in values):
        try:
            label_generator(changed)
        except (MintingError, ParseError) as error:
            problem = "no labels can be made under this name ({reason}): see --mint-host"
            raise SetupError(problem, reason=error) from None
    names = tuple(name for name in values if getattr(settings, name) != getattr(changed, name))
    return ChangedSettings(changed, names, tuple(_notes(settings, changed, names)))


def _checked(name: str, value: Any) -> Any:
    if name in LARGEST_VALUES:
        least, most = int(name in _AT_LEAST_ONE), LARGEST_VALUES[name]
        if not least <= value <= most:
            raise SetupError("{name} is a number from {least} to {most}", name=name, least=least, most=most)
        return value
    check = _CHECKS.get(name)
    return check(value) if check else value


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
    """Check and normalize networks."""
    # Strictly: a network with host bits is a typing error, which would admit others than were meant.
    try:
        return tuple(dict.fromkeys(str(ip_network(text)) for text in texts if text))
    except ValueError as error:
        raise SetupError("this is no address or network: {reason}", reason=error) from None


def _granularity(text: str) -> str:
    granularity_of(text)
    return text


def _geo_database(text: str) -> str:
    if text and not Path(text).is_file():
        raise SetupError("{path} does not exist", path=text)
    return str(Path(text).resolve()) if text else ""


def _accel_prefix(text: str) -> str:
    safe = text.isascii() and text.isprintable() and not set(text) & set(" ?#%\\")
    if text and not (safe and text.startswith("/") and ".." not in text):
        raise SetupError(
            "the internal location is a path such as /internal/, and this is not: {text}", text=text
        )
    return text


def _notes(before: ArchiveSettings, after: ArchiveSettings, names: tuple[str, ...]) -> list[IbiError]:
    found: list[IbiError] = []
    if "address" in names:
        old, new = before.address, after.address
        problem = "links with {old} go on being answered, as long as that name leads here"
        found.append(IbiError(problem, old=old))
        if split_hostport(old)[1] != split_hostport(new)[1]:
            problem = "a running server goes on listening where it is; for another port, start it with --bind"
            found.append(IbiError(problem))
        if after.mint_host and "mint_host" not in names:
            problem = "labels are still made under {host}; see --mint-host"
            found.append(IbiError(problem, host=after.mint_host))
    if after.largest_upload > before.largest_upload:
        found.append(IbiError("larger files are taken in over HTTP once the Archive is served anew"))
    return found


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "admin": _admin,
    "address": _address,
    "aliases": _addresses,
    "ip": canonical_ip,
    "mint_ip": lambda text: canonical_ip(text) if text else "",
    "networks": _networks,
    "trusted_resolvers": _networks,
    "trusted_proxies": _networks,
    "granularity": _granularity,
    "geo_database": _geo_database,
    "accel_prefix": _accel_prefix,
}
