"""What several threads and processes do to one shared file at once, and to what waits to be written into it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from operator import add
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache import store
from ibi.resolver.cache.store import SharedFile, WriteBehind
from ibi.runtime.durable_files import locked_file
from support.concurrency.threads import switching_often, together, until_waiting, waiting, waits_for

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BETWEEN", 0.0)


def nothing() -> None:
    """What needs tending: nothing."""


class Key(bytes):
    """A key that lets other threads run whenever it is looked up."""

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


def test_what_is_put_by_many_threads_is_written_exactly_once() -> None:
    written = Counter[bytes]()

    def write(batch: dict[bytes, int]) -> int:
        written.update(batch)
        return len(batch)

    behind = WriteBehind("test", write, nothing, merge=add)
    keys = [Key(b"a"), Key(b"b"), Key(b"c")]

    def put(_number: int) -> None:
        for each in range(600):
            behind.put(keys[each % 3], 1, 1)

    with closing(behind), switching_often():
        together(4, put)
    assert written == dict.fromkeys(keys, 800)
    assert behind.dropped == 0


def test_what_was_put_is_found_among_what_waits_or_in_the_file_at_every_moment() -> None:
    file = dict[bytes, int]()

    def write(batch: dict[bytes, int]) -> int:
        file.update(batch)
        return len(batch)

    behind = WriteBehind("test", write, nothing)

    def put(number: int) -> int:
        missed = 0
        for each in range(60):
            key = Key(b"%d %d" % (number, each))
            behind.put(key, each)
            while key not in file:
                # In this order: what is written meanwhile is in the file.
                missed += behind.pending(key) is None and key not in file
        return missed

    with closing(behind), switching_often():
        assert sum(together(3, put)) == 0


@pytest.mark.parametrize("anew", [False, True], ids=["opened", "begun anew"])
def test_a_file_is_opened_by_one_process_at_a_time(tmp_path: Path, anew: bool) -> None:
    path, lock = tmp_path / "shared", tmp_path / "shared.door"

    def opened() -> SharedFile:
        return SharedFile(path, 1 << 20, ["table"])

    file = opened() if anew else waits_for(lock, opened)
    with closing(file):
        if anew:
            waits_for(lock, lambda: file.mend(anew=True))
        assert file.opened is not None
        assert (tmp_path / "shared.damaged").exists() == anew


def test_of_several_threads_that_mend_a_file_one_does_and_the_others_follow(tmp_path: Path) -> None:
    with closing(SharedFile(tmp_path / "shared", 1 << 20, ["table"])) as file:
        (tmp_path / "shared").rename(tmp_path / "aside")
        lock = tmp_path / "shared.door"
        with ThreadPoolExecutor(3) as threads:
            with locked_file(lock):
                mending = [threads.submit(file.mend) for _ in range(3)]
                until_waiting(lock)
                done = [each.done() for each in mending]
                assert (done, waiting(lock)) == ([False] * 3, 1)
            for each in mending:
                each.result(20)
        assert file.opened is not None
        assert not file.replaced()


READS = """
import os, signal, sys
import lmdb
environment = lmdb.Environment(sys.argv[1], max_readers=16)
with environment.begin():
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    print(flush=True)
    sys.stdin.read()
"""


def test_the_places_of_readers_that_were_killed_are_freed_when_a_file_is_opened(tmp_path: Path) -> None:
    """Else a place is lost with each, until none can read; and LMDB keeps all that was there when they read."""
    path = tmp_path / "shared"
    SharedFile(path, 1 << 20, ["table"]).close()
    command = [sys.executable, "-c", READS, str(path)]
    with subprocess.Popen([*command, "reads"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        killed = subprocess.Popen([*command, "dies"])
        killed.wait()
        with closing(SharedFile(path, 1 << 20, ["table"])) as file:
            assert file.opened is not None
            readers = file.opened.environment.readers()
        assert str(reader.pid) in readers
        assert str(killed.pid) not in readers
        reader.communicate()
