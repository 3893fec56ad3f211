"""Entries that wait to be written: how many may wait, in which batches they are written, which count as lost."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache import store
from ibi.resolver.cache.store import WriteBehind

if TYPE_CHECKING:
    from collections.abc import Iterator


class Writer:
    """Writes batches, of which each waits until it may; of `lost` it writes none, and `faults` it cannot."""

    def __init__(self) -> None:
        self.batches: list[dict[bytes, str]] = []
        self.began, self.may_go = threading.Semaphore(0), threading.Semaphore(0)
        self.tended = 0

    def write(self, batch: dict[bytes, str]) -> int:
        self.batches.append(dict(batch))
        self.began.release()
        assert self.may_go.acquire(timeout=30)
        if b"fault" in batch:
            raise LookupError
        return len(batch) - (b"lost" in batch)

    def tend(self) -> None:
        self.tended += 1

    def go(self, batches: int = 1_000) -> None:
        for _ in range(batches):
            self.may_go.release()

    def wait(self) -> None:
        """Wait until one more batch is being written."""
        assert self.began.acquire(timeout=30)


@contextmanager
def behind(writer: Writer) -> Iterator[WriteBehind[str]]:
    made: WriteBehind[str] = WriteBehind(
        "answers", writer.write, writer.tend, lambda old, new: f"{old}+{new}"
    )
    yield made
    writer.go()
    made.close()
    assert [each for each in threading.enumerate() if each.name == "answers"] == []


def test_entries_of_one_key_are_one_among_what_waits_and_what_is_being_written() -> None:
    writer = Writer()
    with behind(writer) as made:
        assert [(each.name, each.daemon) for each in threading.enumerate() if each.name == "answers"] == [
            ("answers", True)
        ]
        assert made.pending(b"a") is None
        made.put(b"a", "1")
        writer.wait()
        assert (made.pending(b"a"), made.pending(b"b")) == ("1", None)
        for value in "23":
            made.put(b"a", value)
        made.put(b"b", "4")
        assert (made.pending(b"a"), made.pending(b"b"), made.dropped) == ("1+2+3", "4", 0)
        writer.go(1)
        writer.wait()
        assert (made.pending(b"a"), made.pending(b"b")) == ("2+3", "4")
        writer.go()
        made.flush()
        assert (made.pending(b"a"), made.pending(b"b"), made.dropped) == (None, None, 0)
    assert writer.batches == [{b"a": "1"}, {b"a": "2+3", b"b": "4"}]


def test_so_many_entries_and_bytes_may_wait_and_further_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "MOST_WAITING", 3)
    monkeypatch.setattr(store, "MOST_WAITING_BYTES", 10)
    writer = Writer()
    with behind(writer) as made:
        made.put(b"first", "", 10)
        writer.wait()  # what is being written does not wait
        for key, size in (
            (b"a", 4),
            (b"b", 6),
            (b"c", 1),
            (b"a", 5),
            (b"b", 3),
            (b"a", 7),
            (b"c", 0),
            (b"d", 0),
        ):
            made.put(key, f"{size}", size)
        assert [made.pending(key) for key in (b"a", b"b", b"c", b"d")] == ["4+7", "6+3", "0", None]
        assert made.dropped == 3
        writer.go()
        made.flush()
        made.put(b"d", "10", 10)
        made.flush()
        assert made.dropped == 3
    assert writer.batches[:2] == [{b"first": ""}, {b"a": "4+7", b"b": "6+3", b"c": "0"}]


def test_a_whole_batch_is_written_at_once_and_the_rest_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "BATCH", 3)
    monkeypatch.setattr(store, "BETWEEN", 20.0)
    writer = Writer()
    with behind(writer) as made:
        made.put(b"0", "")
        writer.wait()
        for number in range(1, 8):
            made.put(b"%d" % number, "")
        began = time.monotonic()
        writer.go()
        for _ in range(2):
            writer.wait()
        assert time.monotonic() - began < 15
        assert not writer.began.acquire(timeout=0.2)  # one entry waits for others
        monkeypatch.setattr(store, "BETWEEN", 0.01)
        made.put(b"8", "")
        made.put(b"9", "")  # which make a whole batch
        writer.wait()
        assert time.monotonic() - began < 15
        made.flush()
    assert [b"".join(batch) for batch in writer.batches] == [b"0", b"123", b"456", b"789"]


def test_what_was_not_written_is_counted_and_a_fault_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    writer.go()
    with behind(writer) as made:
        made.put(b"lost", "")
        made.flush()
        assert made.dropped == 1
        made.put(b"fault", "")
        made.flush()
        assert made.dropped == 2
        made.put(b"well", "")
        made.flush()
        assert (made.dropped, len(writer.batches)) == (2, 3)
    made.put(b"late", "")
    assert (made.dropped, made.pending(b"late")) == (3, None)
    assert [each.getMessage() for each in caplog.records] == [
        "what was to be remembered could not be written"
    ]


def test_what_waits_at_the_end_is_written_and_the_file_is_tended_each_second() -> None:
    writer = Writer()
    writer.go()
    with behind(writer) as made:
        made.put(b"a", "1")
        made.flush()
        began = time.monotonic()
        while not writer.tended:
            assert time.monotonic() < began + 30
            time.sleep(0.01)
        assert time.monotonic() > began + 0.5
        made.put(b"b", "2")
    assert writer.batches == [{b"a": "1"}, {b"b": "2"}]
