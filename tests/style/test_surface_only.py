"""Tests stand at the surface: they touch no private name of ours, so that what is behind it can be written anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.style.layers import ROOT
from support.style.words import nodes_of

NOT_OURS = {
    "_replace": "a named tuple's own; without the underscore it could be a field",
    "_asdict": "the same",
    "_fields": "the same",
    "_exit": "os has no other way to end a process as a kill does",
    "_Environ": "os has no public name for the class of os.environ, whose readers are recorded",
    "_getframe": "sys has no other way to tell who reads a variable",
    "_actions": "argparse has no public way to ask a parser what it takes",
    "_AppendAction": "the same: whether an option may be given again",
    "_SubParsersAction": "the same: which commands there are",
    "_mutually_exclusive_groups": "the same: which options exclude each other",
    "_group_actions": "the same",
    "_option_string_actions": "the same: whether an option is known",
}
"""Private names of the standard library that have no public way, and why each is needed."""

OURS = {
    "tests/hostile/archive/test_packages.py": (
        {"_txt"},
        "the end of a keyword that stands for .txt: no name of code",
    ),
    "tests/style/test_words.py": ({"_keepersOf"}, "an example of a name with a word that must not come back"),
    "tests/proofs/test_evidence_short.py": (
        {"_after", "_recover_head", "_fault_of"},
        "breaks the code on purpose, behind the surface, to show that the proof finds it",
    ),
    "tests/proofs/test_resolution_short.py": (
        {
            *("_alert", "_ask", "_awaited"),
            *("_hear_stale", "_members", "_named", "_next_step", "_widen"),
        },
        "breaks machines and modules on purpose, behind the surface, to show that the proof finds it",
    ),
}
"""Files that may touch names of ours, which, and why."""


def _is_private(name: object) -> bool:
    return isinstance(name, str) and name[:1] == "_" != name[1:2] and name[1:].isidentifier()


_MAY_TOUCH = re.compile(
    r"(?<!self)(?<!cls)\._[^\W_]|[\"']_[^\W_]|import\b[^\n]*\b_[^\W_]|^\s+_\w+(?: as \w+)?,$", re.MULTILINE
)
"""What a text that touches one has: to look at all nodes costs far more."""


def touched(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each private name of another: reached by a point, imported, or named in a string."""
    if not _MAY_TOUCH.search(text):
        return
    nodes = nodes_of(ast.parse(text))
    typing = {id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and _makes_variable(node)}
    for node in nodes:
        names: list[object] = []
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and id(node) not in typing:
            names = [node.value]
        yield from ((getattr(node, "lineno", 0), str(name)) for name in names if _is_private(name))


def _is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def _makes_variable(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in {"TypeVar", "ParamSpec"}


@cache
def _found() -> dict[str, set[tuple[int, str]]]:
    return {
        path.relative_to(ROOT).as_posix(): set(touched(path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
    }


def test_no_test_touches_a_private_name_of_ours() -> None:
    assert [
        f"{path}:{line}: {name}"
        for path, found in _found().items()
        for line, name in sorted(found)
        if name not in NOT_OURS and name not in OURS.get(path, ((), ""))[0]
    ] == []


def test_every_exception_is_still_needed_and_has_a_reason() -> None:
    found = {path: {name for _, name in places} for path, places in _found().items()}
    assert set(NOT_OURS) <= set[str]().union(*found.values())
    assert {path: names - found[path] for path, (names, _) in OURS.items() if not names <= found[path]} == {}
    assert all([*NOT_OURS.values(), *(why for _, why in OURS.values())])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("client._pool._known", ["_known", "_pool"]),
        ("super()._make()", ["_make"]),
        ("from ibi.a import b, _c as c", ["_c"]),
        ("monkeypatch.setattr(module, '_PAUSE', 0)", ["_PAUSE"]),
        ("self._own, cls._own, module.__file__, '_', '_ a', '__all__'", []),
        ("_T = TypeVar('_T')", []),
    ],
)
def test_private_names_are_seen_however_they_are_touched(text: str, names: list[str]) -> None:
    assert sorted(name for _, name in touched(text)) == names
