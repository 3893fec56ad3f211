"""The filter that an Archive makes is read by a resolver: each name that is held may be held."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.membership.holdings_filter import FILE, HoldingsFilterFile
from ibi.http.client import AddressPolicy, Client
from ibi.resolver.cache.filters import HoldingsFilters
from support.archive.archive_fixture import NewArchive, make_archive
from support.oracles.state_machines import folder_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVICE = "archive.example/w/2020/01.01.00.00"
LINE = f"{SERVICE} archive.example ".encode()


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewArchive]:
    """An Archive to which each example adds items."""
    archive = make_archive(tmp_path_factory.mktemp("growing") / "archive", "archive.example", {})
    yield archive
    archive.catalogue.close()


def resolver_with(folder: Path, text: bytes) -> HoldingsFilters:
    """The filters of a resolver in whose folder there is this file."""
    (folder / "one.filter").write_bytes(text)
    return HoldingsFilters(folder, tuple, lambda: Client(AddressPolicy()), time.time)


@settings(max_examples=max(1, settings().max_examples // 5))
@given(
    added=st.lists(
        st.tuples(st.sampled_from("abAB"), st.integers(0, 59), st.integers(0, 59), st.booleans()), max_size=4
    ),
    at=st.integers(0, 10_000),
    byte=st.binary(max_size=1),
)
def test_each_name_that_an_archive_holds_may_be_held(
    growing: NewArchive, added: list[tuple[str, int, int, bool]], at: int, byte: bytes
) -> None:
    lines = [
        {"rep": f"{word}.example/b/2010/01.01.{hour % 24:02}.{minute:02}", "state": "Deleted"}
        if removed
        else {"ibip": f"LK47B6W/{word}{hour + 60}{minute + 60}".translate({48: 66, 49: 67})}
        for word, hour, minute, removed in added
    ]
    growing.load(*lines)
    asyncio.run(HoldingsFilterFile(growing.catalogue, growing.data).look())
    page = (growing.data / FILE).read_bytes()
    held = [name.canonical for item in growing.catalogue.all() for name in item.names]
    assert len(held) >= 2
    with folder_in_memory() as folder:
        known = resolver_with(folder, LINE + b"\n" + page)
        assert [name for name in held if known.may_hold(name) != [SERVICE]] == []
    text = LINE + b"\n" + page
    at %= len(text)
    with folder_in_memory() as folder:
        known = resolver_with(folder, text[:at] + byte + text[at + 1 :])
        assert [len(known.may_hold(name)) for name in held if len(known.may_hold(name)) > 1] == []
