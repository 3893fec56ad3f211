"""`ibi resolver log verify` and `ibi resolver log show`, as an administrator types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.identifier.forms import IBIForms
from ibi.resolver.evidence.chain import Anchor
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence

SERVICE, OTHER = "J8LNKB5R7W/3FUQHC5", "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
ITEM = IBIForms.parse("rep dpi.inpe.br/banon-pc@80/2008/04.28.18.07 ibip 8JMKD3MGP8W/35MMLL8")
MOMENT = 1_790_000_000.25


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a log of four entries, as a copy put aside may be."""
    evidence = Evidence(tmp_path / EVIDENCE_FILE, lambda: MOMENT)
    evidence.write("registered", ibi=SERVICE, by="command")
    evidence.write("included", ibi=SERVICE, address="archive.example", confirmed=1)
    evidence.original(ITEM, SERVICE)
    evidence.alert("suspect-originals", str(ITEM.main), [SERVICE, OTHER], [str(ITEM.main)])
    evidence.close()
    return tmp_path


def log(data: Path, *words: str) -> int:
    return main(["resolver", "log", *words, "--data", str(data)])


def numbers(printed: str) -> list[int]:
    return [int(line.split()[0]) for line in printed.splitlines()]


def test_a_whole_log_is_one_sentence_and_status_0(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert log(data, "verify") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert (
        line == f"every entry is as it was written, up to {Evidence(data / EVIDENCE_FILE, lambda: 0).head()}"
    )


def test_a_log_that_was_tampered_with_is_one_sentence_and_status_1(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data / EVIDENCE_FILE
    path.write_bytes(path.read_bytes().replace(b"archive.example", b"archive.invalid"))
    assert log(data, "verify") == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "ibi: line 2 is not as it was written\n")


def test_damage_that_was_found_earlier_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (data / EVIDENCE_FILE).open("ab") as file:
        file.write(b'{"number":5,"mom')
    Evidence(data / EVIDENCE_FILE, lambda: MOMENT).write("unregistered", ibi=SERVICE)
    assert log(data, "verify") == 0
    assert capsys.readouterr().out.endswith("; entries that tell of earlier damage: 1\n")
    assert log(data, "show", "--what", "damage") == 0
    assert capsys.readouterr().out == "5  2026-09-21T14:13:20.250Z  damage  kind=torn  bytes=16\n"


def test_an_anchor_is_printed_and_taken_back(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert log(data, "show", "--head") == 0
    anchor = capsys.readouterr().out.strip()
    assert Anchor.parse(anchor).number == 4
    assert log(data, "show", "--head", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"number": 4, "hash": anchor.partition(":")[2]}
    Evidence(data / EVIDENCE_FILE, lambda: MOMENT).write("unregistered", ibi=SERVICE)
    assert log(data, "verify", "--since", anchor) == 0
    for file in (data / EVIDENCE_FILE, (data / EVIDENCE_FILE).with_suffix(".head")):
        file.unlink()
    Evidence(data / EVIDENCE_FILE, lambda: MOMENT).write("unregistered", ibi=SERVICE)
    capsys.readouterr()
    assert log(data, "verify") == 0
    assert log(data, "verify", "--since", anchor) == 1
    assert capsys.readouterr().err == (
        "ibi: the last entry is number 1, but number 4 was written: the last ones are missing\n"
    )


@pytest.mark.parametrize("since", ["", "4", "4:abc", "x:" + "0" * 64])
def test_what_is_no_anchor_is_a_sentence(data: Path, capsys: pytest.CaptureFixture[str], since: str) -> None:
    assert log(data, "verify", "--since", since) == 1
    assert "an anchor is a number, a colon and 64 hexadecimal digits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), [1, 2, 3, 4]),
        (("--what", "original"), [3]),
        (("--what", "unheard-of"), []),
        (("--ibi", SERVICE), [1, 2, 3, 4]),
        (("--ibi", OTHER.upper()), [4]),
        (("--ibi", "8JMKD3MGP8W/35MMLL8"), [3]),
        (("--ibi", "DPI.inpe.br/banon-pc@80/2008/04.28.18.07"), [3, 4]),
        (("--last", "2"), [3, 4]),
        (("--ibi", SERVICE, "--what", "included", "--last", "9"), [2]),
    ],
)
def test_show_prints_the_entries_that_are_asked_for(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], shown: list[int]
) -> None:
    assert log(data, "show", *words) == 0
    assert numbers(capsys.readouterr().out) == shown
    assert log(data, "show", "--json", *words) == 0
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert [json.loads(line)["number"] for line in lines] == shown
    assert {line.encode() for line in lines} <= set(
        (data / EVIDENCE_FILE).read_bytes().splitlines(keepends=True)
    )


