"""Cached redirects end when any process forgets, replaces or drops one of the answers that they were made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
from support.resolver.shared_files import process, read_line, tell

if TYPE_CHECKING:
    from pathlib import Path

    from support.resolver.clock import Clock

A, B = "archive/a", "archive/b"
ABOUT, OTHER = "item/1 getUrl ", "item/2 getUrl "

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
    if verb == "put":
        memory.put(archive, f"{name} getUrl ", b"another one", 60.0)
        memory.flush()
    print("done", flush=True)
"""


def made(memory: AnswerCache) -> CachedRedirect:
    """A redirect that rests on both answers."""
    versions = RedirectCache(memory.leases, 1 << 20).versions(("item/1", "item/2"), ((A, False), (B, False)))
    assert versions is not None
    now = memory.moment
    return CachedRedirect(
        b"an answer", (b"",), 1, b"", 0, b"", now.real - 60, now.real + 600, math.inf, *versions
    )


def holds(memory: AnswerCache, redirect: CachedRedirect) -> bool:
    return RedirectCache(memory.leases, 1 << 20).seconds_left(redirect, memory.moment) > 0


@pytest.mark.parametrize(
    "line", [f"forget|{A}|item/1", f"forget|{A}|", f"forget|{B}|item/2", f"forget|{B}|", f"put|{A}|item/1"]
)
def test_whatever_of_its_answers_goes_in_another_process_it_may_not_be_used_when_that_returns(
    path: Path, memory: AnswerCache, line: str
) -> None:
    memory.put(A, ABOUT, b"one", 60.0)
    memory.flush()
    with process(OTHER_PROCESS, path) as other:
        assert read_line(other) == "open"
        for _ in range(3):
            redirect = made(memory)
            assert holds(memory, redirect)
            tell(other, line)
            assert read_line(other) == "done"
            assert not holds(memory, redirect)


def test_to_forget_another_item_or_archive_leaves_it(memory: AnswerCache) -> None:
    redirect = made(memory)
    memory.forget_changed(A, ["item/10", "item/3"])
    memory.forget("archive/c", None)
    assert holds(memory, redirect)
    memory.forget_changed("archive/c", ["item/2"])  # news of another holder counts, too
    assert not holds(memory, redirect)


def test_an_answer_that_is_not_believed_takes_its_redirects_away(memory: AnswerCache, clock: Clock) -> None:
    memory.put(A, ABOUT, b"one", 60.0)
    redirect = made(memory)
    memory.drop(B, OTHER)  # it is not cached
    assert holds(memory, redirect)
    memory.drop(A, ABOUT)
    assert not holds(memory, redirect)
    assert memory.answer(A, ABOUT) is None
    assert clock.now


def test_an_answer_in_the_place_of_another_takes_its_redirects_away(memory: AnswerCache) -> None:
    redirect = made(memory)
    memory.put(A, ABOUT, b"the first one", 60.0)
    memory.flush()
    assert holds(memory, redirect)
    memory.put(A, ABOUT, b"another one", 60.0)
    memory.flush()
    assert not holds(memory, redirect)
