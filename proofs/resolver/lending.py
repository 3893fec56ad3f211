"""Archives for the proofs of the fast path: their answers may be reused, and they count acknowledgments.

The name of an item tells how each of them answers: an item of 2021 is held and reusable, one of 2022 is held and must
be requested each time, one of 2023 was removed, one of 2024 has translations; others are unknown.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.app.resolver import open_registry
from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol import vocabulary as words
from ibi.protocol.messages import Acknowledgment, UrlRequest, read_request
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.replies import AcknowledgmentReceived, Confirmation
from ibi.protocol.url_list import Entry, entry_pairs
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.resolver.registry.published_list import ListedArchive
from ibi.runtime.settings import ResolverSettings
from support.http_answers import answer
from support.scripted_archive import ScriptedServer

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


class Archive(ScriptedServer):
    """One Archive: `letters` are the acknowledgments it got, for `acknowledged` readers; `twice` came a second time.

    `seconds`: how long an answer may be used again; `place`: the host of the URLs that it tells; `garbled`: whether
    nothing that it answers can be read; `metadata`: the URL of the BibTeX of every item, "" for none.
    """

    def __init__(self, number: int) -> None:
        super().__init__(self._reply)
        self.number = number
        self.seconds = 3600
        self.place = "files.example"
        self.garbled = False
        self.metadata = ""
        self.answers = self.queries = self.letters = self.acknowledged = self.twice = 0
        self._events: set[str] = set()

    def _reply(self, head: bytes) -> bytes:
        if self.garbled:
            return answer(b"{")
        try:
            request = read_request(head.split(b" ", 2)[1].decode().partition("?")[2])
        except ParseError:
            return answer(b"error")
        if isinstance(request, Acknowledgment):
            self._acknowledge(request)
            return answer(AcknowledgmentReceived().body())
        if not isinstance(request, UrlRequest):
            return answer(Confirmation().body())
        self.queries += 1
        name = str(request.ibi).lower()
        year = int(name.split("/")[2]) if name.count("/") > 2 and name.startswith(f"a{self.number}.") else 0
        if year not in {2021, 2022, 2023, 2024}:
            return answer(b"")
        reusable = year in {2021, 2024}
        body = write_pairs(self._pairs(str(request.ibi), year, reusable=reusable))
        more = (f"Cache-Control: max-age={self.seconds}",) if reusable and self.seconds else ()
        return answer(body, *more)

    def _acknowledge(self, message: Acknowledgment) -> None:
        self.letters += 1
        if message.event and message.event in self._events:
            self.twice += 1
            return
        self._events.add(message.event)
        self.acknowledged += message.count

    def _pairs(self, name: str, year: int, *, reusable: bool) -> PairList:
        self.answers += 1
        forms, state = IBIForms.of(parse_ibi(name)), ItemState.DELETED if year == 2023 else ItemState.ORIGINAL
        about: PairList = {
            words.ARCHIVE_ADDRESS: f"127.0.0.1:{self.port}",
            words.ARCHIVE_SERVICE: ("rep", service_of(self.number)),
            **({words.ACKNOWLEDGMENT_BATCH: "yes"} if reusable else {}),
        }
        url = f"http://{self.place}/{self.number}/{name}"
        entry = Entry(None if state is ItemState.DELETED else url, forms, state, ContentType.DATA, _SINCE)
        pairs = about | entry_pairs(ITEM, entry) | {words.URL_KEY: f"{1_000_000_000 + self.answers}"}
        if self.metadata:
            pairs |= entry_pairs(
                Relation.from_modifier(":(bibtex)"), entry._replace(url=self.metadata, forms=None)
            )
        for language in ("pt", "en", "pt-BR") if year == 2024 else ():
            relation = Relation.from_modifier(f"+({language})")
            pairs |= entry_pairs(relation, entry._replace(url=f"{url}?{language}", forms=None))
        return pairs


@contextmanager
def archives(count: int) -> Iterator[list[Archive]]:
    """So many, in a thread of their own until the end of the block."""
    made, ready = [Archive(number) for number in range(count)], threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def work() -> None:
        for archive in made:
            await archive.open()
        ready.set()
        await stop.wait()
        for archive in made:
            await archive.close()

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
    known = open_registry(data, new=True)
    every = [
        ListedArchive(
            parse_ibi(service_of(each.number)), f"127.0.0.1:{each.port}", (), confirmed=True, since=_SINCE
        )
        for each in around
    ]
    known.mirror("these Archives", every, _SINCE)
    known.close()
