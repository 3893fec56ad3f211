"""Pages about items: how many a second a served Archive gives on one core, how long a reader waits, and for what.

The server runs as in operation, on one core; the load asks from the other, each time for another item: among a
few hundred, whose pages are cached, and among many, most of whose pages have not been requested yet.
"""

from __future__ import annotations

import cProfile
import pstats
import random
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.answers import LOADED, waits
from bench.archive import bring_into_memory, filled, name_of, serve, settings
from bench.figures import aim, figure, table
from bench.processes import hold_this_process, serving, worked
from bench.questions import TEN, Questions
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory
from ibi.http.request import Request
from ibi.minting.machine import this_machine
from ibi.web.archive_pages import renderer
from ibi.web.branding import Branding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.processes import Server
    from bench.scale import Scale

CONNECTIONS: Final = 8
AGAIN: Final = 500

_PARTS: Final = (
    (
        "templates and their escaping",
        re.compile(r"jinja2|markupsafe|web/(?:templates|rendering|head|wording)"),
    ),
    ("formats and citations", re.compile(r"web/formats|web/item_values|json/|latexcodec")),
    ("the catalogue", re.compile(r"sqlite3|archive/(?:catalogue|rows|ledgers)")),
    ("names and dates", re.compile(r"ibi/identifier|babel|datetime")),
    ("links for programs", re.compile(r"website/(?:signposting|mementos)")),
)


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    hold_this_process()
    items = scale(1_000, 20_000, 100_000)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        data = Path(folder)
        filled(data, "large", items)
        lines = []
        for name, among in (("asked for again", min(AGAIN, items)), ("asked for the first time", items)):
            with serving(serve(data), data / "log") as server:
                lines.append((f"{name} ({among:,} items)", *_measured(server, among, scale, data)))
        heads = ("pages", "a second", "µs of a processor for one", "at 70 %: p50, p99, p99.9 in ms")
        print(f"{CONNECTIONS} connections; median of {scale.runs} runs of {scale(1, 1, 5)} s (least to most)")
        table(heads, lines)
        print("\nat 70 %: an open loop of seven tenths of the rate that was reached")
        table(("a page for the first time: time in", "share"), _shares(data, scale(20, 500, 500)))


def _measured(server: Server, items: int, scale: Scale, folder: Path) -> tuple[str, ...]:
    bring_into_memory(folder)
    seconds, rates, costs = scale(1, 1, 5), list[float](), list[float]()
    _questions(items, 99).check(server.port)
    _questions(items, 99).closed_loop(server.port, CONNECTIONS, 1, folder)  # warm
    for seed in range(scale.runs):
        before = worked(server)
        rates.append(_questions(items, seed).closed_loop(server.port, CONNECTIONS, seconds, folder))
        costs.append((worked(server) - before) / (rates[-1] * seconds))
    again = "again" if items <= AGAIN else "for the first time"
    aim(f"pages a second, asked for {again}", figure(rates), at_least=1_000, decimals=0)
    return (
        figure(rates).text(),
        figure(costs).times(1e6).text(),
        waits(server.port, _questions(items, 100), LOADED * figure(rates).median, scale),
    )


def _questions(items: int, seed: int) -> Questions:
    chance = random.Random(seed)
    targets = [f"/-/item/{name_of(chance.randrange(items))}" for _ in range(20_000)]
    return Questions(tuple(targets), headers=TEN)


def _shares(data: Path, pages: int) -> Iterator[tuple[str, str]]:
    """Where the time of a page goes that has not been requested before, without sending it."""
    directory = DataDirectory(data, this_machine())
    app = ArchiveService(
        settings(), directory.open_catalogue(), directory.file_store(), time.time, renderer(Branding())
    )
    requests = [_request(number) for number in range(2 * pages)]
    for each in requests[:pages]:
        app._site.answer(each)  # noqa: SLF001 - the page alone, without a server around it
    profile = cProfile.Profile()
    profile.enable()
    for each in requests[pages:]:
        app._site.answer(each)  # noqa: SLF001 - the same
    profile.disable()
    times = dict.fromkeys((name for name, _ in _PARTS), 0.0) | {"everything else": 0.0}
    for (path, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]  # it has
        part = next((part for part, pattern in _PARTS if pattern.search(f"{path} {name}")), "everything else")
        times[part] += own
    for name, spent in times.items():
        yield name, f"{100 * spent / sum(times.values()):.0f} %"


def _request(number: int) -> Request:
    headers = {b"accept": b"text/html", b"user-agent": b"Mozilla/5.0"}
    return Request("GET", f"/-/item/{name_of(number)}", "", headers)
