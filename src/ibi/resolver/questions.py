"""One question to one Archive: out of memory, shared with whoever asks the same, or over the network (RES-04).

What goes out does not depend on how the answers will be judged: a `UrlRequest` knows nothing of the reader's language
or of a required state. No answer that counts is one of our own errors, never a guess about the item.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from ibi.errors import IbiError, NotAsked, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.protocol import vocabulary as say
from ibi.protocol.url_list import UrlList
from ibi.resolver.plan import MOST_LIKELY
from ibi.resolver.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.health import Health
    from ibi.resolver.memory import Memory
    from ibi.resolver.metrics import Metrics
    from ibi.transport import Client, Reply

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole answer of one Archive (docs/threats.md)."""

LONGEST_REUSE: Final = 3600
"""Seconds for which an answer is used again at most, whatever its Archive allows."""

_OK = 200
_LATE = 0.25  # seconds: when this loop was so late, a time-out says nothing of the Archive
_LARGE = 16 * 1024  # bytes: lists of more are read one at a time, so that others have their turn
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=([0-9]{1,9})\s*(?:$|,)", re.ASCII | re.IGNORECASE)
_NEVER = re.compile(r"(?:^|,)\s*(?:no-store|no-cache|private)\b", re.ASCII | re.IGNORECASE)


class Archive(Protocol):
    """What must be known of an Archive in order to ask it (MSG-03)."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered; its text is the path of the base URL."""

    @property
    def address(self) -> str:
        """Its address, "host[:port]"."""


_Asked = TypeVar("_Asked", bound=Archive)
_Asked_co = TypeVar("_Asked_co", bound=Archive, covariant=True)


@dataclass(frozen=True, slots=True)
class Heard(Generic[_Asked_co]):
    """An Archive has answered; an empty URL list says that it does not know the item.

    `again`: it said so before, and allowed that the answer be used again (note 1).
    """

    archive: _Asked_co
    url_list: UrlList
    again: bool = False


@dataclass(frozen=True, slots=True)
class Silent(Generic[_Asked_co]):
    """An Archive gave no answer that counts, for a reason that is one of our own errors.

    `garbled`: it did answer, but not with a URL list (AMB-32). `asleep`: it was not asked, for it failed often lately.
    """

    archive: _Asked_co
    why: IbiError
    garbled: bool = False
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class _Flight:
    task: asyncio.Task[Heard[Archive] | Silent[Archive]]
    end: float


