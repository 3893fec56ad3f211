"""Cached redirects go with the answers that they were made of: forgotten, replaced, expired, in any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache import redirects, rows
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.redirects import SourceAnswer
from ibi.resolver.cache.rows import CachedAnswer
from ibi.runtime.generation_counter import UNKNOWN
from support.resolver.clock import Clock
from support.resolver.shared_files import looking_into, process, read_line, tell, until

if TYPE_CHECKING:
    from pathlib import Path

A, B = "archive/a", "archive/b"
ABOUT, OTHER = "item/1 getUrl ", "item/2 getUrl "
KEY = b"a mark: /item/1"

OTHER_PROCESS = """
import sys
from pathlib import Path
from ibi.resolver.cache.answers import AnswerCache
memory = AnswerCache(Path(sys.argv[1]), lambda: 1_800_000_000.0)
print("open", flush=True)
for line in sys.stdin:
    verb, archive, name = line.rstrip("\\n").split("|")
    if verb == "forget":
        memory.forget(archive, name or None)
    print("done", flush=True)
"""

BEGINS_ANEW = """
import sys
from pathlib import Path
from ibi.resolver.cache import answers, rows
from ibi.resolver.cache.store import SharedFile
SharedFile(Path(sys.argv[1]), 2 * answers.MOST_BYTES, rows.TABLES).mend(anew=True)
print("done", flush=True)
"""

IS_KILLED = """
import os, sys
from pathlib import Path
from ibi.resolver.cache import answers, rows
from ibi.resolver.cache.store import SharedFile

class Counter:
    def __init__(self, numbers):
        self.numbers, self._real = self, numbers

    def __setitem__(self, index, number):
        self._real[index] = number
        os.kill(os.getpid(), 9)

file = SharedFile(Path(sys.argv[1]), 2 * answers.MOST_BYTES, rows.TABLES)
with file.opened.writing(Counter(file.counter.numbers)) as transaction:
    transaction.drop(file.opened.tables[0])
    if sys.argv[2] == "at work":
        os.kill(os.getpid(), 9)