def test_an_entry_is_a_line_for_eyes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert log(data, "show", "--last", "1") == 0
    assert capsys.readouterr().out == (
        "4  2026-09-21T14:13:20.250Z  alert  kind=suspect-originals  ibi=dpi.inpe.br/banon-pc@80/2008/04.28.18.07"
        f'  archives="{SERVICE} {OTHER}"  disputed=dpi.inpe.br/banon-pc@80/2008/04.28.18.07\n'
    )


def test_lines_that_were_changed_are_counted_and_not_shown(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data / EVIDENCE_FILE
    path.write_bytes(path.read_bytes().replace(b"archive.example", b"archive.\x1b[31m!"))
    assert log(data, "show") == 1
    printed = capsys.readouterr()
    assert numbers(printed.out) == [1, 3, 4]
    assert printed.err == "ibi: lines that are not as they were written, and are not shown: 1\n"


@pytest.mark.parametrize("more", [("--what", "alert"), ("--ibi", SERVICE), ("--last", "1")])
def test_the_head_is_shown_alone(
    data: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    assert log(data, "show", "--head", *more) == 1
    assert capsys.readouterr().err == "ibi: --head can be combined only with --json\n"


@pytest.mark.parametrize("last", ["0", "-1", "x", "1000001"])
def test_a_number_of_entries_is_checked(data: Path, last: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        log(data, "show", f"--last={last}")
    assert stopped.value.code == 2


def test_a_resolver_that_has_written_nothing_has_no_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(tmp_path), "--address", "urlib.net", "--service-ibi", SERVICE]
    assert main(["resolver", "init", *words]) == 0
    capsys.readouterr()
    assert log(tmp_path, "verify") == 0
    assert log(tmp_path, "show") == 0
    assert capsys.readouterr().out == "there are no entries\n"


@pytest.mark.parametrize("words", [("verify",), ("show",), ("show", "--head")])
def test_a_directory_without_a_resolver_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert log(tmp_path, *words) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line


def alerts(data: Path, *words: str) -> int:
    return main(["resolver", "alerts", *words, "--data", str(data)])


def test_alerts_are_printed_with_who_was_first_and_who_claims(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alerts(data) == 0
    moment, item = "2026-09-21T14:13:20.250Z", str(ITEM.main)
    assert capsys.readouterr().out.splitlines() == [
        f"{moment}  {item}",
        f"  First seen with the original: {SERVICE}, on {moment}",
        f"  {SERVICE}: claimed the original on {moment}",
        f"    3  {moment}  original  ibi={json.dumps(' '.join(ITEM.words))}  archive={SERVICE}",
        f"  {OTHER}: claimed the original on {moment}",
    ]
    assert alerts(data, "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    shown = json.loads(line)
    assert (shown["ibi"], shown["moment"], shown["first"]["number"]) == (item, moment, 3)
    assert [each["archive"] for each in shown["claimants"]] == [SERVICE, OTHER]


def test_so_many_alerts_are_printed_as_are_wanted_the_latest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [MOMENT]
    evidence = Evidence(tmp_path / EVIDENCE_FILE, lambda: now[0])
    for number in range(120):
        now[0] += 1
        name = f"example.org/w@80/2020/01.02.{number // 60:02}.{number % 60:02}"
        evidence.write("alert", kind="suspect-originals", ibi=name, archives=f"{SERVICE} {OTHER}")
        evidence.write("alert", kind="deleted", ibi=name)
    for words, count in (((), 20), (("--last", "1"), 1), (("--last", "100"), 100), (("--last", "500"), 120)):
        assert alerts(tmp_path, "--json", *words) == 0
        found = [json.loads(line)["moment"] for line in capsys.readouterr().out.splitlines()]
        assert (len(found), found) == (count, sorted(found, reverse=True))
    path = tmp_path / EVIDENCE_FILE
    path.write_bytes(path.read_bytes().replace(b"01.02.01.59", b"01.02.01.58"))
    assert alerts(tmp_path, "--json", "--last", "500") == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 119
    assert printed.err.startswith("ibi: lines that are not as they were written")


def test_without_an_alert_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", str(tmp_path), "--address", "urlib.net", "--service-ibi", SERVICE]
    assert main(["resolver", "init", *words]) == 0
    capsys.readouterr()
    assert alerts(tmp_path) == 0
    assert capsys.readouterr().out == "No alerts of two originals lately.\n"
    assert alerts(tmp_path, "--json") == 0
    assert capsys.readouterr().out == ""
    assert alerts(tmp_path / "nothing") == 1
