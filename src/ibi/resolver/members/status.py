"""The status of the network, as far as this process knows: GET /-/status; and whether it is ready: GET /-/readyz.

No Archive is asked for the status. An Archive counts as heard if it answered a query of this process, or
asked this resolver for inclusion; as silent if it has not answered since it was last asked; else not asked.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ibi.errors import SetupError
from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.protocol.messages import NO_TITLES, ArchiveTitles
from ibi.resolver.model.archive import moment_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.errors import IbiError
    from ibi.resolver.model.alert import Say
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.breaker import CircuitBreakers


Standing = Literal["heard", "silent", "not asked"]

STANDINGS: Final = {"heard": "responding", "silent": "not responding", "not asked": "not queried lately"}
"""The sentence for each standing."""

LATELY_SECONDS: Final = 900.0
"""Seconds within which an Archive must have been heard to count as heard lately."""

STATUS_SECONDS: Final = 5.0
"""Seconds for which a status is reused."""

SUMMARY: Final = (
    "Archives that take part: {included}. Responding in the last {minutes} minutes: {heard}. "
    "Not responding: {silent}."
)
NO_MEMBERS: Final = "No Archive takes part in this resolver at the moment."


class MemberStatus(NamedTuple):
    """The status of one Archive. `heard`: POSIX seconds of its last message, None where none is known.

    `is_suspended`: its circuit is open, or it is paused; `why`: the error of its last query; `hours`: queries
    that were answered and that were not, in each of the last 24 hours, the present one last; () if none was sent.
    """

    service_ibi: str
    address: str
    standing: Standing
    confirmed: bool
    included_at: float
    heard: float | None
    is_suspended: bool
    why: IbiError | None
    titles: ArchiveTitles = NO_TITLES
    """What readers call it."""
    hours: tuple[tuple[int, int], ...] = ()

    def as_dict(self, say: Say) -> dict[str, Any]:
        """Return the status as JSON has it; the keys are stable."""
        facts: dict[str, Any] = {
            "service_ibi": self.service_ibi,
            "address": self.address,
            "title": self.titles.usual,
            "title_pt": self.titles.portuguese,
            "standing": self.standing,
            "confirmed": self.confirmed,
            "since": moment_text(self.included_at),
            "last_heard": None if self.heard is None else moment_text(self.heard),
            "asleep": self.is_suspended,
        }
        if self.why is not None:
            facts["why"] = say(self.why.problem, self.why.details)
        return facts


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    """The status of all Archives at `moment`, as known to a process that `began` then; both POSIX seconds."""

    moment: float
    began: float
    members: tuple[MemberStatus, ...] = ()

    def count(self, standing: Standing) -> int:
        """Count the Archives of a standing."""
        return sum(member.standing == standing for member in self.members)

    def line(self, say: Say) -> str:
        """Summarise the status in one line."""
        if not self.members:
            return say(NO_MEMBERS, {})
        counts = {"included": len(self.members), "minutes": int(LATELY_SECONDS // 60)}
        return say(SUMMARY, counts | {"heard": self.count("heard"), "silent": self.count("silent")})

    def as_dict(self, say: Say) -> dict[str, Any]:
        """Return the status as JSON has it; the keys are stable."""
        return {
            "moment": moment_text(self.moment),
            "process_since": moment_text(self.began),
            "lately_seconds": int(LATELY_SECONDS),
            "line": self.line(say),
            "archives": {
                "included": len(self.members),
                "confirmed": sum(member.confirmed for member in self.members),
                "heard": self.count("heard"),
                "silent": self.count("silent"),
                "not_asked": self.count("not asked"),
                "asleep": sum(member.is_suspended for member in self.members),
            },
            "members": [member.as_dict(say) for member in self.members],
        }

    def json(self, say: Say) -> bytes:
        """Write it as a JSON document."""
        return json.dumps(self.as_dict(say), ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def text(self, say: Say) -> bytes:
        """Write it as plain text."""
        lines = [self.line(say), ""]
        lines += [
            f"{each.service_ibi}  {each.address}  {say(STANDINGS[each.standing], {})}"
            for each in self.members
        ]
        return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "replace")


class NetworkMonitor:
    """Makes the status from what this process knows. `now` returns POSIX seconds; belongs to one event loop."""

    def __init__(self, registry: Registry, breakers: CircuitBreakers, now: Callable[[], float]) -> None:
        self._registry = registry
        self._breakers = breakers
        self._now = now
        self._began = now()
        self._last: tuple[float, NetworkStatus] | None = None
        self._lock = asyncio.Lock()

    async def status(self) -> NetworkStatus:
        """Return the status, which is made at most every STATUS_SECONDS, once for all callers."""
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if self._last is None or clock() - self._last[0] >= STATUS_SECONDS:
                included = self._registry.archives()
                heard_at = await asyncio.to_thread(self._heard_at)
                members = tuple(self._member(archive, heard_at, clock()) for archive in included)
                self._last = (clock(), NetworkStatus(self._now(), self._began, members))
            return self._last[1]

    def heard_at(self, name: str) -> float | None:
        """Return when an Archive answered this process last, in POSIX seconds, by the name of its service."""
        archive = next((each for each in self._registry.archives() if each.name == name), None)
        answered = self._breakers.heard_at.get(archive.service) if archive is not None else None
        if answered is None:
            return None
        return self._now() - (asyncio.get_running_loop().time() - answered)

    def _heard_at(self) -> dict[str, float]:
        """Read when Archives last asked for inclusion, by canonical name; {} while the registry cannot be read."""
        try:
            known = self._registry.registered()
        except SetupError:
            return {}
        return {
            each.service_ibi.canonical: datetime.fromisoformat(each.heard_at).timestamp()
            for each in known
            if each.heard_at
        }

    def _member(self, archive: Archive, heard_at: Mapping[str, float], loop_time: float) -> MemberStatus:
        name, now = archive.service_ibi.canonical, self._now()
        answered = self._breakers.heard_at.get(name)
        # Two clocks: the registry has POSIX seconds, the circuit breaker the monotonic time of the loop.
        heard = heard_at.get(name)
        if answered is not None:
            heard = max(heard_at.get(name, -inf), now - (loop_time - answered))
        circuit = self._breakers.circuits.get(name)
        standing: Standing = "heard" if heard is not None and now - heard <= LATELY_SECONDS else "not asked"
        return MemberStatus(
            str(archive.service_ibi),
            archive.address,
            "silent" if circuit else standing,
            archive.confirmed,
            archive.included_at,
            heard,
            is_suspended=circuit is not None and loop_time < circuit.until,
            why=circuit.why if circuit else None,
            titles=archive.titles,
            hours=self._breakers.last_day(name, loop_time),
        )


@dataclass(eq=False, slots=True)
class Readiness:
    """Whether readers should be sent to this process: GET /-/readyz (docs/reference/http.md)."""

    _registry: Registry
    _draining: bool = field(default=False, init=False)

    async def drain(self) -> None:
        """Report not ready from now on: requests under way are answered, and no new ones should come."""
        self._draining = True

    def answer(self) -> Response:
        """Answer 200 or 503, with the reason; the registry is read for each answer."""
        # Checked first: a load balancer should send no reader to a process that is about to stop.
        if self._draining:
            return Response(503, b"it is about to stop\n", PLAIN, NO_STORE)
        if not self._registry.ready():
            return Response(503, b"the registry cannot be read\n", PLAIN, NO_STORE)
        return Response(200, b"ready\n", PLAIN, NO_STORE)
