"""Who holds what: hints that survive, are shared by processes, and give way when there are too many."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import TYPE_CHECKING

import lmdb
import pytest
from lmdb.verify import verify

from ibi.errors import SetupError
from ibi.resolver.cache import store
from ibi.resolver.cache.hints import HintCache, HolderHint
from ibi.resolver.cache.store import BATCH, MOST_WAITING
from support.resolver.shared_files import (
    HOLDS_THE_LOCK,
    cut,
    empty_leaves,
    empty_pages,
    garbage,
    looking_into,
    process,
    read_line,
    tell,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOWHERE = HolderHint(None, None)

REMEMBERS = """
import sys
from pathlib import Path
from ibi.resolver.cache.hints import HintCache
index = HintCache(Path(sys.argv[1]))
own = sys.argv[2]
print("open", flush=True)
sys.stdin.readline()
for number in range(300):
    index.remember([f"{own}/{number}"], hint=f"service/{own}", original=f"service/{number % 7}")
index.remember(["shared"], hint=f"service/{own}", original=f"service/{own}")
index.close()
print("done", flush=True)
"""

NEVER_ENDS = """
import sys
from pathlib import Path
from ibi.resolver.cache.hints import HintCache
index = HintCache(Path(sys.argv[1]))
print("begun", flush=True)
number = 0
while True:
    number += 1
    index.remember([f"{sys.argv[2]}/{number}"], hint=f"service/{number % 100}", original="service/1")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hints"


@pytest.fixture
def index(path: Path) -> Iterator[HintCache]:
    index = HintCache(path)
    yield index
    index.close()


def filled(path: Path, count: int = 3_000) -> None:
    index = HintCache(path)
    index.remember((f"item/{number}" for number in range(count)), hint="service/a", original="service/b")
    index.close()


@pytest.mark.proves("ARC-12", "CON-05")
def test_what_was_seen_of_an_item_is_remembered_under_all_its_names(index: HintCache) -> None:
    assert index.of("rep/1") == NOWHERE
    index.remember(["rep/1", "ibip/1"], hint="service/a")
    assert index.of("rep/1") == HolderHint("service/a", None)
    index.settle()
    assert index.of("rep/1") == index.of("ibip/1") == HolderHint("service/a", None)
    assert index.of("rep/2") == NOWHERE


def test_the_last_hint_counts_and_the_first_original_stays_until_it_is_moved(index: HintCache) -> None:
    for name in ("waits to be written", "is in the file"):
        wait: Callable[[], object] = index.settle if name == "is in the file" else int
        index.remember([name], hint="service/a", original="service/a")
        wait()
        index.remember([name], hint="service/b", original="service/b")
        assert index.of(name) == HolderHint("service/b", "service/a")
        wait()
        assert index.of(name) == HolderHint("service/b", "service/a")
        index.moved([name], "service/c")
        assert index.of(name) == HolderHint("service/c", "service/c")
        wait()
        index.remember([name], hint="service/a", original="service/a")
        assert index.of(name) == HolderHint("service/a", "service/c")
    index.settle()
    for name in ("waits to be written", "is in the file"):
        assert index.of(name) == HolderHint("service/a", "service/c")


def test_where_several_have_claimed_an_original_none_counts_as_its_holder_any_more(index: HintCache) -> None:
    for wait in (lambda _: None, HintCache.settle):
        name, new = f"item {wait.__name__}", f"new {wait.__name__}"
        index.remember([name], hint="service/a", original="service/a")
        wait(index)
        index.dispute([name, new])
        for each in (name, new):
            wait(index)
            index.remember([each], hint="service/b", original="service/b")
            assert index.of(each) == HolderHint("service/b", "")
        assert index.first(name) == "service/a"
    index.settle()
    assert index.of("item settle") == index.of("new <lambda>") == HolderHint("service/b", "")
    assert index.first("item <lambda>") == index.first("item settle") == "service/a"
    assert index.first("unknown") is None


def test_an_early_hint_is_so_until_the_next_one(index: HintCache) -> None:
    for wait in (lambda _: None, HintCache.settle):
        name = f"item {wait.__name__}"
        index.remember([name], hint="service/a", early=True)
        wait(index)
        assert index.of(name) == HolderHint("service/a", None, early=True)
        index.remember([name], original="service/b")
        wait(index)
        assert index.of(name) == HolderHint("service/a", "service/b", early=True)
        index.remember([name], hint="service/a")
        wait(index)
        assert index.of(name) == HolderHint("service/a", "service/b")


