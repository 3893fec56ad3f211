"""Pages about items: how many a second a served Archive gives on one core, how long a reader waits, and for what.

    python -m bench.pages [--full]

The server runs as its keeper runs it, on one core; wrk asks from the other, each time for another item: among a few
hundred, whose pages are made already, and among many, most of whose pages nobody has asked for yet. How long 99 of 100
readers wait is measured at half of the rate that was reached, with pauses of chance between the questions of each.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.answers import _bring_into_memory, _fill, _processor
from bench.disk import add_option, surroundings, workplace
from bench.figures import figure, table
from bench.processes import NotStarted, Server, serving, wrk
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.service import ArchiveService
from ibi.archive.website.pages import Renderer
from ibi.exchange import Asked
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings
from ibi.web import archive_pages, qr
from ibi.web.formats.table import FORMATS, schema_kind
from ibi.web.rendering import page_headers, page_language, sayer

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS: Final = 5
CONNECTIONS: Final = 8
AGAIN: Final = 500
PROFILED: Final = 500

_FIRST: Final = 1_262_304_000  # as in bench.answers
_SCRIPT: Final = """
local items, first, pause = %d, %d, %f
math.randomseed(%d)
request = function()
  local name = os.date("!archive.example/b@80/%%Y/%%m.%%d.%%H.%%M.%%S", first + math.random(0, items - 1))
  return wrk.format("GET", "/-/item/" .. name, {["accept"] = "text/html", ["accept-language"] = "en",
    ["user-agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"})
end
if pause > 0 then
  delay = function() return 2 * pause * math.random() end
end
done = function(summary, latency, requests)
  print(string.format("%%d pages, %%d errors, %%d bytes, %%.3f ms, %%.3f ms", summary.requests,
    summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout,
    summary.bytes / summary.requests, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""
_RATE: Final = re.compile(r"Requests/sec:\s+([\d.]+)")
_DONE: Final = re.compile(r"pages, (\d+) errors, (\d+) bytes, ([\d.]+) ms, ([\d.]+) ms")
_PARTS: Final = (
    (
        "templates and their escaping",
        re.compile(r"jinja2|markupsafe|web/(?:templates|rendering|head|wording)"),
    ),
    ("formats and citations", re.compile(r"web/formats|web/item_page|json/|latexcodec")),
    ("the catalogue", re.compile(r"sqlite3|archive/(?:catalogue|rows|ledgers)")),
    ("names and dates", re.compile(r"ibi/identifier|babel|datetime")),
    ("links for programs", re.compile(r"website/(?:signposting|mementos)")),
)


class Heard(NamedTuple):
    """What one run came to: pages a second, bytes of one, and milliseconds that 50 and 99 of 100 did not exceed."""

    rate: float
    size: int
    median: float
    p99: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--full", action="store_true", help="among 100,000 items, and longer runs")
    add_option(parser)
    args = parser.parse_args()
    if shutil.which("wrk") is None:
        print("no pages are measured: wrk is missing")
        return
    items, seconds = (100_000, 5) if args.full else (20_000, 2)
    with workplace(args.dir) as place, tempfile.TemporaryDirectory(dir=place) as folder:
        data = Path(folder)
        print(f"\nPages about items, {CONNECTIONS} connections, one core\n{surroundings(place)}")
        _fill(data, "large", items)
        command = (sys.executable, "-m", "ibi", "archive", "serve", "--data", data, "--bind", "127.0.0.1:0")
        lines = []
        for name, among in (("asked for again", AGAIN), ("asked for the first time", items)):
            with serving(command, data / "log") as server:
                lines.append((f"{name} ({among:,} items)", *_measured(server, among, seconds, data)))
        heads = (
            "pages",
            "a second",
            "µs of a processor for one",
            "bytes",
            "at half that rate: ms, median",
            "99 of 100 in ms",
        )
        table(heads, lines)
        table(("a page for the first time: time in", "share"), _shares(data))


def _measured(server: Server, items: int, seconds: int, folder: Path) -> tuple[str, ...]:
    _bring_into_memory(folder / "catalogue.sqlite")
    _asked(server, items, 2, folder)  # warm
    rates, worked, size = [], [], 0
    for seed in range(RUNS):
        before = _processor(server.pid)
        heard = _asked(server, items, seconds, folder, seed=seed)
        worked.append((_processor(server.pid) - before) / (heard.rate * seconds))
        rates.append(heard.rate)
        size = heard.size
    pause = 2000 * CONNECTIONS / statistics.median(rates)
    waits = [_asked(server, items, seconds, folder, seed=100 + seed, pause=pause) for seed in range(RUNS)]
    return (
        figure(rates).text(),
        figure(worked).times(1e6).text(),
        f"{size:,}",
        figure(wait.median for wait in waits).text(2),
        figure(wait.p99 for wait in waits).text(2),
    )


def _asked(
    server: Server, items: int, seconds: int, folder: Path, *, seed: int = 99, pause: float = 0.0
) -> Heard:
    """One run; `pause`: milliseconds between an answer and the next question, on the average."""
    script = folder / "ask.lua"
    script.write_text(_SCRIPT % (items, _FIRST, pause, seed))
    printed = wrk(server.port, script, CONNECTIONS, seconds)
    rate, done = _RATE.search(printed), _DONE.search(printed)
    if rate is None or done is None or done[1] != "0":
        raise NotStarted(f"the load did not run clean: {printed}")
    return Heard(float(rate[1]), int(done[2]), float(done[3]), float(done[4]))


def _shares(data: Path) -> Iterator[tuple[str, str]]:
    """Where the time of a page goes that nobody has asked for before, without the sending."""
    directory = ArchiveDirectory(data, this_machine())
    settings = ArchiveSettings.read(data)
    renderer = Renderer(
        archive_pages.render, page_headers, page_language, sayer, FORMATS, schema_kind, qr.svg
    )
    app = ArchiveService(settings, directory.open_catalogue(), directory.storage(), time.time, renderer)
    asked = [_request(number) for number in range(2 * PROFILED)]
    for each in asked[:PROFILED]:
        app._site.answer(each)  # noqa: SLF001 - the page alone, without a server around it
    profile = cProfile.Profile()
    profile.enable()
    for each in asked[PROFILED:]:
        app._site.answer(each)  # noqa: SLF001 - the same
    profile.disable()
    times = dict.fromkeys((name for name, _ in _PARTS), 0.0) | {"everything else": 0.0}
    for (path, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]  # it has
        part = next((part for part, pattern in _PARTS if pattern.search(f"{path} {name}")), "everything else")
        times[part] += own
    for name, spent in times.items():
        yield name, f"{100 * spent / sum(times.values()):.0f} %"


def _request(number: int) -> Asked:
    rep = time.strftime("archive.example/b@80/%Y/%m.%d.%H.%M.%S", time.gmtime(_FIRST + number))
    return Asked("GET", f"/-/item/{rep}", "", {b"accept": b"text/html", b"user-agent": b"Mozilla/5.0"})


if __name__ == "__main__":
    main()
