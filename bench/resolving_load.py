"""The load of `bench.resolving`: readers, and a resolver among the Archives of `bench.stubs`."""

from __future__ import annotations

import itertools
import math
import os
import random
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.processes import NotStarted, serving
from bench.stubs import ip_of, item_of, service_of, stubs, tell
from ibi.app.resolver import open_registry
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.registry.published_list import ListedArchive
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bench.processes import Server

ORIGINAL: Final = "?ibiurl.requireditemstatus=Original"
HANGING: Final = 20
_FRESH: Final = 2_000_000
_AT_ONCE: Final = 10_000  # hints that wait to be written
_TIMEOUT: Final = 20.0  # seconds for one answer
_ANNOUNCING: Final = 60.0  # seconds for all notices


@dataclass(frozen=True)
class Work:
    """What readers ask for. `letter`: "h" where the prefix tells who holds an item, "n" where it does not.

    `zipf`: the n-th item of `items` is asked for 1/n times as often as the first; otherwise each once, in order.
    `living`: the items of Archives that hang when HANGING do are left out. `more`: what is said after the name.
    """

    letter: str = "n"
    items: int = 1_000
    zipf: bool = True
    more: str = ""
    living: bool = False

    def targets(self, archives: int, fresh: Iterator[int], seed: int) -> Iterator[str]:
        """What one reader after the other asks for; `fresh` numbers have not been asked for yet."""
        chance, scale = random.Random(seed), math.log(self.items + 1)
        every = archives // HANGING if self.living else 0
        while True:
            number = int(math.exp(chance.random() * scale)) - 1 if self.zipf else next(fresh)
            if every and number % archives % every == 0:
                continue
            yield f"/{item_of(number % archives, number, self.letter)}{self.more}"


@dataclass(frozen=True)
class LoadResult:
    """The measurements of one run."""

    waits: tuple[float, ...]
    """Seconds of each redirect."""
    queries: int
    """Queries that Archives received."""
    seconds: float
    processor: float
    """Seconds of a processor that the resolver has used."""

    @property
    def redirects(self) -> int:
        """How many there were."""
        return len(self.waits)

    @property
    def p99(self) -> float:
        """Seconds that 99 of 100 redirects did not exceed."""
        return statistics.quantiles(self.waits, n=100)[98] if self.redirects > 1 else self.waits[0]


@dataclass
class Scene:
    """A resolver that runs among stubs."""

    archives: int
    stubs: Server
    resolver: Server
    _fresh: Iterator[int] = field(default_factory=lambda: itertools.count(_FRESH))

    def play(
        self, work: Work, seconds: float, connections: int = 2, seed: int = 1, most: int | None = None
    ) -> LoadResult:
        """Have readers send requests, each after its last answer, `most` requests each. Raises NotRedirected."""
        tell(self.stubs.port, "counts")
        before, begun = processor(self.resolver.pid), time.perf_counter()
        with ThreadPoolExecutor(connections) as readers:
            found = list(
                readers.map(
                    lambda one: self._read(work, seconds, 1_000 * seed + one, most), range(connections)
                )
            )
        took = time.perf_counter() - begun
        time.sleep(0.05)  # the last acknowledgments
        worked = processor(self.resolver.pid) - before
        return LoadResult(
            tuple(itertools.chain(*found)), tell(self.stubs.port, "counts")["asked"], took, worked
        )

    def migrate(self, how: str, letter: str, numbers: range) -> int:
        """Have one item of 20 migrate, and those of these numbers announced; how many requests for changes that caused.

        `how`: "copy" or "gone", as `bench.stubs` says. Raises NotStarted if the resolver takes no notice.
        """
        port = self.stubs.port
        for what in (f"notices={self.resolver.port}", f"migrated={how}"):
            tell(port, what)
        requests, until = 0, time.monotonic() + _ANNOUNCING
        found = tell(port, f"announced={letter},{numbers.start},{numbers.stop}")
        while time.monotonic() < until:
            time.sleep(0.1)
            found = tell(port, "counts")
            requests += found["changes"]
            if not found["announcing"]:
                break
        if found["announcing"] or found["refused"]:
            raise NotStarted(f"notices were not taken: {found}")
        return requests

    def coming(self, clicks: int) -> range:
        """The numbers of the next items of which each is asked for once."""
        first = next(self._fresh) + 1
        return range(first, first + clicks)

    def _read(self, work: Work, seconds: float, seed: int, most: int | None) -> list[float]:
        waits, until = list[float](), time.perf_counter() + seconds
        with connection("127.0.0.1", self.resolver.port) as get:
            for target in itertools.islice(work.targets(self.archives, self._fresh, seed), most):
                waits.append(get(target, b"302"))
                if time.perf_counter() >= until:
                    return waits
        return waits


