"""When a client counts as one that takes no answer, or sends no body: at the very second, and by the byte."""

from __future__ import annotations

import os
import struct
import sys
from typing import Any

import pytest

from ibi.http.server.progress import BodyProgress, Progress, has_unread


class Transport:
    """A connection on which so many bytes wait to be taken."""

    waiting = 0

    def get_write_buffer_size(self) -> int:
        return self.waiting


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Transport:
    monkeypatch.setattr(
        "ibi.http.server.progress._TCP_INFO", None
    )  # as where the system tells no more than what waits
    return Transport()


def watched(transport: Transport) -> Progress:
    return Progress(transport)  # type: ignore[arg-type]  # no more than this is asked of it


def test_a_client_may_take_nothing_for_so_long(transport: Transport) -> None:
    found = watched(transport)
    transport.waiting = 1_000_000
    assert [found.is_stuck(now) for now in (100.0, 129.9, 130.0)] == [False, False, True]


def test_a_byte_or_an_empty_queue_begins_the_silence_anew(transport: Transport) -> None:
    found = watched(transport)
    transport.waiting = 1_000_000
    assert not found.is_stuck(100.0)
    transport.waiting -= 1
    assert [found.is_stuck(now) for now in (129.0, 158.9)] == [False, False]
    transport.waiting = 0
    assert not found.is_stuck(159.0)
    transport.waiting = 1_000_000
    assert [found.is_stuck(now) for now in (200.0, 229.9, 230.0)] == [False, False, True]


@pytest.mark.parametrize(("taken", "stuck"), [(61_440, False), (61_439, True)])
def test_a_client_must_take_so_much_in_each_minute(transport: Transport, taken: int, stuck: bool) -> None:
    found = watched(transport)
    transport.waiting = 10_000_000
    assert not found.is_stuck(0.0)
    for now in (20.0, 40.0, 59.9):
        transport.waiting -= 1
        assert not found.is_stuck(now)
    transport.waiting -= 61_440 - 3
    assert not found.is_stuck(60.0)  # the second minute begins here
    for now in (80.0, 100.0, 119.9):
        transport.waiting -= 1
        assert not found.is_stuck(now)
    transport.waiting -= taken - 3
    assert found.is_stuck(120.0) is stuck


def test_a_body_may_pause_for_so_long() -> None:
    found = BodyProgress()
    assert [found.is_too_slow(5, 5) for _ in range(11)] == [False] * 10 + [True]


@pytest.mark.parametrize(("size", "slow"), [(61 * 1024, False), (61 * 1024 - 1, True)])
def test_a_body_must_bring_so_much_after_a_minute(size: int, slow: bool) -> None:
    found = BodyProgress()
    assert not any(found.is_too_slow(second, 0) for second in range(1, 61))
    assert found.is_too_slow(61, size) is slow


class Socket:
    """What the system tells of a connection: the bytes that its client has acknowledged, among other numbers."""

    def __init__(self, pipe: int = -1) -> None:
        self.acknowledged = self.before = self.after = 0
        self.fails = False
        self.options = list[tuple[int, ...]]()
        self._pipe = pipe

    def getsockopt(self, *option: int) -> bytes:
        self.options.append(option)
        if self.fails:
            raise OSError
        numbers = (self.before, self.acknowledged, self.after)
        return bytes(112) + b"".join(each.to_bytes(8, sys.byteorder) for each in numbers) + bytes(56)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.options.append((level, option, *struct.unpack("ii", value)))
        if self.fails:
            raise OSError

    def fileno(self) -> int:
        return self._pipe


class Connected(Transport):
    """A connection of which the system tells more."""

    def __init__(self, pipe: int = -1) -> None:
        self.waiting = 1_000_000
        self.socket = Socket(pipe)

    def get_extra_info(self, name: str) -> Socket:
        assert name == "socket"
        return self.socket


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_what_a_client_has_acknowledged_counts_and_nothing_else() -> None:
    transport = Connected()
    found = watched(transport)
    assert not found.is_stuck(100.0)
    transport.socket.acknowledged += 1  # although as many bytes as before wait here
    assert [found.is_stuck(now) for now in (129.0, 158.9)] == [False, False]
    transport.socket.before += 1
    transport.socket.after += 1
    transport.waiting -= 1
    assert found.is_stuck(159.0)
    assert set(transport.socket.options) == {(6, 11, 192)}  # TCP_INFO of IPPROTO_TCP
    transport.socket.fails = True  # then the bytes that wait here count
    found = watched(transport)
    assert not found.is_stuck(200.0)
    transport.waiting -= 1
    assert [found.is_stuck(now) for now in (229.0, 258.9, 259.0)] == [False, False, True]


@pytest.mark.parametrize("fails", [False, True])
def test_what_the_system_has_not_sent_is_dropped_with_the_connection(fails: bool) -> None:
    transport = Connected()
    transport.socket.fails = fails
    watched(transport).drop_unsent()
    assert transport.socket.options == [(1, 13, 1, 0)]  # SO_LINGER of SOL_SOCKET: for no second


def test_bytes_that_the_loop_has_not_read_are_seen() -> None:
    reading, writing = os.pipe()
    transport: Any = Connected(reading)
    assert not has_unread(transport)
    os.write(writing, b"x")
    assert has_unread(transport)
    os.read(reading, 1)
    assert not has_unread(transport)
    os.close(reading)
    assert not has_unread(transport)
    os.close(writing)
