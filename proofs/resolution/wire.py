"""Time and network of a scenario: a loop whose clock leaps to what comes next, a client whose Archives are scripted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from ibi.errors import PeerError, PeerGarbled, PeerSilent
from ibi.http.client import Reply
from ibi.protocol.verb_list import VerbList
from proofs.resolution.cast import ScriptedReply, steps_of
from proofs.resolution.oracle import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.client import Deadline, Target

_NOTICE = b"notice {acknowledgment received}"
_MOST_STEPS = 1_000_000  # of a loop in one scenario; the longest take some thousands


class _NoSelector:
    """Stands where a loop waits for sockets: there are none, so time leaps."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        """Let time pass."""
        self._loop.steps += 1
        if self._loop.steps > self._loop.last_step:
            raise RuntimeError("there is no end to it")
        if self._loop.interruption is not None and self._loop.steps >= self._loop.interrupted_at:
            interruption, self._loop.interruption = self._loop.interruption, None
            interruption()
        elif timeout is None:
            raise RuntimeError("all of them wait for ever")
        else:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        """There is nothing to close."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets. `interruption` is called once, before step `interrupted_at`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.steps = 0
        self.last_step = _MOST_STEPS
        self.interruption: Callable[[], object] | None = None
        self.interrupted_at = 0
        self._selector = _NoSelector(self)
        self._clock_resolution = 1e-7  # so that rounding keeps no timer from being due

    def time(self) -> float:
        """The current time of the scenario, in seconds."""
        return self.now

    def begin(self) -> None:
        """Start another scenario, at the same moment as every other one, which must have an end."""
        self.now = 1_000.0
        self.last_step = self.steps + _MOST_STEPS

    def timers(self) -> int:
        """How many timers wait to be due."""
        scheduled: list[asyncio.TimerHandle] = vars(self)["_scheduled"]
        return sum(not handle.cancelled() for handle in scheduled)

    def _process_events(self, event_list: Sequence[object]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """No other thread wakes it."""


class Conduct(NamedTuple):
    """How an Archive answers: after so many seconds (inf: never), what, and for how many it may be reused."""

    after: float
    reply: ScriptedReply
    reuse: int = 0
    status: int = 200


@dataclass
class Exchange:
    """A question on the wire, made at `begun`, and sent after a probe perhaps.

    `deadline`: seconds after `begun`; `answered` is inf where no answer came within it.
    """

    address: str
    reader: str
    question: Question
    target: str
    deadline: float
    begun: float
    sent_at: float
    conduct: Conduct
    answered: float = inf
    kept: float = 0.0  # when the answer came, by the wall clock

    @property
    def counts(self) -> bool:
        """Whether a whole URL list came."""
        return self.answered < inf and self.conduct.status == 200 and not self.conduct.reply.spoilt


@dataclass
class Acknowledged:
    """An acknowledgment on the wire."""

    address: str
    reader: str
    key: str
    url: str
    persistent: str
    count: int
    event: str


class Wire:
    """The client of a scenario: `conduct` tells how an address answers a question that is asked now."""

    def __init__(self, loop: VirtualLoop, conduct: Callable[[str, Question], Conduct]) -> None:
        self._loop = loop
        self._conduct = conduct
        self.wall_clock: Callable[[], float] = loop.time
        self._kept: set[asyncio.Task[object]] = set()
        self.exchanges: list[Exchange] = []
        self.acknowledged: list[Acknowledged] = []

    async def get(
        self,
        address: str,
        target: str,
        deadline: float,
        headers: Sequence[tuple[str, str]] = (),
        *,
        late: float = 0.0,
    ) -> Reply:
        """Ask an Archive, as `ibi.http.client.Client` does; `late`: seconds after the question was made."""
        del headers
        query = {name: values[0] for name, values in parse_qs(target.partition("?")[2]).items()}
        if query["servicesubject"] == "acknowledgment":
            self.acknowledged.append(_acknowledged(address, query))
            await asyncio.sleep(0.01)
            return Reply(200, {b"content-type": b"text/plain"}, _NOTICE, "192.0.2.99")
        verbs = VerbList.parse(query.get("parsedibiurl.verblist", ""))
        question = Question(query["parsedibiurl.ibi"].lower(), steps_of(verbs))
        conduct = self._conduct(address, question)
        reader = query["clientinformation.ipaddress"]
        now = self._loop.now
        exchange = Exchange(address, reader, question, target, deadline, now - late, now, conduct)
        self.exchanges.append(exchange)
        if conduct.after >= deadline - late:
            await asyncio.sleep(deadline - late)
            raise PeerSilent("no whole answer within {seconds:g} s", seconds=deadline)
        await asyncio.sleep(conduct.after)
        exchange.answered, exchange.kept = self._loop.now, self.wall_clock()
        if conduct.status == 0:
            raise PeerGarbled("the answer cannot be read")
        control = f"max-age={conduct.reuse}" if conduct.reuse else "no-store"
        fields = {b"content-type": b"text/plain", b"cache-control": control.encode()}
        return Reply(conduct.status, fields, conduct.reply.body, "192.0.2.99")

    def ask(
        self,
        address: str,
        target: Target,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
        _headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """The same without waiting; no Archive of a scenario looks at headers."""
        text = target if isinstance(target, str) else b"".join(target).decode("ascii")
        late = self._loop.now - deadline.begun
        asking = asyncio.create_task(self.get(address, text, deadline.seconds, late=late))
        asking.add_done_callback(lambda task: done(_outcome(task)))
        self.keep(asking)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task that runs in the background."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._kept)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(task: asyncio.Task[Reply]) -> Reply | PeerError:
    if task.cancelled():
        return PeerSilent("this client is closed")
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, PeerError):
        return error
    raise error


def _acknowledged(address: str, query: dict[str, str]) -> Acknowledged:
    return Acknowledged(
        address,
        query["clientinformation.ipaddress"],
        query["urlkey"],
        query["url"],
        query["url.persistent"],
        int(query.get("acknowledgment.count", "1")),
        query.get("acknowledgment.id", ""),
    )
