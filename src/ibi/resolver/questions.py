"""One question to one Archive: out of memory, shared with whoever asks the same, or over the network (RES-04).

No answer that counts is one of our own errors, never a guess about the item.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ibi.errors import IbiError, NotAsked, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.protocol.url_list import UrlList
from ibi.resolver.inquiry import Archive, Flight, Heard, Inquiry, Silent, Way
from ibi.resolver.pace import Pace
from ibi.resolver.plan import MOST_LIKELY
from ibi.resolver.pulse import Pulse
from ibi.resolver.reading import Reading, body_of, reuse_seconds
from ibi.resolver.turns import Turns
from ibi.transport import Deadline, query_of, too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.health import Health
    from ibi.resolver.memory import Memory
    from ibi.resolver.memory_rows import Mark
    from ibi.resolver.metrics import Metrics
    from ibi.transport import Client, Reply

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole answer of one Archive (docs/threats.md)."""

_Asked = TypeVar("_Asked", bound=Archive)


class Questions:
    """The questions of one process to Archives. `now` gives POSIX seconds."""

    def __init__(
        self, client: Client, health: Health, memory: Memory, metrics: Metrics, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._health = health
        self._note = health.heard
        self._memory = memory
        self._metrics = metrics
        self._now = now
        self._ways: dict[str, Way] = {}
        self._shared: dict[str, dict[str, Flight]] = {}
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
        self._ways = {name: way for name, way in self._ways.items() if name in included}

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
        since: Mark | None,
        remembered: bool,
        paced: bool,
        judged: bool,
    ) -> Inquiry[_Asked]:
        """For `ask`: all who are asked so have as many seconds from now. `query` is `request.query()`.

        `since`: what `Memory.mark` said before; None where no answer may be used for which somebody waits already.
        """
        deadline, joined = Deadline(seconds), since is not None
        mark = self._memory.mark() if since is None else since
        begun, target = deadline.begun, query_of(f"?{query}")
        latest = begun + seconds / 2
        return Inquiry(
            request, query, target, tell, deadline, begun, latest, mark, remembered, joined, paced, judged
        )

    def ask(
        self, archives: Iterable[_Asked], inquiry: Inquiry[_Asked]
    ) -> list[Heard[_Asked] | Silent[_Asked]]:
        """Ask these Archives. What is known at once is returned; of the others it is told later, be it `Silent`.

        What nobody waits for any longer still ends in its own time, so that no Archive can tell what its answer was
        for (RES-03).
        """
        at_once: list[Heard[_Asked] | Silent[_Asked]] = []
        flights: list[Flight] = []
        shared = self._shared.get(inquiry.query) if inquiry.joined else None
        asked_anew, all_well = not inquiry.remembered and inquiry.deadline.seconds > 0, self._health.all_well
        ways, plain = self._ways, asked_anew and all_well and shared is None
        for archive in archives:
            service = archive.service_ibi.canonical
            if not plain:  # which it is where all are asked at once, nearly always
                known = None if asked_anew else self._unasked(archive, inquiry)
                if known is None and shared is not None and _joins(shared.get(service), archive, inquiry):
                    continue
                if known is None and not all_well:
                    known = self._asleep(archive, inquiry)
                if known is not None:
                    at_once.append(known)
                    continue
            way = ways.get(service)
            if way is None or way.archive is not archive:
                way = ways[service] = Way.to(archive)
            flights.append(Flight(service, way, inquiry))
        if flights:
            self._begin(flights, inquiry)
        return at_once

    def _unasked(self, archive: _Asked, inquiry: Inquiry[_Asked]) -> Heard[_Asked] | Silent[_Asked] | None:
        """What an Archive said before, or that there is no time to ask it; None where it is to be asked."""
        if inquiry.remembered and (kept := self.kept(archive, inquiry.request)) is not None:
            return Heard(archive, kept, again=True)
        if inquiry.deadline.seconds <= 0:
            return Silent(archive, NotAsked("no time was left to ask it"))
        return None

    def _asleep(self, archive: _Asked, inquiry: Inquiry[_Asked]) -> Silent[_Asked] | None:
        """That an Archive is left alone for a while; None where it is to be asked."""
        if self._health.begin(archive.service_ibi.canonical, inquiry.begun) is None:
            return None
        self._metrics.asked("asleep")
        why = NotAsked("it did not answer lately, and is not asked for a while")
        return Silent(archive, why, asleep=True)

    def _begin(self, flights: list[Flight], inquiry: Inquiry[Any]) -> None:
        """These are under way from now on, be it that they wait for their turn."""
        if not self._under_way:
            self._pulse.begin(inquiry.begun)
        self._under_way += len(flights)
        inquiry.under_way += len(flights)
        if inquiry.joined:
            self._shared.setdefault(inquiry.query, {}).update({flight.service: flight for flight in flights})
        if inquiry.paced:
            self._pace.add(flights)
            return
        self._at_once += len(flights)
        self._send(flights)

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

    def _send(self, flights: Sequence[Flight]) -> None:
        ask, came = self._client.ask, self._came
        for flight in flights:
            way, inquiry = flight.way, flight.inquiry
            deadline = inquiry.deadline
            try:
                if deadline.now() > inquiry.latest:
                    raise too_many()
                ask(way.archive.address, (way.path, inquiry.target), deadline, partial(came, flight))
            except PeerError as error:
                asyncio.get_running_loop().call_soon(came, flight, error)

    def _came(self, flight: Flight, said: Reply | PeerError) -> None:
        """The client has an answer, or there is none."""
        try:
            if isinstance(said, PeerError):
                raise said
            body = body_of(said)
            if not body:
                self._landed(flight, flight.way.nothing, heard=True)
                return
            answer = self._reading.at_once(body)
        except (PeerError, ParseError) as error:
            self._landed(flight, self._silent(flight, error), heard=False)
            return
        if answer is None:
            self._client.keep(asyncio.create_task(self._read(flight, said)))
        else:
            self._landed(flight, self._heard(flight, said, answer), heard=True)

    async def _read(self, flight: Flight, reply: Reply) -> None:
        """Read a long answer."""
        outcome: Heard[Archive] | Silent[Archive]
        outcome = Silent(flight.way.archive, PeerSilent("this client is closed"))
        try:
            outcome = self._heard(flight, reply, await self._reading.read(reply.body))
        except (PeerError, ParseError) as error:
            outcome = self._silent(flight, error)
        finally:
            self._landed(flight, outcome, heard=isinstance(outcome, Heard))

    def _heard(self, flight: Flight, reply: Reply, answer: UrlList) -> Heard[Archive]:
        if reuse := reuse_seconds(reply, answer):
            inquiry = flight.inquiry
            self._memory.keep(flight.service, question(inquiry.request), reply.body, reuse, inquiry.mark)
        return Heard(flight.way.archive, answer)

    def _silent(self, flight: Flight, error: PeerError | ParseError) -> Silent[Archive]:
        garbled, why = isinstance(error, PeerGarbled), cast("IbiError", error)
        if isinstance(error, ParseError):
            reason = IbiError(error.problem, **error.details)  # without the answer, which the error holds
            garbled, why = True, IbiError("the answer is not a pair list: {reason}", reason=reason)
        inquiry, now = flight.inquiry, flight.inquiry.deadline.now()
        why.with_traceback(None)  # it is kept for as long as the Archive is in trouble
        if inquiry.judged and not (isinstance(why, NotAsked) or self._pulse.was_late(inquiry.begun)):
            self._health.failed(flight.service, now, why)
        self._metrics.asked("garbled" if garbled else "silent", now - inquiry.begun)
        return Silent(flight.way.archive, why, garbled=garbled)

    def _landed(self, flight: Flight, outcome: Heard[Archive] | Silent[Archive], *, heard: bool) -> None:
        inquiry = flight.inquiry
        if heard:
            now = inquiry.deadline.now()
            self._note(flight.service, now)
            inquiry.waits.append(now - inquiry.begun)
        inquiry.under_way -= 1
        self._under_way -= 1
        if not inquiry.paced:
            self._at_once -= 1
        if not inquiry.under_way:
            self._over(inquiry)
        if inquiry.joined:
            self._no_longer_shared(flight)
        if self.turns.queues:
            self.turns.look()
        inquiry.tell(outcome)
        if flight.others is not None:
            for tell in flight.others:
                tell(outcome)

    def _over(self, inquiry: Inquiry[Any]) -> None:
        """All who were asked by it have answered, or will not."""
        if inquiry.waits:
            self._metrics.asked("answered", *inquiry.waits)
            inquiry.waits.clear()
        if not self._under_way:
            self._pulse.end()

    def _no_longer_shared(self, flight: Flight) -> None:
        shared = self._shared.get(flight.inquiry.query)
        if shared is not None and shared.get(flight.service) is flight:
            del shared[flight.service]
            if not shared:
                del self._shared[flight.inquiry.query]


def _joins(flight: Flight | None, archive: Archive, inquiry: Inquiry[Any]) -> bool:
    """Whether the same is being asked of the same Archive, with time enough; then it is told there too."""
    if flight is None or flight.way.archive.address != archive.address:
        return False
    if not flight.inquiry.deadline.lasts(inquiry.deadline.seconds / 2):
        return False
    if flight.others is None:
        flight.others = []
    flight.others.append(inquiry.tell)
    return True


def question(request: UrlRequest) -> str:
    """What distinguishes a question from another one about the same item: all but who asks (note 5)."""
    return f"{request.ibi.canonical} {'+'.join(request.verbs.verbs)} {request.file_path}"
