"""Which module may import which, and do what, held over the syntax tree of every module. The list is `layers.py`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import cache

import pytest

from support.style.layers import (
    FOLDERS_WITHOUT_CIRCLES,
    LAYERS,
    PURE,
    SOURCE,
    Module,
    each_module,
    height,
    imported,
    is_pure,
    modules,
    within,
)

MODULES = modules()

# Packages whose `__init__` is pure, so that a pure module in them may be imported by its full name.
PURE_PACKAGES = {package.rpartition(".")[0] for package in PURE}

# What a pure module may not import: whatever listens, waits, remembers, guesses or asks the machine.
WORLD = frozenset(
    "asyncio concurrent contextvars fcntl ftplib getpass glob http importlib io locale logging mmap "
    "multiprocessing os pathlib platform queue random sched secrets select selectors shutil signal "
    "smtplib socket socketserver sqlite3 ssl subprocess sys tempfile threading time uuid warnings".split()
)

# Where SQL is written and spoken; everywhere else a database is an object with a noun for a name.
SQL_MODULES = (
    "runtime.database",
    "accounts.sessions",
    "archive.store",
    "archive.search",
    "minting.state_row",
    "resolver.registry",
    "resolver.evidence.table",
    "resolver.members.shared_failures",
    "resolver.shared",
    "runtime.shared",
    "runtime.duty_lock",
)
SQL_TEXT = re.compile(
    r"\s*(SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TABLE|INDEX|VIEW|TRIGGER)\s"
    r"|ALTER\s+TABLE\s|DROP\s+TABLE\s|PRAGMA\s|BEGIN(\s+IMMEDIATE)?\s*;?$)",
)

CLOCKS = frozenset(
    {"time.time", "time.time_ns", "time.clock_gettime", "time.clock_gettime_ns", "time.localtime"}
)
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})  # of datetime and date


@cache
def _ours(module: Module) -> tuple[tuple[str, int], ...]:
    """(Name below `ibi`, line) of every module of ours that this one imports."""
    return tuple(
        (name.removeprefix("ibi").removeprefix("."), line)
        for name, line in imported(module, MODULES).items()
        if name == "ibi" or name.startswith("ibi.")
    )


def _dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, or "" if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _faults(module: Module, wrong: Callable[[ast.AST], str | None]) -> list[str]:
    """ "path:line what" for every node that is wrong."""
    found = ((node, wrong(node)) for node in module.nodes)
    return [f"{module.shown}:{getattr(node, 'lineno', 0)} {what}" for node, what in found if what]


@each_module
def test_every_module_is_on_a_layer(module: Module) -> None:
    assert height(module.name) is not None, f"{module.shown} is on no layer of tests/support/style/layers.py"


def test_no_package_is_on_two_layers() -> None:
    places = [place for layer in LAYERS for place in layer.packages]
    assert len(places) == len(set(places))


@each_module
def test_imports_go_only_down(module: Module) -> None:
    here = height(module.name)
    assert here is not None
    climbs = [
        f"{module.shown}:{line} imports {name or 'ibi'}, which is higher up"
        for name, line in _ours(module)
        if (there := height(name)) is None or there > here
    ]
    assert climbs == []


@each_module
def test_packages_of_one_layer_never_import_each_other(module: Module) -> None:
    here = height(module.name)
    assert here is not None
    own = next(place for place in LAYERS[here].packages if within(module.name, place))
    visits = [
        f"{module.shown}:{line} imports its neighbour {name}"
        for name, line in _ours(module)
        if height(name) == here and not within(name, own)
    ]
    assert visits == []


@each_module
def test_pure_modules_import_nothing_of_the_world(module: Module) -> None:
    if not is_pure(module.name):
        return
    foreign = []
    for name, line in imported(module, MODULES).items():
        top = name.partition(".")[0]
        if name == "ibi" or name.startswith("ibi."):
            below = name.removeprefix("ibi").removeprefix(".")
            allowed = is_pure(below) or below in PURE_PACKAGES
        else:
            allowed = (top in sys.stdlib_module_names and top not in WORLD) and name != "urllib.request"
            # Values on the way of a click are Structs; what others take as a library needs nothing but Python.
            allowed |= name == "msgspec" and module.name.startswith("resolver.")
        if not allowed:
            foreign.append(f"{module.shown}:{line} imports {name}")
    foreign += _faults(module, lambda node: "opens a file" if _calls(node, "open") else None)
    assert foreign == []


def test_importing_a_pure_module_loads_only_pure_packages() -> None:
    """Importing `ibi.archive.model.answer` runs `ibi/archive/__init__.py` first: that must be pure, too."""
    packages = {place.rpartition(".")[0] for place in PURE} & MODULES.keys()
    loaded = {package: [name for name, _ in _ours(MODULES[package])] for package in packages}
    assert {package: [n for n in names if not is_pure(n)] for package, names in loaded.items()} == {
        d: [] for d in packages
    }


def _folder(name: str, parent: str) -> str | None:
    """The package directly inside `parent` to which a module belongs; None for a module that is in none."""
    inside = name.removeprefix(f"{parent}.") if parent else name
    head = inside.partition(".")[0]
    if not inside or (parent and inside == name):
        return None
    return head if (SOURCE.joinpath(*parent.split("."), head) if parent else SOURCE / head).is_dir() else None


@pytest.mark.parametrize("parent", FOLDERS_WITHOUT_CIRCLES)
def test_no_circle_between_packages(parent: str) -> None:
    edges: dict[str, set[str]] = {}
    for name, module in MODULES.items():
        here = _folder(name, parent)
        if here is not None:
            targets = {_folder(target, parent) for target, _ in _ours(module)}
            edges.setdefault(here, set()).update(t for t in targets if t is not None and t != here)
    assert edges
    _refuse_circles({name: sorted(targets) for name, targets in edges.items()})


def test_no_circle_between_modules() -> None:
    _refuse_circles(
        {name: [t for t, _ in _ours(m) if t in MODULES and t != name] for name, m in MODULES.items()}
    )


def _refuse_circles(edges: dict[str, list[str]]) -> None:
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, "circle: " + " -> ".join([*way[way.index(name) :], name])
        if name in done:
            return
        for target in edges.get(name, ()):
            walk(target, (*way, name))
        done.add(name)

    for name in edges:
        walk(name, ())


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


@each_module
def test_only_the_command_line_prints(module: Module) -> None:
    if within(module.name, "cli"):
        return
    assert _faults(module, lambda node: "prints" if _calls(node, "print") else None) == []


@each_module
def test_only_settings_reads_the_environment(module: Module) -> None:
    if within(module.name, "runtime.settings") or module.name == "runtime.environment":
        return

    def reads(node: ast.AST) -> str | None:
        if _dotted(node) in {"os.environ", "os.getenv", "os.environb", "os.putenv"}:
            return "reads the environment"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return next((f"imports {a.name}" for a in node.names if a.name in {"environ", "getenv"}), None)
        return None

    assert _faults(module, reads) == []


@each_module
def test_the_real_clock_is_read_only_where_services_are_put_together(module: Module) -> None:
    if any(within(module.name, place) for place in ("app", "cli", "minting.machine")):
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

    assert _faults(module, looks) == []


def _docstrings(module: Module) -> set[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.body[0].value
        for node in module.nodes
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


@each_module
def test_sql_is_written_only_in_its_modules(module: Module) -> None:
    if any(within(module.name, place) for place in SQL_MODULES):
        return
    comments = _docstrings(module)

    def speaks(node: ast.AST) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in comments:
            return "writes SQL" if SQL_TEXT.match(node.value) else None
        return None

    spoken = _faults(module, speaks)
    spoken += [
        f"{module.shown}:{line} imports {name}"
        for name, line in imported(module, MODULES).items()
        if name.partition(".")[0] in {"sqlalchemy", "sqlite3", "alembic"}
    ]
    assert spoken == []


@each_module
def test_the_epoch_of_the_standard_has_one_home(module: Module) -> None:
    if within(module.name, "identifier.ibip"):
        return
    epoch = 807235200  # 1995-08-01, GEN-70
    spelled = _faults(
        module, lambda node: "spells it" if isinstance(node, ast.Constant) and node.value == epoch else None
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


def test_the_checks_fail_on_a_fault() -> None:
    """The checks above are themselves checked, on a module that breaks what they guard."""
    bad = "import socket\nfrom ibi.cli import main\nprint(1)\nimport os\nos.environ['A']\n"
    module = Module("identifier.bad", MODULES["errors"].path, package=False, text=bad)
    assert {"socket", "ibi.cli"} <= imported(module, MODULES | {"cli": module}).keys()
    assert _faults(module, lambda node: "prints" if _calls(node, "print") else None) == [
        "src/ibi/errors.py:3 prints"
    ]
    assert is_pure("identifier.bad")
    low, high = height("identifier.bad"), height("cli")
    assert low is not None
    assert high is not None
    assert low < high