def test_hints_are_there_after_a_restart(path: Path) -> None:
    long_name = "x" * 512
    first = HintCache(path)
    first.remember([long_name], hint=f"service/{long_name}", original="service/b")
    first.close()
    second = HintCache(path)
    assert second.of(long_name) == HolderHint(f"service/{long_name}", "service/b")
    second.close()


def test_several_processes_write_to_one_file_and_read_what_the_others_wrote(
    path: Path, index: HintCache
) -> None:
    with process(REMEMBERS, path, "a") as first, process(REMEMBERS, path, "b") as second:
        writers = (first, second)
        assert [read_line(writer) for writer in writers] == ["open", "open"]
        for writer in writers:
            tell(writer)
        index.remember((f"c/{number}" for number in range(300)), hint="service/c", original="service/3")
        assert [read_line(writer) for writer in writers] == ["done", "done"]
    index.settle()
    for number in range(300):
        assert index.of(f"a/{number}") == HolderHint("service/a", f"service/{number % 7}")
        assert index.of(f"b/{number}") == HolderHint("service/b", f"service/{number % 7}")
        assert index.of(f"c/{number}") == HolderHint("service/c", "service/3")
    assert index.of("shared").original in {"service/a", "service/b"}


def test_a_writer_that_is_killed_damages_nothing_and_blocks_no_process(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(5)
    index = HintCache(path)
    index.remember(["before"], hint="service/a")
    index.settle()
    for number in range(3):
        with process(NEVER_ENDS, path, number) as writer:
            assert read_line(writer) == "begun"
            until(lambda: index.of(f"{number}/1").original == "service/1")  # noqa: B023 - waited for in the loop
            time.sleep(chance.random() / 10)
            writer.kill()
            writer.wait()
        index.remember([f"after {number}"], hint="service/b")
        index.settle()
        assert index.of("before") == HolderHint("service/a", None)
    index.close()
    assert verify(path) == []  # type: ignore[no-untyped-call]  # it has no annotations
    again = HintCache(path)
    assert [again.of(f"after {number}").hint for number in range(3)] == ["service/b"] * 3
    again.close()
    assert caplog.messages == []


def test_no_process_waits_for_a_writer_and_what_is_too_much_is_dropped(path: Path, index: HintCache) -> None:
    index.remember(["known"], hint="service/a")
    index.settle()
    with process(HOLDS_THE_LOCK, path) as holder:
        assert read_line(holder) == "begun"
        # The thread has taken a batch at most, before all were put or meanwhile.
        count = MOST_WAITING + BATCH + 100
        index.remember((f"item/{number}" for number in range(count)), hint="service/a")
        dropped = index.dropped
        assert 100 <= dropped <= 100 + BATCH
        assert index.of("known") == index.of("item/0") == HolderHint("service/a", None)
        assert index.of(f"item/{count - 1}") == NOWHERE
        tell(holder)
        index.settle()
    assert index.of(f"item/{MOST_WAITING - 1}") == HolderHint("service/a", None)
    assert sum(index.of(f"item/{number}") == NOWHERE for number in range(count)) == index.dropped == dropped


def test_beyond_its_size_some_hints_give_way_and_nothing_fails(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    most = 1536 * 1024
    index = HintCache(path, most_bytes=most)
    for start in range(0, 40_000, 10_000):
        names = [f"item/{number}" for number in range(start, start + 10_000)]
        index.remember(names, hint="service/a")
        index.settle()
    held = sum(index.of(f"item/{number}").hint == "service/a" for number in range(40_000))
    assert 5_000 < held < 35_000
    index.remember(["the last"], hint="service/a")
    index.settle()
    assert index.of("the last").hint == "service/a"
    with looking_into(path) as file:
        assert file.used("hints", "services") <= most * 1.5
    assert index.dropped == 0
    index.close()
    assert (path / "data.mdb").stat().st_size <= most + store.SPARE
    assert caplog.messages == []


def test_a_map_that_is_full_because_of_an_endless_read_loses_hints_and_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPARE", 256 * 1024)
    index = HintCache(path, most_bytes=256 * 1024)
    with looking_into(path) as file, file.reading():
        until(lambda: _one_more(index) and index.dropped > 0)
    index.remember(["after"], hint="service/a")
    index.settle()
    assert index.of("after").hint == "service/a"
    index.close()


def _one_more(index: HintCache) -> bool:
    index.remember((f"{random.random()}" for _ in range(500)), hint="service/a")
    index.settle()
    return True


@pytest.mark.parametrize("damage", [garbage, cut, empty_pages])
def test_a_damaged_file_is_moved_aside_with_one_line_in_the_log(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # the second time there is one aside already
        filled(path)
        damage(path)
        caplog.clear()
        index = HintCache(path)
        assert index.of("item/1") == NOWHERE
        index.remember(["item/2"], hint="service/a")
        index.settle()
        assert index.of("item/2") == HolderHint("service/a", None)
        index.close()
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "moved to hints.damaged and begun anew" in caplog.text
        assert sorted(each.name for each in path.parent.iterdir()) == ["hints", "hints.damaged", "hints.door"]


@pytest.mark.parametrize("damage", [empty_pages, empty_leaves])
def test_damage_while_it_is_in_use_is_noticed_and_the_others_follow(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled(path)
    index = HintCache(path)
    assert index.of("item/1") == HolderHint("service/a", "service/b")
    with process(REMEMBERS, path, "a") as other:
        assert read_line(other) == "open"
        damage(path)
        index.of("item/2")  # whatever it says
        index.remember(["item/3"], hint="service/c")
        until((path.parent / "hints.damaged").exists)
        index.settle()
        tell(other)  # it has the damaged file open still
        assert read_line(other) == "done"
    assert index.of("a/17") == HolderHint("service/a", "service/3")
    index.remember(["item/4"], hint="service/c")
    index.settle()
    assert index.of("item/4") == HolderHint("service/c", None)
    assert len(caplog.records) == 1
    index.close()


def test_looking_up_while_the_file_is_opened_again_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BETWEEN", 0.0)
    filled(path)
    index = HintCache(path)
    ended = threading.Event()
    faults: list[BaseException] = []

    def look() -> None:
        try:
            while not ended.is_set():
                assert index.of("item/1") in {NOWHERE, HolderHint("service/a", "service/b")}
        except BaseException as fault:  # noqa: BLE001 - told to the test
            faults.append(fault)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(40):
        path.rename(path.with_name(f"aside {number}"))
        index.remember(["item/1"], hint="service/a", original="service/b")
        index.settle()  # the thread that writes has opened the new file
    ended.set()
    thread.join()
    assert faults == []
    assert index.of("item/1") == HolderHint("service/a", "service/b")
    index.close()


def test_a_file_that_is_larger_than_it_may_be_by_now_takes_new_hints(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 15_000)
    monkeypatch.setattr(store, "SPARE", 64 * 1024)
    index = HintCache(path, most_bytes=64 * 1024)
    until(lambda: _one_more(index) and index.of("item/1").hint is None)
    for number in range(100):
        index.remember([f"new/{number}"], hint="service/b")
    index.settle()
    assert index.of("new/99").hint == "service/b"
    index.close()


def test_a_folder_that_cannot_be_used_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SetupError, match="cannot be used"):
        HintCache(tmp_path / "file" / "hints")


@pytest.mark.usefixtures("index")
def test_readers_that_were_killed_are_forgotten(path: Path) -> None:
    reads = """
import lmdb, sys
environment = lmdb.Environment(sys.argv[1], map_size=1 << 30, max_dbs=4)
reading = environment.begin()
print("begun", flush=True)
sys.stdin.readline()
"""
    with looking_into(path) as file:
        with process(reads, path) as reader:
            assert read_line(reader) == "begun"
            assert str(reader.pid) in file.readers()
            reader.kill()
            reader.wait()
        until(lambda: str(reader.pid) not in file.readers())


def test_what_is_shared_is_for_its_owner_only(path: Path, index: HintCache) -> None:
    index.remember(["item"], hint="service/a")
    assert {each.stat().st_mode & 0o077 for each in (path / "data.mdb", path / "lock.mdb")} == {0}
    assert lmdb.version() >= (0, 9, 36)


@pytest.mark.parametrize(("missing", "expected"), [(0, HolderHint("service/a", None)), (1, NOWHERE)])
def test_hints_go_only_when_they_take_more_pages_than_they_may(
    path: Path, missing: int, expected: HolderHint
) -> None:
    """One hint takes two pages: one of names, one of Archives."""
    index = HintCache(path, 2 * os.sysconf("SC_PAGE_SIZE") - missing)
    index.remember(["item/1"], hint="service/a")
    index.settle()
    assert index.of("item/1") == expected
    index.close()
