"""Archives for the proofs of the express lane: their answers may be used again, and they count who thanks them.

What the name of an item says, each of them does: an item of 2021 is held and may be used again, one of 2022 is held and
must be asked for each time, one of 2023 was removed, one of 2024 has translations; others nobody knows.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ibi import assembly
from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol import vocabulary as words
from ibi.protocol.messages import Acknowledgment, UrlRequest, read_request
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.replies import Confirmation, Notice
from ibi.protocol.url_list import Entry, entry_pairs
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver.registry.mirroring import Listed
from ibi.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.protocol.pair_list import PairList

ADDRESS: Final = "resolver.test"
SERVICE: Final = "J8LNKB5R7W/3FUQHC5"
_SINCE: Final = "2026-01-01T00:00:00Z"


def service_of(number: int) -> str:
    """The IBI of an Archive's service."""
    return f"a{number}.example/w/2020/01.01.00.00"


def item(archive: int, number: int, year: int = 2021) -> str:
    """The name of an item; the year tells what is known of it."""
    minute, second = divmod(number, 60)
    hour, minute = divmod(minute, 60)
    day, hour = divmod(hour, 24)
    return f"a{archive}.example/w/{year}/01.{day + 1:02}.{hour:02}.{minute:02}.{second:02}"


@dataclass
class Archive:
    """One Archive: `thanked` readers, in so many `letters`; `seconds`: how long an answer may be used again."""

    number: int
    port: int = 0
    seconds: int = 3600
    place: str = "files.example"
    """The host of the URLs that it tells."""
    answers: int = 0
    asked: int = 0
    letters: int = 0
    thanked: int = 0
    twice: int = 0
    """Acknowledgments that came a second time."""
    _events: set[str] = field(default_factory=set)

    def answer(self, query: str) -> bytes:
        """The whole response to a message."""
        try:
            request = read_request(query)
        except ParseError:
            return _response(b"error")
        if isinstance(request, Acknowledgment):
            self._thank(request)
            return _response(Notice().body())
        if not isinstance(request, UrlRequest):
            return _response(Confirmation().body())
        self.asked += 1
        name = str(request.ibi).lower()
        year = int(name.split("/")[2]) if name.count("/") > 2 and name.startswith(f"a{self.number}.") else 0
        if year not in {2021, 2022, 2023, 2024}:
            return _response(b"")
        reusable = year in {2021, 2024}
        body = write_pairs(self._pairs(str(request.ibi), year, reusable=reusable))
        return _response(
            body, f"Cache-Control: max-age={self.seconds}\r\n" if reusable and self.seconds else ""
        )

    def _thank(self, message: Acknowledgment) -> None:
        self.letters += 1
        if message.event and message.event in self._events:
            self.twice += 1
            return
        self._events.add(message.event)
        self.thanked += message.count

    def _pairs(self, name: str, year: int, *, reusable: bool) -> PairList:
        self.answers += 1
        forms, state = IBIForms.of(parse_ibi(name)), State.DELETED if year == 2023 else State.ORIGINAL
        about: PairList = {
            words.ARCHIVE_ADDRESS: f"127.0.0.1:{self.port}",
            words.ARCHIVE_SERVICE: ("rep", service_of(self.number)),
            **({words.ACKNOWLEDGMENT_BATCH: "yes"} if reusable else {}),
        }
        url = f"http://{self.place}/{self.number}/{name}"
        entry = Entry(None if state is State.DELETED else url, forms, state, ContentType.DATA, _SINCE)
        told = about | entry_pairs(ITEM, entry) | {words.URL_KEY: f"{1_000_000_000 + self.answers}"}
        for language in ("pt", "en", "pt-BR") if year == 2024 else ():
            relation = Relation.from_modifier(f"+({language})")
            told |= entry_pairs(relation, entry._replace(url=f"{url}?{language}", forms=None))
        return told


def _response(body: bytes, more: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


class _Line(asyncio.Protocol):
    """One connection to an Archive, among all that are open."""

    def __init__(self, archive: Archive, lines: set[_Line]) -> None:
        self._archive = archive
        self._lines = lines
        self._heard = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody asks."""
        self._transport = cast("asyncio.Transport", transport)
        self._lines.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody asks any more."""
        del exc
        self._lines.discard(self)

    def hang_up(self) -> None:
        """End it at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            head, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self._transport.write(self._archive.answer(head.split(b" ", 2)[1].decode().partition("?")[2]))


@contextmanager
def archives(count: int) -> Iterator[list[Archive]]:
    """So many, in a thread of their own until the end of the block."""
    made, ready = [Archive(number) for number in range(count)], threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    lines: set[_Line] = set()

    async def work() -> None:
        servers = [
            await loop.create_server(partial(_Line, archive, lines), "127.0.0.1", 0) for archive in made
        ]
        for archive, server in zip(made, servers, strict=True):
            archive.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        for server in servers:
            server.close()
        while lines:
            for line in list(lines):
                line.hang_up()
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    ready.wait()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def make_resolver(data: Path, around: list[Archive]) -> None:
    """The directory of a resolver in which these take part."""
    ResolverSettings(
        address=ADDRESS,
        service=IBIForms.parse(f"ibip {SERVICE}"),
        aliases=("www.resolver.test",),
        allow_private_archives=True,
        request_rate=0.0,
    ).write(data)
    known = assembly.registry(data, new=True)
    every = [
        Listed(parse_ibi(service_of(each.number)), f"127.0.0.1:{each.port}", (), confirmed=True, since=_SINCE)
        for each in around
    ]
    known.mirror("these Archives", every, _SINCE)
    known.close()
