"""The sentences of `ibi doctor` that call for something, as they stand in its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from support.style.layers import ROOT, modules

PARTS = {"pt-BR": "## Frases do diagnóstico\n", "en": "## Sentences of the doctor\n"}
"""The part of the page of troubleshooting, in each tree, that explains these sentences."""
MAKERS = {"warning": 1, "fault": 1, "not_proven": 1, "weak": 0}
"""What makes a finding that is not ok -> which of its arguments is the sentence."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Assigned = tuple[int, str]
"""The line of an assignment, and the sentence."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a finding, or "" where it is that of an error; `where`: module and function."""

    where: str
    text: str


def sentences() -> list[Sentence]:
    """Every sentence that a finding may have which is not ok."""
    found: list[Sentence] = []
    for name, module in modules().items():
        if name.startswith("app.doctor"):
            for function in ast.walk(module.tree):
                if isinstance(function, Function) and function.name.lstrip("_") not in MAKERS:
                    found += _of(function, f"{name}.{function.name}")
    return list(dict.fromkeys(found))


def _of(function: Function, where: str) -> Iterator[Sentence]:
    assigned: dict[str, list[Assigned]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            _pair(node.targets[0], node.value, assigned)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            position = MAKERS.get(node.func.id.lstrip("_"))
            if position is not None:
                sentence = node.args[position]
                yield from (
                    Sentence(where, text) for text in _texts(function, node, sentence, assigned) or [""]
                )


def _texts(
    function: Function, call: ast.Call, sentence: ast.expr, assigned: dict[str, list[Assigned]]
) -> list[str]:
    """The sentences that a call may get: its text, or what was assigned to its name last, on each way to it."""
    if isinstance(sentence, ast.Constant):
        return [str(sentence.value)]
    if not isinstance(sentence, ast.Name):
        return []
    before = sorted(each for each in assigned.get(sentence.id, []) if each[0] < call.lineno)
    if not before:
        return []
    last = before[-1][0]
    for node in ast.walk(function):  # the outermost `if` that has the last assignment, and not the call
        if isinstance(node, ast.If) and node.lineno <= last <= _end(node) < call.lineno:
            return [text for line, text in before if node.lineno <= line]
    return [before[-1][1]]


def _end(node: ast.If) -> int:
    return node.end_lineno or node.lineno


def _pair(target: ast.expr, value: ast.expr, assigned: dict[str, list[Assigned]]) -> None:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, given in zip(target.elts, value.elts, strict=True):
            _pair(each, given, assigned)
    elif isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
        assigned.setdefault(target.id, []).append((target.lineno, value.value))


def shown(sentence: str) -> str:
    """A sentence as a page shows it: "…" in each place that differs."""
    return re.sub(r"\{[^}]*\}", "…", sentence)


def entries(tree: str) -> list[str]:
    """The sentences that a page explains: in bold at the beginning of a point, each with a text below."""
    page = ROOT / "docs" / tree / "how-to/troubleshooting.md"
    part = page.read_text(encoding="utf-8").partition(PARTS[tree])[2].partition("\n## ")[0]
    return re.findall(r"^- \*\*(.+)\*\*\n\n  \S", part, re.MULTILINE)


def has_entry(sentence: str) -> bool:
    """Whether the English page explains a sentence of a real finding; it may begin with the name of a subsystem."""
    patterns = (".*".join(map(re.escape, each.split("…"))) for each in entries("en"))
    return any(re.fullmatch(rf"(?:\w+: )?{pattern}", sentence, re.DOTALL) for pattern in patterns)
