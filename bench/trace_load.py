"""The load of `bench.trace`: clicks by Zipf's law, names asked for the first time, changes meanwhile, and the truth.

wrk drives as fast as a server answers, and notes how many clicks went out in each second (`Trace.drive`). It cannot
compare answers at that rate, so another, slower load of this folder does (`Trace.check`), while the same changes go on.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.open_loop import Asking
from bench.processes import LOAD_CORE, NotStarted, program, run, worked
from bench.questions import TEN, Questions
from bench.stub_changes import place_of
from bench.stubs import item_of, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.open_loop import Waits
    from bench.processes import Server

CHANGES: Final = 5
"""Items that change in a second."""
ALLOWED: Final = 1.0
"""Seconds for which a reader may be led to where an item was before."""
CONNECTIONS: Final = 32

_STEP: Final = 50  # clicks between two looks at the clock
_RECENT: Final = 10  # one click in so many, where answers are compared, goes to an item that has just changed
_LOCATION: Final = re.compile(rb"\r\nlocation: ([^\r]*)", re.IGNORECASE)
_PRINTED: Final = re.compile(
    r"answers (\d+) errors (\d+) missing (\d+) longest (\d+) p99 ([\d.]+) moments ([\d ]+)"
)
_SCRIPT: Final = """
local ffi = require("ffi")
ffi.cdef("struct moment { long seconds; long ns; }; int clock_gettime(int, struct moment *);")
local moment = ffi.new("struct moment")
local function microseconds()
  ffi.C.clock_gettime(1, moment)
  return tonumber(moment.seconds) * 1000000 + math.floor(tonumber(moment.ns) / 1000)
