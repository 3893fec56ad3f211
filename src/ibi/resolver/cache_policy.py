"""Decides which redirects may be cached for the fast path, and for which clients (notes 1 and 2, threat T20).

A redirect is cached only if every answer that it depends on came from the answer cache, so that no Archive had to be
asked. It holds as long as all these answers are fresh (`cache.redirects.put_redirect`).

Its key: a digest of the settings and the included Archives; the target as received; the Accept-Language, if that
decides. So after a change of the settings or of the Archives, old redirects are not found any more.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import ibi
from ibi.errors import ParseError
from ibi.http.cors import ALLOW
from ibi.http.request import Request
from ibi.protocol.messages import read_request
from ibi.protocol.url_list import UrlList
from ibi.resolver.acknowledgments.counter import outcome_number
from ibi.resolver.cache.redirects import BY_LANGUAGE, SourceAnswer
from ibi.resolver.cache.rows import archive_key, key_of, question
from ibi.resolver.pages.programs import RESOLVER_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.http.public_url import PublicURL
    from ibi.http.response import Response
    from ibi.protocol.messages import Acknowledgment, UrlRequest
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.resolver.resolve.resolution import Redirect
    from ibi.resolver.resolve.resolver import Outcome
    from ibi.runtime.generation_counter import GenerationCounter
    from ibi.runtime.settings import ResolverSettings


_DIGEST_BYTES: Final = 8
_SHARED: Final = "public, max-age=%d"
_SHARED_LINE: Final = f"cache-control: {_SHARED}\r\n".encode()
_NEVER_READ: Final = -1
KEPT_HEADERS: Final = (ALLOW, RESOLVER_LINKS)
"""Headers of every cached redirect. They are in the digest: redirects of an older version are not found any more."""
_NO_CLIENT: Final = ("0.0.0.0",)  # noqa: S104 - a placeholder: the address of a reader is never written down


class CachePolicy:
    """Decides which redirects may be cached, and for which clients, under one version of the settings.

    `hosts`: the host names of this resolver, which a request must name; `names`: its IBIs, by which a loop is
    recognized; `public_url`: the root that cached redirects name; `trusted`: networks of trusted proxies;
    `refuses`: whether a client has exceeded its limit.
    """

    def __init__(
        self,
        settings: ResolverSettings,
        registry: Registry,
        generation: GenerationCounter,
        knowledge: Knowledge,
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
            text = repr((ibi.__version__, KEPT_HEADERS, self._settings, facts))
            self.digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()

    def offer(
        self, request: Request, outcome: Outcome, decision: Redirect, response: Response, *, by_language: bool
    ) -> Response:
        """Cache a redirect if it rests on nothing but cached answers. Returns without waiting for a disk.

        Returns the response for the reader: where browsers and proxies may reuse it, it says so (note 3).
        """
        if self.generation[0] != self.generation_read or outcome.archives is not self._archives:
            self.refresh()
        target = request.target.encode("latin-1")
        # Where an Archive came or left meanwhile, the key stands for other Archives than were asked.
        if not _is_plain(target) or outcome.archives is not self._archives:
            return response
        if self.public_url.varies and self.public_url.of(request) != self.public_url.root:
            return response  # its link names another root
        found = [
            self._source(each.query, one, outcome.began) for each in outcome.rounds for one in each.queried
        ]
        sources = [source for source in found if source is not None]
        chosen = decision.archive.name
        if len(sources) < len(found) or not _contains(decision, sources) or chosen not in self.by_name:
            return response
        query = b"" if decision.acknowledgment is None else _acknowledgment(chosen, decision.acknowledgment)
        if query is None:
            return response
        redirects, key = self._knowledge.cache.redirects, self.digest + target
        if by_language:
            redirects.put(key, BY_LANGUAGE, sources, b"", b"")
            key += b"\n" + request.headers.get(b"accept-language", b"")
        kept = given = response
        if self.redirect_seconds and not by_language:
            until = min(source.answer.fresh_until for source in sources)
            seconds = self.shared_seconds(until, self._knowledge.now())
            kept, given = [
                replace(response, headers=(("cache-control", _SHARED % each), *response.headers))
                for each in (self.redirect_seconds, seconds)
            ]
        number = outcome_number(len(outcome.rounds), outcome.guess)
        redirects.put(key, number, sources, kept.whole(), query)
        return given

    def shared_seconds(self, until: float, now: float) -> int:
        """Return for how long caches of others may reuse a redirect whose answers are fresh until then (note 3)."""
        return max(0, min(self.redirect_seconds, int(until - now)))

    def limited(self, answer: bytes, until: float, now: float) -> tuple[bytes, float]:
        """Write into a cached redirect how long other caches may reuse it; return it, and until when it may be sent.

        `until`: when the answers it rests on expire. A cache that gets the redirect in its last moment here reuses it
        for `max-age` seconds more, so that moment is `max-age` seconds before `until`.
        """
        seconds = self.shared_seconds(until, now)
        if seconds < self.redirect_seconds:
            full, left = [_SHARED_LINE % each for each in (self.redirect_seconds, seconds)]
            answer = answer.replace(full, left, 1)
        return answer, until - seconds

    def _source(self, query: UrlRequest, archive: Archive, began: float) -> SourceAnswer | None:
        """Return an Archive's answer to a query, if cached before the resolution began, and still cached."""
        cache = self._knowledge.cache
        if archive.name not in self.by_name or cache.redirects.withholds(archive.service):
            return None
        text = question(query)
        kept = cache.answer(archive.service, text)
        if kept is None or kept.heard > began or kept.fresh_until <= began:
            return None
        return SourceAnswer(key_of(archive.service, text), kept)


def _is_plain(target: bytes) -> bool:
    return target.startswith(b"/") and b"#" not in target and all(0x21 <= byte <= 0x7E for byte in target)  # noqa: PLR2004 - visible ASCII


def _contains(decision: Redirect, sources: Sequence[SourceAnswer]) -> bool:
    prefix = archive_key(decision.archive.service)
    try:
        return any(
            source.key.startswith(prefix) and UrlList.read(source.answer.body) == decision.answer
            for source in sources
        )
    except ParseError:
        return False


def _acknowledgment(service: str, message: Acknowledgment) -> bytes | None:
    """Return the service and the query of an acknowledgment; None where the query could not be read again.

    No reader's address is stored: a placeholder stands for it, until the acknowledgment is sent.
    """
    message = replace(message, client_addresses=_NO_CLIENT)
    query = message.query()
    try:
        same = read_request(query) == message
    except ParseError:
        return None
    return f"{service} {query}".encode("ascii") if same else None
