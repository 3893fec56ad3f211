"""The lines of a file: how long they may be, how many bytes were read, and what a report shows of them."""

from __future__ import annotations

import gc
import io
import json

import pytest

from ibi.archive.ingest.sources.bibtex import read_bibtex
from ibi.archive.ingest.sources.records import read_json_lines, record
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table, table_columns
from ibi.archive.model.item_json import LONGEST_LINE, Draft
from support.checks.source_records import Source, problems, read

URL = '{"url": "http://far.example/%d"}\n'


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_longest_line_of_json_is_read_and_the_line_after_a_longer_one(more: int) -> None:
    """The line end is one of its bytes; more than one byte beyond the limit is read in pieces."""
    begin = '{"url": "http://far.example/", "key": "k"'
    line = begin + " " * (LONGEST_LINE - len(begin) - len("}\n") + more) + "}\n"
    records = read(read_json_lines, line + URL % 2)
    assert [(each.line, isinstance(each.draft, Draft)) for each in records] == [(1, not more), (2, True)]
    if more:
        assert str(records[0].draft) == f"the line is longer than {LONGEST_LINE} bytes"
    assert [each.read for each in records] == [len(line), len(line + URL % 2)]


EACH = pytest.mark.parametrize(
    ("source", "text"),
    [
        (read_json_lines, URL % 1),
        (read_table, "url\nhttp://far.example/é\n"),
        (read_ris, "TY  - BOOK\nTI  - é\nER  -\n"),
        (read_bibtex, "@misc{k, title = {é}}\n"),
    ],
    ids=["jsonl", "csv", "ris", "bibtex"],
)


@EACH
def test_a_file_that_was_read_is_closed_by_its_opener_alone(source: Source, text: str) -> None:
    file = io.BytesIO(text.encode())
    list(source(file))
    if source is read_table:
        file.seek(0)
        table_columns(file)
    gc.collect()
    assert not file.closed


@EACH
def test_a_file_is_read_from_its_beginning(source: Source, text: str) -> None:
    file = io.BytesIO(text.encode())
    file.seek(0 if source is read_json_lines else 5)
    assert [each.line for each in source(file)] == [2 if source is read_table else 1]


@EACH
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_at_the_end_all_bytes_have_been_read(source: Source, text: str, encoding: str) -> None:
    written = text.encode(encoding)
    assert [each.read for each in read(source, written)] == [len(written)]


def test_only_the_first_line_may_begin_with_a_byte_order_mark() -> None:
    text = f"\ufeff{URL % 1}\n  \n\ufeff{URL % 2}[]\n"
    assert problems(read_json_lines, text) == [
        (4, "the line is not JSON"),
        (5, "the line is not a JSON object"),
    ]


def test_a_line_ends_at_a_line_feed_alone() -> None:
    text = "@misc{k, title = {a\rb}}\r\n@misc{l, title = {T}}\n"
    assert [each.line for each in read(read_bibtex, text)] == [1, 2]


def test_a_name_is_shown_short_and_with_a_mark_for_what_cannot_be_printed() -> None:
    (long, odd) = read(read_bibtex, f"@misc{{{'k' * 201}, title = {{T}}}}\n@misc{{a\x07b, title = {{T}}}}\n")
    assert (long.name, odd.name) == ("k" * 200, "a?b")


def test_what_is_passed_over_and_what_no_calendar_has_is_told() -> None:
    value = {"url": "http://far.example/", "metadata": {"date": ["2021-02-30", "2021-02"]}}
    found = record(1, "x", value, 0, ["file", "note"])
    assert [str(note) for note in found.notes()] == [
        "not imported, for an item has no field for it: file, note",
        "date: no calendar has the date 2021-02-30",
    ]
    assert [*record(1, "x", {"url": "nowhere"}, 0, ["file"]).notes()] == []
    assert [*record(1, "x", {"url": "http://far.example/"}, 0).notes()] == []


@pytest.mark.parametrize("place", ["value", "field", "list"])
def test_half_a_character_anywhere_in_a_record_refuses_it(place: str) -> None:
    half = json.loads(r'"\ud800"')
    value = {"value": {"key": half}, "field": {half: "x"}, "list": {"metadata": {"title": ["T", half]}}}[
        place
    ]
    found = record(1, "", {"url": "http://far.example/", **value}, 0)
    assert str(found.draft) == "the text is not in the encoding that the rest of the file has"