end
local function requests(path)
  local found = {}
  for target in io.lines(path) do found[#found + 1] = "GET " .. target .. %(tail)s end
  return found
end
local known, fresh, order, length, at, every, count
function init()  -- in the thread that asks, and not once more in the one that waits for it
  known, fresh, order = requests(%(known)s), requests(%(fresh)s), {}
  for number in io.lines(%(order)s) do order[#order + 1] = tonumber(number) end
  length, at, every, count = #order, 0, %(every)d, 0
end
moments, missing = {}, 0
request = function()
  count = count + 1
  if count %% %(step)d == 0 then moments[#moments + 1] = string.format("%%.0f", microseconds()) end
  if every > 0 and count %% every == 0 then
    local one = fresh[count / every]
    if one then return one end
    missing = missing + 1
  end
  at = at %% length + 1
  return known[order[at]]
end
setup = function(thread) only = thread end
done = function(summary, latency)
  local errors = summary.errors
  print(string.format("answers %%d errors %%d missing %%d longest %%d p99 %%f moments %%s", summary.requests,
    errors.status + errors.read + errors.connect + errors.timeout, only:get("missing"), latency.max,
    latency:percentile(99), table.concat(only:get("moments"), " ")))
end
"""


@dataclass(frozen=True)
class Turn:
    """What one turn of a server gave.

    `rate`: redirects a second; `cost`: seconds of a processor for one; `seconds`: how many in each of its seconds;
    `p99`: seconds that 99 of 100 did not exceed.
    """

    rate: float
    cost: float
    seconds: tuple[float, ...]
    p99: float


@dataclass(frozen=True)
class Seen:
    """What a comparison with the truth gave.

    `wrong`: redirects that led neither to where the item was when the click was sent, nor where it had been within
    ALLOWED before. `latest`: seconds after a change at which a click was sent that led to the place before it.
    """

    waits: Waits
    checked: int
    recent: int
    changes: int
    wrong: int
    latest: float


class Truth:
    """Where each item was, and when; moments are those of `time.perf_counter`."""

    def __init__(self) -> None:
        self.changes = 0
        self.recent: deque[str] = deque(maxlen=3 * CHANGES)
        """The items that have changed last."""
        self._places: dict[str, list[tuple[str, float]]] = {}
        self._ends: dict[tuple[str, str], float] = {}

    def next_place(self, name: str, now: float) -> str:
        """An item leads elsewhere from a moment on, or a little later: a click may be led there from now on."""
        places = self._places.setdefault(name, [(place_of(name, 0), -math.inf)])
        place = place_of(name, len(places))
        places.append((place, now))
        return place

    def acknowledge(self, name: str, now: float) -> None:
        """The last change of an item is acknowledged: the place before it is not right any more."""
        self._ends[name, self._places[name][-2][0]] = now
        self.recent.append(name)
        self.changes += 1

    def age(self, name: str, place: str, sent: float, received: float) -> float:
        """Seconds for which a place had not been right any more when a click was sent; inf if it never was."""
        places = self._places.get(name)
        if places is None:
            return 0.0 if place == place_of(name, 0) else math.inf
        for each, since in places:
            if each == place and since <= received:
                return max(0.0, sent - self._ends.get((name, place), math.inf))
        return math.inf


@dataclass
class Trace:
    """Clicks on items of the stubs behind a port: `names` that are known, and others, each asked for once."""

    archives: int
    names: int
    stubs: Server
    folder: Path
    draws: int
    truth: Truth = field(default_factory=Truth)
    queries: int = 0
    """Queries that Archives have received while items changed, and (`requests`) requests for changes."""
    requests: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(11))

    def __post_init__(self) -> None:
        known = [self.target(number) for number in range(self.names)]
        weights = list(itertools.accumulate(1 / rank for rank in range(1, self.names + 1)))
        self._order = self._chance.choices(range(self.names), cum_weights=weights, k=self.draws)
        self._known = Questions(tuple(known), status=302, headers=TEN)

    @property
    def known(self) -> Questions:
        """Each known name once."""
        return self._known

    def target(self, number: int) -> str:
        """What is asked for about the item of a number."""
        return f"/{item_of(number % self.archives, number, 'h')}"

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Have known items change, one after the other, by chance, until the end of the block."""
        over, failed = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                while not over.wait(1 / CHANGES):
                    self._change()
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if failed:
            raise NotStarted(f"the stubs do not change: {failed[0]}")

    def _change(self) -> None:
        name = self.target(self._chance.randrange(self.names))[1:]
        self.truth.next_place(name, time.perf_counter())
        counted = tell(self.stubs.port, f"change={name}")
        self.truth.acknowledge(name, time.perf_counter())
        self.queries += counted["asked"]
        self.requests += counted["changes"]

    def drive(
        self, server: Server, seconds: int, every: int, fresh: Sequence[int], offset: int, most: int
    ) -> Turn:
        """Click as fast as the server answers; one click in `every` (0: none) is on the next of the `fresh` ones.

        The others are the `most` in the order from `offset` on.
        """
        script = self.folder / "trace.lua"
        (self.folder / "fresh").write_text("\n".join(map(self.target, fresh)))
        self._write_order(offset, most)
        paths = {name: json.dumps(str(self.folder / name)) for name in ("known", "fresh", "order")}
        tail = json.dumps(self._known.tail())
        script.write_text(_SCRIPT % {**paths, "tail": tail, "every": every, "step": _STEP})
        words = f"taskset -c {LOAD_CORE} {program('wrk')} -t1 -c{CONNECTIONS} -d{seconds}s -s {script}"
        before = worked(server)
        printed = run([*words.split(), f"http://127.0.0.1:{server.port}"])
        spent = worked(server) - before
        found = _PRINTED.search(printed)
        if found is None or found[2] != "0" or found[3] != "0":
            raise NotStarted(f"the load did not run clean: {printed[:2000]}")
        moments = [int(each) / 1e6 for each in found[6].split()]
        clicks, took = int(found[1]), _STEP * len(moments)
        if len(moments) < 2 or clicks < took / 2:
            raise NotStarted(f"the load has hardly begun: {printed[:500]}")
        rate = _STEP * (len(moments) - 1) / (moments[-1] - moments[0])
        return Turn(rate, spent / clicks, tuple(clicks_by_second(moments, _STEP)), float(found[5]) / 1e6)

    def _write_order(self, offset: int, most: int) -> None:
        """Write a part of the order for wrk, and the names that are in it: a million would not fit into its memory."""
        part = [self._order[at % self.draws] for at in range(offset, offset + most)]
        places = {number: place for place, number in enumerate(dict.fromkeys(part), 1)}
        (self.folder / "known").write_text("\n".join(map(self.target, places)))
        (self.folder / "order").write_text("\n".join(str(places[number]) for number in part))

    def check(self, server: Server, rate: float, seconds: float, every: int, fresh: Sequence[int]) -> Seen:
        """Click `rate` times a second, and compare each redirect with the truth.

        One click in _RECENT is on an item that has just changed: by Zipf's law most changes would go unseen.
        """
        names, truth, coming = list[str](), self.truth, iter(fresh)
        tail, chance, before = self._known.tail(), random.Random(13), truth.changes
        wrong, latest, recent = 0, 0.0, 0

        def clicks() -> Iterator[bytes]:
            nonlocal recent
            for count, number in enumerate(itertools.cycle(self._order), 1):
                if every and count % every == 0:
                    name = self.target(next(coming))[1:]
                elif count % _RECENT == 0 and truth.recent:
                    name = chance.choice(tuple(truth.recent))
                    recent += 1
                else:
                    name = self.target(number)[1:]
                names.append(name)
                yield f"GET /{name}{tail}".encode()

        def heard(number: int, sent: float, answer: bytes) -> None:
            nonlocal wrong, latest
            found = _LOCATION.search(answer)
            place = "" if found is None else found[1].decode("latin-1")
            age = truth.age(names[number], place, sent, time.perf_counter())
            wrong += age > ALLOWED
            latest = max(latest, age)

        waits = Asking(server.port, clicks(), self._known.answer, heard).go(rate, seconds)
        return Seen(waits, len(names), recent, truth.changes - before, wrong, latest)


def clicks_by_second(moments: Sequence[float], step: int) -> Iterator[float]:
    """How many clicks went out in each whole second; `step` of them did between each moment and the next."""
    second, at, last = moments[0], 0, 0.0
    while second + 1 <= moments[-1]:
        second += 1
        while moments[at + 1] < second:
            at += 1
        until = step * (at + (second - moments[at]) / (moments[at + 1] - moments[at]))
        yield until - last
        last = until
