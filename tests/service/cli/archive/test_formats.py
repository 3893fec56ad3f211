"""`ibi archive show IBI --format NAME`: what readers get over HTTP, at the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pybtex.database
import pytest

from ibi.archive.store.data_directory import DataDirectory
from ibi.cli import main
from support.archive.archive_fixture import Clock, NewArchive, settings_for
from support.cli.archive_commands import get, ibi, make_archive, serving
from support.ports import free_port

IBI = "a.example/b/2010/01.01.00.00"
BARE = "a.example/b/2011/01.01.00.00"
DATED = "a.example/b/2012/01.01.00.00"
AMERICAN = "a.example/b/2013/01.01.00.00"
ARTICLE = "a.example/b/2014/01.01.00.00"
ITEMS = [
    {"rep": IBI, "metadata": {"title": ["Nomes que ficam"], "creator": ["Silva, Maria"], "date": ["2026"]}},
    {"rep": BARE},
    {"rep": DATED, "metadata": {"title": ["Nomes"], "creator": ["Silva, Maria"], "date": ["12/03/2026"]}},
    {"rep": AMERICAN, "language": "en-us", "metadata": {"title": ["Names"], "date": ["12/03/2026"]}},
    {
        "rep": ARTICLE,
        "metadata": {
            "title": ["Nomes: um estudo"],
            "creator": ["Souza, João da Conceição"],
            "date": ["2020-03"],
            "type": ["article"],
            "source": ["Revista, v. 12, n. 3, p. 45-67"],
        },
    },
]

BIBTEX = """
@article{one, title={Names that stay}, author={Silva, Maria}, journal={Revista do Mar}, year=2020,
         volume={12}, number={3}, pages={45--67}}
"""
RIS = """TY  - JOUR
ID  - one
TI  - Names that stay
AU  - Silva, Maria
JO  - Revista do Mar
PY  - 2020
VL  - 12
IS  - 3
SP  - 45
EP  - 67
ER  -
"""

Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Show:
    """Runs the command on a new Archive: words -> (status, stdout, stderr)."""
    monkeypatch.setenv("LANGUAGE", "en")
    data = tmp_path_factory.mktemp("archive")
    directory = DataDirectory(data, Clock().machine)
    directory.reserve()
    settings = settings_for("archive.example")
    directory.create(settings)
    with directory.catalogue() as catalogue:
        NewArchive(data, settings, catalogue, directory.file_store(), Clock()).load(*ITEMS)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["archive", "show", "--data", str(data), *words])
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run


def test_an_item_is_printed_in_a_format(show: Show) -> None:
    status, out, _ = show(IBI, "--format", "bibtex")
    assert status == 0
    assert pybtex.database.parse_string(out, "bibtex").entries["a-example-b-2010-01-01-00-00"]
    assert json.loads(show(IBI, "--format", "csl")[1])["title"] == "Nomes que ficam"


def test_a_citation_is_printed_in_its_style_and_locale(show: Show) -> None:
    url = f"http://archive.example/{IBI}"
    assert (
        show(IBI, "--format", "citation")[1] == f"Silva, M. (2026). Nomes que ficam. archive.example. {url}\n"
    )
    styled = show(IBI, "--format", "citation", "--style", "abnt", "--locale", "pt")[1]
    assert styled.startswith(
        f"SILVA, Maria. Nomes que ficam. [S. l.]: archive.example, 2026. Disponível em: {url}."
    )


def test_a_brazilian_date_is_cited(show: Show) -> None:
    styled = show(DATED, "--format", "citation", "--style", "abnt", "--locale", "pt")[1]
    assert "archive.example, 12 mar. 2026." in styled
    styled = show(AMERICAN, "--format", "citation", "--style", "abnt", "--locale", "pt")[1]
    assert "archive.example, 3 dez. 2026." in styled


def test_particles_of_a_name_have_no_initial_and_an_article_has_its_year(show: Show) -> None:
    citation = (ARTICLE, "--format", "citation", "--locale", "pt", "--style")
    assert show(*citation, "apa")[1].startswith(
        "Souza, J. C. (2020). Nomes: um estudo. Revista, 12(3), 45–67. http"
    )
    assert show(*citation, "abnt")[1].startswith(
        "SOUZA, João da Conceição. Nomes: um estudo. Revista, [s. l.], v. 12, n. 3, p. 45-67, mar. 2020. "
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [("articles.bib", BIBTEX), ("articles.ris", RIS)],
    ids=["BibTeX", "RIS"],
)
def test_volume_number_and_pages_are_in_the_citation_of_the_served_item(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    content: str,
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    data, port, entries = tmp_path / "a", free_port(), tmp_path / file
    make_archive(data, port)
    entries.write_text(content)
    ibi("archive", "import", "--data", data, entries)
    capsys.readouterr()
    ibi("archive", "list", "--data", data, "--json")
    items = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (name,) = (item["rep"] for item in items if item.get("transferable", True))
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        status, body = get(port, f"/-/item/{name}")
        assert status == 200
        page = body.decode()
        assert "<em>Revista do Mar</em>, <em>12</em>(3), 45–67." in page
        assert "v. 12, n. 3, p. 45-67, 2020." in page
        for start in ("volume = {12}", "number = {3}", "pages = {45--67}"):
            assert start in page, start
        exported = get(port, f"/-/metadata/{name}?format=ris")[1].decode()
        for start in ("VL  - 12", "IS  - 3", "SP  - 45"):
            assert start in exported, start
        styled = get(port, f"/-/metadata/{name}?format=citation&style=abnt")[1].decode()
        assert "v. 12, n. 3, p. 45-67, 2020." in styled


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((IBI, "--format", "marc"), f"there are no metadata of {IBI} in this format; there are: csl, bibtex"),
        ((IBI, "--format", "citation", "--style", "x"), "there is no style x here; there are: abnt, apa"),
        ((BARE, "--format", "ris"), f"this Archive keeps no metadata of {BARE} itself"),
        (("--format", "ris"), "a format is that of an item: its IBI must be given"),
        ((IBI, "--style", "abnt"), "--style and --locale are used only with --format citation"),
        (
            (IBI, "--format", "ris", "--locale", "pt"),
            "--style and --locale are used only with --format citation",
        ),
    ],
)
def test_what_there_is_not_is_said(show: Show, words: tuple[str, ...], sentence: str) -> None:
    status, out, err = show(*words)
    assert (status, out) == (1, "")
    assert sentence in err
