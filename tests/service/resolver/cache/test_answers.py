"""What Archives allow to use again: fresh, stale, expired; and what was forgotten is never answered again."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest
from lmdb.verify import verify

from ibi.resolver.cache import rows as memory_rows
from ibi.resolver.cache import store
from ibi.resolver.cache.answers import LONGEST_BODY, STALE_SECONDS, AnswerCache, LeaseTerms
from ibi.resolver.cache.lease_table import NAME_SLOTS, name_slot
from support.checks.full_disk import files_of_at_most
from support.resolver.clock import BEGIN, Clock
from support.resolver.shared_files import (
    HOLDS_THE_LOCK,
    cut,
    empty_pages,
    garbage,
    looking_into,
    process,
    read_line,
    tell,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import Popen

A, B = "archive/a", "archive/b"
ANSWERS = memory_rows.TABLES[0]
QUESTION = "item/1 getUrl x.pdf"

FORGETS = """
import sys
from pathlib import Path
from ibi.resolver.cache.answers import AnswerCache
memory = AnswerCache(Path(sys.argv[1]), lambda: 1_800_000_000.0)
print("open", flush=True)
for line in sys.stdin:
    verb, archive, question = line.rstrip("\\n").split("|")
    if verb == "forget":
        memory.forget(archive, question or None)
    elif verb == "keep":
        memory.put(archive, question, b"of the other process", 60.0)
    kept = memory.answer(archive, question)
    print(kept.body.decode() if kept else "nothing", flush=True)
"""

NEVER_ENDS = """
import sys, time
from pathlib import Path
from ibi.resolver.cache.answers import AnswerCache
memory = AnswerCache(Path(sys.argv[1]), lambda: 1_800_000_000.0)
print("begun", flush=True)
number = 0
while True:
    number += 1
    time.sleep(0)  # the thread that writes needs its turns
    memory.put("archive/a", f"item/{number % 50} getUrl", bytes([number % 256]) * 30_000, 60.0)
