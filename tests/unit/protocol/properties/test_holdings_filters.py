"""A holdings filter is read as it was written; with a byte changed, it is another filter or none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbloom import Bloom

from ibi.errors import ParseError
from ibi.protocol.extensions.holdings import MOST_HASHES, HoldingsFilter, number_of
from support.oracles.holdings import may_hold

filters = st.builds(
    HoldingsFilter,
    st.integers(0, 10**10 - 1),
    st.integers(1, MOST_HASHES),
    st.binary(min_size=1, max_size=40),
)
names = st.text(st.characters(codec="ascii"), max_size=20)


@given(published=filters, name=names)
def test_a_filter_is_read_as_it_was_written(published: HoldingsFilter, name: str) -> None:
    page = published.text()
    assert HoldingsFilter.read(page) == published
    saved = published.hashes.to_bytes(8, "little") + published.bits
    assert (number_of(name) in Bloom.load_bytes(saved, int)) is may_hold(page, name)


@given(published=filters, at=st.integers(0, 200), byte=st.binary(max_size=1))
def test_a_changed_filter_is_another_one_or_none(published: HoldingsFilter, at: int, byte: bytes) -> None:
    page = published.text()
    at %= len(page)
    for changed in (page[:at] + byte + page[at + 1 :], page[:at] + byte + page[at:]):
        with suppress(ParseError):
            read = HoldingsFilter.read(changed)
            assert len(changed) == len(page) or b"bits=%d\n" % (8 * len(read.bits)) in changed
            assert HoldingsFilter.read(read.text()) == read
    for cut in (page[:at], page[:-1]):
        with pytest.raises(ParseError):
            HoldingsFilter.read(cut)
