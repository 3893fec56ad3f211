"""The fixtures of an Archive, which stand in tests/support for both tiers; and what is tried with either store."""

import pytest

from support.archive.fixtures import (
    archive,
    files_place,
    full,
    joined,
    new_archive,
    own,
    stored_in,
    stores_are_closed,
)

__all__ = ["archive", "files_place", "full", "joined", "new_archive", "own", "stored_in", "stores_are_closed"]

ON_BOTH = frozenset({
    "test_catalogue", "test_item_changes", "test_item_histories",
    "test_service", "test_positions", "test_acknowledgments", "test_reuse",
    "test_importing", "test_changes", "test_transfer",
})  # fmt: skip
"""The modules whose tests run with the catalogue in a SQLite file, and again with it in PostgreSQL.

With `IBI_TEST_STORE=postgresql` all others use PostgreSQL, too. What looks into the file is marked `sqlite_file`.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of these modules once for each store."""
    if metafunc.module.__name__.rpartition(".")[2] in ON_BOTH and "stored_in" in metafunc.fixturenames:
        alone = metafunc.definition.get_closest_marker("sqlite_file")
        stores = ["sqlite"] if alone else ["sqlite", "postgresql"]
        metafunc.parametrize("stored_in", stores, indirect=True, scope="module")
