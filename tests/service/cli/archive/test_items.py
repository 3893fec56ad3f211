"""`ibi archive deposit`, `edit`, `show`, `list` and `delete`, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unicodedata import normalize

import pytest

from ibi.archive.store.data_directory import DataDirectory
from ibi.minting.machine import this_machine
from support.archive.archive_fixture import settings_for

Ibi = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ibi(typed: Ibi) -> Ibi:
    """Runs a command of Archives: words -> (status, stdout, stderr)."""
    return partial(typed, "archive")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a new Archive that may mint."""
    directory = DataDirectory(tmp_path / "archive", this_machine())
    directory.reserve()
    names = {
        "mint_host": "archive.example",
        "mint_ip": "192.0.2.1",
        "for_trying": True,
        "granularity": "0.001",
    }
    directory.create(settings_for("archive.example", **names))
    return tmp_path / "archive"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A folder with a report in it."""
    folder = tmp_path / "report"
    (folder / "figures").mkdir(parents=True)
    (folder / "report 1.pdf").write_bytes(b"%PDF-1.4 ...")
    (folder / "figures" / "map.png").write_bytes(b"\x89PNG...")
    return folder


def shown(ibi: Ibi, data: Path, name: str) -> dict[str, object]:
    status, out, _ = ibi("show", "--data", data, name, "--json")
    assert status == 0
    value: dict[str, object] = json.loads(out)
    return value


def test_a_deposit_prints_its_names_and_holds_what_the_options_say(
    ibi: Ibi, data: Path, report: Path
) -> None:
    status, out, _ = ibi(
        "deposit", "--data", data, report, "--title", "Report", "--language", "pt-br", "--target", "report%201.pdf",
        "--field", "creator=Silva, Maria", "--field", 'creator={"value": "Souza, Ana", "lang": "pt"}',
        "--rights", "all", "--licence", "https://licence.example/by", "--embargo", "2999-01-01", "--not-transferable",
    )  # fmt: skip
    assert status == 0
    rep, ibip = out.split()
    item = shown(ibi, data, ibip)
    assert item["rep"] == rep
    assert item["metadata"] == {
        "title": ["Report"],
        "creator": ["Silva, Maria", {"value": "Souza, Ana", "lang": "pt"}],
    }
    assert sorted(item["files"]) == ["figures/map.png", "report%201.pdf"]  # type: ignore[call-overload]  # a mapping
    facts = {"language": "pt-BR", "access": "embargoed", "embargo": "2999-01-01", "transferable": False}
    assert {name: item[name] for name in facts} == facts
    history = item["history"]
    assert isinstance(history, list)
    assert [event["what"] for event in history] == ["deposited"]


def test_a_file_that_is_added_leaves_the_link_where_it_led(ibi: Ibi, data: Path, tmp_path: Path) -> None:
    for file in ("report.pdf", "errata.pdf", "new.pdf"):
        (tmp_path / file).write_bytes(b"%PDF")
    name = ibi("deposit", "--data", data, tmp_path / "report.pdf", "--title", "Report")[1].split()[0]
    assert "target" not in shown(ibi, data, name)
    assert ibi("edit", "--data", data, name, "--file", tmp_path / "errata.pdf")[0] == 0
    assert shown(ibi, data, name)["target"] == "report.pdf"
    assert ibi("edit", "--data", data, name, "--field", "target=")[0] == 0
    assert "target" not in shown(ibi, data, name)
    other = ibi("deposit", "--data", data, tmp_path / "report.pdf", "--title", "Report")[1].split()[0]
    two = ("--file", tmp_path / "errata.pdf", "--file", tmp_path / "new.pdf", "--without", "report.pdf")
    status, _, err = ibi("edit", "--data", data, other, *two)
    assert (status, f"the link of {other} led to report.pdf, which is removed" in err) == (1, True)
    assert list(shown(ibi, data, other)["files"]) == ["report.pdf"]  # type: ignore[call-overload]  # a mapping
    assert ibi("edit", "--data", data, other, *two, "--field", "target=new.pdf")[0] == 0
    assert shown(ibi, data, other)["target"] == "new.pdf"


def test_files_are_named_as_people_name_them(ibi: Ibi, data: Path, tmp_path: Path) -> None:
    names = ("Relatório final.pdf", "Anexo – medições.csv", "100%.txt")
    for name in names:
        (tmp_path / name).write_bytes(b"bytes")
    files = [tmp_path / name for name in names]
    status, out, err = ibi("deposit", "--data", data, *files, "--title", "T", "--target", names[0])
    assert (status, err) == (0, "")
    name = out.split()[0]
    assert shown(ibi, data, name)["target"] == "Relat%C3%B3rio%20final.pdf"
    assert "100%.txt, Anexo – medições.csv, Relatório final.pdf" in ibi("list", "--data", data)[1]
    decomposed = normalize("NFD", names[1])
    assert ibi("edit", "--data", data, name, "--without", decomposed, "--without", "100%.txt")[0] == 0
    assert list(shown(ibi, data, name)["files"]) == ["Relat%C3%B3rio%20final.pdf"]  # type: ignore[call-overload]  # a mapping
    status, _, err = ibi("edit", "--data", data, name, "--without", "Relatório.pdf")
    assert (status, "has no such file" in err) == (1, True)


def test_links_follow_a_corrected_language(ibi: Ibi, data: Path, report: Path) -> None:
    first = ibi("deposit", "--data", data, report, "--title", "One")[1].split()[0]
    words = ("deposit", "--data", data, report, "--title", "Un", "--translation-of", first)
    status, _, err = ibi(*words)
    assert (status, "needs its language" in err) == (1, True)
    french = ibi(*words, "--language", "fr")[1].split()[0]
    assert ibi("edit", "--data", data, first, "--language", "en")[0] == 0
    assert ibi("edit", "--data", data, french, "--language", "es")[0] == 0
    assert {tag: str(link).split()[1] for tag, link in translations_of(ibi, data, first).items()} == {
        "es": french
    }
    assert {tag: str(link).split()[1] for tag, link in translations_of(ibi, data, french).items()} == {
        "en": first
    }


def translations_of(ibi: Ibi, data: Path, name: str) -> dict[str, str]:
    """The translations of an item, by language."""
    found = shown(ibi, data, name)["translations"]
    assert isinstance(found, dict)
    return found


def test_editions_and_translations_are_linked_by_options(ibi: Ibi, data: Path, report: Path) -> None:
    first = ibi("deposit", "--data", data, report, "--title", "One", "--language", "en")[1].split()[0]
    second = ibi("deposit", "--data", data, report, "--title", "Two", "--edition-of", first)[1].split()[0]
    assert str(shown(ibi, data, first)["next_edition"]).startswith(f"rep {second} ")
    words = ("--language", "pt", "--translation-of", first, "--metadata-item", "--title", "Um")
    translation = ibi("deposit", "--data", data, "--url", "http://far.example/um", *words)[1].split()[0]
    links = shown(ibi, data, first)["translations"]
    assert isinstance(links, dict)
    assert links["pt"].startswith(f"rep {translation} ")
    assert "metadata_item" in shown(ibi, data, translation)


def test_an_edit_changes_what_is_given_and_nothing_else(ibi: Ibi, data: Path, report: Path) -> None:
    name = ibi("deposit", "--data", data, report, "--title", "One", "--field", "creator=Ana")[1].split()[0]
    new = report / "errata.txt"
    new.write_bytes(b"none")
    words = ("--title", "One, corrected", "--file", new, "--without", "figures/map.png", "--rights", "x")
    assert ibi("edit", "--data", data, name, *words)[0] == 0
    item = shown(ibi, data, name)
    assert item["metadata"] == {"title": ["One, corrected"], "creator": ["Ana"]}
    assert sorted(item["files"]) == ["errata.txt", "report%201.pdf"]  # type: ignore[call-overload]  # a mapping
    assert ibi("edit", "--data", data, name, "--field", "rights=")[0] == 0
    assert "rights" not in shown(ibi, data, name)


@pytest.mark.proves("ARC-07")
def test_a_removed_item_is_shown_with_date_and_reason(ibi: Ibi, data: Path, report: Path) -> None:
    name = ibi("deposit", "--data", data, report)[1].split()[0]
    status, _, errors = ibi("delete", "--data", data, name, "--reason", "withdrawn by its author")
    assert (status, "was removed on" in errors) == (0, True)
    item = shown(ibi, data, name)
    assert (item["state"], item["reason"]) == ("Deleted", "withdrawn by its author")
    assert "files" not in item


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("deposit", "absent.pdf"), "absent.pdf cannot be read"),
        (("deposit", "--url", "ftp://far.example/"), "http or https"),
        (("deposit", "--url", "http://far.example/", "--field", "nonsense=1"), "there is no field nonsense"),
        (("deposit", "--url", "http://far.example/", "--field", "nonsense"), "NAME=VALUE"),
        (("deposit", "--url", "http://far.example/", "--language", "português"), "language"),
        (("deposit", "--url", "http://far.example/", "--embargo", "tomorrow"), "a day such as"),
        (
            ("deposit", "--url", "http://far.example/", "--edition-of", "a.example/b/2020/01.01.00.00"),
            "not held",
        ),
        (("edit", "a.example/b/2020/01.01.00.00", "--rights", "x"), "does not hold"),
        (("edit", "nonsense", "--rights", "x"), "in an IBIp"),
        (("delete", "a.example/b/2020/01.01.00.00", "--reason", "x"), "does not hold"),
        (("delete", "a.example/b/2020/01.01.00.00", "--reason", "x" * 4_001), "at most 4000 characters"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    ibi: Ibi, data: Path, words: tuple[str, ...], sentence: str
) -> None:
    status, out, errors = ibi(words[0], "--data", data, *words[1:])
    assert (status, out) == (1, "")
    assert sentence in errors
    assert errors.count("\n") == 1


def test_odd_files_are_refused_by_their_kind_and_by_their_names(ibi: Ibi, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    assert "not a regular file" in ibi("deposit", "--data", data, folder)[2]
    (folder / "pipe").unlink()
    (folder / "link").symlink_to("/etc/hostname")
    assert "is a link" in ibi("deposit", "--data", data, folder)[2]
    (folder / "link").unlink()
    (folder / "a.txt").write_bytes(b"1")
    (folder / "A.TXT").write_bytes(b"2")
    assert "too much alike" in ibi("deposit", "--data", data, folder)[2]
    assert list((data / "staging").iterdir()) == []


def test_what_a_killed_deposit_left_is_cleared_by_the_next(ibi: Ibi, data: Path, report: Path) -> None:
    big = report / "big"
    with big.open("wb") as file:
        file.truncate(2 << 30)
    command = (sys.executable, "-m", "ibi", "archive", "deposit", "--data", data, report)
    with subprocess.Popen(command) as process:
        while not any((data / "staging").iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    big.unlink()
    assert ibi("deposit", "--data", data, report)[0] == 0
    assert list((data / "staging").iterdir()) == []
    assert len([path for path in (data / "col").rglob("*") if path.is_file() and "/doc/" in str(path)]) == 2


TITLES = {
    "one": [{"value": "A maré", "lang": "pt"}, {"value": "The tide", "lang": "en"}],
    "two": [{"value": "A vela; o vento", "lang": "pt"}],
    "three": [{"value": "The wind", "lang": "en"}, {"value": "O vento", "lang": "pt"}],
    "four": ["Ata"],
}


def test_a_table_of_the_items_is_read_again_and_changes_only_what_was_corrected(
    ibi: Ibi, data: Path, tmp_path: Path
) -> None:
    lines = [
        {"key": key, "url": f"http://far.example/{key}", "metadata": {"title": titles}}
        for key, titles in TITLES.items()
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert ibi("import", "--data", data, tmp_path / "items.jsonl")[0] == 0
    status, table, _ = ibi("list", "--data", data, "--csv")
    assert status == 0
    head, *rows = (line.split(",") for line in table.splitlines())
    assert head == ["ibi", "key", "state", "url", "title.pt", "title.en", "title"]
    assert [row[1:] for row in rows] == [
        ["one", "Original", "http://far.example/one", "A maré", "The tide", ""],
        ["two", "Original", "http://far.example/two", "", "", ""],
        ["three", "Original", "http://far.example/three", "", "", ""],
        ["four", "Original", "http://far.example/four", "", "", "Ata"],
    ]
    assert all(row[0].startswith("http://archive.example/example/archive/") for row in rows)
    (tmp_path / "table.csv").write_text(table)
    unchanged = "0 added, 0 changed, 0 removed, 4 unchanged, 0 refused\n"
    assert ibi("import", "--data", data, tmp_path / "table.csv", "--update")[:2] == (0, unchanged)
    (tmp_path / "table.csv").write_text(table.replace("far.example/two", "new.example/two"))
    changed = "0 added, 1 changed, 0 removed, 3 unchanged, 0 refused\n"
    assert ibi("import", "--data", data, tmp_path / "table.csv", "--update")[:2] == (0, changed)


def test_a_key_made_of_the_content_is_in_no_table(ibi: Ibi, data: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("title,url\nA,http://far.example/\n")
    assert ibi("import", "--data", data, tmp_path / "rows.csv")[0] == 0
    assert ",,Original,http://far.example/,A" in ibi("list", "--data", data, "--csv")[1]
