"""A valid traceparent of a reader's request is passed on to the Archives that are asked for it, and kept nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.resolver.one_item import IBI, answer_of, item, m16c, m16d
from support.scripted_archive import HEADERS, ScriptedArchive

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def passed_on(data: Path, *headers: str) -> list[str | None]:
    """The traceparent of each query to two Archives; acknowledgments have none."""
    around: list[ScriptedArchive] = [m16c(item()), m16d()]
    for archive in around:
        archive.expected_headers = HEADERS | {"traceparent"}
    assert answer_of(data, around, f"/{IBI}", *headers).status == 302
    assert not any("traceparent" in each.headers for each in around[0].requests("acknowledgment"))
    queries = [each for archive in around for each in archive.requests("urlRequest")]
    assert {archive.name for archive in around if archive.requests("urlRequest")} == {"m16c", "m16d"}
    return [each.headers.get("traceparent") for each in queries]


@pytest.mark.parametrize(
    ("parent", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", "01"),
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"00-{TRACE}-{SPAN}-ff", "01"),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", "01"),
    ],
)
def test_each_query_belongs_to_the_trace_of_its_request(tmp_path: Path, parent: str, flags: str) -> None:
    for line in passed_on(tmp_path, f"traceparent: {parent}"):
        assert line is not None
        version, trace, span, found = line.split("-")
        assert (version, trace, found) == ("00", TRACE, flags)
        assert span != SPAN
        assert (len(span), int(span, 16) > 0) == (16, True)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not any(TRACE.encode() in content for content in written)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0\xe9",
    ],
)
def test_what_is_no_traceparent_is_not_passed_on(tmp_path: Path, parent: str) -> None:
    assert set(passed_on(tmp_path, f"traceparent: {parent}")) == {None}


def test_without_a_trace_archives_are_told_of_none(tmp_path: Path) -> None:
    assert set(passed_on(tmp_path)) == {None}
