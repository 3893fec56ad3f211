"""The map of the house: what stands on which floor. Imports go only down.

A newcomer reads this list first. `test_walls.py` holds the code to it, and the table of rooms in ARCHITECTURE.md
is made from it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ibi"


@dataclass(frozen=True)
class Floor:
    """Rooms at one height. Neighbours on a floor do not import each other."""

    name: str
    rooms: tuple[str, ...]  # modules or packages below `ibi`
    pure: bool = False  # imports nothing of the world


FLOORS = (  # from the ground up
    Floor("errors", ("errors",), pure=True),
    Floor("names: the generation standard", ("identifier",), pure=True),
    Floor("messages: the resolution standard", ("protocol",), pure=True),
    Floor("front door", ("",), pure=True),  # ibi/__init__.py: the promised names
    Floor("what is still there after a power cut", ("durable",)),
    Floor("what this machine was told, and what it tells", ("settings", "roll", "logs")),
    Floor(
        "doors to the world",
        (
            "transport",
            "exchange",
            "serving",
            "database",
            "texts",
            "nonce",
            "tokens",
            "signing",
            "canonical",
            "renewing",
            "limits",
        ),
    ),
    Floor("minting", ("minting",)),
    Floor("what programs ask for, and who may", ("interface",)),
    Floor("who may change things through pages", ("signing_in",)),
    Floor("the neighbours, who meet only over HTTP", ("archive", "resolver")),
    Floor("pages", ("web",)),
    Floor("assembly: settings become running services", ("assembly",)),
    Floor("the doctor, who looks at all of it", ("checkup",)),
    Floor("command line", ("cli",)),
    Floor("roof", ("__main__",)),
)

# Rooms higher up that decide without doing, and so are as pure as the first floors.
PURE_UPSTAIRS = (
    "archive.access",
    "archive.holding",
    "archive.related",
    "archive.answer",
    "archive.dublin_core",
    "archive.oai.asking",
    "archive.oai.sets",
    "resolver.selection",
    "resolver.alerts",
    "resolver.explanation",
    "resolver.resolution",
    "resolver.health",
    "resolver.hops",
    "resolver.originals",
    "resolver.policy",
    "resolver.plan",
    "limits",
    "resolver.advice",
    "resolver.advising",
    "resolver.wish",
    "resolver.testimony",
    "resolver.testifying",
    "resolver.asked",
    "resolver.chain",
    "resolver.holders",
)


@dataclass(frozen=True)
class Room:
    """One module of ours."""

    name: str  # dotted, below `ibi`: "identifier.ibip"; a package is named by itself; the front door is ""
    path: Path
    package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """What Python reads in it; asked for only by tests that run, as every worker collects all of them."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def full(self) -> str:
        """The name that imports it: "ibi.identifier.ibip"."""
        return f"ibi.{self.name}" if self.name else "ibi"

    @property
    def shown(self) -> str:
        """Its path from the top of the checkout."""
        return self.path.relative_to(ROOT).as_posix()


def _room(path: Path) -> Room:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    package = parts[-1] == "__init__"
    if package:
        parts.pop()
    text = path.read_text(encoding="utf-8")
    return Room(".".join(parts), path, package, text)


@cache
def rooms() -> dict[str, Room]:
    """Every module in src/ibi, by its name below `ibi`."""
    return {room.name: room for room in map(_room, sorted(SOURCE.rglob("*.py")))}


def each_room(check: Callable[[Room], None]) -> Callable[[], None]:
    """One test that a check holds for every room; it tells all that are at fault.

    Not one test for each: there would be more of them than of all others together.
    """

    def test() -> None:
        faults = []
        for room in rooms().values():
            try:
                check(room)
            except AssertionError as fault:
                faults.append(f"{room.shown}: {fault}")
        assert not faults, "\n".join(faults)

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def within(name: str, place: str) -> bool:
    """Whether the module `name` is the room `place` or lies inside it."""
    return name == place or (place != "" and name.startswith(f"{place}."))


def height(name: str) -> int | None:
    """The floor of a module, counted from 0 on the ground; None for a module that is on no floor."""
    for number, floor in enumerate(FLOORS):
        if any(within(name, place) for place in floor.rooms):
            return number
    return None


def is_pure(name: str) -> bool:
    """Whether a module must import nothing of the world."""
    number = height(name)
    return (number is not None and FLOORS[number].pure) or any(within(name, place) for place in PURE_UPSTAIRS)


def imported(room: Room, known: dict[str, Room]) -> dict[str, int]:
    """All that a module imports, at any depth of its code: full dotted name -> line.

    `from ibi.archive import holding` counts as `ibi.archive.holding` where that is a module, else as `ibi.archive`.
    """
    found: dict[str, int] = {}
    for node in ast.walk(room.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(room, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = inner.removeprefix("ibi.") in known and inner.startswith("ibi.")
                found.setdefault(inner if is_module else base, node.lineno)
    return found


def _absolute(room: Room, node: ast.ImportFrom) -> str:
    """The module an import statement starts from, relative dots resolved."""
    if not node.level:
        return node.module or ""
    parts = room.full.split(".")
    up = node.level - 1 if room.package else node.level
    parts = parts[: len(parts) - up]
    return ".".join([*parts, node.module] if node.module else parts)
