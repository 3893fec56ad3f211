"""Manual pages: whole, in both languages, and roff without faults."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import man_pages
from surface.commands import parsers

LANGUAGES = ["en", "pt-BR"]


@pytest.fixture
def pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The pages of one language."""
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    return man_pages.pages(request.param)


@pytest.mark.parametrize("pages", LANGUAGES, indirect=True)
def test_every_command_and_every_option_is_on_a_page(pages: dict[str, str]) -> None:
    texts = {name: text.replace("\\-", "-") for name, text in pages.items()}
    for name, parser in parsers().items():
        page = texts["-".join(name.split()[:2])]
        assert name in page
        spelled = {option for option in parser._option_string_actions if option != "-h"}
        hidden = {
            option
            for each in parser._actions
            if each.help == "==SUPPRESS=="
            for option in each.option_strings
        }
        assert {option for option in spelled - hidden if f"{option}" not in page} == set()


@pytest.mark.parametrize(("pages", "wanted"), [("en", "SYNOPSIS"), ("pt-BR", "SINOPSE")], indirect=["pages"])
def test_pages_are_in_their_language(pages: dict[str, str], wanted: str) -> None:
    other = {"SYNOPSIS": "um documento JSON", "SINOPSE": "one JSON document"}[wanted]
    for text in pages.values():
        assert f".SH {wanted}\n" in text
        assert other not in text
    assert set(man_pages.HEADINGS["pt-BR"]) >= {
        *man_pages.VARIABLES.values(),
        *man_pages.STATUSES.values(),
    }


@pytest.mark.parametrize("pages", LANGUAGES, indirect=True)
def test_pages_are_roff_without_faults(pages: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    for name, text in pages.items():
        path = tmp_path / f"{name}.1"
        path.write_text(text, encoding="utf-8")
    checked = ["mandoc", "-K", "utf-8", "-T", "lint", "-W", "warning", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    faults = [line for line in done.stdout.splitlines() if not re.search("NAME section|first section", line)]
    assert (faults, done.stderr) == ([], "")
    shown = subprocess.run(
        ["mandoc", "-K", "utf-8", "-T", "utf8", tmp_path / "ibi-archive.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "--data DIR" in re.sub(".\b", "", shown)


def test_a_page_that_says_the_same_keeps_its_date_and_one_of_no_command_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setattr("sys.argv", ["man_pages.py", str(tmp_path)])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    man_pages.main()
    kept, edited, former = (tmp_path / f"man1/{name}.1" for name in ("ibi", "ibi-up", "ibi-former"))
    edited.write_text("other words")
    former.write_text("of no command")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    man_pages.main()
    assert '"1970-01-01"' in kept.read_text()
    assert '"1970-01-02"' in edited.read_text()
    assert not former.exists()


def test_a_wheel_has_the_pages_where_man_looks_for_them(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(made, cwd=man_pages.ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name.partition(".data/data/")[2]: archive.read(name) for name in archive.namelist()}
    pages = {path.relative_to(man_pages.FOLDER): path.read_bytes() for path in man_pages.FOLDER.rglob("*.1")}
    assert len(pages) == 20
    for path, text in pages.items():
        assert held[f"share/man/{path.as_posix()}"] == text


def test_all_are_written_where_man_looks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setattr("sys.argv", ["man_pages.py", str(tmp_path)])
    man_pages.main()
    assert (tmp_path / "man1/ibi.1").exists()
    assert (tmp_path / "pt_BR/man1/ibi-archive.1").exists()


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("--check", 2), ("-n", 2)])
def test_a_word_with_a_dash_is_no_folder(
    word: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["man_pages.py", word])
    with pytest.raises(SystemExit) as stopped:
        man_pages.main()
    assert stopped.value.code == status
    assert list(tmp_path.iterdir()) == []
