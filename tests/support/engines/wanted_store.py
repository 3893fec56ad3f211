"""Which store the tests use: what IBI_TEST_STORE says, and what a test says that is for one store alone."""

from __future__ import annotations

import os

import pytest


def wanted_store() -> str:
    """The store that IBI_TEST_STORE names, "" if tests are to choose."""
    return os.environ.get("IBI_TEST_STORE", "")


def in_stores(metafunc: pytest.Metafunc, *, both: bool = False) -> None:
    """Run a test with the store of its mark `one_store`, with the one that is wanted, or with `both`."""
    if "stored_in" not in metafunc.fixturenames:
        return
    alone = metafunc.definition.get_closest_marker("one_store")
    usual = wanted_store() or "sqlite"
    stores = [alone.args[0]] if alone else [usual]
    if both and not alone and not wanted_store():
        stores = ["sqlite", "postgresql"]
    if stores != [usual]:
        metafunc.parametrize("stored_in", stores, indirect=True, scope="module")
