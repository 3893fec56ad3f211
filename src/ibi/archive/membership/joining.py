"""The resolvers in the settings of an Archive: those that it has joined or left, and their keys.

The first resolver is named in archive.toml, further ones in resolvers.toml. Each has a key of its own: with a shared
key the administrator of one resolver could act for the Archive at the other. See note 24: joining a resolver.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.archive.membership.membership import WantedMemberships, resolver_address
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.identifier.generator import is_public_ip
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import ArchiveTitles, checked_title, is_key, split_hostport
from ibi.runtime import reload
from ibi.runtime.settings import ArchiveSettings, JoinedResolver
from ibi.runtime.settings.institution import Institution

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


STRONG_KEY: Final = 20
"""Digits of a new key; shorter keys can be guessed (note 34: keys)."""


LONGEST_HOST: Final = 253
"""Characters of the name of a host (RFC 1035)."""

_SHOWN: Final = 80  # characters of an invalid URL that an error shows


@dataclass(frozen=True, slots=True)
class Resolvers:
    """The settings of an Archive; by root URL, its further resolvers and those that it has left; its institution."""

    settings: ArchiveSettings
    further: Mapping[str, JoinedResolver] = field(default_factory=dict)
    left: Mapping[str, JoinedResolver] = field(default_factory=dict)
    institution: Institution = Institution()  # noqa: RUF009 - an immutable value

    @classmethod
    def read(cls, data: Path) -> Resolvers:
        """Read the files of a data directory. Raises SetupError."""
        tables = JoinedResolver.read_tables(data)
        known = {root_url(each.url): replace(each, key=check_key(each.key)) for each in tables.values()}
        settings = ArchiveSettings.read(data)
        return cls(
            replace(settings, resolver=root_url(settings.resolver) if settings.resolver else ""),
            {url: each for url, each in known.items() if not each.left},
            {url: each for url, each in known.items() if each.left},
            Institution.of(data),
        )

    def write(self, data: Path) -> None:
        """Write both files."""
        # After a crash between the two writes a resolver may be in both files; `keys` then uses archive.toml.
        self.settings.write(data)
        known = {**self.left, **self.further}
        if known or (data / JoinedResolver.FILE).exists():
            tables = {resolver_address(url): each for url, each in known.items()}
            JoinedResolver.write_tables(data, tables)

    @property
    def keys(self) -> dict[str, str]:
        """The key at each resolver, by root URL; that of the first resolver comes first."""
        first = {self.settings.resolver: self.settings.key} if self.settings.resolver else {}
        return first | {url: each.key for url, each in self.further.items() if url not in first}

    @property
    def services(self) -> dict[str, str]:
        """The IBI of the service of each resolver, by root URL; "" if it must be fetched from /-/about."""
        further = {url: each.service for url, each in self.further.items()}
        return further | {self.settings.resolver: self.settings.resolver_service}

    def wanted(self, version: str) -> WantedMemberships:
        """Return the wanted memberships, with an inclusion request each; `version`: that of the software."""
        request = self.settings.inclusion_request(version)
        on = self.settings.switched_on and not self.settings.retired
        requests = {url: replace(request, key=key) for url, key in self.keys.items()}
        left = {url: replace(request, key=each.key) for url, each in self.left.items()}
        services = {url: each.service for url, each in self.left.items()} | self.services
        usual, portuguese = (checked_title(self.institution.text("name", each)) for each in ("en", "pt"))
        titles = ArchiveTitles(usual, portuguese if portuguese != usual else "")
        return WantedMemberships(requests, on, self.settings.retired, services, left, titles)

    def switching(self, *, on: bool) -> Resolvers:
        """Switch the Archive on or off at all resolvers. Raises SetupError if the Archive has retired."""
        if self.settings.retired:
            raise SetupError("this Archive has retired, and stays switched off")
        return replace(self, settings=replace(self.settings, switched_on=on))

    def at_the_same_host(self, url: str) -> list[str]:
        """Return the root URLs of known resolvers that may be this new one, reached by the other scheme until now.

        Raises SetupError.
        """
        url, _ = split_base_url(url)
        return [] if url in self.keys else [each for each in self.keys if _by_another_scheme(each, url)]

    def joining(self, url: str, key: str | None, *, also: bool, same: str = "") -> Resolvers:
        """Add a resolver (`also`), or put it in the place of the first one. Raises SetupError.

        A resolver that was joined before, even if it was left, keeps its key and its service unless others
        are given, because it knows the Archive by that key alone; so does one that was known under the root URL
        `same`, and is reached by https now.
        """
        url, named = split_base_url(url)
        if same:
            return self._moved(same, url).joining(url, key, also=also and same != self.settings.resolver)
        before = self.left.get(url)
        service = named or self.services.get(url, before.service if before else "")
        given = check_key(key) if key else ""
        if given and given in {each for known, each in self.keys.items() if known != url}:
            raise SetupError("each resolver has a key of its own, and another one has this key already")
        chosen = given or self.keys.get(url, before.key if before else "")
        left = {known: each for known, each in self.left.items() if known != url}
        if also and url != self.settings.resolver and self.settings.resolver:
            joined = JoinedResolver(url=url, key=chosen or new_key(), service=service)
            return replace(self, further={**self.further, url: joined}, left=left)
        if not chosen:
            # A new key, because the former first resolver knows the present one.
            chosen = new_key() if self.settings.resolver else self.settings.key
        further = {known: each for known, each in self.further.items() if known != url}
        settings = replace(self.settings, resolver=url, key=chosen, resolver_service=service)
        if self.settings.resolver not in {"", url}:
            left[self.settings.resolver] = self._as_left(self.settings.resolver)
        return replace(self, settings=settings, further=further, left=left)

    def _moved(self, known: str, url: str) -> Resolvers:
        """Put another URL of the same resolver in the place of the known one; key and service stay."""
        if known == self.settings.resolver:
            return replace(self, settings=replace(self.settings, resolver=url))
        further = {url if each == known else each: of for each, of in self.further.items()}
        return replace(self, further=further | {url: replace(further[url], url=url)})

    def leaving(self, url: str) -> Resolvers:
        """Remove a resolver; if it was the first, the next one takes its place. Raises SetupError."""
        url, _ = split_base_url(url)
        if url not in self.keys:
            raise SetupError("this Archive does not take part in {url}", url=url)
        further, left = dict(self.further), {**self.left, url: self._as_left(url)}
        if url != self.settings.resolver:
            del further[url]
            return replace(self, further=further, left=left)
        further.pop(url, None)
        following = next(iter(further), "")
        then = further.pop(following) if following else JoinedResolver(url="", key=new_key())
        settings = replace(self.settings, resolver=following, key=then.key, resolver_service=then.service)
        return replace(self, settings=settings, further=further, left=left)

    def _as_left(self, url: str) -> JoinedResolver:
        return JoinedResolver(url=url, key=self.keys[url], service=self.services[url], left=True)


def _by_another_scheme(one: str, other: str) -> bool:
    """Whether two root URLs have the same host, one by http and one by https; the ports may differ."""
    parts, others = urlsplit(one), urlsplit(other)
    return parts.scheme != others.scheme and parts.hostname == others.hostname


def split_base_url(url: str) -> tuple[str, str]:
    """Split the base URL of a resolver, http[s]://host[:port][/service], into root and service IBI.

    The service is "" if the URL has none. Raises SetupError for any other URL. See MSG-02: the resolver's address.
    """
    scheme, separator, rest = url.partition("://")
    host, _, path = rest.partition("/")
    root = root_url(f"{scheme}{separator}{host}" if path.strip("/") else url)
    try:
        return root, str(parse_ibi(path.strip("/"))) if path.strip("/") else ""
    except ParseError:
        raise SetupError(
            "after the root of a resolver stands the IBI of its service, or nothing; {path} is no IBI",
            path=path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…",
        ) from None


def root_url(url: str) -> str:
    """Normalize the root URL of a resolver. Raises SetupError for any other URL."""
    address = resolver_address(url).lower()
    parts = urlsplit(f"//{address}")
    try:
        possible = 0 < len(parts.hostname or "") <= LONGEST_HOST and parts.port != 0
    except ValueError:  # a port that is none
        possible = False
    if not possible:
        raise SetupError(
            "the host of a resolver has at most {most} characters, and its port is from 1 to 65535: {url}",
            most=LONGEST_HOST,
            url=url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…",
        )
    return f"{urlsplit(url).scheme}://{address}"


def new_key() -> str:
    """Make a key that cannot be guessed."""
    return str(secrets.randbelow(10**STRONG_KEY)).zfill(STRONG_KEY)


def check_key(text: str) -> str:
    """Return a registration key unchanged. Raises SetupError for any other text (MSG-21: the form of a key)."""
    if not is_key(text):
        raise SetupError("a key is ten digits or more, perhaps twice with a hyphen between")
    return text


def key_warnings(url: str, key: str) -> list[IbiError]:
    """Return warnings for the administrator about a key for a resolver ("": none joined yet)."""
    found: list[IbiError] = []
    if sum(char.isdigit() for char in key) < STRONG_KEY:
        found.append(IbiError("a key of fewer than {digits} digits can be guessed", digits=STRONG_KEY))
    if url and not url.startswith("https:") and not _private(url):
        found.append(
            IbiError("the key travels to {resolver} over plain http, where it can be read", resolver=url)
        )
    return found


def _private(url: str) -> bool:
    """Return whether a resolver is on this machine or in a private network, judging by its address."""
    host = split_hostport(resolver_address(url))[0]
    try:
        return not is_public_ip(canonical_ip(host))
    except ParseError:
        return "." not in host


class WatchedArchiveSettings(reload.WatchedSettings[Resolvers]):
    """Watches the settings and the resolvers of a data directory; the service IBI never changes (ARC-10)."""

    def __init__(self, data: Path) -> None:
        files = [data / name for name in (ArchiveSettings.FILE, JoinedResolver.FILE, Institution.FILE)]
        super().__init__(files, lambda: Resolvers.read(data), _refuse_another_service)


def _refuse_another_service(before: Resolvers, found: Resolvers) -> None:
    if found.settings.service != before.settings.service:
        raise SetupError("the IBI of an Archive's service never changes")
