"""Four processes of one resolver count what they give, and lose nothing of it (note 2).

Readers request items whose redirects are cached, others that were not asked for before, and once in between for some
with HEAD; the Archives count the readers of their acknowledgments. At the end the resolver is asked what it counted:
redirects given = acknowledgments delivered + queued + dropped, exactly, and the Archives counted those delivered.
"""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.resolver.lending import ADDRESS, Archive, archives, item, make_resolver

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "counts"

WORKERS: Final = 4
ARCHIVES: Final = 3
_READERS: Final = 16
_AT_ONCE: Final = 50  # requests of one reader that are sent together
_TIMEOUT: Final = 600.0  # seconds until nothing waits any more
_METRIC: Final = re.compile(
    r'^ibi_resolver_(\w+)(?:\{(?:outcome|reason|answer)="([^"]*)"\})? (\S+)$', re.MULTILINE
)


def prove(scale: Scale, seed: int) -> Report:
    """Send requests, wait until no acknowledgment is outstanding, and add up."""
    report = Report(
        NAME, "redirects given = thanks delivered + queued + dropped; nothing counted twice, none dropped"
    )
    items, clicks = scale.pick(100, 1_000, 10_000), scale.pick(2_000, 50_000, 1_000_000)
    with tempfile.TemporaryDirectory() as folder, archives(ARCHIVES) as around:
        data = Path(folder)
        make_resolver(data, around)
        with _served(data) as port:
            readers = _Readers(port, items, random.Random(seed))
            readers.warm()
            begun = time.monotonic()
            readers.click(clicks - readers.answered["302"])
            report.count("redirects a second", round(clicks / (time.monotonic() - begun)))
            metrics = _settled(port, around)
        _judge(report, readers, around, metrics)
    return report


def _judge(report: Report, readers: _Readers, around: list[Archive], metrics: Counter[str]) -> None:
    given, delivered = readers.answered["302"], metrics["thanks_delivered_total"]
    dropped = sum(count for name, count in metrics.items() if name.startswith("thanks_dropped_total"))
    acknowledged = sum(archive.acknowledged for archive in around)
    report.count("redirects", given)
    report.count("looked at", readers.looked)
    report.count("thanks delivered", delivered)
    report.count("thanks dropped", dropped)
    report.count("acknowledgments", sum(archive.letters for archive in around))
    report.count("questions", sum(archive.queries for archive in around))
    report.demand(readers.answered.total() == given, f"not all were redirects: {dict(readers.answered)}")
    report.demand(
        delivered + metrics["thanks_queued"] + dropped == given, f"of {given} redirects: {dict(metrics)}"
    )
    report.demand(
        metrics["resolutions_total redirect"] == given + readers.looked, f"{given} redirects: {dict(metrics)}"
    )
    report.demand(dropped == 0, f"thanks were dropped: {dict(metrics)}")
    report.demand(
        acknowledged == delivered,
        f"Archives got acknowledgments of {acknowledged} readers, counted are {delivered}",
    )
    report.demand(not any(archive.twice for archive in around), "an acknowledgment came twice")


class _Readers:
    """Readers, each with one connection after the other; `answered`: how often each status was given."""

    def __init__(self, port: int, items: int, chance: random.Random) -> None:
        self._port = port
        self._chance = chance
        self._items = items
        self._lock = threading.Lock()
        self.answered: Counter[str] = Counter()
        self.looked = 0

    def warm(self) -> None:
        """Request most items until their redirects are cached, which are written a moment later."""
        known = [item(number % ARCHIVES, number) for number in range(self._items)]
        for _ in range(3):
            self._share(known)
            time.sleep(1)

    def click(self, count: int) -> None:
        """Ask so often: for known items, and one time in a hundred for one of ten that were not asked for before."""
        names = []
        for _ in range(count):
            number = int(self._items ** self._chance.random()) - 1 if self._chance.random() < 0.5 else None
            number = self._chance.randrange(self._items) if number is None else number
            fresh = self._chance.random() < 0.01
            names.append(item(number % ARCHIVES, number if not fresh else self._items + number % 10))
        self._share(names)

    def _share(self, names: list[str]) -> None:
        with ThreadPoolExecutor(_READERS) as readers:
            list(readers.map(self._read, (names[each::_READERS] for each in range(_READERS))))

    def _read(self, names: list[str]) -> None:
        found: Counter[str] = Counter()
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as line:
            answers = line.makefile("rb")
            for start in range(0, len(names), _AT_ONCE):
                batch = names[start : start + _AT_ONCE]
                one_by_one = start % (2 * _AT_ONCE) == 0  # half of them on the fast path
                for some in [[name] for name in batch] if one_by_one else [batch]:
                    line.sendall(b"".join(_request(b"GET", name) for name in some))
                    found.update([_status(answers) for _ in some])
            line.sendall(_request(b"HEAD", names[0]) if names else b"")
            looked = bool(names) and _status(answers) == "302"
        with self._lock:
            self.answered += found
            self.looked += looked


def _request(method: bytes, name: str) -> bytes:
    return b"%b /%b HTTP/1.1\r\nHost: %b\r\nAccept: */*\r\n\r\n" % (method, name.encode(), ADDRESS.encode())


def _status(answers: IO[bytes]) -> str:
    """The status of the next answer, which has no body if it is a redirect."""
    status = answers.readline().decode()[9:12]
    length = 0
    while (line := answers.readline()) not in {b"\r\n", b""}:
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    answers.read(length)
    return status


@contextmanager
def _served(data: Path) -> Iterator[int]:
    """The port of a resolver of four processes."""
    words = f"resolver serve --data {data} --bind 127.0.0.1:0 --workers {WORKERS}"
    command = (sys.executable, "-m", "ibi", *words.split())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            yield int((process.stdout.readline() if process.stdout else "").rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)


def _settled(port: int, around: list[Archive]) -> Counter[str]:
    """What the resolver has counted when nothing has changed for a while."""
    until = time.monotonic() + _TIMEOUT
    before, still = Counter[str](), 0
    while time.monotonic() < until:
        metrics = _metrics(port)
        quiet = metrics == before and metrics["thanks_queued"] == 0
        still = still + 1 if quiet else 0
        if still > 4 and any(archive.acknowledged for archive in around):
            break
        before = metrics
        time.sleep(1)
    return before


def _metrics(port: int) -> Counter[str]:
    """The counters of all processes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(b"GET /-/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = line.makefile("rb").read().decode()
    found = _METRIC.findall(text)
    wanted = ("resolutions_total", "thanks_", "remembered_total")
    return Counter(
        {
            f"{name} {label}".strip(): int(float(value))
            for name, label, value in found
            if name.startswith(wanted)
        }
    )
