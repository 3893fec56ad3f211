"""URL requests answered by a served Archive: a second, as its catalogue grows, for small items and for large ones.

    python -m bench.answers [--full]

The server runs as its keeper runs it, on one core; wrk asks from the other, each time about another item. The catalogue
is in the memory of the system, as that of an Archive is that is asked all the time. `--full` asks among
1,000,000 small items, too, in runs of three seconds, and takes six minutes; without it, up to 100,000 in runs of one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.disk import add_option, surroundings, workplace
from bench.figures import figure, table
from bench.processes import NotStarted, Server, serving, wrk
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.intake.importing import Importer
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5
CONNECTIONS = 16
SHORT = (("small", 10_000), ("small", 100_000), ("large", 10_000), ("large", 100_000))
FULL = (("small", 10_000), ("small", 1_000_000), ("large", 10_000), ("large", 100_000))
YARDSTICK = 400
"""Bytes of the answer of the server that the load is weighed against, about as many as ours has."""

_SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00")
_FIRST = 1_262_304_000  # 2010-01-01; each item is named a second after the one before
_SCRIPT = """
local items, first, extra = %d, %d, "%s"
math.randomseed(%d)
request = function()
  local moment = first + math.random(0, items - 1)
  local name = os.date("!archive.example/b@80/%%Y/%%m.%%d.%%H.%%M.%%S", moment)
  local query = "clientinformation.ipaddress=192.0.2.7&parsedibiurl.ibi=" .. name .. extra
    .. "&servicesubject=urlRequest"
  return wrk.format("GET", "/archive.example/w/2020/01.01.00.00?" .. query)
end
response = function(status, headers, body)
  if status ~= 200 or #body < 100 then wrong = (wrong or 0) + 1 end
end
done = function(summary, latency, requests)
  print(string.format("%%d answers, %%d errors", summary.requests,
    summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout))
end
"""
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_ERRORS = re.compile(r"answers, (\d+) errors")


@dataclass(frozen=True)
class Case:
    """A catalogue to be asked: how many items of which size, and what is asked about each."""

    size: str
    items: int
    seconds: int
    relations: str = ""

    @property
    def name(self) -> str:
        """As the table says it."""
        asked = self.relations.rpartition("=")[2] or "the item"
        return f"{self.items:,} {self.size} items, {asked}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.answers", description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 1,000,000 items, and longer runs")
    add_option(parser)
    args = parser.parse_args()
    if shutil.which("wrk") is None:
        print("no answers are measured: wrk is missing")
        return
    seconds = 3 if args.full else 1
    with workplace(args.dir) as place:
        print(f"\nURL requests, {CONNECTIONS} connections, one core\n{surroundings(place)}")
        lines: list[tuple[str, ...]] = []
        for size, items in FULL if args.full else SHORT:
            lines.extend(_measured(size, items, seconds, place))
        heads = (
            "catalogue",
            "answers/s",
            "of a trivial server",
            "µs of a processor for one",
            "private memory",
            "catalogue on disk",
        )
        table(heads, lines)


def _measured(size: str, items: int, seconds: int, place: Path) -> Iterator[tuple[str, ...]]:
    verbs = ("", "&parsedibiurl.verblist=GetMetadata(oai_dc)") if size == "large" else ("",)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        data = Path(folder)
        _fill(data, size, items)
        disk = (data / "catalogue.sqlite").stat().st_size
        command = (sys.executable, "-m", "ibi", "archive", "serve", "--data", data, "--bind", "127.0.0.1:0")
        trivial = (sys.executable, "-m", "bench.load", str(YARDSTICK))
        with serving(command, data / "log") as server, serving(trivial, data / "log2") as ceiling:
            for relations in verbs:
                case = Case(size, items, seconds, relations)
                ours, theirs, worked = [], [], []
                _asked(case, server, 1, data)
                for run in range(RUNS):
                    _bring_into_memory(data / "catalogue.sqlite")
                    before = _processor(server.pid)
                    ours.append(_asked(case, server, run, data))
                    worked.append((_processor(server.pid) - before) / (ours[-1] * seconds))
                    theirs.append(_asked(case, ceiling, run, data))
                ratio = figure(ours) / figure(theirs)
                memory = f"{_private(server.pid) / 1e6:,.0f} MB"
                yield (
                    case.name,
                    figure(ours).text(),
                    ratio.text(2),
                    figure(worked).times(1e6).text(),
                    memory,
                    f"{disk / items:,.0f} bytes an item",
                )


def _fill(data: Path, size: str, items: int) -> None:
    """Make an Archive with so many items."""
    directory = ArchiveDirectory(data, this_machine())
    directory.begin()
    directory.make(
        ArchiveSettings(
            address="127.0.0.1",
            ip="127.0.0.1",
            service=_SERVICE,
            key="1" * 20,
            secret="ab" * 32,
            admin="admin@archive.example",
        )
    )
    path = data / "items.jsonl"
    with path.open("w") as lines:
        lines.writelines(f"{json.dumps(_item(size, number))}\n" for number in range(items))
    started = time.perf_counter()
    with directory.keeper() as keeper:
        report = Importer(keeper, "bench", lambda refused: print(refused.why)).run(path)
    path.unlink()
    if report.added != items:
        raise NotStarted(f"only {report.added} of {items} items were taken in")
    print(
        f"{items:,} {size} items taken in at {items / (time.perf_counter() - started):,.0f} a second",
        flush=True,
    )


def _item(size: str, number: int) -> dict[str, object]:
    rep = time.strftime("archive.example/b@80/%Y/%m.%d.%H.%M.%S", time.gmtime(_FIRST + number))
    item: dict[str, object] = {"rep": rep, "url": f"http://far.example/{number}"}
    if size == "large":
        forms = IBIForms.parse(f"rep {rep}")
        assert forms.rep is not None  # noqa: S101 - just given
        item |= {
            "language": "en",
            "metadata": {
                "title": [f"Report {number} on the vegetation of a river basin"],
                "creator": ["Silva, Maria da", "Souza, Ana"],
                "subject": ["remote sensing", {"value": "sensoriamento remoto", "lang": "pt"}],
                "description": ["An abstract of some two hundred characters. " * 5],
                "date": ["2010-01-01"],
            },
            "rights": "All may read it.",
            "licence": "https://licence.example/by/4.0/",
        }
    return item


def _asked(case: Case, server: Server, seed: int, folder: Path) -> float:
    """Answers a second of one run."""
    script = folder / "ask.lua"
    script.write_text(_SCRIPT % (case.items, _FIRST, case.relations, seed))
    printed = wrk(server.port, script, CONNECTIONS, case.seconds)
    errors = _ERRORS.search(printed)
    rate = _RATE.search(printed)
    if rate is None or errors is None or errors[1] != "0":
        raise NotStarted(f"the load did not run clean: {printed}")
    return float(rate[1])


def _bring_into_memory(path: Path) -> None:
    """Have the system read a file: some systems soon drop what nobody has asked for."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def _processor(pid: int) -> float:
    """Seconds for which a process has had a processor: what it costs, however busy the machine is."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private(pid: int) -> int:
    """Bytes of memory that only this process has."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(
        int(size) * 1024 for size in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", rollup, re.MULTILINE)
    )


if __name__ == "__main__":
    main()
