"""The fast path: cached redirects, answered before any task, scope or routing exists (notes 1 and 2, threat T20).

It answers as the application would, and counts as that does; every other request goes to the application. It decides
nothing: a resolution decided the redirect, and a `CachePolicy` says for which clients it holds.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ibi.http.client_address import list_addresses
from ibi.http.request import Request, joined_headers
from ibi.resolver.cache import rows
from ibi.resolver.cache.redirects import InProcessCache, RecentRedirect
from ibi.resolver.cache.rows import BY_LANGUAGE
from ibi.resolver.model.hops import Hops
from ibi.runtime.generation_counter import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.http.server.protocol import Answer, Head
    from ibi.resolver.acknowledgments.counter import AcknowledgmentCounter, CountedRedirect
    from ibi.resolver.cache.redirects import RedirectCache
    from ibi.resolver.cache.rows import CachedRedirect
    from ibi.resolver.cache_policy import CachePolicy


LOOK_EVERY: Final = 0.5
"""Seconds after which the settings, and a registry changed by other programs, are read again."""

_FOUND: Final = 302

_log = logging.getLogger("ibi.resolver.fast_path")


class FastPathClient:
    """What a redirect depends on in the headers of a request.

    `admitted`: whether the client may be redirected here; otherwise the application answers. `origin`: what limits
    count against. `policy`: the one by which the headers were read.
    """

    __slots__ = ("addresses", "admitted", "language", "origin", "policy")

    def __init__(self, policy: CachePolicy, headers: Iterable[tuple[bytes, bytes]], peer: str) -> None:
        joined = joined_headers(headers)
        forwarded = joined.get(b"x-forwarded-for", b"").decode("latin-1")
        self.addresses = list_addresses(peer or "127.0.0.1", forwarded, policy.trusted)
        request = Request("GET", "/", "", joined, self.addresses)
        hops = Hops.read(request.header(b"cdn-loop"))
        loops = hops is None or hops.loops(policy.names)
        self.policy = policy
        self.admitted = request.names(policy.hosts) and not request.only_prefetched and not loops
        self.origin = request.origin
        self.language = joined.get(b"accept-language", b"")


class FastPath:
    """The fast path of one process; belongs to one event loop. `now` gives POSIX seconds.

    `follow` sets its policy; `reload` is called to have the settings read again.
    """

    def __init__(
        self, redirects: RedirectCache, counter: AcknowledgmentCounter, now: Callable[[], float]
    ) -> None:
        self.redirects = redirects
        self._find = redirects.find
        self._shown = redirects.shown
        self._counter = counter
        self.now = now
        self._recent = InProcessCache()
        self.policy: CachePolicy | None = None
        self.looked = 0.0
        """When the settings were read last (POSIX seconds)."""
        self.reload: Callable[[], object] = lambda: None

    def follow(self, policy: CachePolicy | None) -> None:
        """Use this policy from now on; without one, the application answers everything."""
        self.policy = policy
        self.looked = 0.0

    def at_once(self, method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
        """Return the redirect for a GET or HEAD, if one is cached for this client (see `http.server.protocol`)."""
        try:
            found = self._look_up(target, head, peer)
        except Exception:  # noqa: BLE001 - the application answers instead, and the parser is not disturbed
            _log.exception("the fast path could not look up a redirect")
            return None
        if found is None:
            return None
        redirect, key, client = found
        if method == b"GET":
            return self._count(target, redirect, key, client)
        self._counter.outcomes[redirect[1]] += 1  # a HEAD causes no acknowledgment
        self._counter.wake()
        return _FOUND, redirect[0]

    def _count(
        self, target: bytes, redirect: CachedRedirect, key: bytes, client: FastPathClient
    ) -> Answer | None:
        """Count a redirect and return it; None where it cannot be counted."""
        rest, outcome, check, row = redirect
        counter, answer = self._counter, (_FOUND, rest)
        counted, often = counter.counted.get(key), key in counter.counted
        if counted is None or counted.check != check:
            counted = self._begin(key, row, check, client)
        if counted is None:
            return None
        counted.readers += 1
        counter.redirects += 1
        counter.outcomes[outcome] += 1
        policy, state = client.policy, self.redirects.state() if often else UNKNOWN
        if state != UNKNOWN:
            language = None if key == policy.digest + target else client.language
            until = rows.fresh_until(row)
            recent = RecentRedirect(
                answer, key, outcome, check, policy, policy.digest, language, state, self.looked, until
            )
            self._recent.put(target, recent)
        return answer

    def again(self, target: bytes, head: Head) -> Answer | None:
        """Return the redirect that was given for this target, and count it; None where anything has changed since."""
        # In one function, for this is the way of most readers (bench: warm redirect).
        recent = self._recent.get(target)
        if recent is None:
            return None
        client = head.parsed
        policy, counter, now = self.policy, self._counter, self.now()
        counted = counter.counted.get(recent.key)
        if (
            counted is None
            or counted.check != recent.check
            or policy is None
            or policy is not recent.policy
            or not isinstance(client, FastPathClient)
            or client.policy is not policy
            or not client.admitted
            or not (recent.language is None or recent.language == client.language)
            or not recent.since <= now < recent.until
            or not 0 <= now - self.looked < LOOK_EVERY
            or self._shown[1] != recent.state
            or policy.generation[0] != policy.seen
            or policy.digest != recent.digest
            or policy.refuses(client.origin)
        ):
            return None
        counted.readers += 1
        counter.redirects += 1
        counter.outcomes[recent.outcome] += 1
        return recent.answer

    def _look_up(
        self, target: bytes, head: Head, peer: str
    ) -> tuple[CachedRedirect, bytes, FastPathClient] | None:
        now = self.now()
        if not 0 <= now - self.looked < LOOK_EVERY:
            self.looked = now
            self.reload()
            if self.policy is not None:
                self.policy.refresh()
        policy = self.policy
        if policy is None:
            return None
        if policy.generation[0] != policy.seen:
            policy.refresh()
        key = policy.digest + target
        found = self._find(key, now)
        if found is None:  # whatever the headers say, so they are not read
            return None
        client = head.parsed
        if not isinstance(client, FastPathClient) or client.policy is not policy:
            client = head.parsed = FastPathClient(policy, head, peer)
        if not client.admitted or policy.refuses(client.origin):
            return None
        if found[1] == BY_LANGUAGE:
            key = b"%b\n%b" % (key, client.language)
            found = self._find(key, now)
        return None if found is None else (found, key, client)

    def _begin(self, key: bytes, row: bytes, check: int, client: FastPathClient) -> CountedRedirect | None:
        written = rows.acknowledgment_of(row)
        if written is None:
            return None
        service, _, query = written.decode("ascii").partition(" ")
        archive = client.policy.by_name.get(service)
        if archive is None and query:
            return None
        return self._counter.begin(key, check, archive, query, client.addresses)
