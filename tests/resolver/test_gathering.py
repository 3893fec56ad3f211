"""Thanks of the express lane: counted where redirects are given, handed on as there is room, and none is lost."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import Acknowledgment, read_request
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver import gathering
from ibi.resolver.gathering import Gathering, story_of
from ibi.resolver.metrics import Metrics
from ibi.resolver.registry import IncludedArchive
from ibi.resolver.thanks import Thanks
from ibi.transport import AddressPolicy, Client
from proofs.resolver.lending import Archive, archives, item, make_resolver, service_of
from resolver.running import until
from resolver.test_express import lane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

SEED = 7


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.resolver.thanks.GATHERING_SECONDS", 0.01)
    monkeypatch.setattr(gathering, "STAYS", 0.0)


class Giving:
    """What one process gives: redirects to items of an Archive, each with a key of its own to thank with."""

    def __init__(self, folder: Path, archive: Archive, client: Client, most: int) -> None:
        self.client = client
        self.metrics = Metrics(folder)
        self.thanks = Thanks(client, most_per_archive=most)
        self.gathering = Gathering(self.metrics)
        self.metrics.follow(self.gathering, lambda: 1, lambda: 0)
        self.metrics.follow(self.thanks, lambda: 1, lambda: 0)
        address = f"127.0.0.1:{archive.port}"
        self.included = IncludedArchive(
            parse_ibi(service_of(0)), address, "", "HTTP", "1", "", confirmed=True
        )
        self.archives: tuple[IncludedArchive, ...] = (self.included,)
        self.gathering.follow(self.thanks, lambda: self.archives)

    def give(self, number: int, readers: int, check: int = 1) -> None:
        name, message = item(0, number), message_of(number, check)
        given = self.gathering.under_way.get(name.encode())
        if given is None or given.check != check:
            given = self.gathering.begin(name.encode(), check, self.included, message.query(), ("192.0.2.1",))
        assert given is not None
        given.readers += readers
        self.gathering.given += readers
        self.gathering.stories[story_of(1, "right")] += readers

    def told(self, name: str) -> int:
        lines = self.metrics.text().decode().splitlines()
        return round(
            sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"ibi_resolver_{name}"))
        )


def message_of(number: int, check: int = 1) -> Acknowledgment:
    name, key = item(0, number), str(1_000_000_000 + 1_000 * number + check)
    urls = f"http://a.example/{name}", f"http://b.example/{name}"
    return Acknowledgment(("192.0.2.9",), ContentType.DATA, State.ORIGINAL, *urls, key)


@asynccontextmanager
async def giving(folder: Path, archive: Archive, most: int = 1_000) -> AsyncIterator[Giving]:
    client = Client(AddressPolicy(allow_private=True))
    made = Giving(folder, archive, client, most)
    try:
        yield made
    finally:
        made.gathering.close()
        await made.thanks.close()
        await client.close()
        made.metrics.close()


def run(play: Callable[..., Coroutine[Any, Any, None]], number: int = 1) -> None:
    """Play it with so many Archives."""
    with archives(number) as around:
        asyncio.run(play(*around))


@pytest.mark.parametrize("quiet", [10**9, 0])
def test_however_many_wait_they_go_on_as_there_is_room_and_none_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: int
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 0.01)
    monkeypatch.setattr(gathering, "QUIET", quiet)
    chance = random.Random(SEED)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive, most=20) as made:
            total = 0
            for _ in range(200):
                readers = chance.choice([1, 1, 5, 250])
                made.give(chance.randrange(60), readers, check=chance.choice([1, 1, 1, 2]))
                total += readers
                if chance.random() < 0.05:
                    await asyncio.sleep(0.01)
                    given = made.gathering.given
                    assert made.thanks.delivered + made.thanks.queued + made.gathering.queued + given == total
            await until(lambda: made.thanks.delivered == total)
            assert archive.thanked == total
            assert archive.letters < 200
            assert made.told("thanks_dropped_total") == 0
            assert made.told("thanks_queued") == 0
            assert (
                made.told('resolutions_total{outcome="redirect"}')
                == made.told("thanks_delivered_total")
                == total
            )

    run(play)


def test_at_the_end_everything_is_handed_on_and_what_has_no_room_is_counted(tmp_path: Path) -> None:
    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive, most=30) as made:
            for number in range(50):
                made.give(number, 3)
        assert made.thanks.delivered == archive.thanked == 90
        assert dict(made.thanks.dropped) == {"too many waiting": 60}
        assert made.gathering.queued == 0

    run(play)


def test_who_has_waited_too_long_or_has_nobody_to_thank_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 0.01)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive) as made:
            monkeypatch.setattr(gathering, "OLDEST", -1.0)
            made.give(1, 4)
            await until(lambda: made.gathering.dropped["too old"] == 4)
            monkeypatch.setattr(gathering, "OLDEST", 600.0)
            given = made.gathering.begin(b"a key", 1, None, "", ("192.0.2.1",))
            assert given is not None
            given.readers += 2
            made.gathering.given += 2
            await until(lambda: made.thanks.dropped["no key to thank with"] == 2)
            assert made.gathering.queued == 0

    run(play)


def test_thanks_of_the_slow_lane_that_find_no_room_wait_here_and_count_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 0.01)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive, most=4) as made:
            for _ in range(3):
                for number in range(30):
                    assert made.gathering.again(made.included, message_of(number))
            await until(lambda: made.thanks.delivered == 90)
            assert (archive.thanked, archive.letters) == (90, 30)

    run(play)


def test_thanks_that_nobody_could_read_again_are_sent_and_stop_no_others(tmp_path: Path) -> None:
    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive) as made:
            long = replace(message_of(0), url="http://bad.example/?" + "&" * 8_000)
            with pytest.raises(ParseError):
                read_request(long.query())
            for message in (long, message_of(1), long, message_of(2)):
                assert made.gathering.again(made.included, message)
        assert (made.gathering.queued, made.thanks.queued) == (0, 0)
        assert made.thanks.delivered + sum(made.thanks.dropped.values()) == 4
        assert archive.thanked >= 2

    run(play)


def test_beyond_the_most_that_are_gathered_nothing_new_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MOST_GATHERED", 1)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive) as made:
            made.give(1, 1)
            assert made.gathering.begin(b"another", 1, None, "", ()) is None
            assert not made.gathering.again(made.included, message_of(2))
            key = next(iter(made.gathering.under_way))
            assert made.gathering.begin(key, 2, None, "", ()) is None  # nor another answer of the same target

    run(play)


def test_who_asks_for_the_same_within_a_moment_is_thanked_for_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "STAYS", 0.3)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive) as made:
            for _ in range(5):
                made.give(1, 1)
                await asyncio.sleep(2 * gathering.EVERY)
                assert len(made.gathering.under_way) == 1
            await until(lambda: made.thanks.delivered == 5)
            assert (archive.letters, archive.thanked) == (1, 5)

    run(play)


class Counting(Thanks):
    """Thanks that tell how often somebody looked whether there is room."""

    looks = 0

    def has_room(self, archive: object) -> bool:
        self.looks += 1
        return super().has_room(archive)  # type: ignore[arg-type]  # whatever it is, it is passed on


@pytest.mark.parametrize("room", [20, 10_000])
def test_of_answers_that_were_replaced_no_look_takes_on_more_than_a_piece_and_all_are_thanked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(gathering, "QUIET", 10)
    monkeypatch.setattr(gathering, "EVERY", 3600.0)  # the looks are ours

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive, most=room) as made:
            thanks = made.thanks = Counting(made.client, most_per_archive=room)
            made.metrics.follow(thanks, lambda: 1, lambda: 0)
            made.gathering.follow(thanks, lambda: made.archives)
            for check in range(100):  # one target, whose answer became another one each time
                made.give(1, 1, check=check)
            most = 0
            while thanks.delivered < 100:
                before = thanks.looks
                made.gathering._look()
                most = max(most, thanks.looks - before)
                await asyncio.sleep(0.001)
            assert 0 < most <= 2 * (10 + 1)
            assert (archive.thanked, made.gathering.queued) == (100, 0)

    run(play)


@pytest.mark.parametrize("at_the_end", [False, True])
def test_thanks_go_to_where_their_archive_is_when_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_the_end: bool
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 3600.0 if at_the_end else 0.01)

    async def play(old: Archive, new: Archive) -> None:
        async with giving(tmp_path, old) as made:
            made.give(1, 3)
            made.archives = (replace(made.included, address=f"127.0.0.1:{new.port}"),)
            if not at_the_end:
                await until(lambda: made.thanks.delivered == 3)
        assert (old.thanked, new.thanked) == (0, 3)

    run(play, 2)


def test_an_archive_that_was_excluded_meanwhile_is_not_thanked_and_that_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 0.01)

    async def play(archive: Archive) -> None:
        async with giving(tmp_path, archive) as made:
            made.give(1, 3)
            made.archives = ()
            await until(lambda: made.thanks.dropped["no longer included"] == 3)
            assert made.told('thanks_dropped_total{reason="no longer included"}') == 3
            assert (archive.thanked, made.gathering.queued) == (0, 0)

    run(play)


def test_a_resolver_thanks_an_archive_that_has_moved_at_its_new_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "EVERY", 3600.0)  # so that all waits until the resolver stops
    with archives(2) as (old, new):
        make_resolver(tmp_path, [old])
        with lane(tmp_path, [old]) as made:
            made.warm(item(0, 1))
            for _ in range(5):
                assert made.given(item(0, 1)) is not None
            new.number = old.number  # the same Archive, elsewhere
            made.include(new)
        assert (old.thanked, new.thanked) == (made.taken[False], made.taken[True])
