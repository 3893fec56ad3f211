"""The fixtures of a resolver's cache, which stand in tests/support; and in which store new resolvers are."""

import pytest

from support.engines.shared_store import data, stored_in, stores_are_dropped
from support.engines.wanted_store import in_stores
from support.resolver.answer_cache_fixture import clock, memory, path

__all__ = ["clock", "data", "memory", "path", "stored_in", "stores_are_dropped"]


@pytest.hookimpl(tryfirst=True)  # else the order of names in an id depends on how pytest is called
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the store that it is for."""
    in_stores(metafunc)
