"""`ibi archive` as it is typed: results on stdout, sentences on stderr, and the right exit status."""

from __future__ import annotations

import gc
import json
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.ingest.batch import ImportReport
from ibi.archive.ingest.importing import FileImporter
from ibi.runtime.settings import ArchiveSettings
from support.ports import free_port

SERVICE = "archive.example/w/2020/01.01.00.00"
REP = "a.example/b/2010/01.01.00.00"
ALIAS = "6RPa7umaZ/UaJFT"

Ibi = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ibi(typed: Ibi) -> Ibi:
    """Runs a command of Archives: words -> (status, stdout, stderr)."""
    return partial(typed, "archive")


def init(ibi: Ibi, data: Path, *more: object) -> tuple[int, str, str]:
    address = () if "--address" in more else ("--address", "archive.example")
    return ibi("init", "--data", data, *address, "--ip", "127.0.0.1", *more)


@pytest.fixture
def data(ibi: Ibi, tmp_path: Path) -> Path:
    """The data directory of a new Archive."""
    path = tmp_path / "archive"
    assert init(ibi, path, "--service-ibi", SERVICE)[0] == 0
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Three items, one of them bad, in a folder with a file."""
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"aaa")
    path = folder / "items.jsonl"
    linked = {"rep": REP, "url": "http://far.example/"}
    stored = {"ibip": "LK47B6W/362SFKH", "files": {"a.txt": "a.txt"}, "metadata": {"title": ["T\u00edtulo"]}}
    path.write_text("\n".join(map(json.dumps, (linked, stored, {"rep": "nonsense"}))))
    return path


@pytest.mark.proves("REG-01", "ARC-11")
def test_init_prints_what_the_resolver_needs(ibi: Ibi, tmp_path: Path) -> None:
    status, out, _ = init(ibi, tmp_path, "--service-ibi", SERVICE, "--key", "1234567890123456789012")
    assert status == 0
    lines = out.splitlines()
    assert (
        lines[0]
        == f"ibi resolver register --data DIR --archive-service {SERVICE} --key 1234567890123456789012"
    )
    assert lines[1] == "Subject: Solicitação de cadastro de um novo Arquivo"
    assert lines[-5:] == [
        "IBI do serviço de Arquivo:", f"archiveserviceibi = {SERVICE}", "",
        "Chave de cadastro:", "registrationkey = 1234567890123456789012",
    ]  # fmt: skip
    found = json.loads(ibi("show", "--data", tmp_path, SERVICE, "--json")[1])
    assert (found["rep"], found["transferable"]) == (SERVICE, False)
    oai_dc = ibi("show", "--data", tmp_path, SERVICE, "--format", "oai_dc")[1]
    titles = re.findall('<dc:title xml:lang="([^"]*)">([^<]*)<', oai_dc)
    address = ArchiveSettings.read(tmp_path).address
    assert titles == [("en", f"Archive service of {address}"), ("pt-BR", f"Serviço de Arquivo de {address}")]


@pytest.mark.proves("ARC-11", "GEN-08")
def test_init_mints_the_service_item_in_both_forms(ibi: Ibi, tmp_path: Path) -> None:
    mint = (
        "--mint-host",
        "w.archive.example",
        "--mint-port",
        8080,
        "--mint-ip",
        "192.0.2.1",
        "--mint-ip-port",
        802,
    )
    status, out, _ = init(ibi, tmp_path / "new", *mint, "--for-trying", "--json")
    assert status == 0
    made = json.loads(out)
    assert made["service_ibi"].startswith("archive.example/w.8080/20")
    assert " ibip " in made["service"]
    assert len(made["key"]) == 20
    assert made["key"] in made["register"]
    assert made["base_url"] == f"http://archive.example/{made['service_ibi']}"
    settings = tomllib.loads((tmp_path / "new" / "archive.toml").read_text())
    assert settings["mint_port"] == 8080


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--address", "127.0.0.1:8081"), "--mint-host"),
        ((), "--for-trying"),
        (("--address", "a b"), "an address is a host"),
        (("--address", "archive.example:0"), "an address is a host"),
        (("--service-ibi", "nonsense"), "IBIp"),
        (("--service-ibi", SERVICE, "--key", "123"), "ten digits"),
        (("--service-ibi", SERVICE, "--ip", "here"), "IP address"),
        (("--service-ibi", SERVICE, "--admin", "nobody"), "mail"),
        (("--service-ibi", SERVICE, "--resolver", "ftp://r.example"), "root"),
        (("--service-ibi", SERVICE, "--granularity", "7"), "granularity"),
        (("--service-ibi", SERVICE, "--mint-host", "word"), "full domain name"),
        (("--service-ibi", SERVICE, "--platform-software", "x"), "IBIp"),
    ],
)
def test_a_bad_argument_is_one_sentence_and_makes_nothing(
    ibi: Ibi, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    data = tmp_path / "new"
    status, out, err = init(ibi, data, *words)
    assert (status, out) == (1, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not data.exists()


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("localhost:8081", "localhost/archive.8081/"),
        ("127.0.0.1:8082", "localhost/archive.8082/"),
        ("[::1]:8083", "localhost/archive.8083/"),
        ("biblioteca", "localhost/biblioteca/"),
    ],
)
def test_an_archive_for_trying_may_be_on_this_machine(
    ibi: Ibi, tmp_path: Path, address: str, prefix: str
) -> None:
    words = ("--address", address, "--ip", "127.0.0.1", "--for-trying", "--json")
    status, out, _ = ibi("init", "--data", tmp_path / "new", *words)
    assert (status, json.loads(out)["service_ibi"][: len(prefix)]) == (0, prefix)
    file = tmp_path / "a.txt"
    file.write_bytes(b"a")
    assert ibi("deposit", "--data", tmp_path / "new", file)[1].startswith(prefix)
    refused = ibi("init", "--data", tmp_path / "other", *words[:4])
    assert (refused[0], "see --mint-host" in refused[2]) == (1, True)


def test_init_reads_the_environment_before_it_makes_anything(
    ibi: Ibi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBI_ARCHIVE_PUBLIC_URL", "https://archive.example")
    monkeypatch.setenv("IBI_ARCHIVE_ADDRESS", "other.example")
    path = tmp_path / "archive"
    status, _, err = init(ibi, path, "--for-trying")
    assert (status, "address is decided by IBI_ARCHIVE_ADDRESS in the environment" in err) == (1, True)
    assert not path.exists()
    monkeypatch.setenv("IBI_ARCHIVE_ADDRESS", "archive.example")
    assert init(ibi, path, "--for-trying")[0] == 0
    assert ArchiveSettings.read(path).public_url == "https://archive.example"
    assert {"address", "public_url"}.isdisjoint(tomllib.loads((path / ArchiveSettings.FILE).read_text()))


def test_init_twice_is_refused_and_changes_nothing(ibi: Ibi, data: Path) -> None:
    before = (data / "archive.toml").read_bytes()
    status, _, err = init(ibi, data, "--service-ibi", SERVICE)
    assert status == 1
    assert "already an Archive" in err
    assert (data / "archive.toml").read_bytes() == before


@pytest.mark.parametrize(
    "words", [["init"], ["import", "--data", "x"], ["serve", "--data", "x", "--workers", "0"], ["fly"], []]
)
def test_wrong_usage_has_status_2(ibi: Ibi, words: list[str]) -> None:
    assert ibi(*words)[0] == 2


@pytest.mark.parametrize("words", [("list",), ("show", REP), ("delete", REP, "--reason", "x"), ("import", "x"),
                                   ("serve",), ("join", "--resolver", "http://r.example")])  # fmt: skip
def test_a_folder_without_an_archive_is_one_sentence(
    ibi: Ibi, tmp_path: Path, words: tuple[str, ...]
) -> None:
    status, out, err = ibi(words[0], "--data", tmp_path / "absent", *words[1:])
    assert (status, out) == (1, "")
    assert "does not exist" in err
    assert not (tmp_path / "absent").exists()


def test_join_keeps_the_resolver_and_the_key(ibi: Ibi, data: Path) -> None:
    key = tomllib.loads((data / "archive.toml").read_text())["key"]
    status, out, err = ibi("join", "--data", data, "--resolver", "http://r.example/")
    assert status == 0
    assert key in out
    assert "plain http" in err
    assert ibi("join", "--data", data, "--resolver", "http://127.0.0.1:8080", "--key", "1234567890")[0] == 0
    settings = tomllib.loads((data / "archive.toml").read_text())
    assert (settings["resolver"], settings["key"]) == ("http://127.0.0.1:8080", "1234567890")


def test_a_dry_run_says_what_would_come_of_a_file_and_takes_nothing_in(
    ibi: Ibi, data: Path, lines: Path
) -> None:
    before = ibi("list", "--data", data)[1]
    status, out, err = ibi("import", "--data", data, lines, "--dry-run")
    assert (status, out) == (1, "would be: 2 added, 0 unchanged, 1 refused\n")
    assert err.startswith("line 3: ")
    assert ibi("list", "--data", data)[1] == before
    ibi("import", "--data", data, lines)
    status, out, _ = ibi("import", "--data", data, lines, "--dry-run", "--json")
    assert json.loads(out.splitlines()[-1]) == {
        "added": 0,
        "changed": 0,
        "removed": 0,
        "unchanged": 2,
        "refused": 1,
    }


@pytest.mark.parametrize("change", ["title", "file", "none"])
def test_a_dry_run_refuses_what_the_import_refuses(ibi: Ibi, data: Path, tmp_path: Path, change: str) -> None:
    file, rows = tmp_path / "a.txt", tmp_path / "rows.jsonl"
    item = {"rep": "a.example/b/2010/01.01.00.00", "key": "k1", "files": {"a.txt": "a.txt"}}
    file.write_text("hello")
    rows.write_text(json.dumps({**item, "metadata": {"title": "Old"}}))
    assert ibi("import", "--data", data, rows)[0] == 0
    rows.write_text(json.dumps({**item, "metadata": {"title": "New" if change == "title" else "Old"}}))
    file.write_text("HELLO" if change == "file" else "hello")
    promised = ibi("import", "--data", data, rows, "--dry-run")
    come = ibi("import", "--data", data, rows)
    assert promised[0] == come[0] == (change != "none")
    assert promised[1] == f"would be: {come[1]}"
    assert promised[2] == come[2]


TWICE: list[dict[str, object]] = [
    {"rep": "a.example/b/2010/01.01.00.00", "url": "http://far.example/1"},
    {"rep": "A.EXAMPLE/b/2010/01.01.00.00", "url": "http://far.example/1"},
    {"rep": "a.example/b/2010/01.01.00.00", "url": "http://far.example/other"},
    {"url": "http://far.example/2"},
    {"url": "http://far.example/2"},
    {"key": "k", "url": "http://far.example/3"},
    {"key": "k", "url": "http://far.example/3"},
    {"key": "k", "url": "http://far.example/4", "language": "en"},
    {"key": "l", "ibip": "8JMKD3MGP8W/35MME4E", "url": "http://far.example/5"},
    {"ibip": "8JMKD3MGP8W/35MME4E", "url": "http://far.example/5"},
    {"key": "l", "url": "http://far.example/5"},
    {"key": "l", "rep": "a.example/b/2010/01.01.00.00", "url": "http://far.example/5"},
    {"rep": "a.example/b/2010/01.01.00.01", "files": {"a.txt": "a.txt"}},
    {"rep": "a.example/b/2010/01.01.00.01", "files": {"a.txt": "same.txt"}},
    {"rep": "a.example/b/2010/01.01.00.01", "files": {"a.txt": "other.txt"}},
    {
        "rep": "a.example/b/2010/01.01.00.02",
        "url": "http://far.example/6",
        "timestamp": "9000-01-01T00:00:00Z",
    },
    {"rep": "a.example/b/2010/01.01.00.03", "url": "http://far.example/7"},
    {"rep": "a.example/b/2010/01.01.00.03", "state": "Deleted"},
    {"rep": "a.example/b/2010/01.01.00.03", "url": "http://far.example/8"},
]
"""Records of which several name one item."""


@pytest.mark.parametrize("update", [False, True], ids=["import", "update"])
def test_a_dry_run_counts_records_with_one_name_or_key_as_the_import_does(
    ibi: Ibi, tmp_path: Path, *, update: bool
) -> None:
    data, rows = tmp_path / "minting", tmp_path / "rows.jsonl"
    assert init(ibi, data, "--mint-host", "archive.example", "--for-trying")[0] == 0
    for name, words in (("a.txt", "a"), ("same.txt", "a"), ("other.txt", "b")):
        (tmp_path / name).write_text(words)
    # Whether an update brings other bytes for a file, a dry run does not look.
    records = [each for each in TWICE if not update or each.get("files") != {"a.txt": "other.txt"}]
    rows.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    options = ["--update"] if update else []
    promised = ibi("import", "--data", data, rows, "--dry-run", *options)
    come = ibi("import", "--data", data, rows, *options)
    assert promised[1] == f"would be: {come[1]}"
    assert promised[0] == come[0] == 1
    problems = [
        [line.partition(": ")[0] for line in err.splitlines() if "would be" not in line]
        for _, _, err in (promised, come)
    ]
    assert problems[0] == problems[1] != []
    sentence = "a.example/b/2010/01.01.00.00 is in an earlier record, but differs in: url"
    assert (sentence in promised[2]) is not update


def test_a_date_that_no_calendar_has_is_refused_and_one_that_is_held_may_stay(
    ibi: Ibi, tmp_path: Path
) -> None:
    data, document, rows = tmp_path / "minting", tmp_path / "a.txt", tmp_path / "rows.csv"
    assert init(ibi, data, "--mint-host", "archive.example", "--for-trying")[0] == 0
    document.write_text("hello")
    deposit = ("deposit", "--data", data, document, "--title", "T", "--field")
    for date in (
        "32/13/2026",
        "99/99/2020",
        "31/02/2026",
        "2026-02-30",
        "2026-13",
        "30 de fevereiro de 2026",
    ):
        status, _, err = ibi(*deposit, f"date={date}")
        assert (status, err.count("\n")) == (1, 1), err
        assert "date: " in err
        assert date in err
    assert not _names(ibi, data)
    for date in ("29/02/2024", "2026-02", "about 1900", "2026"):
        assert ibi(*deposit, f"date={date}")[0] == 0
    rows.write_text("key,title,date\nk,Odd,31/02/2026\n")
    status, out, err = ibi("import", "--data", data, rows)
    assert (status, out) == (0, "1 added, 0 unchanged, 0 refused\n")
    assert "31/02/2026" in err
    (odd,) = (name for name in _names(ibi, data) if "Odd" in ibi("show", "--data", data, name)[1])
    assert ibi("edit", "--data", data, odd, "--title", "Other")[0] == 0
    assert "31/02/2026" in ibi("show", "--data", data, odd)[1]
    assert ibi("edit", "--data", data, odd, "--field", "date=30/02/2026")[0] == 1


@pytest.mark.parametrize("dry", [False, True])
def test_fields_of_bibtex_that_have_no_place_are_named(ibi: Ibi, tmp_path: Path, *, dry: bool) -> None:
    data, entries = tmp_path / "minting", tmp_path / "books.bib"
    assert init(ibi, data, "--mint-host", "archive.example", "--for-trying")[0] == 0
    entries.write_text(
        "@book{one, title={One}, author={Silva, Maria}, publisher={P}, year=2020, address={Rio}, edition={2},"
        " series={S}, note={a note}, abstract={an abstract}}\n"
        "@book{two, title={Two}, publisher={P}, year=2021, month=may, isbn={1}}\n"
    )
    status, _, err = ibi("import", "--data", data, entries, *(["--dry-run"] if dry else []))
    assert status == 0
    (warning,) = (line for line in err.splitlines() if "not imported" in line)
    assert warning.endswith("address, edition, series, note")
    assert "one" in warning


def test_a_corrected_row_warns_of_the_item_that_it_is_nearly_and_changes_it_when_told_to(
    ibi: Ibi, tmp_path: Path
) -> None:
    data, rows = tmp_path / "minting", tmp_path / "rows.csv"
    assert init(ibi, data, "--mint-host", "archive.example", "--for-trying")[0] == 0
    rows.write_text("title,date,creator\nThe Amazon,2009-07,Silva M.\n")
    assert ibi("import", "--data", data, rows)[:2] == (0, "1 added, 0 unchanged, 0 refused\n")
    (name,) = _names(ibi, data)

    rows.write_text('title,date,creator\nThe amazon.,2009,"Silva, M."\n')
    status, out, err = ibi("import", "--data", data, rows, "--dry-run")
    assert (status, name in err) == (0, True)
    status, out, err = ibi("import", "--data", data, rows, "--dry-run", "--update")
    assert (status, name in err) == (1, True)
    assert ibi("import", "--data", data, rows, "--update")[0] == 1
    assert _names(ibi, data) == {name}

    rows.write_text(f'ibi,creator\n{name},"Silva, M."\n')
    assert ibi("import", "--data", data, rows)[0] == 1
    status, out, err = ibi("import", "--data", data, rows, "--dry-run", "--update")
    assert (status, out.count("1 changed")) == (0, 1)
    assert f"{name} would be changed: metadata.creator" in err
    assert "Silva M." in ibi("show", "--data", data, name)[1]
    assert ibi("import", "--data", data, rows, "--update")[1].startswith("0 added, 1 changed, ")
    shown = ibi("show", "--data", data, name)[1]
    assert ("Silva, M." in shown, "Silva M." in shown) == (True, False)
    assert "The Amazon" in shown
    assert ibi("import", "--data", data, rows, "--update")[1].startswith(
        "0 added, 0 changed, 0 removed, 1 un"
    )

    rows.write_text("title,date\nThe Amazon,2009\n")
    status, out, err = ibi("import", "--data", data, rows)
    assert (status, out) == (0, "1 added, 0 unchanged, 0 refused\n")
    assert name in err
    assert len(_names(ibi, data)) == 2


def test_an_update_finds_an_item_by_an_alias(ibi: Ibi, tmp_path: Path) -> None:
    data, rows = tmp_path / "minting", tmp_path / "rows.csv"
    assert init(ibi, data, "--mint-host", "archive.example", "--for-trying")[0] == 0
    rows.write_text(f"title,aliases\nOld,{ALIAS}\n")
    assert ibi("import", "--data", data, rows)[:2] == (0, "1 added, 0 unchanged, 0 refused\n")
    (name,) = _names(ibi, data)
    rows.write_text(f"title,aliases\nNew,{ALIAS}\n")
    status, out, err = ibi("import", "--data", data, rows, "--dry-run", "--update")
    assert (status, out) == (0, "would be: 0 added, 1 changed, 0 removed, 0 unchanged, 0 refused\n")
    assert re.search(f"{name} would be changed: .*metadata.title", err)
    labels = (data / "minting" / "state").read_bytes()
    status, out, _ = ibi("import", "--data", data, rows, "--update")
    assert (status, out) == (0, "0 added, 1 changed, 0 removed, 0 unchanged, 0 refused\n")
    assert (data / "minting" / "state").read_bytes() == labels
    assert _names(ibi, data) == {name}
    assert "New" in ibi("show", "--data", data, ALIAS)[1]


def test_an_unknown_column_is_refused_with_those_that_are_allowed(
    ibi: Ibi, data: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("title,colour\nOne,red\n")
    status, out, err = ibi("import", "--data", data, rows)
    assert (status, out, err.count("\n")) == (1, "", 1)
    listed = re.search("there is no column colour; there are (.+), and those such as title.pt", err)
    assert listed is not None
    allowed = listed[1].split(", ")
    assert {"ibi", "key", "language", "aliases", "title", "creator", "date"} <= {*allowed}
    # Each of them is a column: an empty cell says nothing.
    for column in allowed:
        rows.write_text(f"{column},rep,url\n,{REP},http://far.example/\n")
        assert "there is no column" not in ibi("import", "--data", data, rows, "--dry-run")[2], column


def _names(ibi: Ibi, data: Path) -> set[str]:
    """The items that are no service."""
    items = [json.loads(line) for line in ibi("list", "--data", data, "--json")[1].splitlines()]
    return {item["rep"] for item in items if item.get("transferable", True)}


def test_import_says_what_it_took_and_what_not(ibi: Ibi, data: Path, lines: Path) -> None:
    status, out, err = ibi("import", "--data", data, lines)
    assert (status, out) == (1, "2 added, 0 unchanged, 1 refused\n")
    assert err.startswith("line 3: ")
    status, out, _ = ibi("import", "--data", data, lines, "--json")
    lines_printed = [json.loads(line) for line in out.splitlines()]
    assert (status, lines_printed[0]["line"], lines_printed[1]) == (
        1,
        3,
        {"added": 0, "changed": 0, "removed": 0, "unchanged": 2, "refused": 1},
    )
    lines.write_text(lines.read_text().rpartition("\n")[0])
    assert ibi("import", "--data", data, lines)[0] == 0


def test_list_and_show_tell_what_is_held(ibi: Ibi, data: Path, lines: Path) -> None:
    ibi("import", "--data", data, lines)
    status, out, _ = ibi("list", "--data", data)
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()] == ["LK47B6W/362SFKH", REP, SERVICE]
    items = [json.loads(line) for line in ibi("list", "--data", data, "--json")[1].splitlines()]
    assert [item.get("url") for item in items] == [None, "http://far.example/", None]
    out = ibi("show", "--data", data, "lk47b6w/362sfkh")[1]
    assert "Título" in out
    status, out, err = ibi("show", "--data", data, "a.example/b/2010/01.01.00.09")
    assert (status, out) == (1, "")
    assert "is not held here" in err


@pytest.mark.proves("ARC-07")
def test_delete_leaves_the_names_and_takes_the_files(ibi: Ibi, data: Path, lines: Path) -> None:
    ibi("import", "--data", data, lines)
    kept = data / "col" / "LK47B6W" / "362SFKH" / "doc" / "a.txt"
    assert kept.exists()
    assert ibi("delete", "--data", data, "LK47B6W/362SFKH", "--reason", "wrong")[0] == 0
    assert not kept.exists()
    left = json.loads(ibi("show", "--data", data, "LK47B6W/362SFKH", "--json")[1])
    assert left["state"] == "Deleted"
    assert "files" not in left
    assert left["metadata"] == {"title": ["Título"]}
    assert ibi("delete", "--data", data, "LK47B6W/362SFKH", "--reason", "wrong")[0] == 0
    status, _, err = ibi("delete", "--data", data, SERVICE, "--reason", "wrong")
    assert status == 1
    assert "cannot be removed" in err


# Serving, as an operator does it


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def running(
    ibi: Ibi, tmp_path: Path, port: int, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    data = tmp_path / "served"
    assert init(ibi, data, "--address", f"127.0.0.1:{port}", "--service-ibi", SERVICE)[0] == 0
    command = [sys.executable, "-c", "import sys; from ibi.cli import main; sys.exit(main())"]
    words = [
        "archive",
        "serve",
        "--data",
        str(data),
        "--bind",
        f"127.0.0.1:{port}",
        "--workers",
        str(request.param),
    ]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.proves("REG-04", "MSG-23", "CON-01")
def test_serve_says_when_it_is_ready_and_stops_when_told(running: subprocess.Popen[str], port: int) -> None:
    assert running.stdout is not None
    assert running.stdout.readline() == f"ready http://127.0.0.1:{port}\n"
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{SERVICE}?servicesubject=inclusionConfirmationRequest")
    assert connection.getresponse().read() == b"confirmation yes"
    connection.close()
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, ""), err
    assert "Traceback" not in err


def test_serve_on_a_port_that_is_taken_is_one_sentence(ibi: Ibi, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        status, out, err = ibi("serve", "--data", data, "--bind", bind)
    assert (status, out) == (1, "")
    assert bind in err


def test_an_import_excludes_the_program_from_garbage_collection_before_it_reads(
    ibi: Ibi, data: Path, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, run = list[str](), FileImporter.run

    def reading(importer: FileImporter, path: Path, *more: Any, **named: Any) -> ImportReport:
        order.append("read")
        return run(importer, path, *more, **named)

    monkeypatch.setattr(gc, "freeze", lambda: order.append("freeze"))
    monkeypatch.setattr(FileImporter, "run", reading)
    assert ibi("import", "--data", data, lines)[0] == 1  # one item is refused
    assert order == ["freeze", "read"]
