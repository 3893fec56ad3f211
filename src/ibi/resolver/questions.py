"""One question to one Archive: out of memory, shared with whoever asks the same, or over the network (RES-04).

What goes out does not depend on how the answers will be judged: a `UrlRequest` knows nothing of the reader's language
or of a required state. No answer that counts is one of our own errors, never a guess about the item.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from ibi.errors import IbiError, NotAsked, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.protocol import vocabulary as say
from ibi.protocol.url_list import UrlList
from ibi.resolver.pace import Pace
from ibi.resolver.plan import MOST_LIKELY
from ibi.resolver.pulse import Pulse
from ibi.resolver.reading import Reading, body_of
from ibi.resolver.turns import Turns
from ibi.transport import Deadline, Reply, too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.health import Health
    from ibi.resolver.memory import Memory
    from ibi.resolver.memory_rows import Mark
    from ibi.resolver.metrics import Metrics
    from ibi.transport import Client

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole answer of one Archive (docs/threats.md)."""

LONGEST_REUSE: Final = 3600
"""Seconds for which an answer is used again at most, whatever its Archive allows."""

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


class Heard(NamedTuple, Generic[_Asked]):
    """An Archive has answered; an empty URL list says that it does not know the item.

    `again`: it said so before, and allowed that the answer be used again (note 1).
    """

    archive: _Asked
    url_list: UrlList
    again: bool = False


class Silent(NamedTuple, Generic[_Asked]):
    """An Archive gave no answer that counts, for a reason that is one of our own errors.

    `garbled`: it did answer, but not with a URL list (AMB-32). `asleep`: it was not asked, for it failed often lately.
    """

    archive: _Asked
    why: IbiError
    garbled: bool = False
    asleep: bool = False


@dataclass(slots=True, eq=False)
class Inquiry(Generic[_Asked]):
    """What several Archives are asked at the same moment, and who hears of it: `tell` is called once for each.

    `remembered`: whether an answer may be used that was given before; `joined`: one that somebody waits for already;
    `paced`: whether they are many, who are asked a few at a time; `judged`: whether silence is held against them.
    """

    request: UrlRequest
    query: str
    tell: Callable[[Heard[_Asked] | Silent[_Asked]], None]
    deadline: Deadline
    begun: float
    mark: Mark
    remembered: bool
    joined: bool
    paced: bool
    judged: bool