"""


def begun_anew(path: Path) -> None:
    """Another process moves the file aside, and begins a new one."""
    with process(BEGINS_ANEW, path) as other:
        assert read_line(other) == "done"


def killed(path: Path, when: str) -> None:
    """Another process drops all answers, and is killed before its commit: "at work", or when it was "shown" already."""
    with process(IS_KILLED, path, when) as other:
        assert other.wait() == -9


def source(memory: AnswerCache, archive: str, question: str) -> SourceAnswer:
    kept = memory.answer(archive, question)
    assert kept is not None
    answer = CachedAnswer(kept.body, kept.heard, kept.fresh_until, 0.0)
    return SourceAnswer(rows.key_of(archive, question), answer)


def make(memory: AnswerCache, *sources: tuple[str, str], key: bytes = KEY) -> None:
    """Put a redirect in the cache, made of these answers, which are kept for a minute."""
    for archive, question in sources:
        memory.put(archive, question, f"{archive} {question}".encode(), 60.0)
    memory.flush()
    memory.redirects.put(key, 1, [source(memory, *each) for each in sources], b"an answer", b"thanks")
    memory.flush()


def found(memory: AnswerCache, clock: Clock, key: bytes = KEY) -> bytes | None:
    redirect = memory.redirects.find(key, clock.now)
    return redirect[0] if redirect else None


def test_a_redirect_is_cached_as_long_as_its_answers_may_be_used_and_no_moment_longer(
    memory: AnswerCache, clock: Clock
) -> None:
    memory.put(B, OTHER, b"for half a minute", 30.0)
    make(memory, (A, ABOUT))
    memory.flush()
    both = [source(memory, A, ABOUT), source(memory, B, OTHER)]
    memory.redirects.put(b"both", 1, both, b"of both", b"")
    memory.flush()
    clock.now += 29.9
    assert (found(memory, clock), found(memory, clock, b"both")) == (b"an answer", b"of both")
    clock.now += 0.1
    assert (found(memory, clock), found(memory, clock, b"both")) == (b"an answer", None)
    clock.now += 30
    assert found(memory, clock) is None


def test_a_redirect_is_withheld_while_one_of_its_archives_is(memory: AnswerCache, clock: Clock) -> None:
    calls: list[bool] = []
    memory.redirects.on_withheld = lambda: calls.append(True)
    make(memory, (A, ABOUT), (B, OTHER))
    memory.redirects.put(b"of one", 1, [source(memory, A, ABOUT)], b"an answer", b"")
    memory.flush()
    assert found(memory, clock) == b"an answer"
    memory.redirects.withhold({B})
    assert (found(memory, clock), found(memory, clock, b"of one")) == (None, b"an answer")
    assert (memory.redirects.withholds(A), memory.redirects.withholds(B)) == (False, True)
    memory.redirects.withhold(())
    assert found(memory, clock) == b"an answer"
    assert len(calls) == 2


def test_what_was_heard_before_the_clock_was_set_back_is_not_given(memory: AnswerCache, clock: Clock) -> None:
    make(memory, (A, ABOUT))
    clock.now -= redirects.CLOCK_BACK
    assert found(memory, clock) == b"an answer"
    clock.now -= 1
    assert found(memory, clock) is None


@pytest.mark.parametrize(("archive", "name"), [(A, "item/1"), (A, None), (B, "item/2"), (B, None)])
def test_whatever_of_its_answers_is_forgotten_by_another_process_it_is_gone_when_that_returns(
    path: Path, memory: AnswerCache, clock: Clock, archive: str, name: str | None
) -> None:
    with process(OTHER_PROCESS, path) as other:
        assert read_line(other) == "open"
        for _ in range(3):
            make(memory, (A, ABOUT), (B, OTHER))
            assert found(memory, clock) == b"an answer"
            tell(other, f"forget|{archive}|{name or ''}")
            assert read_line(other) == "done"
            assert found(memory, clock) is None
            clock.now += 1


def test_to_forget_another_item_or_archive_leaves_it(memory: AnswerCache, clock: Clock) -> None:
    make(memory, (A, ABOUT))
    memory.forget_changed(A, ["item/10", "item/2"])
    memory.forget(B, None)
    assert found(memory, clock) == b"an answer"


def test_an_answer_in_the_place_of_another_takes_its_redirects_away(
    memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT))
    memory.put(A, ABOUT, b"another one", 60.0)
    memory.flush()
    assert found(memory, clock) is None


def test_a_redirect_from_an_answer_that_is_no_longer_kept_is_never_cached(
    memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT), key=b"first")
    before = [source(memory, A, ABOUT)]
    memory.put(A, ABOUT, b"another one", 60.0)
    memory.flush()
    memory.redirects.put(KEY, 1, before, b"of the one before", b"")
    memory.flush()
    assert found(memory, clock) is None
    now = [source(memory, A, ABOUT)]
    memory.forget(A, None)
    memory.redirects.put(KEY, 1, now, b"forgotten", b"")
    memory.redirects.put(b"no sources", 1, [], b"of nothing", b"")
    memory.flush()
    assert (found(memory, clock), found(memory, clock, b"no sources")) == (None, None)


def test_a_file_that_another_process_has_replaced_is_no_longer_read(
    path: Path, memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT))
    assert found(memory, clock) == b"an answer"
    begun_anew(path)
    assert found(memory, clock) is None
    until(lambda: _keeps(memory))  # it has followed
    make(memory, (A, ABOUT))
    assert found(memory, clock) == b"an answer"


def _keeps(memory: AnswerCache) -> bool:
    memory.put(B, OTHER, b"for the new file", 60.0)
    return memory.answer(B, OTHER) is not None


def test_after_a_restart_it_is_still_there(path: Path, clock: Clock) -> None:
    first = AnswerCache(path, clock)
    make(first, (A, ABOUT))
    first.close()
    second = AnswerCache(path, clock)
    second.redirects.prefetch()
    assert found(second, clock) == b"an answer"
    second.close()


def test_of_one_answer_only_so_many_are_made(memory: AnswerCache, clock: Clock) -> None:
    make(memory, (A, ABOUT))
    for number in range(2 * redirects.MOST_OF_AN_ANSWER):
        memory.redirects.put(b"%d" % number, 1, [source(memory, A, ABOUT)], b"an answer", b"")
    memory.flush()
    keys = [KEY, *(b"%d" % number for number in range(2 * redirects.MOST_OF_AN_ANSWER))]
    assert sum(found(memory, clock, key) is not None for key in keys) == redirects.MOST_OF_AN_ANSWER
    memory.forget(A, "item/1")
    assert not any(found(memory, clock, key) for key in keys)


def test_beyond_its_size_all_give_way_and_come_again(path: Path, clock: Clock) -> None:
    memory = AnswerCache(path, clock, most_bytes=1024 * 1024)
    for number in range(600):
        about = f"item/{number} getUrl "
        memory.put(A, about, b"x", 60.0)
        memory.redirects.put(b"%d" % number, 1, [source(memory, A, about)], bytes(3_000), b"")
        if number % 50 == 0:
            memory.flush()
    memory.flush()
    with looking_into(path) as file:
        assert file.used(*rows.TABLES[2:]) <= 1024 * 1024
    make(memory, (A, ABOUT))
    assert found(memory, clock) == b"an answer"
    memory.close()


def test_a_row_in_which_one_bit_has_turned_is_none(path: Path, memory: AnswerCache, clock: Clock) -> None:
    make(memory, (A, ABOUT))
    with looking_into(path) as file:
        row = bytearray(file.read("redirects", KEY))
        row[row.index(b"an answer")] ^= 1
        file.write("redirects", KEY, bytes(row))
        assert found(memory, clock) is None
        file.write("redirects", KEY, b"none of ours")
        assert found(memory, clock) is None


def test_a_redirect_may_be_given_again_only_while_no_process_has_written(
    memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT))
    assert found(memory, clock) == b"an answer"
    state = memory.redirects.state()
    assert state != UNKNOWN
    assert memory.redirects.file_numbers[1] == state
    memory.forget(B, None)
    assert memory.redirects.file_numbers[1] != state
    assert memory.redirects.state() == UNKNOWN
    assert found(memory, clock) == b"an answer"
    assert memory.redirects.state() == memory.redirects.file_numbers[1]


def test_a_write_of_another_process_is_shown_before_it_returns(
    memory: AnswerCache, clock: Clock, path: Path
) -> None:
    make(memory, (A, ABOUT))
    with process(OTHER_PROCESS, path) as other:
        assert read_line(other) == "open"
        for archive, name in ((B, ""), (A, "item/7"), (A, "item/1")):
            found(memory, clock)
            assert memory.redirects.state() != UNKNOWN
            tell(other, f"forget|{archive}|{name}")
            assert read_line(other) == "done"
            assert memory.redirects.state() == UNKNOWN
        begun_anew(path)
        assert memory.redirects.state() == UNKNOWN
        assert found(memory, clock) is None


def test_a_writer_that_is_killed_before_its_commit_leaves_no_redirect_to_be_given_again(
    path: Path, memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT))
    found(memory, clock)
    state = memory.redirects.state()
    killed(path, "at work")
    assert memory.redirects.state() == state
    killed(path, "shown")
    for _ in range(2):
        assert found(memory, clock) == b"an answer"
        assert memory.redirects.state() == UNKNOWN
    memory.forget(B, None)  # bears the number that was shown for nothing
    assert found(memory, clock) == b"an answer"
    assert memory.redirects.state() == memory.redirects.file_numbers[1]


def test_what_comes_when_there_are_enough_of_an_answer_takes_the_place_of_another(
    memory: AnswerCache, clock: Clock
) -> None:
    make(memory, (A, ABOUT))
    for number in range(2 * redirects.MOST_OF_AN_ANSWER):
        memory.redirects.put(b"%d" % number, 1, [source(memory, A, ABOUT)], b"an answer", b"")
        memory.flush()
        assert found(memory, clock, b"%d" % number) == b"an answer"
