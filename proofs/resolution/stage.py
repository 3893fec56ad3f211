"""The resolver around the machine in a scenario: rounds, fan-out, caches, hints, acknowledgments; disks are dicts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ibi.http.request import Request
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.cache.hints import HolderHint
from ibi.resolver.cache.rows import CachedAnswer
from ibi.resolver.resolve import resolver as driver
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.resolver.resolve.learning import Knowledge
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.queries import Queries
from ibi.resolver.resolve.resolution import Redirect as Sent
from ibi.resolver.resolve.resolution import Resolution
from proofs.resolution.cast import RESOLVER
from proofs.resolution.watching import Watch, watched
from support.resolver.parts import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.cache.answers import Freshness
    from proofs.resolution.cast import Archive
    from proofs.resolution.oracle import Question, Reader
    from proofs.resolution.wire import Exchange, VirtualLoop, Wire

STALE = 86_400.0


class Index:
    """Where items are, in a dictionary."""

    def __init__(self) -> None:
        self.places: dict[str, HolderHint] = {}
        self.firsts: dict[str, str] = {}

    def of(self, canonical: str) -> HolderHint:
        """What is known of a name."""
        return self.places.get(canonical, HolderHint(None, None))

    def remember(
        self,
        canonicals: Iterable[str],
        *,
        likely: str | None = None,
        original: str | None = None,
        early: bool = False,
    ) -> None:
        """The first original stays."""
        for name in canonicals:
            place = self.of(name)
            known = original if place.original is None else place.original
            self.places[name] = HolderHint(likely or place.likely, known, early if likely else place.early)

    def first_holder(self, canonical: str) -> str | None:
        """Who was seen first with the original."""
        return self.firsts.get(canonical, self.of(canonical).original)

    def removed(self, canonicals: Iterable[str], holder: str) -> None:
        """Its holder has removed it."""
        for name in canonicals:
            place = self.of(name)
            self.places[name] = place._replace(original=place.original or holder, removed=True)

    def dispute(self, canonicals: Iterable[str]) -> None:
        """Several claim it."""
        for name in canonicals:
            place = self.of(name)
            if place.original:
                self.firsts[name] = place.original
            self.places[name] = HolderHint(place.likely, "")

    def moved(self, canonicals: Iterable[str], original: str) -> None:
        """The original is elsewhere now."""
        for name in canonicals:
            self.places[name] = HolderHint(self.of(name).likely, original)

    def close(self) -> None:
        """There is nothing to close."""


class Memory:
    """Answers that may be reused, in a dictionary; `now` is the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._now = self.now = self.boot = clock
        self.leases = Unread()
        self._answers: dict[tuple[str, str], CachedAnswer] = {}

    def answer(self, archive: str, question: str) -> CachedAnswer | None:
        """What an Archive answered, also if that is stale."""
        kept = self._answers.get((archive, question))
        if kept is None or not kept.heard - 60 <= self._now() < kept.fresh_until + STALE:
            return None
        return kept

    def answers(self, archives: Sequence[str], question: str) -> dict[str, CachedAnswer]:
        """What each of these answered, of those of whom something is kept."""
        found = ((archive, self.answer(archive, question)) for archive in archives)
        return {archive: kept for archive, kept in found if kept is not None}

    def put(
        self, archive: str, question: str, body: bytes, seconds: float, since: int = 0, terms: None = None
    ) -> None:
        """Keep an answer."""
        del since, terms
        self._answers[archive, question] = CachedAnswer(
            body, self._now(), self._now() + seconds, self._now() + seconds + STALE
        )

    def freshness(self, _archive: str, _question: str, kept: CachedAnswer) -> Freshness:
        """Whether it may be used; no Archive here gives leases."""
        return "fresh" if self._now() < kept.fresh_until else "expired"

    def drop(self, archive: str, question: str) -> None:
        """Drop an answer that is not believed."""
        self._answers.pop((archive, question), None)

    def snapshot(self) -> int:
        """Nothing that is on its way is ever forgotten here."""
        return 0

    def is_not_known(self, question: str) -> bool:
        """Whether no Archive had it a moment ago."""
        kept = self.answer("", question)
        return kept is not None and self._now() < kept.fresh_until

    def put_not_known(self, question: str, seconds: float, since: int = 0) -> None:
        """Keep that no Archive has it."""
        self.put("", question, b"", seconds, since)

    def close(self) -> None:
        """There is nothing to close."""


class Unread:
    """Stands for what is only written: evidence and figures."""

    def __getattr__(self, what: str) -> Callable[..., None]:
        """Return a function that ignores its arguments."""
        return lambda *_values, **_facts: None


class NoLeases(Unread):
    """The requests for changes of a resolver whose Archives reply to none."""

    def seconds_since_reply(self, _archive: object) -> float:
        """How long ago the last one that was replied to was sent."""
        return inf


