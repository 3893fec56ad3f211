"""`ibi archive search` and `ibi archive index`, as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.archive.search.index import FILE
from ibi.archive.search.words import ORDERS
from ibi.archive.store.data_directory import DataDirectory
from ibi.cli.archive import search
from ibi.minting.machine import this_machine
from support.archive.archive_fixture import settings_for
from support.archive.search_fixture import item

Ibi = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ibi(typed: Ibi, tmp_path: Path) -> Ibi:
    """Runs a command on an Archive with two items: words -> (status, stdout, stderr)."""
    data = tmp_path / "archive"
    directory = DataDirectory(data, this_machine())
    directory.reserve()
    directory.create(settings_for("archive.example"))

    def run(*words: object) -> tuple[int, str, str]:
        return typed("archive", *words, "--data", data)

    lines = (
        item(
            1,
            "Sensoriamento\nremoto \x1b[31m",
            creator=["Câmara, Gilberto"],
            date="2011",
            type="tese",
            language="pt",
        ),
        item(
            2,
            "Remote sensing",
            creator=["Banon, Gerald", "Silva, Ana"],
            date="2012",
            identifier=["https://doi.org/10.1234/Abc-5.6", "ISBN 978-85-17-00031-7"],
        ),
    )
    items = tmp_path / "items.jsonl"
    items.write_text("\n".join(map(json.dumps, lines)))
    assert run("import", items)[0] == 0
    return run


def test_items_are_found_by_their_words_with_what_is_told_of_them(ibi: Ibi) -> None:
    status, out, err = ibi("search", "remot")
    assert (status, err) == (0, "2 found\n")
    assert out.splitlines() == [
        f"{item(2)['rep']}\t2012\t-\tBanon, Gerald; Silva, Ana\tRemote sensing",
        f"{item(1)['rep']}\t2011\tpt\tCâmara, Gilberto\tSensoriamento remoto ?[31m",
    ]


def test_a_search_is_narrowed_down_and_read_by_programs(ibi: Ibi) -> None:
    for words in (
        ("--person", "gerald banon"),
        ("--year", 2012),
        ("--kind", "other"),
        ("sensing", "--page", 1),
    ):
        assert [json.loads(line)["ibi"] for line in ibi("search", *words, "--json")[1].splitlines()] == [
            item(2)["rep"]
        ]
    (line,) = ibi("search", "--language", "pt", "--json")[1].splitlines()
    assert json.loads(line)["people"] == ["Câmara, Gilberto"]


@pytest.mark.parametrize(
    "words",
    [
        ("10.1234/abc-5.6",),
        ("https://doi.org/10.1234/abc-5.6",),
        ("http://dx.doi.org/10.1234/ABC-5.6",),
        ("doi:10.1234/abc-5.6",),
        ("978-85-17-00031-7",),
        ("remote", "sensing"),
        ("sensing", "10.1234/abc-5.6"),
    ],
)
def test_words_need_no_quotes_and_a_doi_finds_its_item(ibi: Ibi, words: tuple[str, ...]) -> None:
    status, out, err = ibi("search", *words)
    assert (status, out[:35], err) == (0, f"{item(2)['rep']}\t2012"[:35], "1 found\n")


def test_what_is_not_there_or_cannot_be_asked_is_said(ibi: Ibi) -> None:
    assert ibi("search", "nowhere") == (1, "", "nothing was found\n")
    for words in ((), ("x", "--year", "soon"), ("x", "--page", 0), ("x" * 501,)):
        status, out, err = ibi("search", *words)
        assert (status > 0, out, err[:5]) == (True, "", "ibi: ")


def test_the_index_is_made_anew(ibi: Ibi, tmp_path: Path) -> None:
    assert ibi("index") == (0, "", "3 items are in the index\n")
    file = tmp_path / "archive" / FILE
    file.write_bytes(b"no database" * 1000)
    assert ibi("search", "remoto")[0] == 0
    file.unlink()
    assert ibi("index")[0] == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_orders_of_the_command_are_those_of_searches() -> None:
    assert search.ORDERS == ORDERS
