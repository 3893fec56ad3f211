"""The fast path: answers a click with a cached redirect, before a task or an ASGI scope is made.

`http.server.protocol` calls `FastPath.at_once` for a GET or HEAD, or `FastPath.repeat` for a GET whose headers equal
those of the last one on its connection. If they return None, the ordinary path follows, the ASGI application, which
gives the same answer and counts it in the same way. Nothing is decided here: a resolution decided the redirect, and a
`CachePolicy` decides which clients may get it. See note 1: reuse of answers; note 2: acknowledgments; T20: answers
for one reader.

A redirect is given while all of this holds:

    the headers allow it (`FastPathClient`): the Host is one of ours, the public URL the usual one; it is no loop, no
    prefetch, and asks for no format                    `FastPathClient.admitted`
    the client has not exceeded its limit               `CachePolicy.refuses`
    settings and Archives are those it was made for     `CachePolicy.digest`
    its answers have not ended                          `CachedRedirect.since`, `until`, `boot_until`
    the leases it rests on run                          `LeaseTable.began`
    nothing it rests on has changed                     `LeaseTable.name_versions`, `archive_versions`
    none of its Archives is unreliable                  `RedirectCache.suspended_slots`
    its reader can be counted: the Archive of the acknowledgment is included, and another count may be started
                                                        `ReaderCounter.start`

`at_once` checks it by `_look_up` and `RedirectCache.seconds_left`. `repeat`, which answers most readers, checks it with
few calls. `repeat` declines some clicks that `at_once` answers. It answers no click that `at_once` declines: a test
compares the two (`tests/unit/resolver/test_fast_path.py`). The server calls neither of them for what
`Protocol._answer_at_once` leaves to the application: methods other than GET and HEAD, HTTP/1.0, connections that end
with this request, unusual headers, long heads.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ibi.http.accept import LONGEST_ACCEPT
from ibi.http.client_address import list_addresses
from ibi.http.request import Request, joined_headers
from ibi.resolver.cache.lease import LEASE_SECONDS, NEVER, RENEW_AFTER, Moment, lease_age
from ibi.resolver.cache.redirects import BY_LANGUAGE
from ibi.resolver.model.hops import Hops
from ibi.resolver.negotiation import requested_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibi.http.server.config import Answer
    from ibi.http.server.head import Head
    from ibi.resolver.acknowledgments.counter import ReaderCounter
    from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
    from ibi.resolver.cache_policy import CachePolicy


LOOK_EVERY: Final = 0.5
"""Seconds after which settings and registry are read again, as other programs may have changed them."""

_FOUND: Final = 302
"""The status of every cached redirect: one that was made for a header Accept is a 303, and is not cached."""

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
    """The fast path of one process; belongs to one event loop.

    `now` and `boot` return the two parts of a `Moment`, its `real` and its `boot`. `follow` sets its policy; `reload`
    is called to read the settings again; `renew` has leases renewed.
    """

    def __init__(
        self,
        redirects: RedirectCache,
        counter: ReaderCounter,
        now: Callable[[], float],
        boot: Callable[[], float],
    ) -> None:
        self._now, self._boot = now, boot
        self.redirects = redirects
        self._leases = redirects.leases
        self._counter = counter
        self.policy: CachePolicy | None = None
        # When `_look_up` last had settings and registry read again, by both clocks.
        self._refreshed_boot, self._refreshed_real = NEVER
        self._running: set[int] = set()
        """The slots of Archives whose leases were read since that moment, and did not end soon."""
        self.reload: Callable[[], object] = lambda: None
        self.renew: Callable[[Sequence[int]], object] = lambda _: None
        """Called with the slots of Archives whose lease ends soon."""

    def follow(self, policy: CachePolicy | None) -> None:
        """Use this policy from now on; without one, the application answers everything."""
        self.policy = policy
        self._refreshed_boot, self._refreshed_real = NEVER

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
        if count is None or count.checksum != redirect.checksum:
            service, _, query = redirect.message(key.partition(b"\n")[0]).partition(" ")
            archive = client.policy.by_name.get(service)
            if archive is None and query:  # the Archive that is to get it is not included by this name now
                return False
            count = counter.start(key, redirect.checksum, archive, query, client.addresses)
            if count is None:
                return False
        redirect.reader_count, count.redirect = count, redirect
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[redirect.outcome] += 1
        return True

    def repeat(self, target: bytes, head: Head) -> Answer | None:
        """Return the redirect for this target, and count its reader; None if `at_once` must look closer.

        The headers are those of the request before, which `at_once` has looked at: `head.parsed`. It also must have
        started a count of the readers of this redirect (`ReaderCounter.start`).
        """
        # With few calls, since most readers are answered here (bench: warm redirect).
        redirect, client = self.redirects.newer.get(target), head.parsed
        if redirect is None or not isinstance(client, FastPathClient):
            return None
        if redirect.outcome == BY_LANGUAGE:
            redirect = self.redirects.newer.get(b"%b\n%b" % (target, client.language), redirect)
        policy, counter = self.policy, self._counter
        real, boot = self._now(), self._boot()
        count = redirect.reader_count
        if (
            # No reader was counted for this redirect yet; or its response must say for how long others may cache it.
            count is None
            or policy is None
            or policy.redirect_seconds
            # The client may not get it, or its headers were read by an earlier policy.
            or client.policy is not policy
            or not client.admitted
            or policy.refuses(client.client_key)
            # Its answers have ended, by one of the clocks.
            or not redirect.since <= real < redirect.until
            or boot >= redirect.boot_until
            # Settings and registry must be read again first, or have changed since it was made.
            or not 0 <= real - self._refreshed_real < LOOK_EVERY
            or boot - self._refreshed_boot >= LOOK_EVERY  # this clock never goes back
            or policy.generation[0] != policy.generation_read
            or policy.digest != redirect.digest
            # Last, what it rests on: its leases first, then the versions.
            or not self._holds(redirect, real, boot)
        ):
            return None
        count.readers += 1
        counter.unreported_readers += 1
        counter.outcomes[redirect.outcome] += 1
        return _FOUND, redirect.first + target.join(redirect.rest)

    def _holds(self, redirect: CachedRedirect, real: float, boot: float) -> bool:
        """Whether nothing has changed that a redirect rests on, and its leases run: a faster `seconds_left`.

        A lease that ends soon does not count, so that `_look_up` has it renewed.

        The order of reading matters: a lease first, then the versions. A process that applies a reply writes in the
        opposite order: it changes the versions first, and writes the lease last (`cache.lease.apply_reply`). So if the
        new lease is read here, the new versions are read after it, and a redirect that has become wrong is not used.
        """
        running, of_archives = self._running, self._leases.archive_versions
        suspended = self.redirects.suspended_slots
        for slot, version, leased in redirect.archives:
            if leased and slot not in running:
                if lease_age(self._leases.began(slot), Moment(boot, real)) >= RENEW_AFTER:
                    return False
                running.add(slot)  # for half a second at most, by both clocks
            if of_archives[slot] != version or slot in suspended:
                return False
        of_names = self._leases.name_versions
        if of_names[redirect.name_slot] != redirect.name_version:
            return False
        for place, version in redirect.further_names:  # noqa: SIM110 - a generator takes longer
            if of_names[place] != version:
                return False
        return True

    def _look_up(  # noqa: C901 - one check after the other
        self, target: bytes, head: Head, peer: str
    ) -> tuple[CachedRedirect, bytes, bytes, FastPathClient] | None:
        """Return a redirect, the response for this reader, its key, and the client; None to decline."""
        # Settings and registry: read again twice a second, and when the generation of the registry has changed.
        now = Moment(self._boot(), self._now())
        if (
            not 0 <= now.real - self._refreshed_real < LOOK_EVERY
            or now.boot - self._refreshed_boot >= LOOK_EVERY
        ):
            self._refreshed_boot, self._refreshed_real = now
            self._running.clear()
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
        client = head.parsed  # of the request before on this connection, if its headers were the same
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
        # What the redirect rests on: its leases, then the versions.
        left = self.redirects.seconds_left(found, now)
        if left <= 0 or found.digest != policy.digest:
            return None
        if left < LEASE_SECONDS - RENEW_AFTER:
            self.renew([slot for slot, _, leased in found.archives if leased])
        return found, policy.limited(found.response(target), left), key, client
