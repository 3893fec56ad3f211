"""Holdings filters at the resolver: fetched, shared by processes through files, and never trusted."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from rbloom import Bloom

from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client, ClientLimits
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.holdings import HoldingsFilter, number_of
from ibi.resolver.cache import filters
from ibi.resolver.cache.filters import HoldingsFilters
from ibi.resolver.model.archive import Archive
from support.resolver.running_resolver import until
from support.stream_server import StreamServer

NAME, OTHER = "a.example/b/2010/01.01.00.00", "a.example/b/2011/01.01.00.00"


def page_of(*names: str) -> bytes:
    bloom = Bloom(max(100, len(names)), 0.001, int)
    bloom.update(map(number_of, names))
    saved = bloom.save_bytes()
    return HoldingsFilter(len(names), int.from_bytes(saved[:8], "little"), saved[8:]).text()


@dataclass
class Publisher:
    """An Archive that only publishes a filter: `page`, under a tag; dripping if `slow`."""

    number: int
    page: bytes = b""
    status: int = 200
    tag: str = '"1"'
    slow: bool = False
    etags: list[str] = field(default_factory=list)
    """The tag that came with each request, "" for none."""
    port: int = 0

    async def __aenter__(self) -> Self:
        self._server = StreamServer(self._serve, port=self.port)
        await self._server.start()
        self.port = self._server.port
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    @property
    def service(self) -> str:
        return self.archive.service_ibi.canonical

    @property
    def archive(self) -> Archive:
        service = parse_ibi(f"archive{self.number}.example/w/2020/01.01.00.00")
        return Archive(
            service, f"127.0.0.1:{self.port}", "127.0.0.1", "HTTP", "1", "a@b.example", confirmed=True
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("GET /-/holdings HTTP/1.1\r\n")
        tags = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("If-None-Match")]
        self.etags.append(tags[0] if tags else "")
        known = tags == [self.tag]
        status, body = (304, b"") if known else (self.status, self.page)
        length = "" if known else f"content-length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\netag: {self.tag}\r\n{length}connection: close\r\n\r\n".encode())
        try:
            for byte in body if self.slow else b"":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(b"" if self.slow else body)
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(filters, "EVERY", 0.02)


def known_in(
    folder: Path, archives: Sequence[Archive] = (), away: Callable[[], Sequence[str]] = tuple
) -> HoldingsFilters:
    """The filters as one process knows them."""
    return HoldingsFilters(
        folder,
        lambda: archives,
        lambda: Client(AddressPolicy(allow_private=True), limits=filters.LIMITS),
        time.time,
        away,
    )


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@asynccontextmanager
async def fetching(folder: Path, *publishers: Publisher) -> AsyncIterator[HoldingsFilters]:
    """A first process that fetches the filters of these Archives, which answer."""
    async with AsyncExitStack() as stack:
        for each in publishers:
            await stack.enter_async_context(each)
        known = known_in(folder, [each.archive for each in publishers])
        running = asyncio.create_task(known.run())
        try:
            yield known
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_those_whose_filter_has_the_name_may_hold_it_as_all_processes_know(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, two = Publisher(1, page_of(NAME)), Publisher(2, page_of(NAME, OTHER))
        another_process = known_in(tmp_path / "filters")
        async with fetching(tmp_path / "filters", one, two) as known:
            for each in (known, another_process):
                await until(lambda: len(each.may_hold(NAME)) == 2)  # noqa: B023 - waited for within the round
                assert sorted(each.may_hold(NAME)) == [one.service, two.service]
                assert each.may_hold(OTHER) == [two.service]
                assert each.may_hold("a.example/b/2012/01.01.00.00") == []
        assert sorted(known_in(tmp_path / "filters").may_hold(NAME)) == [one.service, two.service]

    asyncio.run(scenario())


def test_a_filter_is_fetched_again_only_when_it_has_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        one = Publisher(1, page_of(NAME))
        async with fetching(tmp_path, one) as known:
            await until(lambda: len(one.etags) > 3)
            assert one.etags[:3] == ["", '"1"', '"1"']
            assert known.may_hold(OTHER) == []
            one.page, one.tag = page_of(NAME, OTHER), '"2"'
            await until(lambda: known.may_hold(OTHER))
        one.etags.clear()
        async with fetching(tmp_path, one) as known:  # after a restart
            assert known.may_hold(OTHER) == [one.service]
            await until(lambda: one.etags)
            assert one.etags[0] == '"2"'

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (
            b"ibi-holdings 1 names=9 hashes=9 bits=800\n" + b"\xff" * 100,
            "wrongly matches 1000 of 1000 random names",
        ),
        (b"ibi-holdings 1 names=9 hashes=1 bits=800\n" + b"\x01" * 100, "random names"),
        (b"ibi-holdings 1 names=9 hashes=9 bits=800\n" + b"\0" * 99, "do not fit together"),
        (b"<html>" + b"\0" * 99, "does not begin with the line"),
        (page_of(NAME) + bytes(200_000), "larger than 100000 bytes"),
    ],
)
def test_an_odd_filter_is_not_used_and_its_archive_is_not_asked_again(
    tmp_path: Path, page: bytes, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "LIMITS", ClientLimits(body=100_000))

    async def scenario() -> None:
        odd, good = Publisher(1, page), Publisher(2, page_of(NAME))
        async with fetching(tmp_path, odd, good) as known:
            await until(lambda: len(good.etags) > 3)
            assert len(odd.etags) == 1
            assert known.may_hold(NAME) == [good.service]
        assert len(files_in(tmp_path)) == 1
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert why in caplog.text
        assert str(odd.archive.service_ibi) in caplog.text

    asyncio.run(scenario())


def test_a_filter_that_becomes_odd_is_no_longer_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        one = Publisher(1, page_of(NAME))
        async with fetching(tmp_path, one) as known:
            await until(lambda: known.may_hold(NAME))
            one.page, one.tag = page_of(NAME)[:-1], '"2"'
            await until(lambda: not known.may_hold(NAME))

    asyncio.run(scenario())


def test_an_archive_without_a_filter_is_not_asked_again_and_one_that_makes_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        without, making = Publisher(1, status=404), Publisher(2, status=503)
        async with fetching(tmp_path, without, making) as known:
            await until(lambda: len(making.etags) > 3)
            assert len(without.etags) == 1
            making.status, making.page = 200, page_of(NAME)
            await until(lambda: known.may_hold(NAME))
            assert caplog.records == []

    asyncio.run(scenario())


def test_a_slow_archive_delays_no_other_and_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(filters, "FETCH_SECONDS", 0.5)

    async def scenario() -> None:
        slow, good = Publisher(1, page_of(NAME) + bytes(1000), slow=True), Publisher(2, page_of(NAME))
        async with fetching(tmp_path, slow, good) as known:
            await until(lambda: known.may_hold(NAME) == [good.service])
            await until(lambda: "too slowly" in caplog.text)
            count = len(good.etags)
            await until(lambda: len(good.etags) > count + 2)
            assert len(slow.etags) == 1

    asyncio.run(scenario())


def test_an_archive_that_is_away_is_asked_again_and_its_filter_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        one = Publisher(1, page_of(NAME))
        async with fetching(tmp_path, one) as known:
            await until(lambda: known.may_hold(NAME))
            await one.__aexit__()
            count = len(one.etags)
            await asyncio.sleep(0.1)
            assert known.may_hold(NAME) == [one.service]
            async with one:
                await until(lambda: len(one.etags) > count)
            assert known.may_hold(NAME) == [one.service]

    asyncio.run(scenario())


def test_filters_together_may_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(filters, "MOST_BYTES", 3 * len(page_of(NAME)) // 2)

    async def scenario() -> None:
        one, two = Publisher(1, page_of(NAME)), Publisher(2, status=503)
        async with fetching(tmp_path, one, two) as known:
            await until(lambda: known.may_hold(NAME))
            two.page, two.status = page_of(NAME), 200
            await until(lambda: "all filters together" in caplog.text)
            assert known.may_hold(NAME) == [one.service]

    asyncio.run(scenario())


def test_what_is_no_filter_in_the_folder_and_who_has_left_is_cleared_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, left = Publisher(1, page_of(NAME)), Publisher(2, page_of(NAME))
        async with fetching(tmp_path, one, left) as known:
            await until(lambda: len(known.may_hold(NAME)) == 2)
        for path in files_in(tmp_path):
            if one.service in path.read_bytes().decode("latin-1"):
                path.write_bytes(path.read_bytes()[:-1])  # as a power cut may leave it
        async with fetching(tmp_path, one) as known:
            await until(lambda: known.may_hold(NAME) == [one.service])
            await until(lambda: len(files_in(tmp_path)) == 1)

    asyncio.run(scenario())


@pytest.mark.proves("ARC-12")
def test_the_filter_of_an_archive_that_is_excluded_and_may_be_back_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = tmp_path / "filters"
        async with Publisher(1, page_of(NAME)) as one:
            archives, away = [one.archive], list[str]()
            known = known_in(folder, archives, lambda: away)
            running = asyncio.create_task(known.run())
            service = one.archive.service
            await until(lambda: known.may_hold(NAME) == [service])
            away.append(service)
            archives.clear()
            await asyncio.sleep(0.1)
            assert known_in(folder).may_hold(NAME) == [service]
            away.clear()  # it has left for good
            await until(lambda: not files_in(folder))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be used"):
        known_in(tmp_path / "file" / "filters")


def test_the_folder_is_read_by_one_thread_at_a_time(tmp_path: Path) -> None:
    """Else what a slow one has found would take the place of what a later one has."""

    def readers() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "filters"]

    known = known_in(tmp_path)
    os.mkfifo(tmp_path / "slow.filter")
    end = time.monotonic() + 20
    while not readers() and time.monotonic() < end:
        known.refresh()
    (first,) = readers()
    for number in range(3):
        (tmp_path / f"{number}.filter").write_bytes(b"none")
        time.sleep(filters.LOOK_EVERY * 1.5)
        known.refresh()
        assert readers() == [first]
    (tmp_path / "slow.filter").write_bytes(b"none")
    first.join(20)
    assert not first.is_alive()


def test_no_more_than_four_filters_are_fetched_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        publishers = [Publisher(number, page_of(NAME), slow=True) for number in range(7)]
        async with fetching(tmp_path, *publishers):
            await until(lambda: sum(len(each.etags) for each in publishers) >= filters.AT_ONCE)
            await asyncio.sleep(0.1)  # the others would have come by now
            assert sum(len(each.etags) for each in publishers) == filters.AT_ONCE

    asyncio.run(scenario())
