"""Inclusion and exclusion: Archives switch themselves on and off (R15 chapter 7).

    Archive                              resolver
       | -- inclusionRequest, with key ---> |      key right? otherwise: 403 status.archive refused
       | <-- inclusionConfirmationRequest - |      while the first request is still open (REG-04)
       | -- confirmation yes -------------> |      or nothing, for five seconds
       | <-- status.archive included ------ |

A missing confirmation does not prevent inclusion (REG-05: what inclusion needs); an address that must not be
contacted does, and so does an Archive that still answers elsewhere (`takeover`). Keys are compared at a bounded cost
(T16: guessed keys).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, SetupError
from ibi.http.limits.token_bucket import client_key
from ibi.http.limits.window import FailureLimit, unblocked
from ibi.protocol.messages import NO_TITLES, ArchiveTitles, ExclusionRequest, InclusionRequest
from ibi.protocol.replies import ExclusionStatus, InclusionStatus, Refusal, RequestError
from ibi.protocol.vocabulary import CHANGE_NOTICES
from ibi.resolver.members.confirmation import Probation, same_address
from ibi.resolver.members.takeover import TakeoverGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.limits.window import Failures
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.confirmation import ConfirmationClient
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.registry.registry import Registry


KEY_FAILURES_PER_IBI: Final = 5
"""Wrong keys for one Archive in a minute before its next attempt has to wait (T16: guessed keys)."""
KEY_FAILURES_PER_SOURCE: Final = 20
"""Wrong keys from one client in a minute before its next attempt has to wait (T16: guessed keys)."""

_BY_IBI = FailureLimit("key of", KEY_FAILURES_PER_IBI, 60.0)
_BY_SOURCE = FailureLimit("key from", KEY_FAILURES_PER_SOURCE, 60.0)
_HASHING_CONCURRENT = 2  # each takes 19 MiB and a core
HASHING_WAITING: Final = 256
"""Requests that wait for a hash; bounded, since any client may send some (T37: overload)."""
_BUSY_SECONDS = 5  # after which an Archive may ask again

_log = logging.getLogger("ibi.resolver.members.inclusion")


@dataclass(frozen=True, slots=True)
class MemberReply:
    """The answer to an Archive: HTTP status, body (a pair list), seconds to wait before the next attempt, headers.

    `forgets`: whether cached answers of the Archive are to be dropped, because it is excluded, has moved, or
    has come back after it was unregistered.
    """

    status: int
    body: bytes
    retry_after: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    forgets: bool = False


REFUSED: Final = MemberReply(403, Refusal().body())
"""Not registered, or a wrong key: the answer does not tell which (AMB-33: refusals)."""

OVERTAKEN: Final = MemberReply(403, Refusal().body(), retry_after=1)
"""The right key, but a later request, or a new key, came in between: to be asked again."""

ADDRESS_REFUSED: Final = MemberReply(403, Refusal(address=True).body())
"""The right key, but an address that must not be contacted: the holder of the right key may know that."""

HELD: Final = MemberReply(403, Refusal().body(), retry_after=30)
"""Its old address answers, or has not been silent for long enough; the next requests decide (T17: replayed
inclusions)."""


class KeyCheck:
    """Compares keys, and refuses, before any hashing, clients that failed too often.

    Failures are counted for the Archive and for the source, by all processes together.
    """

    def __init__(self, registry: Registry, throttle: Failures) -> None:
        self._registry = registry
        self._throttle = throttle
        self._hashing = asyncio.Semaphore(_HASHING_CONCURRENT)
        self._under_way: Counter[tuple[FailureLimit, str]] = Counter()
        self._waiting = 0

    async def check_and_count(self, service_ibi: IBI, key: str, source: str) -> MemberReply | None:
        """Compare the key of a request; count a wrong one. Return None if it is right. Raises SetupError."""
        names = await asyncio.to_thread(self._names, service_ibi, source)
        wait = await unblocked(self._throttle, self._wait, names, self._under_way.copy())
        if wait:
            return MemberReply(429, Refusal().body(), wait)
        if self._waiting >= HASHING_WAITING:
            return _later("too many requests are waiting")
        self._waiting += 1
        try:
            async with self._hashing:
                return await self._compare(service_ibi, key, names)
        finally:
            self._waiting -= 1

    async def _compare(
        self, service_ibi: IBI, key: str, names: dict[FailureLimit, str]
    ) -> MemberReply | None:
        others = self._under_way.copy()
        # A comparison under way counts as a failure in this process, and in the others only once it has
        # failed. So a process that is killed leaves no right key counted as wrong. The price: no process sees
        # the comparisons of the others, so if one attempt is left, each process may admit one.
        self._under_way.update(names.items())
        try:
            # Others may have failed meanwhile.
            wait = await unblocked(self._throttle, self._wait, names, others)
            if wait:
                return MemberReply(429, Refusal().body(), wait)
            if await asyncio.to_thread(self._registry.check_key, service_ibi, key):
                return None
            await unblocked(self._throttle, self._count, names)
        finally:
            self._under_way -= Counter(names.items())
        _log.warning(
            "refused a request for %s from %s: not registered, or a wrong key",
            service_ibi.canonical,
            names[_BY_SOURCE],
        )
        return REFUSED

    def _names(self, service_ibi: IBI, source: str) -> dict[FailureLimit, str]:
        """Return the names under which the failures of a request are counted."""
        known, client = self._registry.entry(service_ibi), client_key(source)
        # A client that sent an Archive's last accepted request is counted apart from others: otherwise a stranger
        # could lock the Archive out by guesses (T16: guessed keys).
        at_home = known is not None and known.source and client_key(known.source) == client
        ibi = service_ibi.canonical
        return {_BY_IBI: f"{ibi} at {client}" if at_home else ibi, _BY_SOURCE: client}

    def _wait(self, names: dict[FailureLimit, str], under_way: Counter[tuple[FailureLimit, str]]) -> int:
        seconds = max(self._throttle.wait(*name, under_way[name]) for name in names.items())
        return int(seconds) + 1 if seconds else 0

    def _count(self, names: dict[FailureLimit, str]) -> None:
        for limit, name in names.items():
            self._throttle.record_failure(limit, name)


class InclusionService:
    """Decides about inclusion and exclusion.

    `now` returns POSIX seconds. Without `guarded`, the letter of the standard holds, and the right key alone moves an
    Archive (T17: replayed inclusions).
    """

    def __init__(
        self,
        registry: Registry,
        confirmation: ConfirmationClient,
        throttle: Failures,
        evidence: Evidence,
        mail: MailSender,
        now: Callable[[], float],
        *,
        guarded: bool,
    ) -> None:
        self._registry = registry
        self._evidence = evidence
        self._mail = mail
        self._guarded = guarded
        self.confirmation = confirmation
        self._keys = KeyCheck(registry, throttle)
        self._takeover = TakeoverGuard(registry, confirmation, now, evidence, mail)
        self.probation = Probation(registry, confirmation, now, evidence)
        """To be closed by the owner of this object: it then writes what is only in memory."""

    async def answer(
        self, request: InclusionRequest | ExclusionRequest, source: str, titles: ArchiveTitles = NO_TITLES
    ) -> MemberReply:
        """Carry a request out and answer it (REG-06: exact status texts).

        `source` is the address that it came from; `titles`: what readers call the Archive, if it says so.
        """
        try:
            # Read before the key is compared: `Registry.open_change`, which every change of the row needs, later
            # refuses where the key has changed since.
            known = await asyncio.to_thread(self._registry.entry, request.service_ibi)
            refusal = await self._keys.check_and_count(request.service_ibi, request.key, source)
            if refusal is not None:
                return refusal
            if known is None:
                return REFUSED
            if isinstance(request, InclusionRequest):
                return await self._include(request, known, source, titles.or_else(known.titles))
            return await self._exclude(request, known, source)
        except SetupError as error:
            _log.error("a request for %s was left undone: %s", request.service_ibi, error)
            # Only the log has the reason, because it may name a path of this machine.
            return _later("the registry of this resolver cannot be used now; ask again later")

    async def _include(
        self, request: InclusionRequest, known: RegisteredArchive, source: str, titles: ArchiveTitles
    ) -> MemberReply:
        try:
            self.confirmation.check(request.service_ibi, request.address)
            if self._guarded and await self._takeover.hold_unproven(request, known, source):
                return HELD
            change = None
            if titles != known.titles or not _changes_nothing(request, known, source):
                change = await asyncio.to_thread(self._opened, known)
            confirmed = await self.confirmation.confirms(request.service_ibi, request.address)
        except ForbiddenAddress as forbidden:
            _log.warning("refused to include %s at %s: %s", request.service_ibi, request.address, forbidden)
            return ADDRESS_REFUSED
        if change is None and known.included is not None and known.included.confirmed == confirmed:
            return await self._renew(known, confirmed=confirmed)
        if change is None:
            change = await asyncio.to_thread(self._opened, known, known.change)
        record = partial(self._record_included, request, known, source, confirmed=confirmed)
        include = partial(
            self._registry.include, confirmed=confirmed, source=source, titles=titles, record=record
        )
        if not change or not await asyncio.to_thread(include, request, change):
            return OVERTAKEN
        _log.info("included %s at %s, confirmed: %s", request.service_ibi, request.address, confirmed)
        if _moves(request, known):
            self._mail.moved(known, request.address)
        # Cached answers may come from another machine, or from a time before it was unregistered.
        begins = known.included is None or not same_address(known.address, request.address)
        return _included(confirmed=confirmed, forgets=begins)

    def _opened(self, known: RegisteredArchive, after: int | None = None) -> int:
        return self._registry.open_change(known.service_ibi, after, key_hash=known.key_hash)

    async def _renew(self, known: RegisteredArchive, *, confirmed: bool) -> MemberReply:
        """Answer a request that changes nothing, unless a later one came in between."""
        # The heartbeat of an Archive, every minute: only its time is written, for all Archives together.
        latest = await asyncio.to_thread(self._registry.entry, known.service_ibi)
        if latest is None or latest.change != known.change:
            return OVERTAKEN
        if confirmed and latest.move is not None:
            await asyncio.to_thread(self._registry.confirm_again, known.service_ibi)
        await self.probation.heard(known.service_ibi)
        return _included(confirmed=confirmed)

    def _record_included(
        self, request: InclusionRequest, known: RegisteredArchive, source: str, *, confirmed: bool
    ) -> None:
        """Record in the evidence what this inclusion changes. Raises SetupError."""
        ibi = str(known.service_ibi)
        facts: dict[str, str | int] = {
            "ibi": ibi,
            "address": request.address,
            "source": source,
            "confirmed": int(confirmed),
        }
        if known.included is None or not same_address(known.address, request.address):
            self._evidence.write("included", **facts)
        elif known.included.confirmed != confirmed:
            self._evidence.note("included", **facts)
        if _moves(request, known):
            before = known.confirmed_address or ""
            facts |= {"outcome": "done", "before": before, "allowed": int(known.move_allowed)}
            self._evidence.write("moved-address", **facts)

    async def _exclude(self, request: ExclusionRequest, known: RegisteredArchive, source: str) -> MemberReply:
        change = await asyncio.to_thread(self._opened, known)
        facts = {"ibi": str(known.service_ibi), "source": source} | (
            {"end": request.end} if request.end else {}
        )
        record = partial(self._evidence.write, "excluded", **facts)
        exclude = partial(self._registry.exclude, request.service_ibi, change, source, request.end, record)
        if not await asyncio.to_thread(exclude):
            return OVERTAKEN
        _log.info("excluded %s; expected back: %s", request.service_ibi, request.end or "unknown")
        self.probation.check_excluded(request.service_ibi, change)
        return MemberReply(200, ExclusionStatus().body(), forgets=True)


def _moves(request: InclusionRequest, known: RegisteredArchive) -> bool:
    """Whether an inclusion moves an Archive away from the address where it has confirmed."""
    before = known.confirmed_address or ""
    moved = bool(before) and not same_address(before, request.address)
    return moved and not same_address(known.address, request.address)


def _changes_nothing(request: InclusionRequest, known: RegisteredArchive, source: str) -> bool:
    """Whether the Archive is included already, with the same facts and from the same source."""
    here = known.included
    names = ("address", "ip", "protocol", "platform_version", "admin_mail")
    return (
        here is not None
        and source == known.source
        and all(getattr(here, name) == getattr(request, name) for name in names)
    )


def _included(*, confirmed: bool, forgets: bool = False) -> MemberReply:
    """Return the inclusion status (REG-06), with the header that invites notices of change (note 46)."""
    return MemberReply(
        200, InclusionStatus(confirmed).body(), headers=((CHANGE_NOTICES, "yes"),), forgets=forgets
    )


def _later(problem: str) -> MemberReply:
    return MemberReply(503, RequestError(problem).body(), _BUSY_SECONDS)
