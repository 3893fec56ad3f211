"""Which columns a table may have, what a cell becomes, and what is told of a column or a row that is refused."""

from __future__ import annotations

import io
from hashlib import sha256

import pytest

from ibi.archive.ingest.sources.table import TableColumns, read_table, table_columns
from ibi.archive.model.item_json import LONGEST_LINE, Draft
from ibi.errors import BadItem
from support.checks.source_records import one, problems, read, values_of

REP = "a.example/b/2010/01.01.00.00"


@pytest.mark.parametrize(
    ("names", "values", "fact", "expected"),
    [
        ("access", "closed", "access", "closed"),
        ("transferable", "não", "transferable", False),
        ("transferable", "1", "transferable", True),
        ("language", "Inglês", "language", "en"),
        ("aliases", "6RPa7umaZ/UaJFT; 6RPa7umaZ/UaJFT;", "aliases", ["6RPa7umaZ/UaJFT"]),
        ("translations.-", REP, "translations", {"": REP}),
        ("translations.pt", f" {REP} ", "translations", {"pt": REP}),
    ],
)
def test_a_cell_becomes_a_fact(names: str, values: str, fact: str, expected: object) -> None:
    found = one(read_table, f"url,{names}\nhttp://far.example/,{values}\n").facts[fact]
    if isinstance(expected, dict):
        found = {tag: str(link.main) for tag, link in found.items()}
    elif isinstance(expected, list):
        found = [str(each) for each in found]
    assert found == expected


def test_columns_of_one_element_are_read_together_and_one_without_a_name_is_passed_over() -> None:
    names = "url,,title,dc.Advisor,Title,contributor,,metadata.title"
    draft = one(read_table, f"{names}\nhttp://far.example/,x,A;B,Souza,C,Lima,y,D,,\n")
    assert values_of(draft, "title") == ["A", "B", "C", "D"]
    assert values_of(draft, "contributor") == ["Souza [adviser]", "Lima"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("url, url", "there are two columns url"),
        ("translations.pt,title,translations.pt", "there are two columns translations.pt"),
        ("adviser,orientador", "there are two columns adviser"),
        ("title,title,url", ""),
        ("title.pt,title.en,url", ""),
    ],
)
def test_a_column_may_stand_twice_only_if_it_has_several_values(names: str, problem: str) -> None:
    found = ""
    try:
        read(read_table, f"{names}\nx,y,http://far.example/\n")
    except BadItem as error:
        found = str(error)
    assert found == problem


def test_an_unknown_column_is_told_with_all_that_there_are() -> None:
    with pytest.raises(BadItem) as raised:
        read(read_table, "url,colour\nhttp://far.example/,x\n")
    names = str(raised.value.details["columns"]).split(", ")
    assert str(raised.value) == (
        f"there is no column colour; there are {', '.join(names)}, and those such as title.pt and translations.pt"
    )
    assert {"access", "files", "ibi", "key", "rep", "timestamp", "url"} < set(names)
    assert {"title", "creator", "metadata.language"} < set(names)
    assert not {"metadata", "translations", "language.pt"} & set(names)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_names_of_columns_are_shown_before_anything_is_read(separator: str) -> None:
    names = f"url;{'c' * 100}; Title ;;a\x07b;url.x;translations.pt".replace(";", separator)
    assert table_columns(io.BytesIO(f"{names}\nx\n".encode())) == TableColumns(
        ("url", "Title", "translations.pt"), ("c" * 80, "a?b", "url.x")
    )
    assert table_columns(io.BytesIO(b"")) == TableColumns((), ())
    with pytest.raises(BadItem, match="the row is not CSV: unexpected end of data"):
        table_columns(io.BytesIO(b'"url'))


@pytest.mark.parametrize(
    ("names", "row", "problem"),
    [
        ("title,url", "T,http://far.example/,x", "the row has more cells than there are columns"),
        ("files,title", "a/b c.pdf;x/b c.pdf,T", "two files are called b c.pdf"),
        ("title,url", '"a"b,c', "the row is not CSV: ',' expected after '\"'"),
        (
            "ibi,title",
            "nothing,T",
            "it has four parts with slashes between them: subdomain/word/year/month.day.hour.minute",
        ),
    ],
)
def test_the_fault_of_a_row_is_told_whole(names: str, row: str, problem: str) -> None:
    ((line, found),) = problems(read_table, f"{names}\n{row}\n")
    assert (line, found) == (2, problem)


@pytest.mark.parametrize("column", ["files", "title", ""])
def test_a_row_with_bytes_of_another_encoding_is_refused_in_a_sentence(column: str) -> None:
    text = f"url,{column}\nhttp://far.example/,é\n".encode() + b"http://far.example/,\xe9\n"
    sentence = "the text is not in the encoding that the rest of the file has"
    assert (3, sentence) in problems(read_table, text)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (f"{REP},8JMKD3MGP8W/35MME4E,k", REP),
        (",8JMKD3MGP8W/35MME4E,k", "8JMKD3MGP8W/35MME4E"),
        (",,k", "k"),
        (",,", ""),
    ],
)
def test_a_row_is_called_by_its_first_name(row: str, name: str) -> None:
    (found,) = read(read_table, f"rep,ibip,key,url\n{row},http://far.example/\n")
    assert found.name == name


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_line_is_read_and_a_longer_one_is_not(more: int) -> None:
    cells = f"{'x' * 99_999}," * 10
    row = cells + "x" * (LONGEST_LINE - len(cells) - len("\n") + more)
    found = read(read_table, f"url,title\n{row}\nhttp://far.example/,T\n")
    too_long = f"the row is not CSV: line longer than {LONGEST_LINE} characters"
    too_many = "the row has more cells than there are columns"
    assert str(found[0].draft) == (too_long if more else too_many)
    assert isinstance(found[1].draft, Draft)


def test_a_row_without_a_name_has_a_key_that_its_content_gives() -> None:
    content = b'{"metadata":{"title":["T"]},"url":"http://far.example/"}'
    for text in ("title,url\nT,http://far.example/\n", "url,title\nhttp://far.example/,T\n"):
        assert one(read_table, text).key == f"sha256:{sha256(content).hexdigest()}"
