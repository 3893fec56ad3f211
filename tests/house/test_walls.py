"""The walls of the house, held over the syntax tree of every module. The map is `floors.py`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from house.floors import FLOORS, PURE_UPSTAIRS, Room, each_room, height, imported, is_pure, rooms, within

ROOMS = rooms()

# What a pure room may not import: whatever listens, waits, remembers, guesses or asks the machine.
WORLD = frozenset(
    "asyncio concurrent contextvars fcntl ftplib getpass glob http importlib io locale logging mmap "
    "multiprocessing os pathlib platform queue random sched secrets select selectors shutil signal "
    "smtplib socket socketserver sqlite3 ssl subprocess sys tempfile threading time uuid warnings".split()
)

# Where SQL is written and spoken; everywhere else a database is an object with a noun for a name.
SQL_ROOMS = (
    "database",
    "signing_in.sessions",
    "archive.schema",
    "resolver.schema",
    "archive.catalogue",
    "archive.ledgers",
    "archive.finding",
    "archive.migrations",
    "resolver.registry",
    "resolver.location_index",
    "resolver.migrations",
)
SQL_TEXT = re.compile(
    r"\s*(SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TABLE|INDEX|VIEW|TRIGGER)\s"
    r"|ALTER\s+TABLE\s|DROP\s+TABLE\s|PRAGMA\s|BEGIN(\s+IMMEDIATE)?\s*;?$)",
)

CLOCKS = frozenset(
    {"time.time", "time.time_ns", "time.clock_gettime", "time.clock_gettime_ns", "time.localtime"}
)
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})  # of datetime and date


def _ours(room: Room) -> Iterator[tuple[str, int]]:
    """(Name below `ibi`, line) of every module of ours that this one imports."""
    for name, line in imported(room, ROOMS).items():
        if name == "ibi" or name.startswith("ibi."):
            yield name.removeprefix("ibi").removeprefix("."), line


def _dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, or "" if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _faults(room: Room, wrong: Callable[[ast.AST], str | None]) -> list[str]:
    """ "path:line what" for every node that is wrong."""
    found = ((node, wrong(node)) for node in ast.walk(room.tree))
    return [f"{room.shown}:{getattr(node, 'lineno', 0)} {what}" for node, what in found if what]


@each_room
def test_every_room_stands_on_a_floor(room: Room) -> None:
    assert height(room.name) is not None, f"{room.shown} is on no floor of tests/house/floors.py"


def test_no_floor_names_a_room_twice() -> None:
    places = [place for floor in FLOORS for place in floor.rooms]
    assert len(places) == len(set(places))


@each_room
def test_imports_go_only_down(room: Room) -> None:
    here = height(room.name)
    assert here is not None
    climbs = [
        f"{room.shown}:{line} imports {name or 'ibi'}, which is higher up"
        for name, line in _ours(room)
        if (there := height(name)) is None or there > here
    ]
    assert climbs == []


@each_room
def test_neighbours_never_import_each_other(room: Room) -> None:
    here = height(room.name)
    assert here is not None
    own = next(place for place in FLOORS[here].rooms if within(room.name, place))
    visits = [
        f"{room.shown}:{line} imports its neighbour {name}"
        for name, line in _ours(room)
        if height(name) == here and not within(name, own)
    ]
    assert visits == []


@each_room
def test_pure_rooms_import_nothing_of_the_world(room: Room) -> None:
    if not is_pure(room.name):
        return
    foreign = []
    for name, line in imported(room, ROOMS).items():
        top = name.partition(".")[0]
        if name == "ibi" or name.startswith("ibi."):
            below = name.removeprefix("ibi").removeprefix(".")
            allowed = is_pure(below) or below in {"archive", "resolver"}
        else:
            allowed = (top in sys.stdlib_module_names and top not in WORLD) and name != "urllib.request"
        if not allowed:
            foreign.append(f"{room.shown}:{line} imports {name}")
    foreign += _faults(room, lambda node: "opens a file" if _calls(node, "open") else None)
    assert foreign == []


def test_a_package_with_a_pure_room_has_nothing_of_the_world_at_its_door() -> None:
    """Importing `ibi.archive.answer` runs `ibi/archive/__init__.py` first: that door must be pure too."""
    doors = {place.rpartition(".")[0] for place in PURE_UPSTAIRS} & ROOMS.keys()
    loaded = {door: [name for name, _ in _ours(ROOMS[door])] for door in doors}
    assert {door: [n for n in names if not is_pure(n)] for door, names in loaded.items()} == {
        d: [] for d in doors
    }


def test_no_import_goes_in_a_circle() -> None:
    edges = {name: [target for target, _ in _ours(room) if target in ROOMS] for name, room in ROOMS.items()}
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, "circle: " + " -> ".join([*way[way.index(name) :], name])
        if name in done:
            return
        for target in edges[name]:
            if target != name:
                walk(target, (*way, name))
        done.add(name)

    for name in edges:
        walk(name, ())


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


@each_room
def test_only_the_command_line_prints(room: Room) -> None:
    if within(room.name, "cli"):
        return
    assert _faults(room, lambda node: "prints" if _calls(node, "print") else None) == []


@each_room
def test_only_settings_reads_the_environment(room: Room) -> None:
    if within(room.name, "settings"):
        return

    def reads(node: ast.AST) -> str | None:
        if _dotted(node) in {"os.environ", "os.getenv", "os.environb", "os.putenv"}:
            return "reads the environment"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return next((f"imports {a.name}" for a in node.names if a.name in {"environ", "getenv"}), None)
        return None

    assert _faults(room, reads) == []


@each_room
def test_the_real_clock_is_read_only_where_the_house_is_put_together(room: Room) -> None:
    if any(within(room.name, place) for place in ("assembly", "cli", "minting.machine")):
        return

    def looks(node: ast.AST) -> str | None:
        name = _dotted(node)
        if name in CLOCKS:
            return f"reads the clock: {name}"
        if isinstance(node, ast.Attribute) and node.attr in CLOCK_METHODS:
            owner = name.split(".")[:-1]
            return f"reads the clock: {name}" if {"datetime", "date", "dt"} & set(owner) else None
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return next((f"imports {a.name}" for a in node.names if f"time.{a.name}" in CLOCKS), None)
        return None

    assert _faults(room, looks) == []


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


@each_room
def test_sql_is_written_and_spoken_only_in_its_rooms(room: Room) -> None:
    if any(within(room.name, place) for place in SQL_ROOMS):
        return
    comments = _docstrings(room.tree)

    def speaks(node: ast.AST) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in comments:
            return "writes SQL" if SQL_TEXT.match(node.value) else None
        return None

    spoken = _faults(room, speaks)
    spoken += [
        f"{room.shown}:{line} imports {name}"
        for name, line in imported(room, ROOMS).items()
        if name.partition(".")[0] in {"sqlalchemy", "sqlite3", "alembic"}
    ]
    assert spoken == []


@each_room
def test_the_epoch_of_the_standard_has_one_home(room: Room) -> None:
    if within(room.name, "identifier.ibip"):
        return
    epoch = 807235200  # 1995-08-01, GEN-70
    spelled = _faults(
        room, lambda node: "spells it" if isinstance(node, ast.Constant) and node.value == epoch else None
    )
    assert spelled == []


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("SELECT a FROM b", True),
        ("\n  INSERT OR IGNORE INTO b VALUES (1)", True),
        ("PRAGMA journal_mode=WAL", True),
        ("BEGIN IMMEDIATE", True),
        ("Select one of these", False),
        ("UPDATE your address", False),
    ],
)
def test_the_watch_for_sql_knows_sql_when_it_sees_it(text: str, is_sql: bool) -> None:
    assert bool(SQL_TEXT.match(text)) is is_sql


def test_the_walls_would_fall_on_a_fault() -> None:
    """The checks above are themselves checked, on a module that breaks what they guard."""
    bad = "import socket\nfrom ibi.cli import main\nprint(1)\nimport os\nos.environ['A']\n"
    room = Room("identifier.bad", ROOMS["errors"].path, package=False, text=bad)
    assert {"socket", "ibi.cli"} <= imported(room, ROOMS | {"cli": room}).keys()
    assert _faults(room, lambda node: "prints" if _calls(node, "print") else None) == [
        "src/ibi/errors.py:3 prints"
    ]
    assert is_pure("identifier.bad")
    low, high = height("identifier.bad"), height("cli")
    assert low is not None
    assert high is not None
    assert low < high
