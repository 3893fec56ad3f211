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
hints = HintCache(Path(sys.argv[1]))
own = sys.argv[2]
print("open", flush=True)
sys.stdin.readline()
for number in range(300):
    hints.remember([f"{own}/{number}"], likely=f"service/{own}", original=f"service/{number % 7}")
hints.remember(["shared"], likely=f"service/{own}", original=f"service/{own}")
hints.close()
print("done", flush=True)
"""

NEVER_ENDS = """
import sys
from pathlib import Path
from ibi.resolver.cache.hints import HintCache
hints = HintCache(Path(sys.argv[1]))
print("begun", flush=True)
number = 0
while True:
    number += 1
    hints.remember([f"{sys.argv[2]}/{number}"], likely=f"service/{number % 100}", original="service/1")
"""

TAKES_ALL_READERS = """
import lmdb, sys
environment = lmdb.Environment(sys.argv[1], map_size=1 << 30)
readers = []
try:
    while True:
        readers.append(environment.begin())
except lmdb.ReadersFullError:
    print("begun", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hints"


@pytest.fixture
def hints(path: Path) -> Iterator[HintCache]:
    hints = HintCache(path)
    yield hints
    hints.close()


def filled(path: Path, count: int = 3_000) -> None:
    hints = HintCache(path)
    hints.remember((f"item/{number}" for number in range(count)), likely="service/a", original="service/b")
    hints.close()


@pytest.mark.proves("ARC-12", "CON-05")
def test_what_was_seen_of_an_item_is_remembered_under_all_its_names(hints: HintCache) -> None:
    assert hints.of("rep/1") == NOWHERE
    hints.remember(["rep/1", "ibip/1"], likely="service/a")
    assert hints.of("rep/1") == HolderHint("service/a", None)
    hints.flush()
    assert hints.of("rep/1") == hints.of("ibip/1") == HolderHint("service/a", None)
    assert hints.of("rep/2") == NOWHERE


def test_the_last_hint_counts_and_the_first_original_stays_until_it_is_moved(hints: HintCache) -> None:
    for name in ("waits to be written", "is in the file"):
        wait: Callable[[], object] = hints.flush if name == "is in the file" else int
        hints.remember([name], likely="service/a", original="service/a")
        wait()
        hints.remember([name], likely="service/b", original="service/b")
        assert hints.of(name) == HolderHint("service/b", "service/a")
        wait()
        assert hints.of(name) == HolderHint("service/b", "service/a")
        hints.moved([name], "service/c")
        assert hints.of(name) == HolderHint("service/c", "service/c")
        wait()
        hints.remember([name], likely="service/a", original="service/a")
        assert hints.of(name) == HolderHint("service/a", "service/c")
    hints.flush()
    for name in ("waits to be written", "is in the file"):
        assert hints.of(name) == HolderHint("service/a", "service/c")


def test_where_several_have_claimed_an_original_none_counts_as_its_holder_any_more(hints: HintCache) -> None:
    for wait in (lambda _: None, HintCache.flush):
        name, new = f"item {wait.__name__}", f"new {wait.__name__}"
        hints.remember([name], likely="service/a", original="service/a")
        wait(hints)
        hints.dispute([name, new])
        for each in (name, new):
            wait(hints)
            hints.remember([each], likely="service/b", original="service/b")
            assert hints.of(each) == HolderHint("service/b", "")
        assert hints.first_holder(name) == "service/a"
    hints.flush()
    assert hints.of("item flush") == hints.of("new <lambda>") == HolderHint("service/b", "")
    assert hints.first_holder("item <lambda>") == hints.first_holder("item flush") == "service/a"
    assert hints.first_holder("unknown") is None


def test_an_early_hint_is_so_until_the_next_one(hints: HintCache) -> None:
    for wait in (lambda _: None, HintCache.flush):
        name = f"item {wait.__name__}"
        hints.remember([name], likely="service/a", early=True)
        wait(hints)
        assert hints.of(name) == HolderHint("service/a", None, early=True)
        hints.remember([name], original="service/b")
        wait(hints)
        assert hints.of(name) == HolderHint("service/a", "service/b", early=True)
        hints.remember([name], likely="service/a")
        wait(hints)
        assert hints.of(name) == HolderHint("service/a", "service/b")


def test_hints_are_there_after_a_restart(path: Path) -> None:
    long_name = "x" * 512
    first = HintCache(path)
    first.remember([long_name], likely=f"service/{long_name}", original="service/b")
    first.close()
    second = HintCache(path)
    assert second.of(long_name) == HolderHint(f"service/{long_name}", "service/b")
    second.close()


def test_several_processes_write_to_one_file_and_read_what_the_others_wrote(
    path: Path, hints: HintCache
) -> None:
    with process(REMEMBERS, path, "a") as first, process(REMEMBERS, path, "b") as second:
        writers = (first, second)
        assert [read_line(writer) for writer in writers] == ["open", "open"]
        for writer in writers:
            tell(writer)
        hints.remember((f"c/{number}" for number in range(300)), likely="service/c", original="service/3")
        assert [read_line(writer) for writer in writers] == ["done", "done"]
    hints.flush()
    for number in range(300):
        assert hints.of(f"a/{number}") == HolderHint("service/a", f"service/{number % 7}")
        assert hints.of(f"b/{number}") == HolderHint("service/b", f"service/{number % 7}")
        assert hints.of(f"c/{number}") == HolderHint("service/c", "service/3")
    assert hints.of("shared").original in {"service/a", "service/b"}


def test_a_writer_that_is_killed_damages_nothing_and_blocks_no_process(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(5)
    hints = HintCache(path)
    hints.remember(["before"], likely="service/a")
    hints.flush()
    for number in range(3):
        with process(NEVER_ENDS, path, number) as writer:
            assert read_line(writer) == "begun"
            until(lambda: hints.of(f"{number}/1").original == "service/1")  # noqa: B023 - waited for in the loop
            time.sleep(chance.random() / 10)
            writer.kill()
            writer.wait()
        hints.remember([f"after {number}"], likely="service/b")
        hints.flush()
        assert hints.of("before") == HolderHint("service/a", None)
    hints.close()
    assert verify(path) == []  # type: ignore[no-untyped-call]  # it has no annotations
    again = HintCache(path)
    assert [again.of(f"after {number}").likely for number in range(3)] == ["service/b"] * 3
    again.close()
    assert caplog.messages == []


def test_no_process_waits_for_a_writer_and_what_is_too_much_is_dropped(path: Path, hints: HintCache) -> None:
    hints.remember(["known"], likely="service/a")
    hints.flush()
    with process(HOLDS_THE_LOCK, path) as holder:
        assert read_line(holder) == "begun"
        # The thread has taken a batch at most, before all were put or meanwhile.
        count = MOST_WAITING + BATCH + 100
        hints.remember((f"item/{number}" for number in range(count)), likely="service/a")
        dropped = hints.dropped
        assert 100 <= dropped <= 100 + BATCH
        assert hints.of("known") == hints.of("item/0") == HolderHint("service/a", None)
        assert hints.of(f"item/{count - 1}") == NOWHERE
        tell(holder)
        hints.flush()
    assert hints.of(f"item/{MOST_WAITING - 1}") == HolderHint("service/a", None)
    assert sum(hints.of(f"item/{number}") == NOWHERE for number in range(count)) == hints.dropped == dropped


def test_beyond_its_size_some_hints_give_way_and_nothing_fails(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    most = 1536 * 1024
    hints = HintCache(path, most_bytes=most)
    for start in range(0, 40_000, 10_000):
        names = [f"item/{number}" for number in range(start, start + 10_000)]
        hints.remember(names, likely="service/a")
        hints.flush()
    held = sum(hints.of(f"item/{number}").likely == "service/a" for number in range(40_000))
    assert 5_000 < held < 35_000
    hints.remember(["the last"], likely="service/a")
    hints.flush()
    assert hints.of("the last").likely == "service/a"
    with looking_into(path) as file:
        assert file.used("hints", "services") <= most * 1.5
    assert hints.dropped == 0
    hints.close()
    assert (path / "data.mdb").stat().st_size <= most + store.SPARE
    assert caplog.messages == []


def test_a_map_that_is_full_because_of_an_endless_read_loses_hints_and_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPARE", 256 * 1024)
    hints = HintCache(path, most_bytes=256 * 1024)
    with looking_into(path) as file, file.reading():
        until(lambda: _dropped(hints, 500) > 0)
        until(lambda: _dropped(hints, 1) == 1)  # each is counted
    hints.remember(["after"], likely="service/a")
    hints.flush()
    assert hints.of("after").likely == "service/a"
    hints.close()


def _dropped(hints: HintCache, number: int) -> int:
    """How many of so many new hints are dropped."""
    before = hints.dropped
    hints.remember((f"{random.random()}" for _ in range(number)), likely="service/a")
    hints.flush()
    return hints.dropped - before


def test_a_removal_is_that_of_the_holder_and_no_other_one_inherits_it(path: Path) -> None:
    """While the evidence cannot be written, no new holder is stored; nor is the removal by such a holder."""
    recorded = threading.Event()
    hints = HintCache(path, recorded=recorded.is_set)
    recorded.set()
    hints.remember(["moved"], original="service/a")
    hints.flush()
    recorded.clear()
    hints.remember(["new"], original="service/a")
    hints.removed(["new"], "service/a")
    hints.moved(["moved"], "service/b")
    hints.removed(["moved"], "service/b")
    hints.flush()
    assert hints.of("new") == NOWHERE
    assert hints.of("moved").removed is False
    recorded.set()
    for wait in (lambda _: None, HintCache.flush):
        hints.remember(["new"], likely="service/b", original="service/b")
        wait(hints)
        assert hints.of("new") == HolderHint("service/b", "service/b")
    recorded.clear()
    hints.removed(["new"], "service/b")  # it is known to be the holder
    hints.flush()
    assert hints.of("new").removed is True
    hints.close()


def test_a_removal_without_a_holder_in_an_older_file_is_inherited_by_none(hints: HintCache) -> None:
    hints.say_removed(["item"], "service/a")
    hints.flush()
    name = "removed service/a item"  # a row of that kind
    assert hints.of(name) == HolderHint(None, None, removed=True)
    for wait in (lambda _: None, HintCache.flush):
        hints.remember([name], original="service/b")
        wait(hints)
        assert hints.of(name) == HolderHint(None, "service/b")


@pytest.mark.parametrize("damage", [garbage, cut, empty_pages])
def test_a_damaged_file_is_moved_aside_with_one_line_in_the_log(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # the second time there is one aside already
        filled(path)
        damage(path)
        caplog.clear()
        hints = HintCache(path)
        assert hints.of("item/1") == NOWHERE
        hints.remember(["item/2"], likely="service/a")
        hints.flush()
        assert hints.of("item/2") == HolderHint("service/a", None)
        hints.close()
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "moved to hints.damaged, and replaced by an empty one" in caplog.text
        assert sorted(each.name for each in path.parent.iterdir()) == ["hints", "hints.damaged", "hints.door"]


@pytest.mark.parametrize("damage", [empty_pages, empty_leaves])
def test_damage_while_it_is_in_use_is_noticed_and_the_others_follow(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled(path)
    hints = HintCache(path)
    assert hints.of("item/1") == HolderHint("service/a", "service/b")
    with process(REMEMBERS, path, "a") as other:
        assert read_line(other) == "open"
        damage(path)
        hints.of("item/2")  # whatever it says
        hints.remember(["item/3"], likely="service/c")
        until((path.parent / "hints.damaged").exists)
        hints.flush()
        tell(other)  # it has the damaged file open still
        assert read_line(other) == "done"
    assert hints.of("a/17") == HolderHint("service/a", "service/3")
    hints.remember(["item/4"], likely="service/c")
    hints.flush()
    assert hints.of("item/4") == HolderHint("service/c", None)
    assert len(caplog.records) == 1
    hints.close()


def test_hints_that_cannot_be_read_are_not_complete_and_no_error(path: Path) -> None:
    hints = HintCache(path)
    with hints.filling():
        pass
    with process(TAKES_ALL_READERS, path) as reader:
        assert read_line(reader) == "begun"
        assert not hints.is_complete()
    hints.close()
    again = HintCache(path)
    assert again.is_complete()
    again.close()


def test_hints_of_which_some_were_lost_while_they_were_filled_are_not_complete(path: Path) -> None:
    hints = HintCache(path)
    with pytest.raises(KeyboardInterrupt), hints.filling():
        raise KeyboardInterrupt
    assert not hints.is_complete()
    with hints.filling(), process(HOLDS_THE_LOCK, path) as holder:
        assert read_line(holder) == "begun"
        hints.remember((f"item/{number}" for number in range(MOST_WAITING + BATCH + 1)), original="service/a")
        assert hints.dropped > 0
        tell(holder)
    assert not hints.is_complete()
    with hints.filling():
        hints.remember(["item/1"], original="service/a")
    assert hints.is_complete()
    hints.close()


def test_looking_up_while_the_file_is_opened_again_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BETWEEN", 0.0)
    filled(path)
    hints = HintCache(path)
    ended = threading.Event()
    faults: list[BaseException] = []

    def look() -> None:
        try:
            while not ended.is_set():
                assert hints.of("item/1") in {NOWHERE, HolderHint("service/a", "service/b")}
        except BaseException as fault:  # noqa: BLE001 - told to the test
            faults.append(fault)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(40):
        path.rename(path.with_name(f"aside {number}"))
        hints.remember(["item/1"], likely="service/a", original="service/b")
        hints.flush()  # the thread that writes has opened the new file
    ended.set()
    thread.join()
    assert faults == []
    assert hints.of("item/1") == HolderHint("service/a", "service/b")
    hints.close()


def test_a_file_that_is_larger_than_it_may_be_by_now_takes_new_hints(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 15_000)
    monkeypatch.setattr(store, "SPARE", 64 * 1024)
    hints = HintCache(path, most_bytes=64 * 1024)
    until(lambda: _dropped(hints, 500) >= 0 and hints.of("item/1").likely is None)
    for number in range(100):
        hints.remember([f"new/{number}"], likely="service/b")
    hints.flush()
    assert hints.of("new/99").likely == "service/b"
    hints.close()


def test_a_folder_that_cannot_be_used_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SetupError, match="cannot be used"):
        HintCache(tmp_path / "file" / "hints")


@pytest.mark.usefixtures("hints")
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


def test_what_is_shared_is_for_its_owner_only(path: Path, hints: HintCache) -> None:
    hints.remember(["item"], likely="service/a")
    assert {each.stat().st_mode & 0o077 for each in (path / "data.mdb", path / "lock.mdb")} == {0}
    assert lmdb.version() >= (0, 9, 36)


@pytest.mark.parametrize(("missing", "expected"), [(0, HolderHint("service/a", None)), (1, NOWHERE)])
def test_hints_go_only_when_they_take_more_pages_than_they_may(
    path: Path, missing: int, expected: HolderHint
) -> None:
    """One hint takes two pages: one of names, one of Archives."""
    hints = HintCache(path, 2 * os.sysconf("SC_PAGE_SIZE") - missing)
    hints.remember(["item/1"], likely="service/a")
    hints.flush()
    assert hints.of("item/1") == expected
    hints.close()
