"""The load of `bench.resolving`: readers as wrk plays them, and a resolver among the Archives of `bench.stubs`."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.processes import NotStarted, serving, wrk
from bench.stubs import FIRST, ip_of, item_of, service_of, stubs, tell
from ibi.assembly import registry as registry_of
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.location_index import LocationIndex
from ibi.resolver.registry.mirroring import Listed
from ibi.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.processes import Server

ORIGINAL: Final = "?ibiurl.requireditemstatus=Original"
_AT_ONCE: Final = 20_000  # hints that wait to be written
_SCRIPT: Final = """
local archives, items, first, letter, more, zipf = %d, %d, %d, "%s", "%s", %s
local next, wrong = %d, 0
math.randomseed(%d)
request = function()
  local number = next
  if zipf then
    number = math.floor(math.exp(math.random() * math.log(items + 1))) - 1
  else
    next = next + 1
  end
  local moment = os.date("!%%Y/%%m.%%d.%%H.%%M.%%S", first + number)
  return wrk.format("GET", string.format("/%%s%%04d.example/b@80/%%s%%s", letter, number %% archives, moment, more))
end
response = function(status)
  if status ~= 302 then wrong = wrong + 1; last = status end
  told = string.format("%%d not redirected, last %%s", wrong, tostring(last))
end
setup = function(thread) all = thread end
done = function(summary, latency, requests)
  print(string.format("told %%d %%d %%d %%d %%s", summary.requests, latency:percentile(50), latency:percentile(99),
    summary.errors.read + summary.errors.connect + summary.errors.timeout, tostring(all:get("told"))))
end
"""
_TOLD = re.compile(r"told (\d+) (\d+) (\d+) (\d+) (\d+) not")


@dataclass(frozen=True)
class Work:
    """What readers ask for. `letter`: "h" where the prefix tells who holds an item, "n" where it does not.

    `zipf`: the n-th item of `items` is asked for 1/n times as often as the first; otherwise each once, in order.
    """

    letter: str = "n"
    items: int = 1_000
    zipf: bool = True
    more: str = ""
    """What is said after the name."""


@dataclass(frozen=True)
class Said:
    """What came of it: redirects, questions that Archives got for them, and seconds."""

    redirects: int
    asked: int
    seconds: float
    median: float
    p99: float
    processor: float
    """Seconds of a processor that the resolver has used."""

    @property
    def messages(self) -> float:
        """Questions for one redirect."""
        return self.asked / self.redirects


@dataclass
class Scene:
    """A resolver that runs among stubs."""

    archives: int
    folder: Path
    stubs: Server
    resolver: Server
    _next: int = 0

    def play(self, work: Work, seconds: int, connections: int = 2, seed: int = 1) -> Said:
        """Have readers ask. Raises NotStarted where one of them is not redirected."""
        script = self.folder / "ask.lua"
        zipf = "true" if work.zipf else "false"
        words = (self.archives, work.items, FIRST, work.letter, work.more, zipf, self._next, seed)
        script.write_text(_SCRIPT % words)
        tell(self.stubs.port, "counts")
        before = processor(self.resolver.pid)
        printed = wrk(self.resolver.port, script, connections, seconds)
        time.sleep(0.05)
        worked = processor(self.resolver.pid) - before
        counted = tell(self.stubs.port, "counts")
        told = _TOLD.search(printed)
        if told is None or told[5] != "0" or told[4] != "0":
            raise NotStarted(f"the load did not run clean: {printed}")
        redirects = int(told[1])
        if not work.zipf:
            self._next += redirects + connections
        median, p99 = int(told[2]) / 1e6, int(told[3]) / 1e6
        return Said(redirects, counted["asked"], float(seconds), median, p99, worked)


@contextmanager
def scene(place: Path, archives: int, hints: Iterable[int] = (), letter: str = "n") -> Iterator[Scene]:
    """A resolver among so many Archives, which knows beforehand who holds the items of these numbers."""
    with TemporaryDirectory(dir=place) as name, stubs(archives, Path(name)) as around:
        folder = Path(name)
        _make(folder, archives, around.port)
        _learn(folder, archives, hints, letter)
        command = (sys.executable, "-m", "ibi", "resolver", "serve", "--data", folder, "--bind", "127.0.0.1:0")
        with serving(command, folder / "log") as resolver:
            yield Scene(archives, folder, around, resolver)


def _make(folder: Path, archives: int, port: int) -> None:
    settings = ResolverSettings(
        address="127.0.0.1",
        service=IBIForms.parse("ibip J8LNKB5R7W/3FUQHC5"),
        allow_private_archives=True,
        request_rate=0.0,
    )
    settings.write(folder)
    known = registry_of(folder, new=True)
    since = "2026-01-01T00:00:00Z"
    every = [
        Listed(parse_ibi(service_of(archive)), f"{ip_of(archive)}:{port}", (), confirmed=True, since=since)
        for archive in range(archives)
    ]
    known.mirror("the stubs", every, since)  # all at once, where to register each would hash each key
    known.close()


def _learn(folder: Path, archives: int, numbers: Iterable[int], letter: str) -> None:
    index = LocationIndex(folder / "hints")
    services = [parse_ibi(service_of(archive)).canonical for archive in range(archives)]
    for count, number in enumerate(numbers):
        service = services[number % archives]
        name = parse_ibi(item_of(number % archives, number, letter)).canonical
        index.remember([name], hint=service, original=service)
        while count % 1_000 == 0 and len(index._behind._waiting) > _AT_ONCE:  # noqa: SLF001 - readers would be dropped
            time.sleep(0.01)
    index.close()


def processor(pid: int) -> float:
    """Seconds for which a process has had a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
