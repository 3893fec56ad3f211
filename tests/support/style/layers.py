"""The layers of the source, from the lowest up. Imports go only down.

A newcomer reads this list first; `test_layers.py` holds the code to it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from support.style.words import nodes_of

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "ibi"


@dataclass(frozen=True)
class Layer:
    """Modules or packages (names below `ibi`) at one height. Those of one layer do not import each other."""

    packages: tuple[str, ...]
    what: str
    pure: bool = False  # imports nothing that listens, waits, remembers or asks the machine


LAYERS = (  # the lowest first
    Layer(("errors",), "everything raised on purpose", pure=True),
    Layer(("identifier",), "what a name is: standard 1", pure=True),
    Layer(("protocol",), "what is said: standard 2", pure=True),
    Layer(("",), "the promised names of the library (ibi/__init__.py)", pure=True),
    Layer(("client",), "programs that speak to servers, with Python alone"),
    Layer(("runtime",), "disk, database, clock, settings, languages"),
    Layer(("http",), "what crosses a socket"),
    Layer(("accounts",), "people, sessions, tokens"),
    Layer(("api",), "the JSON interface"),
    Layer(("minting",), "names given durably"),
    Layer(("archive", "resolver"), "two programs that meet only over HTTP"),
    Layer(("web",), "pages and formats of both programs"),
    Layer(("app",), "putting together; doctor"),
    Layer(("cli",), "the command line"),
    Layer(("__main__",), "python -m ibi"),
)

# Higher up, these decide without doing and are held as pure as the lowest layers.
PURE = (
    "archive.model.access",
    "archive.model.answer",
    "archive.model.changes",
    "archive.model.item",
    "archive.model.relations",
    "archive.oai.request",
    "http.accept",
    "http.client_address",
    "http.limits.fair_queue",
    "http.limits.token_bucket",
    "http.request",
    "resolver.model.alert",
    "resolver.model.archive",
    "resolver.model.archive",
    "resolver.model.statements",
    "resolver.model.suggestion",
    "resolver.negotiation",
    "resolver.resolve.breaker",
    "resolver.resolve.policy",
    "resolver.resolve.resolution",
    "resolver.resolve.selection",
)

FOLDERS_WITHOUT_CIRCLES = ("", "archive", "resolver")
"""Between the packages directly inside these, imports form no circle."""


@dataclass(frozen=True)
class Module:
    """One module of the source."""

    name: str  # dotted, below `ibi`: "identifier.ibip"; a package is named by itself; ibi/__init__.py is ""
    path: Path
    package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree; parsed only when a test asks, because every worker collects all of them."""
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of that tree: a dozen tests look at all of them."""
        return nodes_of(self.tree)

    @property
    def full(self) -> str:
        """The name that imports it: "ibi.identifier.ibip"."""
        return f"ibi.{self.name}" if self.name else "ibi"

    @property
    def shown(self) -> str:
        """Its path from the top of the checkout."""
        return self.path.relative_to(ROOT).as_posix()


def _module(path: Path) -> Module:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    package = parts[-1] == "__init__"
    if package:
        parts.pop()
    text = path.read_text(encoding="utf-8")
    return Module(".".join(parts), path, package, text)


@cache
def modules() -> dict[str, Module]:
    """Every module in src/ibi, by its name below `ibi`."""
    return {module.name: module for module in map(_module, sorted(SOURCE.rglob("*.py")))}


def each_module(check: Callable[[Module], None]) -> Callable[[], None]:
    """One test that a check holds for every module; it lists all that fail.

    Not one test for each: there would be more of them than of all others together.
    """

    def test() -> None:
        faults = []
        for module in modules().values():
            try:
                check(module)
            except AssertionError as fault:
                faults.append(f"{module.shown}: {fault}")
        assert not faults, "\n".join(faults)

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def within(name: str, package: str) -> bool:
    """Whether the module `name` is `package` or lies inside it."""
    return name == package or (package != "" and name.startswith(f"{package}."))


def height(name: str) -> int | None:
    """The layer of a module, counted from 0 at the bottom; None for a module that is on no layer."""
    for number, layer in enumerate(LAYERS):
        if any(within(name, package) for package in layer.packages):
            return number
    return None


def is_pure(name: str) -> bool:
    """Whether a module must import nothing that listens, waits, remembers or asks the machine."""
    number = height(name)
    return (number is not None and LAYERS[number].pure) or any(within(name, package) for package in PURE)


def imported(module: Module, known: dict[str, Module]) -> dict[str, int]:
    """All that a module imports, at any depth of its code: full dotted name -> line.

    `from ibi.archive.model import item` counts as `ibi.archive.model.item` where that is a module.
    """
    found: dict[str, int] = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = inner.removeprefix("ibi.") in known and inner.startswith("ibi.")
                found.setdefault(inner if is_module else base, node.lineno)
    return found


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module an import statement starts from, relative dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.full.split(".")
    up = node.level - 1 if module.package else node.level
    parts = parts[: len(parts) - up]
    return ".".join([*parts, node.module] if node.module else parts)
