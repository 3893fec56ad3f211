"""Modules and functions of human size, folders that can be looked over, and nothing public without a docstring."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.style.layers import ROOT, Module, each_module, modules

MODULES = modules()

MODULE_LINES = 500  # 300 is a signal, no law
FUNCTION_LINES = 40  # the docstring does not count: a long explanation is no fault
FOLDER_MODULES = (
    14  # what can be read at a glance; a folder with more holds two things that deserve two names
)

ALL_MODULES = 520  # decision 0030: each issue that raises these says what it bought
ALL_LINES = 89_000

# Named exceptions: what, how long it may be, and why it is better whole. Each must still be needed.
LONG_MODULES: dict[str, tuple[int, str]] = {}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {
    "archive.store.schema.migrations.versions.0001_catalogue.upgrade": (
        60,
        "tables side by side are a list; cutting it hides it",
    ),
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    """("identifier.ibip.IBIp.parse", definition) for every function, also those inside others."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}.{child.name}", child
            yield from _functions(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}.{child.name}")
        elif not isinstance(child, ast.expr):  # no function is defined inside an expression
            yield from _functions(child, prefix)


def _length(function: Definition) -> int:
    """Lines from `def` to the end, the docstring taken off."""
    assert function.end_lineno is not None
    whole = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is None:
        return whole
    assert first.end_lineno is not None
    return whole - (first.end_lineno - first.lineno + 1)


@cache
def _function_sizes() -> dict[str, int]:
    return {
        name: _length(f) for module in MODULES.values() for name, f in _functions(module.tree, module.name)
    }


MODULE_SIZES = {module.name: len(module.text.splitlines()) for module in MODULES.values()}


def test_modules_are_of_human_size() -> None:
    allowed = {name: LONG_MODULES.get(name, (MODULE_LINES, ""))[0] for name in MODULE_SIZES}
    assert {n: size for n, size in MODULE_SIZES.items() if size > allowed[n]} == {}


def _modules_of_folders() -> dict[str, int]:
    """Folder -> how many modules lie in it, for the source and for the tests."""
    paths = [path for place in ("src/ibi", "tests") for path in (ROOT / place).rglob("*.py")]
    return Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)


def test_folders_can_be_looked_over() -> None:
    assert {name: size for name, size in _modules_of_folders().items() if size > FOLDER_MODULES} == {}


def test_the_top_of_the_source_can_be_looked_over() -> None:
    no_names = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    names = {path.name for path in (ROOT / "src/ibi").iterdir()} - no_names
    assert len(names) <= FOLDER_MODULES, sorted(names)


def test_there_are_not_too_many_modules() -> None:
    """What is only split to stay below a number, or is only a function of its neighbour, is joined again."""
    assert len(MODULES) <= ALL_MODULES


def test_the_source_is_no_longer_than_it_must_be() -> None:
    """Counted with docstrings, comments and blank lines. What adds lines deletes some, or says why in decision 0030."""
    assert sum(module.text.count("\n") for module in MODULES.values()) <= ALL_LINES


def test_a_quick_test_opens_no_socket_and_starts_no_process() -> None:
    """`make quick` is quick because of this; what needs either belongs into tests/service."""
    needs = re.compile(r"^\s*(?:import|from) (?:subprocess|socket|multiprocessing)\b", re.MULTILINE)
    files = (ROOT / "tests/unit").rglob("*.py")
    assert [path.name for path in files if needs.search(path.read_text(encoding="utf-8"))] == []


def test_functions_are_short() -> None:
    allowed = {name: LONG_FUNCTIONS.get(name, (FUNCTION_LINES, ""))[0] for name in _function_sizes()}
    assert {n: size for n, size in _function_sizes().items() if size > allowed[n]} == {}


def test_every_exception_is_still_needed_and_has_a_reason() -> None:
    modules = {n: MODULE_SIZES.get(n, 0) > MODULE_LINES and bool(why) for n, (_, why) in LONG_MODULES.items()}
    functions = {
        n: _function_sizes().get(n, 0) > FUNCTION_LINES and bool(why)
        for n, (_, why) in LONG_FUNCTIONS.items()
    }
    assert [name for name, needed in (modules | functions).items() if not needed] == []


Described = Definition | ast.ClassDef


def _public(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Described]]:
    """Public classes and functions, and the public methods of those classes (magic methods left out)."""
    for child in node.body:
        if isinstance(
            child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not child.name.startswith("_"):
            yield f"{prefix}.{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from _public(child, f"{prefix}.{child.name}")


@each_module
def test_everything_public_says_what_it_is(module: Module) -> None:
    silent = [] if ast.get_docstring(module.tree) or module.text == "" else [module.shown]
    silent += [
        name
        for name, node in _public(module.tree, module.name)
        if ast.get_docstring(node) is None and not _is_overload(node)
    ]
    assert silent == []


def _is_overload(node: Described) -> bool:
    return any(isinstance(d, ast.Name) and d.id in {"overload", "override"} for d in node.decorator_list)


@each_module
def test_every_parameter_and_result_is_annotated(module: Module) -> None:
    bare = []
    for name, function in _functions(module.tree, module.name):
        arguments = function.args
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        bare += [
            f"{name}({a.arg})" for a in every if a and a.annotation is None and a.arg not in {"self", "cls"}
        ]
        bare += [f"{name} ->"] if function.returns is None else []
    assert bare == []


SILENCED = re.compile(r"#\s*(?:type:\s*ignore|noqa|pragma:|ruff:\s*noqa|mypy:|pylint:)", re.IGNORECASE)
WITH_REASON = re.compile(
    r"#\s*(?:type:\s*ignore\[[a-z-]+(?:,\s*[a-z-]+)*\]|noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)\W+\w+.*\w+",
)
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b|\bNotImplemented" r"Error\b")


def _python_files() -> list[Path]:
    places = ("src", "tests", "conformance", "proofs", "bench", "tools")
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py"))


def test_a_silenced_check_names_its_code_and_its_reason() -> None:
    mute = []
    for path in _python_files():
        text = path.read_text(encoding="utf-8")
        # To look at tokens takes a hundred times as long, and is needed only to see what is a comment.
        if all(WITH_REASON.search(line) for line in text.splitlines() if SILENCED.search(line)):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            comment = token.string if token.type == tokenize.COMMENT else ""
            if SILENCED.search(comment) and not WITH_REASON.search(comment):
                mute.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {comment}")
    assert mute == []


def test_nothing_is_left_for_later_in_the_code() -> None:
    unfinished = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _python_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert unfinished == []


@pytest.mark.parametrize(
    ("comment", "good"),
    [
        ("# noqa: S310 the address was checked above", True),
        ("# type: ignore[no-untyped-call]  # abnf ships no types", True),
        ("# noqa: S310", False),
        ("# noqa", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
    ],
)
def test_the_watch_for_silenced_checks_tells_good_from_bad(comment: str, good: bool) -> None:
    assert SILENCED.search(comment)
    assert bool(WITH_REASON.search(comment)) is good
