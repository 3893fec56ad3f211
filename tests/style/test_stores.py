"""A test that is for one store alone says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from support.style.layers import ROOT

STORES = {"sqlite", "postgresql"}


def _faults(source: str) -> Iterator[str]:
    """Yield the marks `one_store` of a module that name no store, or no reason."""
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "one_store":
            given = calls[id(node)].args if id(node) in calls else []
            match [each.value if isinstance(each, ast.Constant) else None for each in given]:
                case [str(store), str(reason)] if store in STORES and len(reason.split()) > 2:
                    pass
                case _:
                    yield f"line {node.lineno}: {ast.unparse(node)}"


def test_each_test_that_is_for_one_store_says_why() -> None:
    found = {
        path.name: faults
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "one_store" in (source := path.read_text("utf-8")) and (faults := list(_faults(source)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    ["mark.one_store", "mark.one_store()", "mark.one_store('sqlite')", "mark.one_store('mysql', 'a b c')",
     "mark.one_store('sqlite', '')", "mark.one_store('sqlite', reason)"],
)  # fmt: skip
def test_a_mark_without_a_reason_is_found(source: str) -> None:
    assert list(_faults(source)) != []
    assert list(_faults("mark.one_store('sqlite', 'writes into the file')")) == []
