"""The fast path: answers a click with a cached redirect, before a task or an ASGI scope is made (notes 1, 2, T20).

`http.server.protocol` calls `FastPath.at_once` for a GET or HEAD, or `FastPath.repeat` for a GET whose headers equal
those of the last one on its connection. If they return None, the ordinary path follows, the ASGI application, which
gives the same answer and counts it in the same way. Nothing is decided here: a resolution decided the redirect, and a
`CachePolicy` decides which clients may get it.
"""

from __future__ import annotations

import logging
import time
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ibi.http.accept import LONGEST_ACCEPT
from ibi.http.client_address import list_addresses
from ibi.http.request import Request, joined_headers
from ibi.resolver.cache.redirects import BY_LANGUAGE, acknowledgment_of, fresh_until
from ibi.resolver.model.hops import Hops
from ibi.resolver.negotiation import requested_format
from ibi.runtime.generation_counter import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.http.server.config import Answer
    from ibi.http.server.head import Head
    from ibi.resolver.acknowledgments.counter import AcknowledgmentCounter
    from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
    from ibi.resolver.cache_policy import CachePolicy


LOOK_EVERY: Final = 0.5
"""Seconds after which settings and registry are read again, as other programs may have changed them."""

MOST_BYTES: Final = 96 * 1024 * 1024
"""Bytes of the in-process cache, some 100,000 targets with their redirects; a full cache takes no more."""

FULL_SECONDS: Final = 60.0
"""Seconds after which a full cache is emptied: by then, readers click on other items."""

_OVERHEAD: Final = 450  # bytes that an entry takes in memory beside its target and response
_FOUND: Final = 302

_log = logging.getLogger("ibi.resolver.fast_path")


class RecentRedirect(Struct, eq=False):
    """A response, and everything that must be unchanged before it may be sent again.

    `key`: its key in the redirect cache. `outcome`: the number by which the metrics count it. `check`: the
    checksum of its row there, which changes when the target leads elsewhere. `policy`: the policy by which it
    was cached; `digest`: the digest of settings and Archives at that time. `language`: the Accept-Language
    for which it holds, None for any. `state`: that of the cache file (see `cache.store`). `since`, `until`:
    it holds between these POSIX seconds.
    """

    answer: Answer
    key: bytes
    outcome: int
    check: int
    policy: object
    digest: bytes
    language: bytes | None
    state: int
    since: float
    until: float


class InProcessCache:
    """The recent redirects of one process."""

    def __init__(self) -> None:
        self._entries: dict[bytes, RecentRedirect] = {}
        self.get = self._entries.get
        """Return the last redirect for a target, or None."""
        self._bytes = 0
        self._full_until = 0.0  # by the monotonic clock; 0 while it is not full

    def put(self, target: bytes, redirect: RecentRedirect) -> None:
        """Put a redirect in unless the cache is full; empty the cache when it has been full for a while."""
        before = self._entries.get(target)
        grown = _size(target, redirect) - (_size(target, before) if before else 0)
        if self._bytes + grown > MOST_BYTES:
            # The oldest is not dropped: clients that ask in turn for more names than fit would find none.
            now = time.monotonic()
            self._full_until = self._full_until or now + FULL_SECONDS
            if now < self._full_until:
                return
            self.clear()
            grown = _size(target, redirect)
        self._bytes += grown
        self._entries[target] = redirect

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self._bytes, self._full_until = 0, 0.0

    def __len__(self) -> int:
        return len(self._entries)


def _size(target: bytes, redirect: RecentRedirect) -> int:
    """Return the bytes that an entry takes; the target counts twice because the key contains it."""
    return 2 * len(target) + len(redirect.answer[1]) + _OVERHEAD


class FastPathClient:
    """The facts of a request's headers on which a redirect depends.

    `admitted`: whether the fast path may answer this client; if not, the application does. `client_key`: what
    limits count against. `policy`: the policy by which the headers were read.
    """

    __slots__ = ("addresses", "admitted", "client_key", "language", "policy")

    def __init__(self, policy: CachePolicy, headers: Iterable[tuple[bytes, bytes]], peer: str) -> None:
        joined = joined_headers(headers)
        forwarded = joined.get(b"x-forwarded-for", b"").decode("latin-1")
        self.addresses = list_addresses(peer or "127.0.0.1", forwarded, policy.trusted)
        request = Request("GET", "/", "", joined, self.addresses, peer)
        hops = Hops.read(request.header(b"cdn-loop"))
        loops = hops is None or hops.loops(policy.names)
        self.policy = policy
        public_url = policy.public_url
        usual = not public_url.varies or public_url.of(request) == public_url.root
        by_format = requested_format(joined.get(b"accept", b"")[:LONGEST_ACCEPT]) is not None
        declined = by_format or loops or request.only_prefetched or not usual
        self.admitted = not declined and request.names(policy.hosts)
        self.client_key = request.client_key
        self.language = joined.get(b"accept-language", b"")


