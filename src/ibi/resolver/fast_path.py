"""The fast path: answers a click with a cached redirect, before a task or an ASGI scope is made (notes 1, 2, T20).

`http.server.protocol` calls `FastPath.at_once` for a GET or HEAD, or `FastPath.repeat` for a GET whose headers equal
those of the last one on its connection. If they return None, the ordinary path follows, the ASGI application, which
gives the same answer and counts it in the same way. Nothing is decided here: a resolution decided the redirect, and a
`CachePolicy` decides which clients may get it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ibi.http.accept import LONGEST_ACCEPT
from ibi.http.client_address import list_addresses
from ibi.http.request import Request, joined_headers
from ibi.resolver.cache.lease import LEASE_SECONDS, RENEW_AFTER, Moment
from ibi.resolver.cache.redirects import BY_LANGUAGE
from ibi.resolver.model.hops import Hops
from ibi.resolver.negotiation import requested_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibi.http.server.config import Answer
    from ibi.http.server.head import Head
    from ibi.resolver.acknowledgments.counter import AcknowledgmentCounter
    from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
    from ibi.resolver.cache_policy import CachePolicy


LOOK_EVERY: Final = 0.5
"""Seconds after which settings and registry are read again, as other programs may have changed them."""

_FOUND: Final = 302

_log = logging.getLogger("ibi.resolver.fast_path")


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
    """The fast path of one process; belongs to one event loop. `now` and `boot` return a `Moment`, each its part.

    `follow` sets its policy; `reload` is called to read the settings again; `renew` has leases renewed.
    """

    def __init__(
        self,
        redirects: RedirectCache,
        counter: AcknowledgmentCounter,
        now: Callable[[], float],
        boot: Callable[[], float],
    ) -> None:
        self._now, self._boot = now, boot
        self.redirects = redirects
        self._leases = redirects.leases
        self._counter = counter
        self.policy: CachePolicy | None = None
        self.refreshed_at = 0.0
        """When the settings were read last (POSIX seconds)."""
        self.reload: Callable[[], object] = lambda: None
        self.renew: Callable[[Sequence[int]], object] = lambda _: None
        """Called with the slots of Archives whose lease ends soon (`CachedRedirect.leased`)."""

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
        redirect, response, key, client = found
        if method == b"GET":
            return (_FOUND, response) if self._count(redirect, key, client) else None
        self._counter.outcomes[redirect.outcome] += 1  # a HEAD causes no acknowledgment
        self._counter.wake()
        return _FOUND, response

    def _count(self, redirect: CachedRedirect, key: bytes, client: FastPathClient) -> bool:
        """Count a reader for a redirect; return False if the reader cannot be counted."""
        counter = self._counter
        count = counter.counts.get(key)
        if count is None or count.check != redirect.check:
            service, _, query = redirect.acknowledgment.decode("ascii").partition(" ")
            archive = client.policy.by_name.get(service)
            if archive is None and query:
                return False
            count = counter.start(key, redirect.check, archive, query, client.addresses)
            if count is None:
                return False
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[redirect.outcome] += 1
        return True

    def repeat(self, target: bytes, head: Head) -> Answer | None:
        """Return the redirect for this target, if it is counted already, and count it; None if anything has changed."""
        # With few calls, since most readers are answered here (bench: warm redirect).
        redirect, client, key = self.redirects.newer.get(target), head.parsed, target
        if redirect is None or not isinstance(client, FastPathClient):
            return None
        if redirect.outcome == BY_LANGUAGE:
            key = b"%b\n%b" % (target, client.language)
            redirect = self.redirects.newer.get(key, redirect)
        policy, counter = self.policy, self._counter
        real = self._now()
        count = counter.counts.get(key)
        if (
            count is None
            or redirect.outcome == BY_LANGUAGE
            or count.check != redirect.check
            or policy is None
            or client.policy is not policy
            or not client.admitted
            or policy.redirect_seconds
            or not redirect.since <= real < redirect.until
            or not 0 <= real - self.refreshed_at < LOOK_EVERY
            or policy.generation[0] != policy.generation_read
            or policy.digest != redirect.digest
            or policy.refuses(client.client_key)
        ):
            return None
        # Leases first: what had changed before a lease began was counted before that lease was written.
        if redirect.leased and not self._leases_run(redirect, real):
            return None
        if not self.redirects.is_unchanged(redirect):
            return None
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[redirect.outcome] += 1
        return _FOUND, redirect.response

    def _leases_run(self, redirect: CachedRedirect, real: float) -> bool:
        """Whether all leases of a redirect run, and end not soon: else `_look_up` has them renewed."""
        boot = self._boot()
        began_real, began_boot = self._leases.began_real, self._leases.began_boot
        for slot in redirect.leased:
            if not (
                0 <= real - began_real[slot] < RENEW_AFTER and 0 <= boot - began_boot[slot] < RENEW_AFTER
            ):
                return False
        return boot < redirect.boot_until

    def _look_up(  # noqa: C901 - one check after the other
        self, target: bytes, head: Head, peer: str
    ) -> tuple[CachedRedirect, bytes, bytes, FastPathClient] | None:
        """Return a redirect, the response for this reader, its key, and the client."""
        now = Moment(self._boot(), self._now())
        if not 0 <= now.real - self.refreshed_at < LOOK_EVERY:
            self.refreshed_at = now.real
            self.reload()
            if self.policy is not None:
                self.policy.refresh()
        policy = self.policy
        if policy is None:
            return None
        if policy.generation[0] != policy.generation_read:
            policy.refresh()
        found = self.redirects.get(target)
        if found is None:  # no headers could change that, so they are not read
            return None
        client = head.parsed
        if not isinstance(client, FastPathClient) or client.policy is not policy:
            client = head.parsed = FastPathClient(policy, head, peer)
        if not client.admitted or policy.refuses(client.client_key):
            return None
        key = target
        if found.outcome == BY_LANGUAGE:
            key = b"%b\n%b" % (target, client.language)
            found = self.redirects.get(key)
            if found is None:
                return None
        left = self.redirects.seconds_left(found, now)
        if left <= 0 or found.digest != policy.digest:
            return None
        if left < LEASE_SECONDS - RENEW_AFTER:
            self.renew(found.leased)
        return found, policy.limited(found.response, left), key, client