class NotRedirected(Exception):
    """A reader got something else: there is no figure."""


@contextmanager
def connection(host: str, port: int) -> Iterator[Callable[[str, bytes], float]]:
    """A connection over which one GET after the other is sent; a GET must have this status, and gives its seconds."""
    with socket.create_connection((host, port), timeout=_TIMEOUT) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def get(target: str, status: bytes) -> float:
            request = f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
            begun = time.perf_counter()
            line.sendall(request)
            answer = line.recv(65_536)
            took = time.perf_counter() - begun
            if answer[9:12] != status or b"\r\n\r\n" not in answer:
                raise NotRedirected(target, answer)
            return took

        yield get


@contextmanager
def scene(
    place: Path,
    archives: int,
    hints: Iterable[int] = (),
    letter: str = "n",
    program: Sequence[str] = ("ibi",),
) -> Iterator[Scene]:
    """A resolver among so many Archives, which knows beforehand who holds the items of these numbers.

    `program`: the module that serves it, with words before those of the command.
    """
    with TemporaryDirectory(dir=place) as name, stubs(archives, Path(name)) as around:
        folder = Path(name)
        make(folder, archives, around.port)
        learn(folder, archives, hints, letter)
        serve = ("resolver", "serve", "--data", str(folder), "--bind", "127.0.0.1:0")
        command = (sys.executable, "-m", *program, *serve)
        with serving(command, folder / "log") as resolver:
            yield Scene(archives, around, resolver)


def make(folder: Path, archives: int, port: int) -> None:
    """A resolver that includes the stubs behind a port."""
    settings = ResolverSettings(
        address="127.0.0.1",
        service=IBIForms.parse("ibip J8LNKB5R7W/3FUQHC5"),
        allow_private_archives=True,
        request_rate=0.0,
    )
    settings.write(folder)
    known = open_registry(folder, new=True)
    since = "2026-01-01T00:00:00Z"
    every = [
        ListedArchive(
            parse_ibi(service_of(archive)), f"{ip_of(archive)}:{port}", (), confirmed=True, since=since
        )
        for archive in range(archives)
    ]
    known.mirror("the stubs", every, since)  # all at once, where to register each would hash each key
    known.close()


def learn(folder: Path, archives: int, numbers: Iterable[int], letter: str) -> None:
    """Who holds the items of these numbers. Raises NotStarted where a hint could not be kept."""
    index = HintCache(folder / "hints")
    services = [parse_ibi(service_of(archive)).canonical for archive in range(archives)]
    for count, number in enumerate(numbers):
        service = services[number % archives]
        name = parse_ibi(item_of(number % archives, number, letter)).canonical
        index.remember([name], likely=service, original=service)
        while count % 1_000 == 0 and len(index._behind._waiting) > _AT_ONCE:  # noqa: SLF001 - readers would be dropped
            time.sleep(0.01)
    index.close()
    if index.dropped:
        raise NotStarted(f"{index.dropped:,} hints could not be written")


def processor(pid: int) -> float:
    """Seconds for which a process has had a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
