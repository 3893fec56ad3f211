"""What a store in PostgreSQL must not change: answers as the catalogue grows, and redirects, which touch no store."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.against_rows import ARCHIVES, Setting, Side, make_resolver
from bench.answers import CONNECTIONS, ITEM, url_requests
from bench.archive import item
from bench.cached_redirects import REUSE, warm
from bench.databases import places
from bench.figures import aim, figure, table
from bench.processes import hold_this_process, serving
from bench.questions import Questions
from bench.stores import made, take_in
from bench.stubs import item_of, stubs, tell
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.databases import CataloguePlace
    from bench.scale import Scale

_REDIRECTS: Final = 32  # connections
_AT_ONCE: Final = 1_000_000  # rows that one statement makes
_COLUMNS: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = 'public' ORDER BY ordinal_position"
)
# As `bench.archive.name_of` names them.
_MOMENT: Final = "to_char(timestamp '2010-01-01' + n * interval '1 s', 'YYYY/MM.DD.HH24.MI.SS')"
_RENAMED: Final = f"replace({{}}, '2010/01.01.00.00.00', {_MOMENT})"


def growth(place: Path, scale: Scale) -> None:
    """Ask for items of a small and of a large catalogue, turn about. Raises NotHere without PostgreSQL or wrk."""
    hold_this_process()
    sizes = scale((100, 300), (10_000, 1_000_000), (10_000, 10_000_000))
    works: dict[int, Callable[[], float]] = {}
    with ExitStack() as stack:
        side = stack.enter_context(places(place))[1]
        for size in sizes:
            data = place / f"items{size}"
            _fill(side, made(side, data), data, size)
            command = (
                sys.executable,
                "-m",
                "ibi",
                "archive",
                "serve",
                "--data",
                data,
                "--bind",
                "127.0.0.1:0",
            )
            server = stack.enter_context(serving(command, place / f"{size}.log"))
            questions = url_requests(size, ITEM)
            questions.check(server.port)
            works[size] = partial(questions.closed_loop, server.port, CONNECTIONS, scale(1, 1, 2), place)
        for work in works.values():
            work()
        found = {size: figure(rates) for size, rates in turn_about(works, scale(1, 9, 15)).items()}
    ratio = found[sizes[1]] / found[sizes[0]]
    print(f"{side.name}; {CONNECTIONS} connections; median of {len(ratio.runs)} runs (least to most)")
    heads = ("items in PostgreSQL", "URL requests a second", "of those of the fewest")
    table(
        heads, [(f"{size:,}", rate.text(), (rate / found[sizes[0]]).text(2)) for size, rate in found.items()]
    )
    aim(
        f"a URL request among {sizes[1]:,} items in PostgreSQL, of one among {sizes[0]:,}",
        ratio,
        at_least=0.75,
    )


def redirects(place: Path, scale: Scale) -> None:
    """Ask a resolver with a store and one without for redirects that are cached. Raises NotHere."""
    hold_this_process()
    with ExitStack() as stack:
        store = stack.enter_context(places(place))[1]
        archives = stack.enter_context(stubs(ARCHIVES, place))
        tell(archives.port, REUSE)
        source = Path(__file__).parent.parent / "src"
        sides = {"in files": (), "in PostgreSQL": ("--store", store.new())}
        setting = Setting(stack, place, [Side(name, source) for name in sides], scale)
        items = scale(100, 5_000, 5_000)
        questions = Questions(tuple(f"/{item_of(at % ARCHIVES, at, 'h')}" for at in range(items)), status=302)
        works: dict[str, Callable[[], float]] = {}
        for side in setting.sides:
            data = make_resolver(setting, side, archives, *sides[side.name])
            server = stack.enter_context(side.serve("resolver", data))
            warm(server.port, questions)
            works[side.name] = partial(questions.closed_loop, server.port, _REDIRECTS, 1, place)
        for work in works.values():
            work()
        found = {name: figure(rates) for name, rates in turn_about(works, scale(1, 15, 30)).items()}
    ratio = found["in PostgreSQL"] / found["in files"]
    print(
        f"{items:,} items, {_REDIRECTS} connections; median of {len(ratio.runs)} runs of 1 s (least to most)"
    )
    heads = ("what the resolver's nodes share is", "warm redirects a second", "of those in files")
    table(heads, [(name, rate.text(), (rate / found["in files"]).text(2)) for name, rate in found.items()])
    aim("a warm redirect of a resolver with a store, of one without", ratio, at_least=0.95)


def _fill(side: CataloguePlace, store: str, data: Path, items: int) -> None:
    """Bring so many items into an Archive: the first by an import, and the others as rows like those that it made."""
    take_in(data, [item("small", 0)])
    database = store.partition("?")[0].rpartition("/")[2]
    found = side.execute(_COLUMNS, database=database)
    columns = {table: [name for each, name in found if each == table] for table in ("item", "name", "event")}
    ((last, feed),) = side.execute(
        "SELECT max(number), (SELECT max(feed) FROM event) FROM item", database=database
    )
    values = {
        "number": "{number}",
        "item": "{number}",
        "rep": _RENAMED.format("rep"),
        "name": _RENAMED.format("name"),
    }
    values |= {"url": "'http://far.example/' || n", "feed": f"{feed} + n"}
    statements = ["SET session_replication_role = replica"]  # the rows need no checks, and no triggers
    for table_name, names in columns.items():
        key = "number" if table_name == "item" else "item"
        own = values | ({} if table_name == "item" else {"number": "number"})
        chosen = ", ".join(own.get(name, f'"{name}"').format(number=f"{last} + n") for name in names)
        listed = ", ".join(f'"{name}"' for name in names)
        statements += [
            f"INSERT INTO {table_name} ({listed}) SELECT {chosen} FROM {table_name},"  # noqa: S608 - our own names
            f" generate_series({first}, {min(first + _AT_ONCE, items) - 1}) AS n WHERE {key} = {last}"
            for first in range(1, items, _AT_ONCE)
        ]
    side.execute(*statements, "VACUUM ANALYZE", database=database)
