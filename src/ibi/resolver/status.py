"""How the network stands, as far as this process knows: GET /-/status (docs/contract.md).

Nobody is asked for it. An Archive counts as heard if it answered a question of this process, or told the resolver
that it is there; as silent if it has not answered since it was last asked; the others had no reason to speak.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.errors import IbiError
    from ibi.resolver.alerts import Say
    from ibi.resolver.health import Health
    from ibi.resolver.registry import IncludedArchive, Registry

Standing = Literal["heard", "silent", "not asked"]

STANDINGS: Final = {"heard": "heard lately", "silent": "gives no answer", "not asked": "not asked lately"}
"""How an Archive stands, as a person calls it."""

LATELY: Final = 900.0
"""Seconds: who was heard within them was heard lately."""

LOOK_EVERY: Final = 5.0
"""Seconds for which what was found is told again."""

LINE: Final = (
    "Archives that take part: {included}. "
    "Heard in the last {minutes} minutes: {heard}. Giving no answer: {silent}."
)
NOBODY: Final = "No Archive takes part in this resolver at the moment."


class Member(NamedTuple):
    """How one Archive stands. `heard`: POSIX seconds of its last word, None where none is known; `why` it is silent."""

    service_ibi: str
    address: str
    standing: Standing
    confirmed: bool
    since: float
    heard: float | None
    asleep: bool
    why: IbiError | None


@dataclass(frozen=True, slots=True)
class Status:
    """How the network stood at a moment, for a process that began at another one; both POSIX seconds."""

    moment: float
    began: float
    members: tuple[Member, ...] = ()

    def count(self, standing: Standing) -> int:
        """How many stand so."""
        return sum(member.standing == standing for member in self.members)

    def line(self, say: Say) -> str:
        """All of it in one line."""
        if not self.members:
            return say(NOBODY, {})
        counts = {"included": len(self.members), "minutes": int(LATELY // 60)}
        return say(LINE, counts | {"heard": self.count("heard"), "silent": self.count("silent")})

    def as_dict(self, say: Say) -> dict[str, Any]:
        """For JSON; the keys are stable."""
        counts = Counter(member.standing for member in self.members)
        return {
            "moment": moment(self.moment),
            "process_since": moment(self.began),
            "lately_seconds": int(LATELY),
            "line": self.line(say),
            "archives": {
                "included": len(self.members),
                "confirmed": sum(member.confirmed for member in self.members),
                "heard": counts["heard"],
                "silent": counts["silent"],
                "not_asked": counts["not asked"],
                "asleep": sum(member.asleep for member in self.members),
            },
            "members": [_member(member, say) for member in self.members],
        }

    def json(self, say: Say) -> bytes:
        """One JSON document."""
        return json.dumps(self.as_dict(say), ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def text(self, say: Say) -> bytes:
        """For a terminal."""
        lines = [self.line(say), ""]
        lines += [
            f"{each.service_ibi}  {each.address}  {say(STANDINGS[each.standing], {})}"
            for each in self.members
        ]
        return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "replace")


class Board:
    """Tells how the network stands. `now` gives POSIX seconds; belongs to one event loop."""

    def __init__(self, registry: Registry, health: Health, now: Callable[[], float]) -> None:
        self._registry = registry
        self._health = health
        self._now = now
        self._began = now()
        self._known: tuple[float, Status] | None = None
        self._looking = asyncio.Lock()

    async def look(self) -> Status:
        """How it stands, found out at most every LOOK_EVERY seconds, and once for all who ask meanwhile."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if self._known is None or clock() - self._known[0] >= LOOK_EVERY:
                included = self._registry.archives()
                reported = await asyncio.to_thread(self._reported)
                members = tuple(self._stands(archive, reported, clock()) for archive in included)
                self._known = (clock(), Status(self._now(), self._began, members))
            return self._known[1]

    def _reported(self) -> dict[str, float]:
        """When Archives last said that they are there, by canonical name; nothing while the registry cannot be read."""
        try:
            known = self._registry.registered()
        except SetupError:
            return {}
        return {each.service_ibi.canonical: _seconds(each.heard_at) for each in known if each.heard_at}

    def _stands(self, archive: IncludedArchive, reported: Mapping[str, float], ticks: float) -> Member:
        """`ticks`: the time of the loop, in which the health of Archives is kept."""
        name, now = archive.service_ibi.canonical, self._now()
        answered = self._health.last_heard(name)
        words = [reported[name]] if name in reported else []
        words += [now - (ticks - answered)] if answered is not None else []
        heard = max(words, default=None)
        trouble = self._health.trouble(name)
        standing: Standing = "heard" if heard is not None and now - heard <= LATELY else "not asked"
        return Member(
            str(archive.service_ibi),
            archive.address,
            "silent" if trouble else standing,
            archive.confirmed,
            archive.since,
            heard,
            asleep=trouble is not None and ticks < trouble.until,
            why=trouble.why if trouble else None,
        )


def moment(seconds: float) -> str:
    """POSIX seconds as "2026-11-21T10:00:00Z"."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _member(member: Member, say: Say) -> dict[str, Any]:
    told: dict[str, Any] = {
        "service_ibi": member.service_ibi,
        "address": member.address,
        "standing": member.standing,
        "confirmed": member.confirmed,
        "since": moment(member.since),
        "last_heard": None if member.heard is None else moment(member.heard),
        "asleep": member.asleep,
    }
    if member.why is not None:
        told["why"] = say(member.why.problem, member.why.details)
    return told
