"""Which resolvers an Archive takes part in: joined, left, and what it says at each (note 24).

The first stands in archive.toml, further ones in resolvers.toml. Each has a key of its own: with a key that two
resolvers knew, whoever runs the one could speak for the Archive at the other.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.archive.networking.membership import resolver_address
from ibi.archive.networking.networks import Wanted
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.generator import is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import is_key, split_hostport
from ibi.settings import ArchiveSettings, JoinedResolver

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STRONG_KEY: Final = 20
"""Digits of the keys that we make; shorter ones can be guessed (note 34)."""


LONGEST_HOST: Final = 253
"""Characters of the name of a host (RFC 1035)."""

_SHOWN: Final = 80  # characters of a URL that is no good


@dataclass(frozen=True, slots=True)
class Resolvers:
    """The settings of an Archive, and its further resolvers by their root URLs."""

    settings: ArchiveSettings
    further: Mapping[str, JoinedResolver] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Path) -> Resolvers:
        """What the files of a data directory say. Raises SetupError."""
        tables = JoinedResolver.read_tables(data)
        further = {root(each.url): replace(each, key=checked_key(each.key)) for each in tables.values()}
        settings = ArchiveSettings.read(data)
        return cls(replace(settings, resolver=root(settings.resolver) if settings.resolver else ""), further)

    def write(self, data: Path) -> None:
        """Keep them; a crash between the two files leaves a resolver in both, which is harmless."""
        self.settings.write(data)
        if self.further or (data / JoinedResolver.FILE).exists():
            tables = {resolver_address(url): each for url, each in self.further.items()}
            JoinedResolver.write_tables(data, tables)

    @property
    def keys(self) -> dict[str, str]:
        """The key at each resolver, by root URL; the first one comes first."""
        first = {self.settings.resolver: self.settings.key} if self.settings.resolver else {}
        return first | {url: each.key for url, each in self.further.items() if url not in first}

    def wanted(self, version: str) -> Wanted:
        """What the Archive says at each resolver; `version` is that of its software."""
        request = self.settings.inclusion_request(version)
        on = self.settings.switched_on and not self.settings.retired
        return Wanted({url: replace(request, key=key) for url, key in self.keys.items()}, on=on)

    def switching(self, *, on: bool) -> Resolvers:
        """Switched on or off at all of them. Raises SetupError for an Archive that has retired."""
        if self.settings.retired:
            raise SetupError("this Archive has retired, and stays switched off")
        return replace(self, settings=replace(self.settings, switched_on=on))

    def joining(self, url: str, key: str | None, *, also: bool) -> Resolvers:
        """With a resolver more, or (not `also`) with this one in the place of the first. Raises SetupError.

        A resolver that it takes part in already keeps its key, unless another is given.
        """
        url = root(url)
        given = checked_key(key) if key else ""
        if given and given in {each for known, each in self.keys.items() if known != url}:
            raise SetupError("each resolver has a key of its own, and another one has this key already")
        chosen = given or self.keys.get(url, "")
        if also and url != self.settings.resolver and self.settings.resolver:
            joined = JoinedResolver(url=url, key=chosen or new_key())
            return replace(self, further={**self.further, url: joined})
        if not chosen:  # the key of a first resolver is known there, so the next one has another
            chosen = new_key() if self.settings.resolver else self.settings.key
        further = {known: each for known, each in self.further.items() if known != url}
        return Resolvers(replace(self.settings, resolver=url, key=chosen), further)

    def leaving(self, url: str) -> Resolvers:
        """Without a resolver; where it was the first, the next one takes its place. Raises SetupError."""
        url = root(url)
        if url not in self.keys:
            raise SetupError("this Archive takes no part at {url}", url=url)
        further = dict(self.further)
        if url != self.settings.resolver:
            del further[url]
            return replace(self, further=further)
        further.pop(url, None)
        following = next(iter(further), "")
        key = further.pop(following).key if following else new_key()
        return Resolvers(replace(self.settings, resolver=following, key=key), further)


def root(url: str) -> str:
    """The root URL of a resolver as it is kept. Raises SetupError for a URL that is no such root."""
    address = resolver_address(url).lower()
    if not _has_host_and_port(address):
        raise SetupError(
            "the host of a resolver has at most {most} characters, and its port is from 1 to 65535: {url}",
            most=LONGEST_HOST,
            url=url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…",
        )
    return f"http://{address}"


def new_key() -> str:
    """A key that nobody can guess."""
    return str(secrets.randbelow(10**STRONG_KEY)).zfill(STRONG_KEY)


def checked_key(text: str) -> str:
    """A registration key (MSG-21). Raises SetupError."""
    if not is_key(text):
        raise SetupError("a key is ten digits or more, perhaps twice with a hyphen between")
    return text


def key_warnings(url: str, key: str) -> list[IbiError]:
    """What an administrator should know of a key for a resolver ("": none joined yet)."""
    found: list[IbiError] = []
    if sum(char.isdigit() for char in key) < STRONG_KEY:
        found.append(IbiError("a key of fewer than {digits} digits can be guessed", digits=STRONG_KEY))
    if url and not _private(url):
        found.append(
            IbiError("the key travels to {resolver} over plain http, where it can be read", resolver=url)
        )
    return found


def _has_host_and_port(address: str) -> bool:
    """Whether there can be such a host, and such a port if one is told."""
    parts = urlsplit(f"//{address}")
    try:
        return 0 < len(parts.hostname or "") <= LONGEST_HOST and parts.port != 0
    except ValueError:  # a port that is none
        return False


def _private(url: str) -> bool:
    """Whether a resolver is on this machine or a network of the house, as far as its address tells."""
    host = split_hostport(resolver_address(url))[0]
    try:
        return not is_public_ip(canonical_ip(host))
    except ParseError:
        return "." not in host