class Clock:
    """The wall clock, which people set."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.offsets = [1_700_000_000.0]

    def put(self, seconds: float) -> None:
        """Set it forward or back."""
        self.offsets.append(self.offsets[-1] + seconds)

    def __call__(self) -> float:
        """POSIX seconds."""
        return self._loop.now + self.offsets[-1]


@dataclass
class Scene:
    """One resolution as it was played: `included` are those of all `archives` who were when it began.

    `ended` is inf for a reader who went away.
    """

    number: int
    question: Question
    reader: Reader
    begun: float
    included: tuple[Archive, ...]
    archives: Sequence[Archive]
    url: PersistentURL
    watch: Watch | None = None
    trace: Any = None
    outcome: Any = None
    failed: BaseException | None = None
    ended: float = inf
    everything: Sequence[Exchange] = ()
    wall_clock_begins: tuple[float, ...] = ()  # when it began, by every offset that the wall clock has had

    @property
    def exchanges(self) -> list[Exchange]:
        """What was asked for this reader."""
        return [exchange for exchange in self.everything if exchange.reader == self.address]

    @property
    def address(self) -> str:
        """The reader's."""
        return f"192.0.2.{self.number + 1}"


class Stage:
    """A resolver that can be started again; `included` are the Archives in its registry at this moment."""

    def __init__(
        self,
        loop: VirtualLoop,
        wire: Wire,
        included: Sequence[Archive],
        machine: type[Resolution] = Resolution,
    ) -> None:
        self.loop = loop
        self.wire = wire
        self.clock = wire.wall_clock = Clock(loop)
        self.included = tuple(included)
        self.history: list[tuple[float, tuple[Archive, ...]]] = [(-inf, self.included)]
        self._machine = watched(machine)
        self._knowledge: Any = None
        self._scenes: dict[str, Scene] = {}
        self.acknowledgment_queues: list[AcknowledgmentQueue] = []
        """Those of all its starts, the present one last."""
        self.start(keeps=False)

    def start(self, *, keeps: bool) -> None:
        """Begin anew; with `keeps`, what is on disk is still there."""
        if not keeps:
            index, memory, evidence = (Index(), Memory(self.clock), Unread())
            self._knowledge = _knowledge(index, memory, evidence, self.clock)
        unread: Any = Unread()
        no_leases: Any = NoLeases()
        wire: Any = self.wire
        queries = Queries(wire, CircuitBreakers(), self._knowledge.cache, unread, no_leases)
        self._resolvers = {
            hardened: driver.Resolver(
                queries,
                lambda: self.included,  # type: ignore[arg-type,return-value]  # what the rounds need of an Archive
                Policy(strict=not hardened),
                TIMES,
                self._knowledge,
            )
            for hardened in (True, False)
        }
        self.acknowledgment_queues.append(AcknowledgmentQueue(wire))

    def knows(self, name: str, archive: str) -> None:
        """It has seen the original of an item there."""
        self._knowledge.hints.remember([name], original=archive)

    def include(self, archives: Sequence[Archive]) -> None:
        """Others are in the registry from now on."""
        self.included = tuple(archives)
        self.history.append((self.loop.now, self.included))

    async def resolve(self, scene: Scene) -> None:
        """One reader comes, and is redirected and acknowledged, or gets an alert."""
        languages = ", ".join(language.lower() for language in scene.reader.languages).encode()
        request = Request("GET", "/", "", {b"accept-language": languages}, (scene.address,))
        text = f"{RESOLVER}{scene.url.text}"
        self._scenes[scene.address] = scene
        scene.everything = self.wire.exchanges
        queue = self.acknowledgment_queues[-1]
        try:
            done = await self._resolvers[scene.reader.hardened].resolve(
                scene.url, text, request, scene.address
            )
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is a finding
            scene.failed = fault
            return
        finally:
            scene.wall_clock_begins = tuple(scene.begun + offset for offset in self.clock.offsets)
        outcome = done.decision
        scene.trace, scene.ended, scene.outcome = done.trace, self.loop.now, outcome
        if isinstance(outcome, Sent):
            _acknowledge(queue, outcome)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While this lasts, all machines are watched."""
        scenes, machine = self._scenes, self._machine

        class Caught(machine):  # type: ignore[misc,valid-type]  # a class that is given cannot be known to mypy
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                scenes[given[2][0]].watch = self.watch

        with patch.object(driver, "Resolution", Caught):
            yield


def _knowledge(index: Any, memory: Any, evidence: Any, clock: Clock) -> Knowledge:
    """Return what the resolver knows, in dictionaries."""
    return Knowledge(index, memory, evidence, clock)


def _acknowledge(queue: AcknowledgmentQueue, outcome: Sent) -> None:
    """As the service does (notes 1 and 2)."""
    if outcome.stale or outcome.acknowledgment is None:
        queue.skip("nobody to thank")
    elif outcome.reused:
        queue.acknowledge_cached(outcome.archive, outcome.acknowledgment)
    else:
        queue.acknowledge(outcome.archive, outcome.acknowledgment)
