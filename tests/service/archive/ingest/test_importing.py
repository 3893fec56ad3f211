"""Items from JSON lines: each wholly or not at all, and a second time without any change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.ingest.importing import BATCH, FileImporter
from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item_json import LONGEST_LINE, read_line, write_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.errors import HoldingError, IbiError, MintingNotAllowed, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_name
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import Relation
from ibi.protocol.verb_list import VerbList
from support.archive.archive_fixture import WHEN, NewArchive, settings_for
from support.checks.full_disk import files_of_at_most
from support.machine import FalseMachine
from support.oracles.vectors import load

REP = "a.example/b/2010/01.01.00.00"
ITEM = {"rep": REP, "url": "http://far.example/"}

WHOLE = {
    "rep": "a.example/b/2010/01.01.00.01",
    "ibip": "8JMKD3MGP8W/35MME4E",
    "aliases": ["6RPa7umaZ/UaJFT"],
    "key": "mine",
    "state": "Copy",
    "contenttype": "Metadata",
    "timestamp": "2009-07-21T15:23:45+02:00",
    "language": "PT-br",
    "transferable": False,
    "files": {"a%20b.txt": "letters/a.txt", "c/d.pdf": "letters/d.pdf"},
    "target": "c/d.pdf",
    "file_list_public": False,
    "next_edition": "a.example/b/2010/01.01.00.02",
    "translations": {
        "EN": "a.example/b/2010/01.01.00.03",
        "": "rep a.example/b/2010/01.01.00.04 ibip LK47B6W/362SFKH",
    },
    "metadata_item": "LK47B6W/362SFKJ",
    "metadata": {"title": ["One", {"value": "Um", "lang": "pt"}], "creator": "Somebody"},
    "formats": {"oai_dc": "http://far.example/dc"},
}


@pytest.fixture
def letters(archive: NewArchive) -> Path:
    """A folder of files beside the JSON lines."""
    folder = archive.data / "letters"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"aaa")
    (folder / "d.pdf").write_bytes(b"dddd")
    return folder


def held(archive: NewArchive, name: str = REP) -> dict[str, object] | None:
    found = archive.catalogue.holding(parse_name(name))
    return write_item(found) if found else None


def problems(archive: NewArchive) -> list[tuple[int, str]]:
    return [(refused.line, str(refused.why)) for refused in archive.refused]


def totals(archive: NewArchive, *lines: object) -> tuple[int, int, int]:
    report = archive.load(*lines)
    return report.added, report.unchanged, report.refused


def test_a_linked_item_has_the_moment_of_import_as_its_timestamp(archive: NewArchive) -> None:
    assert totals(archive, ITEM) == (1, 0, 0)
    assert held(archive) == ITEM | {"timestamp": WHEN}


def test_every_field_arrives(archive: NewArchive, letters: Path) -> None:
    assert letters.is_dir()
    assert totals(archive, WHOLE) == (1, 0, 0), problems(archive)
    found = held(archive, "8JMKD3MGP8W/35MME4E")
    assert found is not None
    files = found.pop("files")
    assert found == {name: value for name, value in WHOLE.items() if name != "files"} | {
        "timestamp": "2009-07-21T13:23:45Z",
        "language": "pt-BR",
        "translations": {"en": "a.example/b/2010/01.01.00.03", "": WHOLE["translations"][""]},  # type: ignore[index]  # a value of WHOLE
        "metadata": {"title": ["One", {"value": "Um", "lang": "pt"}], "creator": ["Somebody"]},
    }
    assert {name: (file["size"], file["type"]) for name, file in files.items()} == {  # type: ignore[attr-defined]  # JSON has no types
        "a%20b.txt": (3, "text/plain"), "c/d.pdf": (4, "application/pdf"),
    }  # fmt: skip


def test_a_second_run_changes_nothing(archive: NewArchive, letters: Path) -> None:
    assert letters.is_dir()
    lines = [
        ITEM,
        WHOLE,
        {"url": "http://far.example/unnamed"},
        {"key": "k", "url": "http://far.example/keyed"},
    ]
    assert totals(archive, *lines) == (4, 0, 0)
    before = list(archive.catalogue.all())
    archive.clock.now += 1000
    assert totals(archive, *lines) == (0, 4, 0)
    assert list(archive.catalogue.all()) == before
    assert archive.minted == 2


@pytest.mark.proves("GEN-08")
def test_an_item_without_names_is_minted_once_however_often_and_wherever_it_stands(
    archive: NewArchive,
) -> None:
    line = {"url": "http://far.example/unnamed", "language": "en"}
    swapped = {"language": "en", "url": "http://far.example/unnamed"}
    assert totals(archive, line, swapped, ITEM, line) == (2, 2, 0)
    assert archive.minted == 1


def test_thousands_without_names_are_named_within_seconds(tmp_path: Path) -> None:
    clock = FalseMachine()
    directory = DataDirectory(tmp_path / "data", clock.machine)
    directory.reserve()
    directory.create(settings_for("archive.example", mint_host="archive.example", for_trying=True))
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(f'{{"url": "http://far.example/{n}"}}\n' for n in range(3000)), encoding="utf-8")
    with directory.item_store() as item_store:
        report = FileImporter(item_store, "tester", lambda _: None).run(lines)
        assert (report.added, report.refused) == (3000, 0)
        names = {str(holding.forms.rep) for holding in item_store.catalogue.all()}
    assert len(names) == 3001
    assert clock.slept < 5


def test_where_no_label_can_be_given_every_line_without_a_name_is_refused(archive: NewArchive) -> None:
    def refuse(_count: int) -> Iterator[IBIForms]:
        raise MintingNotAllowed(
            "this Archive has no name to mint under: set mint_host in {path}", path="archive.toml"
        )

    lines = archive.data / "lines.jsonl"
    lines.write_text('{"url": "http://far.example/1"}\n{"url": "http://far.example/2"}\n', encoding="utf-8")
    item_store = archive.item_store
    item_store.mint = refuse
    assert FileImporter(item_store, "tester", archive.refused.append).run(lines).refused == 2
    assert {refused.line for refused in archive.refused} == {1, 2}


def test_names_that_were_given_are_kept_and_the_other_form_is_not_made(archive: NewArchive) -> None:
    archive.load(ITEM, {"ibip": "8JMKD3MGP8W/35MME4E", "url": "http://far.example/"})
    assert archive.minted == 0
    assert "ibip" not in (held(archive) or {})
    assert "rep" not in (held(archive, "8JMKD3MGP8W/35MME4E") or {})


def test_an_item_that_is_held_with_other_facts_is_refused_and_stays(archive: NewArchive) -> None:
    archive.load(ITEM)
    before = held(archive)
    assert totals(archive, ITEM | {"url": "http://elsewhere.example/", "language": "en"}) == (0, 0, 1)
    assert problems(archive) == [(1, f"{REP} is already held, but differs in: language, url")]
    assert held(archive) == before


@pytest.mark.proves("ARC-01", "ARC-04")
def test_an_item_cannot_be_both_original_and_copy_nor_two_items_one(archive: NewArchive) -> None:
    other = {"rep": "a.example/b/2010/01.01.00.09", "ibip": "LK47B6W/362SFKH", "url": "http://far.example/9"}
    both = {"rep": REP, "ibip": "LK47B6W/362SFKH", "url": "http://far.example/"}
    assert totals(archive, ITEM, ITEM | {"state": "Copy"}, other, both) == (2, 0, 2)
    assert "state" in problems(archive)[0][1]
    assert "several items" in problems(archive)[1][1]


def test_a_bad_line_harms_no_other(archive: NewArchive) -> None:
    good = [
        {"rep": f"a.example/b/2010/01.01.{n // 60:02}.{n % 60:02}", "url": "http://far.example/"}
        for n in range(2 * BATCH)
    ]
    lines: list[object] = [*good[:700], b"{", b"", b"[1]", *good[700:], {"rep": "nonsense"}]
    assert totals(archive, *lines) == (2 * BATCH, 0, 3)
    assert [line for line, _ in problems(archive)] == [701, 703, 2 * BATCH + 4]
    assert archive.catalogue.count() == 2 * BATCH + 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"key": ' + b"9" * 10_000 + b"}", "not JSON"),
        (b'"text"', "not a JSON object"),
        (b'{"rep": "a.example/b/2010/01.01.00.00", "rep": "a.example/b/2010/01.01.00.01"}', "stands twice"),
        (ITEM | {"titel": "x"}, "no field titel"),
        (ITEM | {"rep": 1}, "rep is a text"),
        (ITEM | {"rep": "a.example/b/2010/01.01.00"}, "month.day.hour.minute"),
        (ITEM | {"ibip": "LK47B6W"}, "two words"),
        (ITEM | {"state": "Lost"}, "Original, Copy or Deleted"),
        (ITEM | {"state": ["Original"]}, "Original, Copy or Deleted"),
        (ITEM | {"contenttype": "pdf"}, "Data or Metadata"),
        (ITEM | {"timestamp": "yesterday"}, "a moment such as"),
        (ITEM | {"timestamp": "0001-01-01T00:00:00+10:00"}, "a moment such as"),
        (ITEM | {"language": "english"}, "two letters"),
        (ITEM | {"transferable": "yes"}, "true or false"),
        (ITEM | {"url": "ftp://far.example/"}, "http or https"),
        (ITEM | {"url": "javascript:alert(1)"}, "http or https"),
        (ITEM | {"url": "http://user@far.example/"}, "without user"),
        (ITEM | {"url": "http://far.example/\r\nSet-Cookie: a=b"}, "http or https"),
        (ITEM | {"url": "http://far.example/a b"}, "without user, blanks"),
        (ITEM | {"url": "http://evil\\@far.example/"}, "http or https"),
        (ITEM | {"url": "http://far.example:99999/"}, "an address is a host"),
        (ITEM | {"url": "http://far.example/{x}"}, "braces"),
        (ITEM | {"url": "http://far.example/" + "x" * 8200}, "http or https"),
        (ITEM | {"files": {"a": "a"}}, "not both"),
        (ITEM | {"state": "Deleted"}, "neither url nor files"),
        (ITEM | {"target": "a.pdf"}, "not among the files"),
        (ITEM | {"next_edition": "somewhere"}, "IBIp"),
        (ITEM | {"translations": {"portuguese": REP}}, "two letters"),
        (ITEM | {"translations": [REP]}, "an object of texts"),
        (ITEM | {"aliases": "6RPa7umaZ/UaJFT"}, "a list"),
        (ITEM | {"aliases": ["8JMKD3MGP8W/35MME4E"]}, "opaque id"),
        (ITEM | {"key": "a\nb"}, "printable"),
        (ITEM | {"key": "\ud800"}, "printable"),
        (ITEM | {"metadata": {"titel": "x"}}, "fifteen elements"),
        (ITEM | {"metadata": {"title": [{"value": "x", "lang": "!"}]}}, "value of title"),
        (ITEM | {"formats": {"(": "http://far.example/"}}, "brackets"),
        (b'{"rep": "' + b"a" * LONGEST_LINE, "longer than"),
    ],
)  # fmt: skip
def test_a_line_that_is_refused_gets_one_clear_sentence(
    archive: NewArchive, line: object, sentence: str
) -> None:
    assert totals(archive, line) == (0, 0, 1)
    error = problems(archive)[0][1]
    assert sentence in error
    assert "\n" not in error
    assert archive.catalogue.count() == 1


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        [*WHOLE, "url", "value", "lang", "title"]) | st.text(max_size=5), inner, max_size=4), max_leaves=12,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_line_is_an_item_or_one_of_our_errors(line: bytes) -> None:
    with suppress(HoldingError, ParseError):
        draft = read_line(line)
        assert draft.key or draft.forms


# Files


def test_files_are_kept_with_their_digest(archive: NewArchive, letters: Path) -> None:
    line = {"rep": REP.upper(), "files": {"a%20b.txt": "letters/a.txt"}}
    assert totals(archive, line) == (1, 0, 0)
    kept = archive.data / "col" / REP / "doc" / "a b.txt"
    assert kept.read_bytes() == b"aaa"
    (letters / "a.txt").write_bytes(b"changed")
    assert totals(archive, line) == (0, 0, 1)
    assert "files" in problems(archive)[0][1]
    assert kept.read_bytes() == b"aaa"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a.txt": "letters/absent.txt"}, "cannot be read"),
        ({"a.txt": "../outside.txt"}, "not inside"),
        ({"a.txt": "/etc/passwd"}, "not inside"),
        ({"a.txt": "letters/link.txt"}, "not inside"),
        ({"a.txt": "letters"}, "regular file"),
        ({"a.txt": "letters/pipe"}, "regular file"),
        ({"../a.txt": "letters/a.txt"}, "relative"),
        ({"%2e%2e/a.txt": "letters/a.txt"}, "relative"),
        ({"/a.txt": "letters/a.txt"}, "empty"),
        ({"a%00.txt": "letters/a.txt"}, "control"),
        ({"a%5Cb.txt": "letters/a.txt"}, "backslash"),
        ({"a b.txt": "letters/a.txt"}, "write a%20b.txt"),
        ({"Relatório.pdf": "letters/a.txt"}, "write Relat%C3%B3rio.pdf"),
        ({"x" * 300: "letters/a.txt"}, "overlong"),
        ({"a.txt": "letters/a.txt", "A.TXT": "letters/d.pdf"}, "too much alike"),
        ({"a": "letters/a.txt", "a/b": "letters/d.pdf"}, "a file and a folder"),
        ({"a.txt": "letters/a.txt", "b.txt": "letters/absent.txt"}, "cannot be read"),
    ],
)
def test_a_file_that_is_refused_leaves_nothing(
    archive: NewArchive, letters: Path, files: dict[str, str], sentence: str
) -> None:
    (archive.data.parent / "outside.txt").write_bytes(b"outside")
    (letters / "link.txt").symlink_to(archive.data.parent / "outside.txt")
    os.mkfifo(letters / "pipe")
    assert totals(archive, {"rep": REP, "files": files}) == (0, 0, 1)
    assert sentence in problems(archive)[0][1]
    assert archive.catalogue.holding(parse_name(REP)) is None
    assert list((archive.data / "staging").iterdir()) == []
    assert not (archive.data / "col" / REP).exists()


def test_a_disk_that_is_full_ends_an_import_and_refuses_no_record(archive: NewArchive) -> None:
    large, lines = archive.data / "large.bin", archive.data / "lines.jsonl"
    with large.open("wb") as file:
        file.truncate(8 << 20)
    small = archive.data / "small.txt"
    small.write_bytes(b"small")
    records = [
        {"rep": f"{REP}.01", "files": {"a": "small.txt"}},
        {"rep": f"{REP}.02", "files": {"a": "large.bin"}},
        {"rep": f"{REP}.03", "files": {"a": "small.txt"}},
    ]
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    importer = FileImporter(archive.item_store, "tester", archive.refused.append)
    with files_of_at_most(4 << 20), pytest.raises(SetupError, match="no file can be kept"):
        importer.run(lines)
    assert problems(archive) == []
    assert [held(archive, f"{REP}.0{number}") is not None for number in (1, 2, 3)] == [True, False, False]
    assert list((archive.data / "staging").iterdir()) == []
    report = importer.run(lines)
    assert (report.added, report.unchanged, report.refused) == (2, 1, 0)


def test_a_label_that_cannot_be_kept_ends_an_import(archive: NewArchive) -> None:
    def refuse(_count: int) -> Iterator[IBIForms]:
        raise SetupError(
            "labels cannot be made in {path}: {reason}", path="labels", reason="the disk is full"
        )

    lines = archive.data / "lines.jsonl"
    lines.write_text('{"url": "http://far.example/1"}\n', encoding="utf-8")
    item_store = archive.item_store
    item_store.mint = refuse
    with pytest.raises(SetupError, match="the disk is full"):
        FileImporter(item_store, "tester", archive.refused.append).run(lines)
    assert problems(archive) == []


def test_what_an_interrupted_import_left_is_cleared_and_replaced(archive: NewArchive, letters: Path) -> None:
    assert letters.is_dir()
    (archive.data / "staging" / "left").write_bytes(b"half a file")
    orphan = archive.data / "col" / REP / "doc" / "a.txt"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"placed, but never listed")
    assert totals(archive, {"rep": REP, "files": {"a.txt": "letters/a.txt"}}) == (1, 0, 0)
    assert orphan.read_bytes() == b"aaa"
    assert list((archive.data / "staging").iterdir()) == []


def test_others_who_are_at_work_do_not_hold_up_an_import_and_lose_nothing_by_it(archive: NewArchive) -> None:
    (archive.data / "x.txt").write_bytes(b"xxx")
    with archive.item_store.staging_session():
        staged = archive.file_store.stage("x.txt", archive.data / "x.txt")
        assert totals(archive, ITEM) == (1, 0, 0)
        with archive.item_store.unit_of_work("somebody") as work:
            work.change(work.get(parse_name(REP)), replace(work.get(parse_name(REP)), url=""), [staged])
    holding = archive.catalogue.holding(parse_name(REP))
    assert holding is not None
    with archive.file_store.open(holding.forms, holding.files[0]) as file:
        assert file.read() == b"xxx"


def test_a_refused_record_keeps_no_disk_while_others_are_at_work(archive: NewArchive, letters: Path) -> None:
    files = {"a.txt": "letters/a.txt", "b.txt": "letters/absent.txt"}
    assert (letters / "a.txt").exists()
    with archive.item_store.staging_session():  # who is not alone does not clear the folder at its end
        assert totals(archive, {"rep": REP, "files": files}) == (0, 0, 1)
        assert list((archive.data / "staging").iterdir()) == []


def test_an_absent_file_of_lines_is_one_sentence(archive: NewArchive) -> None:
    importer = FileImporter(archive.item_store, "tester", archive.refused.append)
    with pytest.raises(IbiError, match="No such file"):
        importer.run(archive.data / "absent.jsonl")


# The Archive of Example 9.2, from its catalogue

_D, _M = "sid.inpe.br/mtc-m18@80/2009", "http://mtc-m16c.sid.inpe.br/col/sid.inpe.br/mtc-m18@80"
EXAMPLE = [
    {
        "rep": f"{_D}/07.21.13.23",
        "ibip": "8JMKD3MGP8W/35MME4E",
        "timestamp": "2009-07-21T13:23:45Z",
        "language": "en",
        "url": f"{_M}/2009/07.21.13.23/doc/CCSDS%20643.0-B-1.pdf",
        "metadata_item": f"{_D}/07.21.13.23.47",
        "translations": {"en": f"{_D}/07.21.13.23", "pt": f"{_D}/08.25.19.43"},
    },
    {
        "rep": f"{_D}/07.21.13.23.47",
        "contenttype": "Metadata",
        "timestamp": "2014-04-04T17:39:54Z",
        "url": f"{_M}/2009/07.21.13.23.47/doc/metadata.cgi",
        "formats": {"oai_dc": f"{_M}/2009/07.21.13.23.47/doc/metadata.cgi?choice=oai_dc"},
    },
    {
        "rep": f"{_D}/08.25.19.43",
        "timestamp": "2011-09-22T14:45:11Z",
        "language": "pt",
        "url": f"{_M}/2009/08.25.19.43/doc/RTC-07.pdf",
    },
]
RELATIONS = ("", ".lastedition", ".metadata", ".metadata(oai_dc)", ".lastedition.metadata",
             ".lastedition.metadata(oai_dc)", ".metadata.translation",
             ".translation(en)", ".translation(pt)")  # fmt: skip


@pytest.mark.proves("SVC-22", "SVC-23", "SVC-24", "SVC-17", "SVC-07", "AMB-46")
@pytest.mark.parametrize(("verbs", "pairs"), [("", 49), ("GetTranslation", 15)])
def test_examples_9_2_and_9_3_come_out_of_the_catalogue(archive: NewArchive, verbs: str, pairs: int) -> None:
    vector = load("filter")[0]
    printed = vector.input["pairs"] if pairs == 49 else vector.expected
    archive.load(*EXAMPLE)
    here = ArchiveIdentity(
        "mtc-m16c.sid.inpe.br",
        IBIForms.parse("rep sid.inpe.br/mtc-m18@80/2008/03.17.15.17"),
        IBIForms.parse("rep dpi.inpe.br/banon/1998/08.02.08.56"),
        tuple(map(Relation.from_qualifier, RELATIONS)),
    )
    request = UrlRequest(("172.16.44.200",), parse_name("8JMKD3MGP8W/35MME4E"), "", VerbList.parse(verbs))
    key = "1426387214-9164566186556927"
    found = url_list(archive.catalogue.holding, here, request, key, filtered=pairs == 15).pairs
    assert found == {
        name: tuple(value) if isinstance(value, list) else value for name, value in printed.items()
    }
    assert len(found) == pairs