class FastPath:
    """The fast path of one process; belongs to one event loop. `now` returns POSIX seconds.

    `follow` sets its policy; `reload` is called to read the settings again.
    """

    def __init__(
        self, redirects: RedirectCache, counter: AcknowledgmentCounter, now: Callable[[], float]
    ) -> None:
        self.redirects = redirects
        self._find = redirects.find
        self._file_numbers = redirects.file_numbers
        self._counter = counter
        self.now = now
        self._recent = InProcessCache()
        redirects.on_withheld = self._recent.clear
        self.policy: CachePolicy | None = None
        self.refreshed_at = 0.0
        """When the settings were read last (POSIX seconds)."""
        self.reload: Callable[[], object] = lambda: None

    def follow(self, policy: CachePolicy | None) -> None:
        """Use this policy from now on; without one, the application answers everything."""
        self.policy = policy
        self.refreshed_at = 0.0

    def at_once(self, method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
        """Return the redirect for a GET or HEAD, if one is cached for this client (see `http.server.protocol`)."""
        try:
            found = self._look_up(target, head, peer)
        except Exception:  # noqa: BLE001 - the application answers instead, and the parser is not disturbed
            _log.exception("the fast path could not look up a redirect")
            return None
        if found is None:
            return None
        redirect, key, client, until = found
        if method == b"GET":
            return self._count(target, redirect, key, client, until)
        self._counter.outcomes[redirect[1]] += 1  # a HEAD causes no acknowledgment
        self._counter.wake()
        return _FOUND, redirect[0]

    def _count(
        self, target: bytes, redirect: CachedRedirect, key: bytes, client: FastPathClient, until: float
    ) -> Answer | None:
        """Count a reader for a redirect and return it, or None if the reader cannot be counted.

        `until`: the moment up to which the in-process cache may repeat the answer.
        """
        rest, outcome, check, row = redirect
        counter, answer = self._counter, (_FOUND, rest)
        count, often = counter.counts.get(key), key in counter.counts
        if count is None or count.check != check:
            written = acknowledgment_of(row)
            if written is None:
                return None
            service, _, query = written.decode("ascii").partition(" ")
            archive = client.policy.by_name.get(service)
            if archive is None and query:
                return None
            count = counter.start(key, check, archive, query, client.addresses)
            if count is None:
                return None
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[outcome] += 1
        # Only what was clicked before is put into the in-process cache: most targets are clicked once.
        policy, state = client.policy, self.redirects.state() if often else UNKNOWN
        if state != UNKNOWN:
            language = None if key == policy.digest + target else client.language
            until = min(until, fresh_until(row))
            recent = RecentRedirect(
                answer, key, outcome, check, policy, policy.digest, language, state, self.refreshed_at, until
            )
            self._recent.put(target, recent)
        return answer

    def repeat(self, target: bytes, head: Head) -> Answer | None:
        """Return the redirect that was given for this target, and count it; None where anything has changed since."""
        # One function without calls of its own, since most readers are answered here (bench: warm redirect).
        recent = self._recent.get(target)
        if recent is None:
            return None
        client = head.parsed
        policy, counter, now = self.policy, self._counter, self.now()
        count = counter.counts.get(recent.key)
        if (
            count is None
            or count.check != recent.check
            or policy is None
            or policy is not recent.policy
            or not isinstance(client, FastPathClient)
            or client.policy is not policy
            or not client.admitted
            or not (recent.language is None or recent.language == client.language)
            or not recent.since <= now < recent.until
            or not 0 <= now - self.refreshed_at < LOOK_EVERY
            or self._file_numbers[1] != recent.state
            or policy.generation[0] != policy.generation_read
            or policy.digest != recent.digest
            or policy.refuses(client.client_key)
        ):
            return None
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[recent.outcome] += 1
        return recent.answer

    def _look_up(
        self, target: bytes, head: Head, peer: str
    ) -> tuple[CachedRedirect, bytes, FastPathClient, float] | None:
        """Return a redirect, its key, the client, and until when its `max-age` may be sent (`CachePolicy.limited`)."""
        now, until = self.now(), inf
        if not 0 <= now - self.refreshed_at < LOOK_EVERY:
            self.refreshed_at = now
            self.reload()
            if self.policy is not None:
                self.policy.refresh()
        policy = self.policy
        if policy is None:
            return None
        if policy.generation[0] != policy.generation_read:
            policy.refresh()
        key = policy.digest + target
        found = self._find(key, now)
        if found is None:  # no headers could change that, so they are not read
            return None
        client = head.parsed
        if not isinstance(client, FastPathClient) or client.policy is not policy:
            client = head.parsed = FastPathClient(policy, head, peer)
        if not client.admitted or policy.refuses(client.client_key):
            return None
        if found[1] == BY_LANGUAGE:
            key = b"%b\n%b" % (key, client.language)
            found = self._find(key, now)
        elif policy.redirect_seconds:
            answer, until = policy.limited(found[0], fresh_until(found[3]), now)
            found = answer, *found[1:]
        return None if found is None else (found, key, client, until)
