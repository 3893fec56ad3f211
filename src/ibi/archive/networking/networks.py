"""The networks that an Archive takes part in: each resolver by itself, so that who is down holds nobody up (ARC-15).

    resolver r    stay: inclusionRequest, again every minute (threat T17)     pause, leave: exclusionRequest
    resolver s    the same

Switched off, an Archive goes on answering: files, pages, and its own persistent URLs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import memberships
from ibi.archive.ledgers.memberships import Member, Standing
from ibi.archive.networking.membership import Membership
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.catalogue import Catalogue, Run
    from ibi.protocol.messages import InclusionRequest
    from ibi.transport import Client

LOOK_EVERY = 0.5
"""Seconds between two looks at what is wanted."""

_Doing = Literal["stay", "pause", "leave"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where an Archive wants to take part: what it says at each resolver, by root URL, and whether it is on."""

    requests: dict[str, InclusionRequest]
    on: bool


class Kept:
    """The ledger of memberships, written without holding up the loop."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def read(self) -> dict[str, Member]:
        """What is known, by the root URLs of the resolvers. Raises SetupError."""
        with self._catalogue.reading() as run:
            return memberships.members(run)

    async def keep(self, member: Member) -> None:
        """Keep how the Archive stands at a resolver. Raises SetupError."""
        await asyncio.to_thread(self._write, memberships.note, member)

    async def forget(self, resolver: str) -> None:
        """Forget a resolver that was left for good. Raises SetupError."""
        await asyncio.to_thread(self._write, memberships.forget, resolver)

    def _write(self, write: Callable[[Run, Any], None], value: Any) -> None:
        with self._catalogue.writing() as writer:
            write(writer.run, value)


class Memberships:
    """All resolvers of one Archive, each by itself. It takes over `client`, and closes it.

    `wanted` tells where the Archive wants to take part now; it is asked twice a second, so that a change of the
    settings needs no restart.
    """

    def __init__(
        self,
        wanted: Callable[[], Wanted],
        client: Client,
        kept: Kept,
        now: Callable[[], float],
    ) -> None:
        self._wanted = wanted
        self._client = client
        self._kept = kept
        self._now = now
        self._places: dict[str, Membership] = {}
        self._tasks: dict[str, tuple[_Doing, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Do what is wanted, until cancelled."""
        try:
            known = await asyncio.to_thread(self._kept.read)
        except SetupError as error:
            _log.warning("how this Archive stood at its resolvers is not known: %s", error)
            known = {}
        try:
            while True:
                self._turn(self._wanted(), known)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            tasks = [task for _, task in self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Say goodbye everywhere, once and side by side; whatever comes of it, this Archive stops."""
        await asyncio.gather(*(place.say_goodbye() for place in self._places.values()))

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()

    def _turn(self, wanted: Wanted, known: dict[str, Member]) -> None:
        """Begin what is wanted and not yet done; end what is no longer wanted."""
        for url, request in wanted.requests.items():
            place = self._places.get(url)
            if place is None or place.request != request:
                self._places[url] = self._place(url, request, place, known)
            self._do(url, "stay" if wanted.on else "pause")
        for url in self._places.keys() - wanted.requests.keys():
            self._do(url, "leave")
            if self._tasks[url][1].done():
                del self._tasks[url], self._places[url]

    def _place(
        self, url: str, request: InclusionRequest, before: Membership | None, known: dict[str, Member]
    ) -> Membership:
        """A place at a resolver, or the same with other words."""
        self._end(url)
        member = before.member if before else known.pop(url, None)
        place = Membership(
            request,
            member or Member(url, Standing.WAITING, timestamp_text(int(self._now()))),
            self._client,
            self._kept.keep,
            self._now,
        )
        place.asked |= bool(before and before.asked)
        return place

    def _do(self, url: str, what: _Doing) -> None:
        doing = self._tasks.get(url)
        if doing is not None and doing[0] == what:
            return
        self._end(url)
        place = self._places[url]
        if what == "stay":
            task = asyncio.create_task(place.stay())
        else:
            task = asyncio.create_task(self._leave(place, for_good=what == "leave"))
        task.add_done_callback(_seen)
        self._tasks[url] = (what, task)

    async def _leave(self, place: Membership, *, for_good: bool) -> None:
        await place.leave()
        if for_good:
            await self._kept.forget(place.member.resolver)

    def _end(self, url: str) -> None:
        doing = self._tasks.pop(url, None)
        if doing is not None:
            doing[1].cancel()


async def farewell(
    wanted: Wanted, resolvers: Iterable[str], client: Client, kept: Kept, now: Callable[[], float]
) -> list[Member]:
    """Say goodbye once to resolvers that may think that the Archive is there, while nobody serves it.

    Returns how the Archive stands then at those that are known. Raises SetupError.
    """
    known = await asyncio.to_thread(kept.read)
    places = [
        Membership(wanted.requests[url], known[url], client, kept.keep, now)
        for url in resolvers
        if url in known and url in wanted.requests
    ]
    await asyncio.gather(*(place.say_goodbye() for place in places))
    return [place.member for place in places]


def _seen(task: asyncio.Task[None]) -> None:
    """A fault of ours in a task that nobody waits for is at least said."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("an Archive has stopped asking a resolver", exc_info=error)
