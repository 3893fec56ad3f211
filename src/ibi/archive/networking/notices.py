"""What has changed here, told to the resolvers that ask this Archive, so that they need not remember it (note 46).

    catalogue: events 17, 18, 19    resolver r knows up to 16: told of the items of 17 to 19
                                    resolver s has just come, or missed too much: told that anything may have changed

Each resolver by itself, so that one that is down holds nobody up. Nothing depends on it: what a resolver remembers
is over by itself when the time that the Archive allowed for it is over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ibi.archive.ledgers import changes
from ibi.archive.networking.membership import find_service, resolver_address
from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.notification import MOST_CHANGED, ChangeNotification
from ibi.protocol.replies import ChangeReceived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.networking.networks import Kept, Wanted
    from ibi.identifier.forms import IBI, Name
    from ibi.transport import Client

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at what has changed."""

MOST_NAMES: Final = 500
"""Names that are told one by one; if more have changed since the last time, they are told as "anything"."""

ANYTHING_EVERY: Final = 10.0
"""Seconds between two notices that anything may have changed: an import is many changes."""

TRIES: Final = 3
NOTICE_SECONDS: Final = 3.0
"""How long a resolver may take for its reply."""

ALONE_SECONDS: Final = 3600.0
"""How long a resolver is told nothing that does not know such notices."""

PATIENCE: Final = 60.0
"""How long one is told nothing that cannot be reached, or will not hear it now."""

_PAUSE: Final = 0.5
_LONGEST: Final = 4000  # characters of the names in one notice, which has to fit into a URL
_OK: Final = 200
_NOT_NOW: Final = frozenset({403, 429, 503})

_log = logging.getLogger(__name__)


class _Place:
    """One resolver: up to which event it was told, None if that is not known; until when it is told nothing at all.

    And until when not again that anything may have changed.
    """

    def __init__(self, url: str) -> None:
        self.address = resolver_address(url)
        self.told: int | None = None
        self.silent_until = 0.0
        self.nothing_general_until = 0.0
        self.service = ""
        self.task: asyncio.Task[None] | None = None


class Notices:
    """Tells the resolvers of one Archive what has changed. It takes over `client`, and closes it.

    `wanted` tells where the Archive wants to take part now, `kept` how it stands there.
    """

    def __init__(
        self, catalogue: Catalogue, wanted: Callable[[], Wanted], kept: Kept, client: Client
    ) -> None:
        self._catalogue = catalogue
        self._wanted = wanted
        self._kept = kept
        self._client = client
        self._places: dict[str, _Place] = {}
        self._problem = ""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                    self._problem = ""
                except SetupError as error:
                    if str(error) != self._problem:
                        _log.warning("resolvers are not told what has changed: %s", error)
                    self._problem = str(error)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            tasks = [place.task for place in self._places.values() if place.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()

    async def _look(self) -> None:
        """Begin to tell every resolver what it was not told yet."""
        wanted = self._wanted()
        if not wanted.on:
            self._places.clear()
            return
        last, included = await asyncio.to_thread(self._read)
        clock = asyncio.get_running_loop().time()
        for url, request in wanted.requests.items():
            place = self._places.setdefault(url, _Place(url))
            if url not in included:
                place.told = None
            elif place.told != last and place.task is None and clock >= place.silent_until:
                place.task = asyncio.create_task(self._bring_up_to(place, request.service_ibi, last))
        for url in self._places.keys() - wanted.requests.keys():
            del self._places[url]

    def _read(self) -> tuple[int, set[str]]:
        """The number of the last event, and the resolvers that ask this Archive."""
        with self._catalogue.reading() as run:
            last = changes.newest(run)
        return last, {url for url, member in self._kept.read().items() if member.standing.included}

    async def _bring_up_to(self, place: _Place, service: IBI, last: int) -> None:
        clock = asyncio.get_running_loop().time
        try:
            names = await asyncio.to_thread(self._names, place.told, last)
            if names is None and clock() < place.nothing_general_until:
                return
            for notice in _notices(service, names):
                await self._say(place, notice)
        except (PeerError, ParseError) as error:
            seconds = ALONE_SECONDS if isinstance(error, PeerGarbled | ParseError) else PATIENCE
            _log.info("%s is not told what changes, for %g s: %s", place.address, seconds, error)
            place.told, place.silent_until = None, clock() + seconds
        except SetupError as error:
            _log.warning("%s is not told what has changed: %s", place.address, error)
        else:
            place.told = last
            if names is None:
                place.nothing_general_until = clock() + ANYTHING_EVERY
        finally:
            place.task = None

    def _names(self, after: int | None, last: int) -> list[Name] | None:
        """The names of what has changed; None for anything."""
        if after is None or last < after:
            return None
        with self._catalogue.reading() as run:
            found = changes.names(run, after, last, MOST_NAMES)
        return None if found is None else [parse_name(name) for name in found]

    async def _say(self, place: _Place, notice: ChangeNotification) -> None:
        """Say it until it is heard, three times at most. Raises PeerError for a resolver that will not hear it."""
        for left in reversed(range(TRIES)):
            try:
                await self._say_once(place, notice)
            except PeerError as error:
                place.service = ""
                if not left or isinstance(error, PeerGarbled):
                    raise
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _say_once(self, place: _Place, notice: ChangeNotification) -> None:
        if not place.service:
            place.service = await find_service(self._client, place.address, NOTICE_SECONDS)
        target = f"/{place.service}?{notice.query()}"
        reply = await self._client.get(place.address, target, NOTICE_SECONDS)
        if reply.status in _NOT_NOW:
            raise PeerError("it answered with status {status}", status=reply.status)
        if reply.status != _OK:
            raise PeerGarbled("it answered with status {status}", status=reply.status)
        ChangeReceived.read(reply.body)


def _notices(service: IBI, names: Sequence[Name] | None) -> Iterator[ChangeNotification]:
    """What is to be said about these names, each notice short enough."""
    if names is None:
        yield ChangeNotification(service)
        return
    some: list[Name] = []
    length = 0
    for name in names:
        longer = length + 3 * len(name.canonical) // 2 + 3
        if some and (len(some) == MOST_CHANGED or longer > _LONGEST):
            yield ChangeNotification(service, tuple(some))
            some, longer = [], longer - length
        some.append(name)
        length = longer
    if some:
        yield ChangeNotification(service, tuple(some))
