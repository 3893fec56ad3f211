"""Sentences with places, and what fills them: "{name} is missing" must be made with `name=`, or it is shown as it is.

A sentence stands in the call itself, or in a name of the same function. Those of a table of a module, which are filled
where they are said, are left to the tests of what is shown.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator

import sentences

_COUNTED = 3  # the arguments of `say_count` before its named ones: the number and its two sentences


_SAYERS = (sentences.ERRORS | sentences.SAYERS) - {"_"}  # "_" marks a sentence that is said elsewhere
_BY_ITSELF = {"say_count": {"count"}, "PeerBusy": {"seconds"}, "setup_errors": {"reason"}}
"""What a call fills without being given it."""


def unfilled(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each call in a module that leaves a place of its sentence empty, and the sentence."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in _calls(function):
                filled = _filled(call)
                if filled is not None:
                    for sentence in _sentences(call, function):
                        if _places(sentence) - filled:
                            yield call.lineno, sentence


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """The calls of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if isinstance(child, ast.Call):
                yield child
            yield from _calls(child)


def _assigned(function: ast.AST, name: str, line: int) -> list[str]:
    """The texts of a name of a function at a line: those of the last assignment before it."""
    given = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and node.lineno < line
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    return _texts(max(given, key=lambda node: node.lineno).value) if given else []


def _texts(value: ast.expr) -> list[str]:
    """The text that a value is, or each of two that it may be."""
    if isinstance(value, ast.IfExp):
        return _texts(value.body) + _texts(value.orelse)
    return [value.value] if isinstance(value, ast.Constant) and isinstance(value.value, str) else []


def _sentences(call: ast.Call, function: ast.AST) -> list[str]:
    name = _name(call)
    given: list[ast.expr] = []
    if name == "say_count":
        given = call.args[1:_COUNTED]
    elif name in _SAYERS:
        given = call.args[2:3] if name in {"ParseError", "TextTooLong"} else call.args[:1]
    return [
        text
        for each in given
        for text in (
            _assigned(function, each.id, call.lineno) if isinstance(each, ast.Name) else _texts(each)
        )
    ]


def _filled(call: ast.Call) -> set[str] | None:
    """The places that a call fills; None where it passes a table on, of whatever is in it."""
    filled = set(_BY_ITSELF.get(_name(call), ()))
    for each in call.keywords:
        if each.arg is None:
            return None
        filled.add("path" if each.arg == "under" else each.arg)
    table = call.args[1] if len(call.args) > 1 and _name(call) in sentences.SAYERS else None
    if isinstance(table, ast.Dict):
        return filled | {text for each in table.keys if each is not None for text in _texts(each)}
    return None if isinstance(table, ast.Name | ast.BinOp | ast.Attribute) else filled


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
