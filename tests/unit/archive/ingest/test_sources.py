"""What files say: BibTeX, CSV and others, record by record, each an item or one clear sentence."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.ingest.sources.bibtex import LONGEST_ENTRY, plain, read_bibtex
from ibi.archive.ingest.sources.records import encoding_of, read_json_lines
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.item import MetadataValue
from ibi.archive.model.item_json import LONGEST_LINE, Draft
from ibi.archive.model.record_values import Source as Journal
from ibi.archive.model.record_values import doi_address, is_persistent, language_of, names_in, web_address
from ibi.errors import BadItem, IbiError
from ibi.identifier.unwrapping import unwrap
from support.checks.source_records import Source, one, problems, read, values_of

WILD = Path(__file__).parents[4] / "conformance/wild/real_identifiers.jsonl"

# BibTeX

ENTRY = r"""
@String{inpe = "Instituto Nacional de Pesquisas Espaciais"}
@String(place = inpe # " (INPE)")
@InProceedings{BanonBano:2007:IdTrRe,
               author = "Banon, Gerald Jean Francis and Lise Christine Banon and {Minist{\'e}rio X} and others",
                title = "{\'I}ndice de S{\~a}o Jos\'e: a{\c{c}}{\~o}es \emph{bonitas} --- par\'{\i}metros",
            booktitle = "Anais...",
               volume = 7,
                pages = "45--67, 70",
                 year = "2007", month = mar,
            publisher = place,
             keywords = "sensoriamento remoto, {IBI}.",
             abstract = {Two
                         lines \& more},
             language = "Portuguese",
                 isbn = "978-85-17-00031-7",
                  doi = "10.1234/AB\_c",
                  ibi = "8JMKD3MGP8W/35MME4E",
           repository = "dpi.inpe.br/sbsr@80/2006/11.15.22.53",
           identifier = {6RPa7umaZ/UaJFT},
                  url = "http://marte.dpi.inpe.br/col/dpi.inpe.br/sbsr@80/2006/11.15.22.53/doc/5691\_5698.pdf"
}
"""


def test_an_entry_tells_names_place_and_dublin_core() -> None:
    draft = one(read_bibtex, ENTRY)
    assert str(draft.forms) == "rep dpi.inpe.br/sbsr@80/2006/11.15.22.53 ibip 8JMKD3MGP8W/35MME4E"
    assert draft.key == ""
    assert [str(alias) for alias in draft.facts["aliases"]] == ["6RPa7umaZ/UaJFT"]
    assert draft.facts["url"].endswith("/doc/5691_5698.pdf")
    assert draft.facts["language"] == "pt"
    assert values_of(draft, "title") == ["Índice de São José: ações bonitas — parímetros"]
    assert values_of(draft, "creator") == [
        "Banon, Gerald Jean Francis",
        "Banon, Lise Christine",
        "Ministério X",
    ]
    assert values_of(draft, "publisher") == ["Instituto Nacional de Pesquisas Espaciais (INPE)"]
    assert values_of(draft, "date") == ["2007-03"]
    assert values_of(draft, "subject") == ["sensoriamento remoto", "IBI"]
    assert values_of(draft, "description") == ["Two lines & more"]
    assert values_of(draft, "source") == ["Anais..., v. 7, p. 45-67; 70"]
    assert values_of(draft, "type") == ["inproceedings"]
    assert values_of(draft, "identifier") == [
        draft.facts["url"], "https://doi.org/10.1234/AB_c", "ISBN 978-85-17-00031-7",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "url", "rep", "key"),
    [
        ("url = {http://far.example/x}", "http://far.example/x", None, "k"),
        (r"url = {\url{http://far.example/x\_y~z?a\&b}}", "http://far.example/x_y~z?a&b", None, "k"),
        ("doi = {10.1234/x}", "https://doi.org/10.1234/x", None, "k"),
        ("doi = {https://dx.doi.org/10.1234/x}", "https://doi.org/10.1234/x", None, "k"),
        ("howpublished = {http://far.example/x}", "http://far.example/x", None, "k"),
        ("howpublished = {In print}", None, None, "k"),
        ("url = {ftp://far.example/}", None, None, "k"),
        (
            "url = {http://urlib.net/dpi.inpe.br/x/2006/11.15.22.53}",
            None,
            "dpi.inpe.br/x/2006/11.15.22.53",
            "",
        ),
        ("identifier = {see dpi.inpe.br/x/2006/11.15.22.53.}", None, "dpi.inpe.br/x/2006/11.15.22.53", ""),
        ("identifier = {10.1234/x}", None, None, "k"),
        ("identifier = {1721.1/12345}", None, None, "k"),
    ],
)
def test_where_an_entry_lives_and_what_it_is_called(
    fields: str, url: str | None, rep: str | None, key: str
) -> None:
    draft = one(read_bibtex, f"@misc{{k, title = {{T}}, {fields}}}")
    assert draft.facts.get("url") == url
    assert (draft.forms and str(draft.forms.rep)) == rep
    assert draft.key == key


def test_every_identifier_of_the_wild_is_found_in_a_bibtex_entry() -> None:
    found = 0
    for real in map(json.loads, WILD.read_text(encoding="utf-8").splitlines()):
        for text in real["found_as"]:
            if set(text) & set('{}"@\n#') or "://" not in text:
                continue
            draft = one(read_bibtex, f"@misc{{k, title = {{T}}, identifier = {{{text}}}}}")
            names = {str(draft.forms.main)} if draft.forms else set()
            names |= {str(alias) for alias in draft.facts.get("aliases", ())}
            assert str(unwrap(text).ibi) in names, text
            found += real["ibi"] in names
    assert found >= 100


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"S{\~a}o Jos{\'{e}} dos Campos", "São José dos Campos"),
        (r"par\^{\i}metros {\'{\i}} {\'\i} {\i}", "parîmetros í í ı"),
        (r"{\c{c}}{\~o}es \c c \v{S} \L{}\'od\'z {\ss} {\o}", "ções ç Š Łódź ß ø"),
        (r"\emph{a} \textbf{b} {\em c} {\bf d}", "a b c d"),
        (r"5~km \& 10\% --- ``x'' \_", "5 km & 10% — “x” _"),
        ("plain {Brace} text", "plain Brace text"),
        (r"\unknowncommand{x} $x^2$", r"\unknowncommand x $x^2$"),
        ("already áéí", "already áéí"),
        ("A\u0301", "Á"),
    ],
)  # fmt: skip
def test_latex_becomes_plain_text(latex: str, text: str) -> None:
    assert plain(latex).replace("\xa0", " ") == text


BROKEN = """\
@misc{one, title = {A}, url = {http://far.example/1}}
@misc{two, title = {never closed, url = {http://far.example/2}
@misc{three, title = "A", url = {http://far.example/3}}
@misc{four, title {A}}
@misc{, title = {A}}
words between @ entries, an address a@b.example
@comment{jabref-meta: x}
@preamble{"x"}
@misc{five, title = {A}, url = {http://far.example/5}} @misc{six, title = {A}, url = {http://far.example/6}}
@misc(seven, title = "A",
  url = {http://far.example/7})
@misc{eight, title = nosuchstring, url = {http://far.example/8}}
"""


def test_an_entry_that_cannot_be_read_harms_no_other() -> None:
    records = read(read_bibtex, BROKEN)
    good = [(each.line, each.draft.key) for each in records if isinstance(each.draft, Draft)]
    assert good == [(1, "one"), (3, "three"), (9, "five"), (9, "six"), (10, "seven"), (12, "eight")]
    assert [line for line, _ in problems(read_bibtex, BROKEN)] == [2, 4, 5]
    assert all("\n" not in sentence for _, sentence in problems(read_bibtex, BROKEN))


def test_strings_cannot_grow_beyond_all_measure() -> None:
    bomb = (
        '@string{a0 = "'
        + "x" * 100
        + '"}\n'
        + "".join(f"@string{{a{n} = {' # '.join([f'a{n - 1}'] * 10)}}}\n" for n in range(1, 12))
    )
    tracemalloc.start()
    try:
        found = read(read_bibtex, f"{bomb}@misc{{k, title = a11}}\n@misc{{fine, title = {{T}}}}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert [each.draft.key for each in found if isinstance(each.draft, Draft)][-1] == "fine"


def test_an_entry_without_end_costs_no_more_than_its_beginning() -> None:
    endless = "@misc{k, title = {" + "words and words\n" * (LONGEST_ENTRY // 10) + "}}\n"
    text = endless + "@misc{fine, title = {T}, }\n"
    assert problems(read_bibtex, text) == [(1, f"the entry is longer than {LONGEST_ENTRY} characters")]
    assert read(read_bibtex, text)[-1].name == "fine"


def test_the_encoding_of_a_file_is_found_out() -> None:
    entry = "@misc{k, title = {Relatório}}"
    for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
        assert values_of(one(read_bibtex, entry.encode(encoding)), "title") == ["Relatório"]


@pytest.mark.parametrize(
    ("right", "wrong", "encoding"), [(2, 1, "utf-8-sig"), (2, 2, "utf-8-sig"), (2, 3, "cp1252")]
)
def test_the_encoding_of_a_file_is_that_of_most_of_its_lines(right: int, wrong: int, encoding: str) -> None:
    lines = ["Relat\xf3rio\n".encode()] * right + [b"Relat\xf3rio\n"] * wrong
    assert encoding_of(io.BytesIO(b"".join(lines))) == encoding


def test_one_broken_line_does_not_turn_a_file_into_another_encoding() -> None:
    lines = ["@misc{k%d, title = {Relatório}}\n" % n for n in range(5)]  # noqa: UP031 - full of braces
    text = "".join(lines).encode() + b"@misc{bad, title = {Relat\xf3rio}}\n"
    assert encoding_of(io.BytesIO(text)) == "utf-8-sig"
    assert [sentence for _, sentence in problems(read_bibtex, text)] == [
        "the text is not in the encoding that the rest of the file has"
    ]
    assert len(read(read_bibtex, text)) == 6


@pytest.mark.parametrize("source", [read_bibtex, read_table])
@pytest.mark.parametrize("bom", [b"\xff\xfe", b"\xfe\xff"])
def test_half_a_character_of_utf_16_is_one_sentence(source: Source, bom: bytes) -> None:
    with pytest.raises(BadItem, match="not UTF-16 all through"):
        read(
            source,
            bom + "url\n@misc{k}\n".encode("utf-16-le" if bom[0] else "utf-16-be") + b"\x00",
        )


@given(st.text(alphabet='@misc{}",=#()\\ab\n %', max_size=120) | st.text(max_size=60))
def test_any_bibtex_is_items_or_our_errors(text: str) -> None:
    for each in read(read_bibtex, text):
        assert isinstance(each.draft, Draft | IbiError)


# CSV

ROWS = """\
rep;url;title;title.en;creator;language;metadata.language;transferable;translations.pt;formats.oai_dc;aliases;key
a.example/b/2010/01.01.00.00;http://far.example/;"Relatório; ""um"" ";Report;"Silva, J.; Pereira, K.";English;eng;sim;\
a.example/b/2010/01.01.00.05;http://far.example/dc;6RPa7umaZ/UaJFT;k
"""


def test_a_row_tells_what_its_columns_are_called() -> None:
    draft = one(read_table, ROWS)
    assert str(draft.forms) == "rep a.example/b/2010/01.01.00.00"
    assert draft.key == "k"
    assert draft.facts["metadata"] == {
        "title": (MetadataValue("Relatório"), MetadataValue('"um"'), MetadataValue("Report", "en")),
        "creator": (MetadataValue("Silva, J."), MetadataValue("Pereira, K.")),
        "language": (MetadataValue("eng"),),
    }
    assert draft.facts["language"] == "en"
    assert draft.facts["transferable"] is True
    assert {tag: str(link.main) for tag, link in draft.facts["translations"].items()} == {
        "pt": "a.example/b/2010/01.01.00.05"
    }
    assert draft.facts["formats"] == {"oai_dc": "http://far.example/dc"}
    assert [str(alias) for alias in draft.facts["aliases"]] == ["6RPa7umaZ/UaJFT"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separator_encoding_and_line_ends_are_told_apart(separator: str, encoding: str, end: str) -> None:
    rows = [["URL", "Title"], ["http://far.example/", '"São José"'], []]
    text = end.join(separator.join(row) for row in rows)
    draft = one(read_table, text.encode(encoding))
    assert values_of(draft, "title") == ["São José"]
    assert draft.facts["url"] == "http://far.example/"


def test_a_column_ibi_takes_any_name_in_any_wrapping() -> None:
    text = "ibi,url\nhttp://urlib.net/rep/8JMKD3MGP8W/35MME4E,\n6RPa7umaZ/UaJFT,http://far.example/\nhello,\n"
    first, second, third = read(read_table, text)
    assert isinstance(first.draft, Draft)
    assert str(first.draft.forms) == "ibip 8JMKD3MGP8W/35MME4E"
    assert isinstance(second.draft, Draft)
    assert second.draft.forms is None
    assert isinstance(third.draft, IbiError)


def test_files_are_called_as_the_last_part_of_their_path() -> None:
    draft = one(read_table, "files,target\nscans/página 1.pdf;scans/2.pdf,2.pdf\n")
    assert draft.files == {"p%C3%A1gina%201.pdf": "scans/página 1.pdf", "2.pdf": "scans/2.pdf"}
    assert problems(read_table, "files\na/x.pdf;b/x.pdf\n") == [(2, "two files are called x.pdf")]


TABLE = """\
url,title
http://far.example/1,"open quote
http://far.example/2,"two
lines"
,
http://far.example/3,a,b
http://far.example/4,"a"b
http://far.example/5,five "inches"
"""


def test_a_row_that_cannot_be_read_harms_no_other() -> None:
    good = [
        (each.line, each.draft.facts["url"])
        for each in read(read_table, TABLE)
        if isinstance(each.draft, Draft)
    ]
    assert good == [(3, "http://far.example/2"), (8, "http://far.example/5")]
    assert [line for line, _ in problems(read_table, TABLE)] == [2, 6, 7]
    assert all("\n" not in sentence for _, sentence in problems(read_table, TABLE))


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (
            "url,colour",
            "there is no column colour; there are access, .*, title, creator, .*, metadata.language, ",
        ),
        ("url,url", "two columns url"),
        ("metadata", "there is no column metadata;"),
        ("metadata.colour", "there is no column metadata.colour;"),
        ('"url', "not CSV"),
    ],
)
def test_a_column_that_means_nothing_is_said_before_anything_is_taken_in(head: str, sentence: str) -> None:
    with pytest.raises(BadItem, match=sentence):
        read(read_table, f"{head}\nhttp://far.example/,x\n")


@pytest.mark.parametrize(
    ("head", "cell", "sentence"),
    [
        ("language", "klingon", "two letters"),
        ("transferable", "perhaps", "true or false"),
        ("title.!", "x", "value of title"),
        ("key", "x" * 600, "short printable"),
        ("timestamp", "yesterday", "a moment such as"),
        ("url", "x" * (LONGEST_LINE + 1), "longer than"),
        ("url", "x" * 200_000, "field larger"),
    ],
)
def test_a_row_that_is_refused_gets_one_clear_sentence(head: str, cell: str, sentence: str) -> None:
    ((line, problem),) = problems(read_table, f"url,{head}x\n".replace(f"{head}x", "key" if head == "url" else head)
                                  + f",{cell}\n")  # fmt: skip
    assert line == 2
    assert sentence in problem


def test_empty_tables_have_no_items() -> None:
    assert read(read_table, "") == []
    assert read(read_table, "url,title\n") == []


@given(st.text(alphabet='url,";\n\t x', max_size=80))
def test_any_table_is_items_or_our_errors(text: str) -> None:
    with suppress(BadItem):
        for each in read(read_table, "url,title\n" + text):
            assert isinstance(each.draft, Draft | IbiError)


# All of them

SOURCES = [
    pytest.param(read_json_lines, b'{"url": "http://far.example/%d"}\n', id="jsonl"),
    pytest.param(read_bibtex, b"@misc{k%d, url = {http://far.example/}}\n", id="bibtex"),
    pytest.param(read_table, b"http://far.example/%d\n", id="csv"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "line"), [*SOURCES, pytest.param(read_ris, b"TY  - BOOK\nTI  - %d\nER  - \n", id="ris")]
)
def test_no_source_holds_more_than_a_record_in_memory(source: Source, line: bytes) -> None:
    head = b"url\n" if source is read_table else b""
    text = io.BytesIO(head + b"".join(line % number for number in range(3000)))
    peaks = []
    tracemalloc.start()
    try:
        for number, _ in enumerate(source(text), 1):
            if number in {300, 3000}:
                peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert len(peaks) == 2
    # All the records together take two megabytes or more; less may be cycles that wait for the collector.
    assert peaks[1] < peaks[0] + 600_000


@pytest.mark.parametrize(("source", "line"), SOURCES)
def test_a_line_without_end_is_one_sentence(source: Source, line: bytes) -> None:
    head = b"url\n" if source is read_table else b""
    endless = (b"@misc{k, title = {" if source is read_bibtex else b"") + b"x" * (3 * LONGEST_LINE) + b"\n"
    records = read(source, head + endless + line % 1)
    assert isinstance(records[0].draft, IbiError)
    assert "longer than" in str(records[0].draft)
    assert isinstance(records[-1].draft, Draft)


# Values


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("pt", "pt"), ("PT-br", "pt-BR"), ("pt_BR", "pt-BR"), ("por", "pt"), ("eng", "en"), ("fre", "fr"),
        ("Portuguese", "pt"), ("Português", "pt"), ("Inglês", "en"), ("español", "es"), ("ngerman", "de"),
        ("brazilian", "pt-BR"), ("klingon", None), ("", None), ("zh-Hans", None), ("x" * 9999, None),
    ],
)  # fmt: skip
def test_languages_are_known_by_tag_code_and_name(text: str, tag: str | None) -> None:
    assert language_of(text) == tag


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (" http://far.example/a b ", "http://far.example/a%20b"),
        ("http://far.example/é?{x}|^`", "http://far.example/%C3%A9?%7Bx%7D%7C%5E%60"),
        ("HTTPS://far.example", "HTTPS://far.example"),
        ("http://user@far.example/", None),
        ("http://é.example/", None),
        ("javascript:alert(1)", None),
        ("http:", None),
        ("far.example", None),
    ],
)
def test_addresses_are_made_fit_for_a_redirect(text: str, url: str | None) -> None:
    assert web_address(text) == url


@pytest.mark.parametrize("text", ["10.1/x", "10.1234", "11.1234/x", "doi:", "10.1234/a b"])
def test_what_is_no_doi_is_none(text: str) -> None:
    assert doi_address(text) is None


def test_two_words_with_a_slash_are_no_name() -> None:
    assert names_in(["PUBLIC/2345", "2345/678", "CC/BY", "x" * 5000]) == {}
    assert names_in(["see 8JMKD3MGP8W/35MME4E"], only_names=True) == {}
    assert names_in(["http://urlib.net/8JMKD3MGP8W/35MME4E"], only_names=True) == {
        "ibip": "8JMKD3MGP8W/35MME4E"
    }


@pytest.mark.parametrize(
    ("url", "persistent"),
    [
        ("http://urlib.net/8JMKD3MGP8W/35MME4E", True),
        ("http://urlib.net/rep/8JMKD3MGP8W/35MME4E", True),
        ("http://urlib.net/8JMKD3MGP8W/35MME4E!", False),
        ("http://mtc-m16b.sid.inpe.br/rep/8JMKD3MGP8W/35MME4E", False),
        ("http://far.example/", False),
    ],
)
def test_a_persistent_url_is_a_name_and_no_place(url: str, persistent: bool) -> None:
    assert is_persistent(url) is persistent


JOURNAL = ("Revista do Mar", "12", "3", "45-67")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Revista do Mar, v. 12, n. 3, p. 45-67", JOURNAL),
        ("Revista do Mar; v. 12 n. 3 (2021): Estuários; 45-67", JOURNAL),
        ("Revista do Mar; Vol. 12 No. 3 (2021): Estuaries; 45-67", JOURNAL),
        ("Revista do Mar; Vol. 12 Núm. 3 (2021); 45-67", JOURNAL),
        ("Revista do Mar; v. 12 (2021); e45", ("Revista do Mar", "12", "", "e45")),
        ("Revista do Mar; n. 3 (2021)", ("Revista do Mar", "", "3", "")),
        ("Revista do Mar; velas", ("Revista do Mar; velas", "", "", "")),
        ("Mar; Terra; v. 12", ("Mar; Terra; v. 12", "", "", "")),
        ("1234-5679", ("1234-5679", "", "", "")),
    ],
)
def test_the_issue_of_a_journal_is_read_from_its_source(text: str, expected: tuple[str, ...]) -> None:
    assert tuple(Journal.parse(text)) == expected


@pytest.mark.parametrize(
    "text", ["a;" + " " * 100_000 + "x;;", "a; " + "v " * 50_000, "a; v. 1: " + "(" * 99_999]
)
def test_a_long_source_takes_no_long_time(text: str) -> None:
    started = time.process_time()
    Journal.parse(text)
    assert time.process_time() - started < 1