@dataclass(slots=True, eq=False)
class _Flight:
    """One question that is under way, and those who want to hear what comes of it."""

    archive: Archive
    inquiry: Inquiry[Any]
    tell: list[Callable[[Any], None]]

    @property
    def key(self) -> tuple[str, str]:
        return self.archive.service_ibi.canonical, self.archive.address


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
        self._shared: dict[str, dict[tuple[str, str], _Flight]] = {}
        self._under_way = 0
        self._at_once = 0  # of these, so many do not go at a pace
        self._reading = Reading()
        self._pace = Pace(self._send, lambda: self._at_once > 0)
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
        return len(self._shared.get(query, ())) > MOST_LIKELY

    def inquiry(
        self,
        request: UrlRequest,
        query: str,
        seconds: float,
        tell: Callable[[Heard[_Asked] | Silent[_Asked]], None],
        *,
        remembered: bool,
        joined: bool,
        paced: bool,
        judged: bool,
    ) -> Inquiry[_Asked]:
        """For `ask`: all who are asked so have as many seconds from now. `query` is `request.query()`."""
        deadline, mark = Deadline(seconds), self._memory.mark()
        begun = deadline.now()
        return Inquiry(request, query, tell, deadline, begun, mark, remembered, joined, paced, judged)

    def ask(self, archive: _Asked, inquiry: Inquiry[_Asked]) -> Heard[_Asked] | Silent[_Asked] | None:
        """Ask an Archive. What is known at once is returned; else None, and it is told later, be it `Silent`.

        What nobody waits for any longer still ends in its own time, so that no Archive can tell what its answer was
        for (RES-03).
        """
        if inquiry.remembered and (kept := self.kept(archive, inquiry.request)) is not None:
            return Heard(archive, kept, again=True)
        if inquiry.deadline.seconds <= 0:
            return Silent(archive, PeerSilent("no time was left to ask it"))
        flight = _Flight(archive, inquiry, [inquiry.tell])
        if inquiry.joined:
            shared = self._shared.get(inquiry.query, {}).get(flight.key)
            if shared is not None and shared.inquiry.deadline.lasts(inquiry.deadline.seconds / 2):
                shared.tell.append(inquiry.tell)
                return None
        if self._health.begin(archive.service_ibi.canonical, inquiry.begun) is not None:
            self._metrics.asked("asleep")
            why = PeerSilent("it did not answer lately, and is not asked for a while")
            return Silent(archive, why, asleep=True)
        if inquiry.joined:
            self._shared.setdefault(inquiry.query, {})[flight.key] = flight
        self._under_way += 1
        self._pulse.begin()
        if inquiry.paced:
            self._pace.add(flight)
        else:
            self._at_once += 1
            self._send(flight)
        return None

    def kept(self, archive: Archive, request: UrlRequest) -> UrlList | None:
        """What an Archive said before and allows to use again."""
        kept = self._memory.answer(archive.service_ibi.canonical, question(request))
        fresh = kept is not None and kept.fresh_until > self._now()
        return UrlList.read(kept.body) if kept is not None and fresh else None

    def older(self, archives: Sequence[_Asked], request: UrlRequest) -> Iterator[tuple[_Asked, UrlList]]:
        """What these said before and allow to use again, be it that they allow it only while they are silent."""
        names = [archive.service_ibi.canonical for archive in archives]
        kept = self._memory.answers(names, question(request))
        return (
            (archive, UrlList.read(kept[name].body))
            for archive, name in zip(archives, names, strict=True)
            if name in kept
        )

    def _send(self, flight: _Flight) -> None:
        archive, inquiry = flight.archive, flight.inquiry
        target = f"/{archive.service_ibi}?{inquiry.query}"
        try:
            if not inquiry.deadline.lasts(inquiry.deadline.seconds / 2):
                raise too_many()
            self._client.ask(archive.address, target, inquiry.deadline, partial(self._came, flight))
        except PeerError as error:
            asyncio.get_running_loop().call_soon(self._came, flight, error)

    def _came(self, flight: _Flight, said: Reply | PeerError) -> None:
        """The client has an answer, or there is none."""
        try:
            if isinstance(said, PeerError):
                raise said
            answer = self._reading.at_once(body_of(said))
        except (PeerError, ParseError) as error:
            self._landed(flight, self._silent(flight, error))
            return
        if answer is None:
            self._client.keep(asyncio.create_task(self._read(flight, said)))
        else:
            self._landed(flight, self._heard(flight, said, answer))

    async def _read(self, flight: _Flight, reply: Reply) -> None:
        """Read a long answer."""
        outcome: Heard[Archive] | Silent[Archive]
        outcome = Silent(flight.archive, PeerSilent("this client is closed"))
        try:
            outcome = self._heard(flight, reply, await self._reading.read(reply.body))
        except (PeerError, ParseError) as error:
            outcome = self._silent(flight, error)
        finally:
            self._landed(flight, outcome)

    def _heard(self, flight: _Flight, reply: Reply, answer: UrlList) -> Heard[Archive]:
        archive, inquiry = flight.archive, flight.inquiry
        service, now = archive.service_ibi.canonical, inquiry.deadline.now()
        self._health.heard(service, now)
        self._metrics.asked("answered", now - inquiry.begun)
        if reuse := reuse_seconds(reply, answer):
            self._memory.keep(service, question(inquiry.request), reply.body, reuse, inquiry.mark)
        return Heard(archive, answer)

    def _silent(self, flight: _Flight, error: PeerError | ParseError) -> Silent[Archive]:
        garbled, why = isinstance(error, PeerGarbled), cast("IbiError", error)
        if isinstance(error, ParseError):
            reason = IbiError(error.problem, **error.details)  # without the answer, which the error holds
            garbled, why = True, IbiError("the answer is not a pair list: {reason}", reason=reason)
        inquiry, now = flight.inquiry, flight.inquiry.deadline.now()
        why.with_traceback(None)  # it is kept for as long as the Archive is in trouble
        if inquiry.judged and not (isinstance(why, NotAsked) or self._pulse.was_late(inquiry.begun)):
            self._health.failed(flight.archive.service_ibi.canonical, now, why)
        self._metrics.asked("garbled" if garbled else "silent", now - inquiry.begun)
        return Silent(flight.archive, why, garbled=garbled)

    def _landed(self, flight: _Flight, outcome: Heard[Archive] | Silent[Archive]) -> None:
        self._under_way -= 1
        self._at_once -= not flight.inquiry.paced
        if not self._under_way:
            self._pulse.end()
        query = flight.inquiry.query
        shared = self._shared.get(query) if flight.inquiry.joined else None
        if shared is not None and shared.get(flight.key) is flight:
            del shared[flight.key]
            if not shared:
                del self._shared[query]
        self.turns.look()
        for tell in flight.tell:
            tell(outcome)


def question(request: UrlRequest) -> str:
    """What distinguishes a question from another one about the same item: all but who asks (note 5)."""
    return f"{request.ibi.canonical} {'+'.join(request.verbs.verbs)} {request.file_path}"


def reuse_seconds(reply: Reply, answer: UrlList) -> int:
    """For how long an answer may be used again (note 1): its Archive must say so twice."""
    if not answer:
        return 0
    control = reply.headers.get(b"cache-control", b"").decode("latin-1")
    found = _MAX_AGE.search(control)
    if found is None or _NEVER.search(control):
        return 0
    return min(int(found[1]), LONGEST_REUSE) if answer.pairs.get(say.ACKNOWLEDGMENT_BATCH) == "yes" else 0