class Questions:
    """The questions of one process to Archives. `now` gives POSIX seconds."""

    def __init__(
        self, client: Client, health: Health, memory: Memory, metrics: Metrics, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._health = health
        self._memory = memory
        self._metrics = metrics
        self._now = now
        self._flights: dict[tuple[str, str], _Flight] = {}
        self._queries: Counter[str] = Counter()
        self._under_way = 0
        self._reading = asyncio.Lock()
        self._pulse = Pulse()
        self.turns = Turns(lambda: self._under_way)
        """Who may have everybody asked next."""

    def keep_to(self, included: Collection[str]) -> None:
        """Forget how Archives were that have left; the canonical service IBIs of those that are here."""
        self._health.forget(included)

    def was_late(self, since: float) -> bool:
        """Whether this process was late itself since a time of the loop, so that silence says nothing of Archives."""
        return self._pulse.was_late(since)

    def is_asked(self, query: str) -> bool:
        """Whether everybody is being asked the same already, so that asking it costs nobody anything."""
        return self._queries.get(query, 0) > MOST_LIKELY

    def ask(
        self,
        archive: _Asked,
        request: UrlRequest,
        query: str,
        seconds: float,
        *,
        remembered: bool,
        joined: bool,
    ) -> asyncio.Future[Heard[_Asked] | Silent[_Asked]]:
        """Ask an Archive; the answer comes within so many seconds, be it `Silent`.

        `query` is `request.query()`. `remembered`: whether an answer may be used that was given before; `joined`: one
        that somebody waits for already. What nobody waits for any longer still ends in its own time, so that no
        Archive can tell what its answer was for (RES-03).
        """
        now = asyncio.get_running_loop().time()
        if remembered and (kept := self.kept(archive, request)) is not None:
            return answered(Heard(archive, kept, again=True))
        if seconds <= 0:
            return answered(Silent(archive, PeerSilent("no time was left to ask it")))
        service = archive.service_ibi.canonical
        key = (f"{service} {archive.address}", query)
        flight = self._flights.get(key) if joined else None
        if flight is None or flight.end < now + seconds / 2:
            asleep = self._health.begin(service, now)
            if asleep is not None:
                self._metrics.asked("asleep")
                why = PeerSilent("it did not answer lately, and is not asked for a while")
                return answered(Silent(archive, why, asleep=True))
            task = asyncio.create_task(self._ask(archive, request, query, seconds))
            self._client.keep(cast("asyncio.Task[object]", task))
            flight = _Flight(task, now + seconds)
            if joined:
                self._flights[key] = flight
            self._queries[query] += joined
            self._under_way += 1
            self._pulse.begin()
            task.add_done_callback(lambda task: self._landed(key, task, shared=joined))
        return cast("asyncio.Future[Heard[_Asked] | Silent[_Asked]]", flight.task)

    def kept(self, archive: Archive, request: UrlRequest, *, stale: bool = False) -> UrlList | None:
        """What an Archive said before and allows to use again; with `stale`, also if that was for less time."""
        kept = self._memory.answer(archive.service_ibi.canonical, question(request))
        fresh = kept is not None and kept.fresh_until > self._now()
        return UrlList.read(kept.body) if kept is not None and (stale or fresh) else None

    def _landed(
        self, key: tuple[str, str], task: asyncio.Task[Heard[Archive] | Silent[Archive]], *, shared: bool
    ) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._pulse.end()
        if (flight := self._flights.get(key)) is not None and flight.task is task:
            del self._flights[key]
        self._queries[key[1]] -= shared
        if not self._queries[key[1]]:
            del self._queries[key[1]]
        self.turns.look()

    async def _ask(
        self, archive: _Asked, request: UrlRequest, query: str, seconds: float
    ) -> Heard[Archive] | Silent[Archive]:
        service, clock = archive.service_ibi.canonical, asyncio.get_running_loop().time
        since, begun = self._memory.since(service), clock()
        outcome: Heard[Archive] | Silent[Archive]
        try:
            reply = await self._client.get(archive.address, f"/{archive.service_ibi}?{query}", seconds)
            answer = await self._read(_body(reply))
        except PeerError as error:
            why = error.with_traceback(None)  # it is kept for as long as the Archive is in trouble
            outcome = Silent(archive, why, garbled=isinstance(error, PeerGarbled))
        except ParseError as error:
            reason = IbiError(error.problem, **error.details)  # without the answer, which the error holds
            unread = IbiError("the answer is not a pair list: {reason}", reason=reason)
            outcome = Silent(archive, unread, garbled=True)
        else:
            self._health.heard(service, clock())
            self._metrics.asked("answered", clock() - begun)
            reuse = reuse_seconds(reply, answer)
            if reuse:
                self._memory.keep(service, question(request), reply.body, reuse, since)
            return Heard(archive, answer)
        if not (isinstance(outcome.why, NotAsked) or self._pulse.was_late(begun)):
            self._health.failed(service, clock(), outcome.why)
        self._metrics.asked("garbled" if outcome.garbled else "silent", clock() - begun)
        return outcome

    async def _read(self, body: bytes) -> UrlList:
        """Read a list. Raises ParseError."""
        if len(body) <= _LARGE:
            return UrlList.read(body)
        async with self._reading:
            await asyncio.sleep(0)
            return UrlList.read(body)


class Pulse:
    """Whether the event loop has been late: then time-outs come of this machine, not of others."""

    def __init__(self) -> None:
        self._beat: asyncio.TimerHandle | None = None
        self._late_at = -math.inf

    def begin(self) -> None:
        """Feel it from now on."""
        if self._beat is None:
            self._next()

    def end(self) -> None:
        """Nothing is waited for."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def was_late(self, since: float) -> bool:
        """Whether it has been late since a time of the loop."""
        self._feel()
        return self._late_at >= since

    def _next(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(_LATE, self._again)

    def _again(self) -> None:
        self._feel()
        self._next()

    def _feel(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._beat is not None and now > self._beat.when() + _LATE:
            self._late_at = now


def question(request: UrlRequest) -> str:
    """What distinguishes a question from another one about the same item: all but who asks (note 5)."""
    return f"{request.ibi.canonical} {'+'.join(request.verbs.verbs)} {request.file_path}"


def reuse_seconds(reply: Reply, answer: UrlList) -> int:
    """For how long an answer may be used again (note 1): its Archive must say so twice."""
    control = reply.headers.get(b"cache-control", b"").decode("latin-1")
    found = _MAX_AGE.search(control)
    if not answer or found is None or _NEVER.search(control):
        return 0
    return min(int(found[1]), LONGEST_REUSE) if answer.pairs.get(say.ACKNOWLEDGMENT_BATCH) == "yes" else 0


def _body(reply: Reply) -> bytes:
    """The body of an answer that is one (MSG-10). Raises PeerGarbled."""
    if reply.status != _OK:
        raise PeerGarbled("the answer has the status {status}", status=reply.status)
    if reply.media_type != b"text/plain":
        raise PeerGarbled("the answer is not text/plain")
    return reply.body


_Result = TypeVar("_Result")


def answered(result: _Result) -> asyncio.Future[_Result]:
    """A future that is over already."""
    future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
