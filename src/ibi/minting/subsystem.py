"""Subsystems that mint, each with a waiting room and a label generator, and how one is chosen.

The spatial distributor chooses which subsystem names an item (G15 chapter 5 leaves the choice free). First by
collection: a subsystem that lists collections names only their items. Then by load: of the subsystems that may name
an item, the one with the shortest wait is chosen, and among equals the one that was chosen longest ago. So two
subsystems give twice the labels of one at the same granularity (GEN-46: one label in a step). See GEN-04: one
subsystem for a host and port; GEN-08: one date for both forms.

Each subsystem has its own waiting room, DIR/NAME. No two subsystems may have the same host and port, or the
same IP address and port, because two waiting rooms would then make the same label.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

from ibi.errors import MintingError, MintingNotAllowed, SetupError
from ibi.identifier.dates import date_text, granularity_of
from ibi.identifier.distributor import coarsest_for
from ibi.identifier.forms import IBIForms
from ibi.identifier.generator import LabelGenerator
from ibi.minting.machine import this_machine
from ibi.minting.waiting_room import WaitingRoom
from ibi.runtime.settings import SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ibi.identifier.distributor import Batch
    from ibi.minting.clock import ClockLimits
    from ibi.minting.machine import Machine


_LONGEST_LIST = 10_000  # labels in one list: a million would fill the memory


_T = TypeVar("_T")

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
# Other folders of a data directory.
_TAKEN = frozenset({"minting", "col"})


class Label(NamedTuple):
    """One new label: its date in ticks, and the texts of its forms; `ibip` is None without an IP address."""

    date: int
    rep: str
    ibip: str | None

    @property
    def datetime(self) -> str:
        """The date in RFC 3339, UTC, for people and JSON."""
        return date_text(self.date)

    @property
    def forms(self) -> IBIForms:
        """The label as a value of the library."""
        return IBIForms.known(self.rep, self.ibip)


class Subsystem:
    """One identification subsystem, ready to mint.

        with Subsystem.open("/var/lib/labels", host="archive.example.org", ip=ADDRESS) as subsystem:
            forms = subsystem.mint()

    Threads may share it, and processes may open the same directory.
    """

    def __init__(self, waiting_room: WaitingRoom, generator: LabelGenerator, granularity: int | None) -> None:
        self.waiting_room = waiting_room
        self.generator = generator
        self.granularity = granularity

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        host: str,
        port: int = 80,
        ip: str | None = None,
        ip_port: int = 800,
        granularity: str = "1",
        for_trying: bool = False,
    ) -> Self:
        """Open the data directory `path`; a missing or empty directory becomes a new one.

        `granularity` in seconds ("60", "1", "0.1", ... or "auto"). Raises ParseError or MintingNotAllowed for
        a host or IP that must not be in labels, SetupError and LostState for a directory that cannot be used.
        """
        generator = LabelGenerator(host, port, ip, ip_port, for_trying=for_trying)
        waiting_room = WaitingRoom(path, this_machine(), prefixes=generator.prefixes)
        return cls(waiting_room, generator, granularity_of(granularity))

    def __enter__(self) -> Self:
        self.waiting_room.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self.waiting_room.__exit__(*problem)

    def mint(self) -> IBIForms:
        """Return a new label in all its forms when its moment has come.

        Raises ClockError, LostState or SetupError if no label can be given.
        """
        return self.generator.label(self.waiting_room.draw(self._step(1)))

    def mint_many(self, count: int) -> Iterator[IBIForms]:
        """Yield `count` new labels, each when its moment has come. Raises the errors of `mint`."""
        forks = _Forks.count
        for _, texts in self._due(count):
            for each in texts:
                _only_before(forks)
                yield IBIForms.known(*each)

    def chunks(self, count: int) -> Iterator[list[Label]]:
        """Yield `count` new labels, in lists of labels whose moments have come. Raises the errors of `mint`.

        The dates of a list are durable before it is given: one sync serves a fifth of a second.
        """
        for dates, texts in self._due(count):
            yield [Label(date, *forms) for date, forms in zip(dates, texts, strict=True)]

    def _due(self, count: int) -> Iterator[tuple[Batch, Iterator[tuple[str, str | None]]]]:
        """Yield `count` new dates, and the texts of their forms, in batches of dates whose moments have come."""
        step = self._step(count)
        forks = _Forks.count
        while count > 0:
            batch = self.waiting_room.reserve(step, count)
            count -= len(batch)
            while len(batch):
                _only_before(forks)
                due, batch = batch.split(min(batch.due(self.waiting_room.now()), _LONGEST_LIST))
                if len(due):
                    yield due, self.generator.spell(due)
                else:
                    self.waiting_room.wait_until(batch.tail.start)

    def _step(self, count: int) -> int:
        return self.granularity or coarsest_for(count)


class _Forks:
    """How often a process has become this one by a fork. Asking the system for its id takes longer for each label."""

    count = 0

    @classmethod
    def forked(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.forked)


def _only_before(forks: int) -> None:
    """Raise MintingError in a child that was forked since, because the parent gives the same labels."""
    if _Forks.count != forks:
        raise MintingError(
            "labels that were requested before a fork belong to the parent; request others here"
        )


@dataclass(frozen=True)
class Candidate(Generic[_T]):
    """A subsystem or batcher that may name items of these collections; () for all that no candidate lists.

    `name`: its name in a list.
    """

    namer: _T
    collections: frozenset[str] = frozenset()
    name: str = ""


class SpatialDistributor(Generic[_T]):
    """Chooses among candidates, at least one."""

    def __init__(self, candidates: Sequence[Candidate[_T]]) -> None:
        self._listed = frozenset().union(*(candidate.collections for candidate in candidates))
        self._turn = list(candidates)  # the one that has rested longest comes first

    def choose(
        self,
        collection: str | None = None,
        waiting: Callable[[_T], float] = lambda _: 0,
        able: Callable[[Sequence[_T]], Sequence[_T]] = lambda namers: namers,
    ) -> _T:
        """Choose the namer for an item of this collection.

        `waiting` returns how long the wait at a namer is. `able` selects, from the namers of such items,
        those that can name this one (at least one), or raises. Raises MintingNotAllowed if there is no namer.
        """
        listed = collection in self._listed
        namers = [
            candidate.namer
            for candidate in self._turn
            if (collection in candidate.collections if listed else not candidate.collections)
        ]
        if not namers:
            if collection is None:
                raise MintingNotAllowed("every subsystem here is for certain collections; name one")
            raise MintingNotAllowed("no subsystem here names items of the collection {name}", name=collection)
        chosen = min(able(namers), key=waiting)
        # The sort is stable: the chosen candidate moves to the end, and the others keep their order.
        self._turn.sort(key=lambda candidate: candidate.namer is chosen)
        return chosen


def open_subsystems(data: Path, machine: Machine, limits: ClockLimits) -> list[Candidate[Subsystem]]:
    """Open the subsystems that DIR/subsystems.toml lists.

    Raises SetupError, and ParseError or MintingNotAllowed for a host or IP that must not be in labels.
    """
    candidates = []
    taken: set[str] = set()
    for name, settings in SubsystemSettings.read_all(data).items():
        if not _NAME.fullmatch(name) or name in _TAKEN:
            problem = "the name of a subsystem has only small letters, digits and hyphens, unlike {name}"
            raise SetupError(problem, name=name)
        generator = LabelGenerator(
            settings.host,
            settings.port,
            settings.ip or None,
            settings.ip_port,
            for_trying=settings.for_trying,
        )
        for prefix in generator.prefixes:
            if prefix in taken:
                problem = "two subsystems would make labels that begin with {prefix}; each needs its own host and IP"
                raise SetupError(problem, prefix=prefix)
            taken.add(prefix)
        step = granularity_of(settings.granularity)
        subsystem = Subsystem(WaitingRoom(data / name, machine, limits, generator.prefixes), generator, step)
        candidates.append(Candidate(subsystem, frozenset(settings.collections), name))
    return candidates