"""


def body(memory: AnswerCache, archive: str = A, question: str = QUESTION) -> bytes | None:
    kept = memory.answer(archive, question)
    return kept.body if kept else None


@pytest.mark.parametrize("written", [False, True])
def test_an_answer_is_fresh_and_then_stale_and_then_over(
    memory: AnswerCache, clock: Clock, written: bool
) -> None:
    assert memory.answer(A, QUESTION) is None
    memory.put(A, QUESTION, b"x", 60.0)
    if written:
        memory.flush()
    assert memory.answer(A, QUESTION) == memory_rows.CachedAnswer(
        b"x", BEGIN, BEGIN + 60, BEGIN + 60 + STALE_SECONDS
    )
    assert memory.answer(B, QUESTION) is None
    assert memory.answer(A, "item/1 getUrl y.pdf") is None
    clock.now += 60 + STALE_SECONDS - 1
    assert memory.answer(A, QUESTION) == memory_rows.CachedAnswer(
        b"x", BEGIN, BEGIN + 60, BEGIN + 60 + STALE_SECONDS
    )
    clock.now += 1
    assert memory.answer(A, QUESTION) is None


@pytest.mark.parametrize("length", [0, 1, 3_955, 3_956, 3_957, 7_956, 7_957, 100_000, LONGEST_BODY])
def test_a_body_of_any_length_comes_back_whole(path: Path, memory: AnswerCache, length: int) -> None:
    first, second = random.Random(length).randbytes(length), random.Random(length + 1).randbytes(length // 2)
    memory.put(A, QUESTION, first, 60.0)
    memory.flush()
    assert body(memory) == first
    memory.put(A, QUESTION, second, 60.0)
    memory.flush()
    assert body(memory) == second
    with looking_into(path) as file:
        assert file.rows(ANSWERS) == (44 - 1 + len(second)) // 4_000 + 1


def test_what_is_too_long_or_for_no_time_is_not_kept(memory: AnswerCache) -> None:
    memory.put(A, QUESTION, bytes(LONGEST_BODY + 1), 60.0)
    memory.put(A, "item/2", b"x", 0.0)
    memory.put(A, "item/3", b"x", -1.0)
    assert [body(memory, A, question) for question in (QUESTION, "item/2", "item/3")] == [None] * 3


def test_what_was_kept_before_the_clock_was_set_back_is_not_used(memory: AnswerCache, clock: Clock) -> None:
    memory.put(A, QUESTION, b"x", 60.0)
    memory.flush()
    clock.now -= 30
    assert body(memory) == b"x"
    clock.now -= 3600
    assert body(memory) is None


def test_answers_are_there_after_a_restart(path: Path, clock: Clock) -> None:
    first = AnswerCache(path, clock)
    first.put(A, QUESTION, b"x", 60.0)
    first.close()
    second = AnswerCache(path, clock)
    assert body(second) == b"x"
    second.close()


@pytest.mark.parametrize("written", [False, True])
def test_a_dropped_answer_is_gone_at_once_and_for_good_also_if_the_clock_is_set_back(
    memory: AnswerCache, clock: Clock, written: bool
) -> None:
    other = "item/1 getUrl y.pdf"
    for question in (QUESTION, other):
        memory.put(A, question, b"x", 60.0)
    if written:
        memory.flush()
    memory.drop(A, QUESTION)
    memory.drop(B, QUESTION)  # of which there is none
    assert [body(memory), body(memory, A, other), body(memory, B)] == [None, b"x", None]
    memory.flush()
    clock.now -= 30
    assert [body(memory), body(memory, A, other)] == [None, b"x"]
    assert memory.answers([A, B], QUESTION) == {}
    memory.put(A, QUESTION, b"another", 60.0)
    assert body(memory) == b"another"


@pytest.mark.parametrize("written", [False, True])
def test_forgetting_a_name_drops_every_question_about_it_to_that_archive_only(
    path: Path, memory: AnswerCache, written: bool
) -> None:
    about = [QUESTION, "item/1 getUrl+getMetadata ", "item/1 getUrl other file.pdf"]
    others = [(A, "item/10 getUrl "), (B, QUESTION)]
    for question in about:
        memory.put(A, question, bytes(9_000), 60.0)
    if written:
        memory.flush()
    for archive, question in others:
        memory.put(archive, question, b"x", 60.0)
    memory.flush()
    memory.forget(A, "item/1")
    assert [body(memory, A, question) for question in about] == [None] * 3
    assert [body(memory, *other) for other in others] == [b"x"] * 2
    with looking_into(path) as file:
        assert file.rows(ANSWERS) == 2


def test_forgetting_an_archive_drops_all_of_it_and_nothing_else(memory: AnswerCache) -> None:
    for number in range(20):
        memory.put(A, f"item/{number} ", b"x", 60.0)
        memory.put(B, f"item/{number} ", b"x", 60.0)
    memory.put_not_known(QUESTION, 60.0)
    memory.flush()
    memory.forget(A, None)
    assert [body(memory, A, f"item/{number} ") for number in range(20)] == [None] * 20
    assert [body(memory, B, f"item/{number} ") for number in range(20)] == [b"x"] * 20
    assert memory.is_not_known(QUESTION)
    memory.put(A, QUESTION, b"new", 60.0)
    memory.flush()
    assert body(memory) == b"new"


def test_of_a_name_with_very_many_questions_the_whole_archive_is_forgotten(
    memory: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_rows, "MOST_OF_A_NAME", 10)
    for number in range(30):
        memory.put(A, f"item/1 getUrl {number}", b"x", 60.0)
    memory.put(A, "item/2 getUrl", b"x", 60.0)
    memory.put(B, "item/1 getUrl", b"x", 60.0)
    memory.flush()
    memory.forget(A, "item/1")
    assert [body(memory, A, f"item/1 getUrl {number}") for number in range(30)] == [None] * 30
    assert body(memory, B, "item/1 getUrl") == b"x"


def test_what_was_asked_before_a_forgetting_is_not_kept_after_it(memory: AnswerCache) -> None:
    snapshot = memory.snapshot()
    memory.forget(A, "item/1")
    memory.put(A, QUESTION, b"of before", 60.0, snapshot=snapshot)
    assert body(memory) is None
    memory.flush()
    assert body(memory) is None
    assert memory.dropped == 1
    memory.put(A, QUESTION, b"of after", 60.0, snapshot=memory.snapshot())
    memory.flush()
    assert body(memory) == b"of after"


def test_what_one_archive_had_forgotten_says_nothing_of_another(memory: AnswerCache) -> None:
    snapshot = memory.snapshot()
    memory.forget("archive/b", None)
    memory.put(A, QUESTION, b"of a", 60.0, snapshot=snapshot)
    memory.put("archive/b", QUESTION, b"of b", 60.0, snapshot=snapshot)
    memory.flush()
    assert body(memory) == b"of a"
    assert body(memory, "archive/b") is None


def test_whether_something_was_forgotten_since_a_snapshot_is_known_of_each_archive(
    path: Path, memory: AnswerCache
) -> None:
    with process(FORGETS, path) as other:
        assert read_line(other) == "open"
        snapshot = memory.snapshot()
        assert memory.unchanged(A, snapshot)
        memory.put(A, QUESTION, b"x", 60.0)
        memory.flush()
        assert memory.unchanged(A, snapshot)
        tell(other, f"forget|{B}|item/2")
        assert read_line(other) == "nothing"
        assert (memory.unchanged(A, snapshot), memory.unchanged(B, snapshot)) == (True, False)
        assert memory.unchanged(B, memory.snapshot())
        assert not memory.unchanged(A, memory_rows.Snapshot(-1, -1))


@pytest.mark.parametrize("name", ["item/1", ""])
def test_what_waits_to_be_written_is_forgotten_by_another_process(
    path: Path, memory: AnswerCache, name: str
) -> None:
    with process(FORGETS, path) as other:
        assert read_line(other) == "open"
        for number in range(2):
            memory.put(A, f"item/0 {number}", b"x", 60.0)  # after which the thread that writes takes a rest
            memory.flush()
            memory.put(A, QUESTION, b"of before", 60.0)
            assert body(memory) == b"of before"
            tell(other, f"forget|{A}|{name}")
            assert read_line(other) == "nothing"
            assert body(memory) is None
            memory.flush()
            assert body(memory) is None


def test_an_answer_with_a_position_that_waits_to_be_written_is_forgotten_by_another_process(
    path: Path, memory: AnswerCache
) -> None:
    position = "7.00000000000000aa"
    memory.move_to(A, position)

    def put(text: bytes) -> None:
        terms = LeaseTerms({"changes.asof": position}, memory.moment, 86_400.0, bool)
        memory.put(A, QUESTION, text, 60.0, terms=terms)

    with process(FORGETS, path) as other:
        assert read_line(other) == "open"
        memory.put(A, "item/0", b"x", 60.0)  # after which the thread that writes takes a rest
        memory.flush()
        put(b"of before")
        assert body(memory) == b"of before"
        tell(other, f"forget|{A}|item/1")
        assert read_line(other) == "nothing"
        assert body(memory) is None
        memory.flush()
        assert body(memory) is None
        put(b"of afterwards")
        memory.flush()
        assert body(memory) == b"of afterwards"


def test_an_answer_that_waits_has_the_version_of_its_name(memory: AnswerCache) -> None:
    """`put` has `name_slot` inlined: it must find the same slot, of 65,536 with different versions."""
    position = "7.00000000000000aa"
    memory.move_to(A, position)
    for slot in range(NAME_SLOTS):
        memory.leases.name_versions[slot] = slot
    slots = set()
    for number in range(20):
        name = f"item/{number}"
        terms = LeaseTerms({"changes.asof": position}, memory.moment, 86_400.0, bool)
        memory.put(A, f"{name} getUrl", name.encode(), 60.0, terms=terms)
        assert body(memory, question=f"{name} getUrl") == name.encode()
        slots.add(name_slot(memory_rows.name_digest(name)))
    assert len(slots) > 1


def test_processes_share_what_is_kept_and_what_is_forgotten(path: Path, memory: AnswerCache) -> None:
    with process(FORGETS, path) as other:
        assert read_line(other) == "open"
        tell(other, f"keep|{A}|{QUESTION}")
        assert read_line(other) == "of the other process"
        until(lambda: body(memory) == b"of the other process")
        memory.forget(A, "item/1")
        tell(other, f"answer|{A}|{QUESTION}")
        assert read_line(other) == "nothing"


def test_keeping_and_answering_wait_for_no_other_process(path: Path, memory: AnswerCache) -> None:
    memory.put(A, QUESTION, b"x", 60.0)
    memory.flush()
    with process(HOLDS_THE_LOCK, path) as holder:
        assert read_line(holder) == "begun"
        memory.put(A, "item/2 ", b"y", 60.0)
        memory.put(A, "item/3 ", bytes(LONGEST_BODY), 60.0)
        # 50 MiB: more than may wait, and than a batch that was taken meanwhile and waits for the lock.
        for number in range(200):
            memory.put(A, f"item/4 {number}", bytes(LONGEST_BODY), 60.0)
        assert memory.dropped > 0
        assert body(memory) == b"x"
        assert body(memory, A, "item/2 ") == b"y"
        tell(holder)
        memory.flush()
    assert body(memory, A, "item/2 ") == b"y"


def test_a_negative_answer_is_cached_for_its_seconds_and_until_it_is_deleted(
    memory: AnswerCache, clock: Clock
) -> None:
    assert not memory.is_not_known(QUESTION)
    memory.put_not_known(QUESTION, 60.0)
    memory.put_not_known("item/2 ", 60.0)
    assert memory.is_not_known(QUESTION)
    memory.flush()
    memory.forget(A, None)
    assert memory.is_not_known(QUESTION)
    memory.forget_changed(B, ["item/1"])
    assert not memory.is_not_known(QUESTION)
    assert memory.is_not_known("item/2 ")
    memory.forget_changed(B, None)
    assert not memory.is_not_known("item/2 ")
    snapshot = memory.snapshot()
    memory.put_not_known(QUESTION, 60.0, snapshot)
    clock.now += 59
    assert memory.is_not_known(QUESTION)
    clock.now += 1
    assert not memory.is_not_known(QUESTION)


def test_a_damaged_value_is_as_good_as_none(path: Path, memory: AnswerCache) -> None:
    key = memory_rows.key_of(A, QUESTION)
    with looking_into(path) as file:
        for number, row in ((0, None), (0, b""), (0, b"z" * 30), (1, None), (1, b"x" * 4_000), (2, b"short")):
            memory.put(A, QUESTION, bytes(10_000), 60.0)
            memory.flush()
            assert body(memory) == bytes(10_000)
            file.write(ANSWERS, key + bytes([number]), row)
            assert body(memory) is None


def test_expired_and_deleted_answers_are_removed_over_time(
    path: Path, memory: AnswerCache, clock: Clock
) -> None:
    for number in range(300):
        memory.put(A, f"item/{number} ", b"x", 60.0)
        memory.put_not_known(f"item/{number} ", 60.0)
    memory.put(B, QUESTION, bytes(9_000), 10 * STALE_SECONDS)
    memory.flush()
    with looking_into(path) as file:
        assert file.rows(ANSWERS) == 603
        memory.forget(A, None)
        until(lambda: file.rows(ANSWERS) == 303)
        clock.now += 60
        until(lambda: file.rows(ANSWERS) == 3)
    assert body(memory, B) == bytes(9_000)


def test_beyond_its_size_some_answers_give_way(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    most = 2 * 1024 * 1024
    memory = AnswerCache(path, clock, most_bytes=most)
    chance = random.Random(6)
    for number in range(200):
        memory.put(A, f"item/{number} ", bytes(chance.choice([100, 3_000, LONGEST_BODY])), 60.0)
        if number % 40 == 0:
            memory.flush()
    memory.flush()
    memory.put(A, QUESTION, b"the last", 60.0)
    memory.flush()
    assert body(memory) == b"the last"
    assert memory.dropped == 0
    with looking_into(path) as file:
        assert file.used(*memory_rows.TABLES) < 8 * most  # of 17 MB that were put
    memory.close()
    assert (path / "data.mdb").stat().st_size <= most + store.SPARE
    assert caplog.messages == []


def test_a_map_that_is_full_because_of_an_endless_read_loses_answers_and_goes_on(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPARE", 256 * 1024)
    memory = AnswerCache(path, clock, most_bytes=256 * 1024)
    number = 0
    with looking_into(path) as file, file.reading():
        while memory.dropped == 0:
            number += 1
            memory.put(B, f"item/{number} ", bytes(20_000), 60.0)
            memory.flush()
    memory.put(A, QUESTION, b"after", 60.0)
    memory.flush()
    assert body(memory) == b"after"
    memory.close()


def test_where_the_disk_is_full_all_is_forgotten_rather_than_nothing(
    path: Path, memory: AnswerCache, caplog: pytest.LogCaptureFixture
) -> None:
    memory.put(A, QUESTION, b"x", 1e6)
    memory.put(B, QUESTION, bytes(LONGEST_BODY), 1e6)
    memory.flush()
    with (
        looking_into(path) as file,
        file.reading(),  # no page comes free meanwhile: the file would have to grow
        files_of_at_most((path / "data.mdb").stat().st_size),
    ):
        memory.forget(A, "item/1")
    assert body(memory) is None
    assert "replaced by an empty one" in caplog.text
    memory.put(A, QUESTION, b"after", 60.0)
    memory.flush()
    assert body(memory) == b"after"


def test_answering_while_the_file_is_opened_again_is_no_error(path: Path, memory: AnswerCache) -> None:
    ended = threading.Event()

    def replace() -> None:
        try:
            for number in range(20):
                path.rename(path.with_name(f"aside {number}"))
                memory.forget(B, None)  # which opens the file again, for it must not be kept waiting
                memory.put(A, QUESTION, b"x", 60.0)
        finally:
            ended.set()

    thread = threading.Thread(target=replace)
    thread.start()
    while not ended.is_set():
        assert body(memory) in {None, b"x"}
        time.sleep(0.0001)  # a thread that only reads leaves the other one no turn of the interpreter
        memory.snapshot()
    thread.join()
    memory.put(A, QUESTION, b"x", 60.0)
    memory.flush()
    assert body(memory) == b"x"


def test_a_writer_that_is_killed_leaves_whole_answers_only(path: Path, clock: Clock) -> None:
    chance = random.Random(7)
    for _ in range(3):
        with process(NEVER_ENDS, path) as writer:
            assert read_line(writer) == "begun"
            time.sleep(0.1 + chance.random() / 5)
            writer.kill()
            writer.wait()
    assert verify(path) == []  # type: ignore[no-untyped-call]  # it has no annotations
    memory = AnswerCache(path, clock)
    found = [kept for number in range(50) if (kept := body(memory, A, f"item/{number} getUrl"))]
    assert found
    assert all(kept == kept[:1] * 30_000 for kept in found)
    memory.forget(A, None)
    assert body(memory, A, "item/1 getUrl") is None
    memory.close()


@pytest.mark.parametrize("damage", [garbage, cut, empty_pages])
def test_a_damaged_file_is_created_again(
    path: Path, clock: Clock, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    first = AnswerCache(path, clock)
    for number in range(500):
        first.put(A, f"item/{number} ", bytes(1_000), 60.0)
    first.close()
    damage(path)
    second = AnswerCache(path, clock)
    assert body(second, A, "item/1 ") is None
    second.put(A, QUESTION, b"x", 60.0)
    second.flush()
    assert body(second) == b"x"
    second.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_what_cannot_be_forgotten_in_part_is_forgotten_as_a_whole_by_all_processes(
    path: Path, memory: AnswerCache
) -> None:
    with process(FORGETS, path) as other:
        assert read_line(other) == "open"
        for number in range(500):
            memory.put(A, f"item/{number} ", bytes(1_000), 60.0)
        snapshot = memory.snapshot()
        memory.flush()
        tell(other, f"answer|{A}|item/1 ")
        assert read_line(other) == "\0" * 1_000
        empty_pages(path)
        memory.forget(A, "item/1")
        assert body(memory, A, "item/1 ") is None
        tell(other, f"answer|{A}|item/1 ")
        assert read_line(other) == "nothing"
        assert (path.parent / "answers.damaged").exists()
        memory.put(
            A, QUESTION, b"of before", 60.0, snapshot=snapshot
        )  # a snapshot of another file is not valid here
        memory.flush()
        assert body(memory) is None
        until(lambda: _kept_by(other) and body(memory) == b"of the other process")  # when it has followed


def _kept_by(other: Popen[str]) -> bool:
    tell(other, f"keep|{A}|{QUESTION}")
    return bool(read_line(other))


@pytest.mark.parametrize(("missing", "expected"), [(0, b"x"), (1, None)])
def test_answers_go_only_when_they_take_more_pages_than_they_may(
    tmp_path: Path, clock: Clock, missing: int, expected: bytes | None
) -> None:
    memory = AnswerCache(tmp_path / "small", lambda: clock.now, os.sysconf("SC_PAGE_SIZE") - missing)
    memory.put(A, QUESTION, b"x", 60.0)
    memory.flush()
    assert body(memory) == expected
    memory.close()
