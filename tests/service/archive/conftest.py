"""The fixtures of an Archive, which stand in tests/support for both tiers; and what is tried with either store."""

import pytest

from support.archive.fixtures import (
    archive,
    databases_are_dropped,
    files_place,
    full,
    joined,
    new_archive,
    own,
    stored_in,
    stores_are_closed,
)
from support.engines.wanted_store import in_stores

__all__ = [
    "archive",
    "databases_are_dropped",
    "files_place",
    "full",
    "joined",
    "new_archive",
    "own",
    "stored_in",
    "stores_are_closed",
]

ON_BOTH = frozenset({
    "test_catalogue", "test_item_changes", "test_item_histories",
    "test_service", "test_positions", "test_acknowledgments", "test_reuse",
    "test_importing", "test_changes", "test_transfer",
})  # fmt: skip
"""The modules whose tests run with the catalogue in a SQLite file, and again with it in PostgreSQL.

With `IBI_TEST_STORE=postgresql` the tests of all modules use PostgreSQL alone, but for those marked `one_store`.
"""


@pytest.hookimpl(tryfirst=True)  # else the order of names in an id depends on how pytest is called
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the stores that it is for."""
    in_stores(metafunc, both=metafunc.module.__name__.rpartition(".")[2] in ON_BOTH)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the stores of a catalogue and of files, combine SQLite with the folder, and PostgreSQL with S3.

    No code depends on the two together, and each test would run four times.
    """
    mixed = [item for item in items if _is_mixed(item)]
    config.hook.pytest_deselected(items=mixed)
    items[:] = [item for item in items if not _is_mixed(item)]


def _is_mixed(item: pytest.Item) -> bool:
    chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return (chosen.get("stored_in"), chosen.get("files_place")) in {
        ("sqlite", "s3"),
        ("postgresql", "folder"),
    }
