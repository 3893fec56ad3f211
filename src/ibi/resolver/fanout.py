"""Ask all at once, yield as they come, end the round; and thank the one whose URL was chosen (RES-04, RES-11).

What goes out does not depend on how the answers will be judged, and neither do the deadlines: a `UrlRequest` knows
nothing of the reader's language or of a required state, and when the caller has heard enough, the Archives that have
not yet answered may finish in their own time. No Archive can tell from a line cut short that the original was not
being insisted on (RES-03, note 8).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ibi.errors import IbiError, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from ibi.protocol.messages import Acknowledgment, UrlRequest
    from ibi.transport import Client, Reply

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole answer of one Archive (docs/threats.md)."""

_OK = 200


class Archive(Protocol):
    """What must be known of an Archive in order to ask it (MSG-03)."""

    @property
    def service_ibi(self) -> object:
        """The IBI of its Archive service, as registered; its text is the path of the base URL."""

    @property
    def address(self) -> str:
        """Its address, "host[:port]"."""


_Asked = TypeVar("_Asked", bound=Archive)
_Asked_co = TypeVar("_Asked_co", bound=Archive, covariant=True)


@dataclass(frozen=True, slots=True)
class Heard(Generic[_Asked_co]):
    """An Archive has answered; an empty URL list says that it does not know the item."""

    archive: _Asked_co
    url_list: UrlList


@dataclass(frozen=True, slots=True)
class Silent(Generic[_Asked_co]):
    """An Archive gave no answer that counts, for a reason that is one of our own errors.

    `garbled`: it did answer, but not with a URL list (AMB-32).
    """

    archive: _Asked_co
    why: IbiError
    garbled: bool = False


async def ask_all(
    client: Client,
    archives: Iterable[_Asked],
    request: UrlRequest,
    *,
    per_archive: float = PER_ARCHIVE,
    overall: float,
) -> AsyncGenerator[Heard[_Asked] | Silent[_Asked], None]:
    """Ask every Archive at once, and yield one outcome for each as it comes; the iterator ends with the round.

    `per_archive` and `overall` (what is left for all rounds) are in seconds; the smaller one is everyone's deadline.
    A caller that stops early leaves nothing to look after: what is still under way belongs to the client, and is
    over at that deadline or when the client is closed.
    """
    query = request.query()
    deadline = min(per_archive, overall)
    if deadline <= 0:
        for archive in archives:
            yield Silent(archive, PeerSilent("no time was left to ask it"))
        return
    tasks = [asyncio.create_task(_ask(client, archive, query, deadline)) for archive in archives]
    done: asyncio.Queue[asyncio.Task[Heard[_Asked] | Silent[_Asked]]] = asyncio.Queue()
    for task in tasks:
        task.add_done_callback(done.put_nowait)
    try:
        for _ in tasks:
            yield (await done.get()).result()
    finally:
        for task in tasks:
            if not task.done():
                client.keep(task)


async def _ask(
    client: Client, archive: _Asked, query: str, deadline: float
) -> Heard[_Asked] | Silent[_Asked]:
    try:
        reply = await client.get(archive.address, f"/{archive.service_ibi}?{query}", deadline)
        return Heard(archive, UrlList.read(_body(reply)))
    except PeerGarbled as error:
        return Silent(archive, error, garbled=True)
    except PeerError as error:
        return Silent(archive, error)
    except ParseError as error:
        return Silent(
            archive, IbiError("the answer is not a pair list: {reason}", reason=error), garbled=True
        )


def _body(reply: Reply) -> bytes:
    """The body of an answer that is one (MSG-10). Raises PeerGarbled."""
    if reply.status != _OK:
        raise PeerGarbled("the answer has the status {status}", status=reply.status)
    if reply.media_type != b"text/plain":
        raise PeerGarbled("the answer is not text/plain")
    return reply.body


async def acknowledge(
    client: Client, archive: Archive, acknowledgment: Acknowledgment, *, deadline: float = PER_ARCHIVE
) -> None:
    """Tell an Archive that its URL was chosen, at its registered base URL (MSG-27, AMB-54).

    Raises PeerError if it cannot be told. Whatever it replies under status 200 will do: the notice says nothing.
    """
    reply = await client.get(archive.address, f"/{archive.service_ibi}?{acknowledgment.query()}", deadline)
    if reply.status != _OK:
        raise PeerGarbled("the answer has the status {status}", status=reply.status)


@dataclass(slots=True)
class _Line:
    """The thanks that wait for one Archive, and how many are on their way to it."""

    waiting: deque[tuple[Archive, Acknowledgment]] = field(default_factory=deque)
    senders: int = 0


class Thanks:
    """Acknowledgments on their way, each sent once, none of them awaited by a reader (RES-12, note 2).

    Every Archive has a line of its own, so one that takes its time does not hold up the thanks of the others.
    `delivered` + `queued` + the sum of `dropped` (by reason) is the number of calls of `acknowledge` and `skip`.
    """

    def __init__(
        self,
        client: Client,
        *,
        most: int = 10_000,
        most_per_archive: int = 1_000,
        at_once: int = 4,
        deadline: float = PER_ARCHIVE,
    ) -> None:
        self._client = client
        self._most = most
        self._most_per_archive = most_per_archive
        self._at_once = at_once
        self._deadline = deadline
        self._lines: dict[str, _Line] = {}
        self._senders: set[asyncio.Task[None]] = set()
        self._closed = False
        self.delivered = 0
        self.queued = 0
        self.dropped: Counter[str] = Counter()

    def acknowledge(self, archive: Archive, acknowledgment: Acknowledgment) -> None:
        """Send it when there is a moment; return at once. When too many wait already, it is dropped and counted."""
        line = self._lines.setdefault(archive.address, _Line())
        if self._closed:
            self.dropped["closing"] += 1
        elif self.queued >= self._most or len(line.waiting) >= self._most_per_archive:
            self.dropped["too many waiting"] += 1
        else:
            self.queued += 1
            line.waiting.append((archive, acknowledgment))
            if line.senders < self._at_once:
                line.senders += 1
                sender = asyncio.create_task(self._send(archive.address, line))
                self._senders.add(sender)
                sender.add_done_callback(self._senders.discard)

    def skip(self, reason: str) -> None:
        """Count a redirect that nobody is thanked for: nothing goes uncounted (note 2)."""
        self.dropped[reason] += 1

    async def close(self, grace: float = PER_ARCHIVE) -> None:
        """Take no more, deliver what is waiting for `grace` seconds at most, then drop the rest."""
        self._closed = True
        if self._senders:
            _, late = await asyncio.wait(self._senders, timeout=grace)
            for sender in late:
                sender.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self.dropped["closing"] += self.queued
        self.queued = 0
        self.dropped = +self.dropped  # reasons that never occurred are no reasons
        self._lines.clear()

    async def _send(self, address: str, line: _Line) -> None:
        """Send what waits in one line, one after the other, until nothing does."""
        try:
            while line.waiting:
                archive, acknowledgment = line.waiting.popleft()
                try:
                    await acknowledge(self._client, archive, acknowledgment, deadline=self._deadline)
                except PeerError as error:
                    self.dropped["garbled" if isinstance(error, PeerGarbled) else "silent"] += 1
                else:
                    self.delivered += 1
                self.queued -= 1
        finally:
            line.senders -= 1
            if not line.senders and not line.waiting:
                self._lines.pop(address, None)
