"""Ranges: the part that is sent is the one that was asked for, by a plain reading of RFC 9110, 14.1.2."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ibi.http.conditional import Unsatisfiable, part, unchanged
from ibi.http.request import Request

TAG = '"abc"'
numbers = st.integers(0, 12)


def requested(**headers: str) -> Request:
    return Request.raw(
        b"/",
        [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "127.0.0.1",
    )


def naive_part(first: int | None, last: int | None, content: bytes) -> bytes | None:
    """The bytes; None for all of them, b"" where there is no such part."""
    if first is None:
        return None if last is None else content[-last:] if last else b""
    if last is not None and last < first:
        return None
    return content[first : None if last is None else last + 1]


@given(first=st.none() | numbers, last=st.none() | numbers, size=numbers)
def test_the_part_that_is_sent_is_the_one_that_was_asked_for(
    first: int | None, last: int | None, size: int
) -> None:
    content = bytes(range(size))
    wanted = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    expected = naive_part(first, last, content)
    try:
        found = part(requested(range=wanted), TAG, size)
    except Unsatisfiable:
        assert expected == b""
        return
    assert expected == (None if found is None else content[found[0] : sum(found)])
    assert found is None or found[1] > 0


@given(
    tags=st.lists(st.text("abc,W/ ", max_size=4), max_size=4),
    weak=st.booleans(),
    mine=st.text("abc,W/ ", max_size=4),
)
def test_a_tag_is_known_again_in_any_list_of_tags(tags: list[str], weak: bool, mine: str) -> None:
    header = ", ".join(f'{"W/" if weak else ""}"{tag}"' for tag in tags)
    known = unchanged(requested(if_none_match=header), f'"{mine}"', "2009-07-21T13:23:45Z")
    assert known == (mine in tags)
