"""Decides which redirects may be cached by the fast path, and by browsers and proxies; and for which clients.

A redirect is cached only if every answer that it depends on came from the answer cache, so that no Archive had to be
asked. It holds as long as all these answers do (`cache.redirects`), and for the settings and the included Archives
for which it was made. Its key: the target as received; the Accept-Language, if that decides. See note 1: reuse of
answers; note 2: acknowledgments; T20: answers for one reader.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ibi.errors import ParseError
from ibi.http.request import Request
from ibi.protocol.extensions.changes import Validity
from ibi.protocol.messages import read_request
from ibi.protocol.url_list import UrlList
from ibi.resolver.acknowledgments.counter import outcome_number
from ibi.resolver.cache.redirects import BY_LANGUAGE, CLOCK_BACK, CachedRedirect, packed, split_response
from ibi.resolver.cache.rows import CachedAnswer, question

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.http.public_url import PublicURL
    from ibi.http.response import Response
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.cache.redirects import RedirectCache, Versions
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.resolver.resolve.resolution import Redirect
    from ibi.resolver.resolve.resolver import Outcome
    from ibi.runtime.generation_counter import GenerationCounter
    from ibi.runtime.settings import ResolverSettings


_DIGEST_BYTES: Final = 8  # of the digest of all that an answer depends on
_SHARED: Final = "public, max-age=%d"
_SHARED_LINE: Final = f"cache-control: {_SHARED}\r\n".encode()
_NEVER_READ: Final = -1
_NO_CLIENT: Final = ("0.0.0.0",)  # noqa: S104 - a placeholder: the address of a reader is never written down


class CachePolicy:
    """Decides which redirects may be cached, and for which clients, under one version of the settings.

    `hosts`: the host names of this resolver, which a request must name; `names`: its IBIs, by which a loop is
    recognized; `public_url`: the root that cached redirects name; `trusted`: networks of trusted proxies;
    `refuses`: whether a client has exceeded its limit.
    """

    def __init__(  # noqa: PLR0913 - the parts of the fast path, most by name
        self,
        settings: ResolverSettings,
        registry: Registry,
        generation: GenerationCounter,
        knowledge: Knowledge,
        redirects: RedirectCache,
        *,
        hosts: frozenset[str],
        public_url: PublicURL,
        trusted: Sequence[IPv4Network | IPv6Network],
        refuses: Callable[[str], bool],
    ) -> None:
        self.generation = generation.numbers
        """Shared memory; the first number is the current generation of the registry."""
        self.hosts = hosts
        self.public_url = public_url
        self.names: Collection[str] = settings.service.canonicals
        self.trusted = trusted
        self.refuses = refuses
        self._settings = settings
        self.redirect_seconds = settings.redirect_seconds
        """For how long caches of others may reuse a redirect at most; 0: never."""
        self._registry = registry
        self._knowledge = knowledge
        self.redirects = redirects
        """The redirects of this process."""
        self._archives: Sequence[Archive] | None = None
        self.generation_read = _NEVER_READ
        """The generation of the registry when it was read last."""
        self.by_name: dict[str, Archive] = {}
        """The included Archives, by the names of their services as they are spelled."""
        self.digest = b""
        """The digest of the settings and the included Archives."""

    def refresh(self) -> None:
        """Read again which Archives are included."""
        self.generation_read = self.generation[0]  # before reading: a change meanwhile is seen next time
        archives = self._registry.archives()
        if archives is not self._archives:
            self._archives = archives
            self.by_name = {archive.name: archive for archive in archives}
            facts = [
                (
                    each.service_ibi.canonical,
                    str(each.service_ibi),
                    each.address,
                    each.confirmed,
                    each.url_hosts,
                )
                for each in archives
            ]
            text = repr((self._settings, facts))
            self.digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()

    def offer(
        self, request: Request, outcome: Outcome, decision: Redirect, response: Response, *, by_language: bool
    ) -> Response:
        """Cache a redirect if it rests on nothing but cached answers. Returns without waiting for a disk.

        Returns the response for the reader: where browsers and proxies may reuse it, it says so (note 3: caching of
        redirects).
        """
        self.refresh()
        target = request.target.encode("latin-1")
        # If an Archive came or left meanwhile, the digest stands for other Archives than were asked.
        if not _is_plain(target) or outcome.archives is not self._archives:
            return response
        if self.public_url.varies and self.public_url.of(request) != self.public_url.root:
            return response  # its link names another root
        # Every answer must be in the cache, and the chosen one among them.
        sources = self._sources(outcome)
        chosen = decision.archive.name
        if sources is None or not _contains(decision, sources.answers) or chosen not in self.by_name:
            return response
        message = "" if decision.acknowledgment is None else _acknowledgment(chosen, decision.acknowledgment)
        if message is None:
            return response
        # If the language decides: an entry that says so, and the redirect under a key with the Accept-Language.
        kept, key = response, target
        if by_language:
            self.redirects.put(target, self._entry(b"", target, BY_LANGUAGE, "", sources, outcome.began))
            key += b"\n" + request.headers.get(b"accept-language", b"")
        elif self.redirect_seconds:
            kept = _shared(response, self.redirect_seconds)
        number = outcome_number(len(outcome.rounds), outcome.guess)
        entry = self._entry(kept.whole(), target, number, message, sources, outcome.began)
        self.redirects.put(key, entry)
        if kept is response:
            return response
        left = self.redirects.life_left(entry, self._knowledge.cache.moment)
        return _shared(response, self.shared_seconds(left))

    def _entry(
        self, response: bytes, target: bytes, outcome: int, message: str, sources: _Sources, began: float
    ) -> CachedRedirect:
        """Make an entry of the redirect cache, which holds as long as its answers do."""
        kept = [each.kept for each in sources.answers]
        acknowledgment = packed(message, response) if message else b""
        first, rest = split_response(response, target)
        versions = sources.versions
        return CachedRedirect(
            first=first,
            rest=self.redirects.shared(rest),
            outcome=outcome,
            acknowledgment=acknowledgment,
            checksum=crc32(message.encode(), crc32(response)),
            digest=self.digest,
            since=began - CLOCK_BACK,
            until=min(each.fresh_until for each in kept),
            boot_until=min([each.boot_until for each in kept if each.leased], default=inf),
            name_slot=versions.name_slot,
            name_version=versions.name_version,
            further_names=versions.further_names,
            archives=versions.archives,
        )

    def shared_seconds(self, left: float) -> int:
        """Return for how long caches of others may reuse a redirect that holds for so many seconds (note 3)."""
        return max(0, min(self.redirect_seconds, int(left)))

    def limited(self, response: bytes, left: float) -> bytes:
        """Write into a cached redirect how long caches of others may reuse it, if it holds for so many seconds."""
        seconds = self.shared_seconds(left)
        if seconds < self.redirect_seconds:
            full, shorter = [_SHARED_LINE % each for each in (self.redirect_seconds, seconds)]
            response = response.replace(full, shorter, 1)
        return response

    def _sources(self, outcome: Outcome) -> _Sources | None:
        """Return what a redirect rests on; None if an answer was not cached before, or is not any more.

        The order of reading matters: which answers it rests on, then their versions, then the answers once more. What
        was changed before the versions were read is not in the cache any more; a later change changes these versions.
        """
        cache, queries = self._knowledge.cache, list[tuple[str, str, CachedAnswer]]()
        names = list[str]()
        services = dict[str, bool]()  # whether any answer of an Archive is leased
        for each in outcome.rounds:
            for archive in each.queried:
                if archive.name not in self.by_name or self.redirects.suspends(archive.service):
                    return None
                text = question(each.query)
                kept = cache.answer(archive.service, text)
                if kept is None or kept.heard > outcome.began:
                    return None
                queries.append((archive.service, text, kept))
                names += [each.query.ibi.canonical, *_rests(kept)]
                services[archive.service] = services.get(archive.service, False) or kept.leased
        versions = self.redirects.versions(names, services.items())
        if versions is None:
            return None
        for service, text, kept in queries:
            if cache.answer(service, text) != kept or cache.freshness(service, text, kept) != "fresh":
                return None
        return _Sources([_Source(service, kept) for service, _, kept in queries], versions)


class _Source(NamedTuple):
    """A cached answer of an Archive."""

    service: str
    kept: CachedAnswer


class _Sources(NamedTuple):
    """What a redirect rests on: at least one answer, and what `RedirectCache.versions` returns."""

    answers: Sequence[_Source]
    versions: Versions


def _shared(response: Response, seconds: int) -> Response:
    """Return a response that caches of others may reuse for so many seconds (note 3: caching of redirects)."""
    return replace(response, headers=(("cache-control", _SHARED % seconds), *response.headers))


def _rests(kept: CachedAnswer) -> tuple[str, ...]:
    """Return the names on which a leased answer rests, beside that of its item."""
    validity = Validity.of(UrlList.read(kept.body).pairs) if kept.leased else None
    return () if validity is None else validity.rests


def _is_plain(target: bytes) -> bool:
    return target.startswith(b"/") and b"#" not in target and all(0x21 <= byte <= 0x7E for byte in target)  # noqa: PLR2004 - visible ASCII


def _contains(decision: Redirect, sources: Sequence[_Source]) -> bool:
    try:
        return any(
            each.service == decision.archive.service and UrlList.read(each.kept.body) == decision.answer
            for each in sources
        )
    except ParseError:
        return False


def _acknowledgment(service: str, message: Acknowledgment) -> str | None:
    """Return the service and the query of an acknowledgment; None where the query could not be read again.

    No reader's address is stored: a placeholder stands for it, until the acknowledgment is sent.
    """
    message = replace(message, client_addresses=_NO_CLIENT)
    query = message.query()
    try:
        same = read_request(query) == message
    except ParseError:
        return None
    return f"{service} {query}" if same else None
