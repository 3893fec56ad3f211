"""Readers who click without a pause, one at each worker of a resolver, and how long they were led wrong."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ADDRESS: Final = "resolver.test"

_PAUSE: Final = 0.01  # seconds between two clicks on all targets
_LOOK: Final = 0.02  # seconds between two looks at what was clicked
_STAYS: Final = 1.0  # seconds after which an idle connection is used, as the resolver would close it
_TIMEOUT: Final = 20.0
_TRIES: Final = 200  # connections until each worker has one
_WARM: Final = 5  # clicks in a row after which a redirect is cached
_LOCAL: Final = "0100007F"  # 127.0.0.1, as /proc/net/tcp writes it


class Click(NamedTuple):
    """A click, when it was sent and answered (`time.perf_counter`), and where it led: a URL, or else the status."""

    target: str
    sent: float
    answered: float
    led: str


@dataclass
class Reader:
    """Clicks on one target after the other, on one connection, and so at one worker of the resolver."""

    line: socket.socket
    clicks: list[Click] = field(default_factory=list)
    targets: Sequence[str] = ()
    failure: BaseException | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _used_at: float = 0.0

    def start(self) -> None:
        """Click from now on."""
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self.line.close()

    def _work(self) -> None:
        try:
            while not self._over.wait(_PAUSE):
                for target in self.targets:
                    self._click(target)
                if not self.targets and time.perf_counter() > self._used_at + _STAYS:
                    self._ask("/robots.txt")
        except BaseException as failure:  # noqa: BLE001 - told by who waits for the clicks
            self.failure = failure

    def _click(self, target: str) -> None:
        sent = time.perf_counter()
        led = self._ask(target)
        self.clicks.append(Click(target, sent, time.perf_counter(), led))

    def _ask(self, target: str) -> str:
        self._used_at = time.perf_counter()
        self.line.sendall(f"GET {target} HTTP/1.1\r\nHost: {ADDRESS}\r\nAccept: */*\r\n\r\n".encode())
        status, location = _read_answer(self.line)
        return location or status


def _read_answer(line: socket.socket) -> tuple[str, str]:
    """The status and the Location of the next answer. Raises ConnectionError."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += _more(line)
    head, _, body = heard.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    left = int(headers.get("content-length", "0")) - len(body)
    while left > 0:
        left -= len(_more(line))
    return first.split()[1], headers.get("location", "")


def _more(line: socket.socket) -> bytes:
    data = line.recv(65_536)
    if not data:
        raise ConnectionError("the resolver closed a connection")
    return data


def judged(clicks: Sequence[Click], change: float, place: str) -> float | None:
    """Seconds from a change until the first of these clicks from which on all led to a place; None if none did."""
    first = None
    for click in clicks:
        if click.sent >= change:
            right = click.led.startswith(place)
            first = (click.sent - change if first is None else first) if right else None
    return first


class Readers:
    """One reader at each worker of a resolver that listens at a port of this machine; `parent` is its first process."""

    def __init__(self, port: int, parent: int) -> None:
        self._all = [Reader(line) for line in _one_line_each(port, _children(parent))]
        for each in self._all:
            each.start()

    def close(self) -> None:
        """End all clicks."""
        for each in self._all:
            each.stop()

    def click_on(self, targets: Sequence[str]) -> None:
        """Click on these targets from now on, and forget what was clicked on before."""
        for each in self._all:
            each.targets = targets
            each.clicks = []

    def warm(self, led: Mapping[str, str], seconds: float) -> str:
        """Wait until every reader was led so again and again from now on; what is otherwise, if it takes longer.

        `led`: for each target, how the place begins to which it must lead.
        """
        begun = time.perf_counter()
        end = begun + seconds
        while True:
            others = [
                f"{target} led to {', '.join(dict.fromkeys(last))}, not to {place}"
                for reader in self._all
                for target, place in led.items()
                for last in [[click.led for click in self._of(reader, target) if click.sent > begun][-_WARM:]]
                if len(last) < _WARM or not all(each.startswith(place) for each in last)
            ]
            if not others or time.perf_counter() > end:
                return "; ".join(others)
            time.sleep(_LOOK)

    def right_after(
        self, change: float, led: Mapping[str, str], hold: float, most: float
    ) -> dict[str, float | None]:
        """For each target, the seconds from a change until every reader was led right for good.

        That is for `hold` seconds at least; a click counts by when it was sent. None: not within `most` seconds.
        """
        end = change + most + hold
        while True:
            found = {target: self._right_after(change, target, place) for target, place in led.items()}
            now = time.perf_counter()
            if all(one is not None and now - change - one >= hold for one in found.values()) or now > end:
                return found
            time.sleep(_LOOK)

    def _right_after(self, change: float, target: str, place: str) -> float | None:
        found = [judged(self._of(each, target), change, place) for each in self._all]
        seconds = [one for one in found if one is not None]
        return max(seconds) if len(seconds) == len(found) else None

    def wrong(self, change: float, target: str, place: str) -> list[str]:
        """What readers saw after a change that was not right, in the order of its first click."""
        return list(
            dict.fromkeys(
                click.led
                for each in self._all
                for click in self._of(each, target)
                if click.sent >= change and not click.led.startswith(place)
            )
        )

    def _of(self, reader: Reader, target: str) -> list[Click]:
        if reader.failure is not None:
            raise reader.failure
        return [click for click in list(reader.clicks) if click.target == target]


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _one_line_each(port: int, workers: Sequence[int]) -> list[socket.socket]:
    """A connection to each of these processes, which share a port. Raises RuntimeError where one takes none."""
    found: dict[int, socket.socket] = {}
    spare = list[socket.socket]()
    for _ in range(_TRIES):
        line = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT)
        line.sendall(f"GET /robots.txt HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode())
        _read_answer(line)  # so it was accepted
        worker = _holder(port, line.getsockname()[1], workers)
        if worker in found:
            spare.append(line)  # open until the end, or the next connection might be given to the same worker
        else:
            found[worker] = line
        if len(found) == len(workers):
            break
    for line in spare:
        line.close()
    if len(found) < len(workers):
        raise RuntimeError(f"only {sorted(found)} of {workers} take connections")
    return list(found.values())


def _holder(port: int, ours: int, workers: Sequence[int]) -> int:
    """Which of these processes has the other end of our connection to a port."""
    ends = f"{_LOCAL}:{port:04X}", f"{_LOCAL}:{ours:04X}"
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = row.split()
        if (columns[1], columns[2]) == ends:
            link = f"socket:[{columns[9]}]"
            for worker in workers:
                if any(_leads_to(each, link) for each in Path(f"/proc/{worker}/fd").iterdir()):
                    return worker
    raise RuntimeError(f"no worker has the connection {ends}")


def _leads_to(handle: Path, link: str) -> bool:
    try:
        return str(handle.readlink()) == link
    except OSError:
        return False
