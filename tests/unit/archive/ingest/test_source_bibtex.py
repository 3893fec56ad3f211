"""What each field of BibTeX becomes, where an entry begins and ends, and what is told of one that cannot be read."""

from __future__ import annotations

import pytest

from ibi.archive.ingest.sources.bibtex import LONGEST_ENTRY, read_bibtex
from ibi.archive.model.item_json import Draft
from support.checks.source_records import one, problems, read, values_of

MOST_FROM_STRINGS = 1 << 20
LONGEST = "x" * 296  # with "Ana " before it, the longest name that is split


@pytest.mark.parametrize(
    ("fields", "element", "values"),
    [
        ("abstract = {A}, note = {N}", "description", ["A"]),
        ("publisher = {P}, school = {S}", "publisher", ["P"]),
        ("note = mar # { 1}", "description", ["March 1"]),
        ("keywords = {a; b, c.}", "subject", ["a", "b, c"]),
        ("keywords = {a, , b.}", "subject", ["a", "b"]),
        ("isbn = {1}, issn = {2}", "identifier", ["ISBN 1", "ISSN 2"]),
        (r"note = {US\$ 5, \{a\} 2\textasciicircum{}3}", "description", ["US$ 5, {a} 2^3"]),
        ("journal = {J}, booktitle = {B}, number = 2, pages = {1--2}", "source", ["J, n. 2, p. 1-2"]),
        ("date = {2020-05-01}, year = 1999, month = mar", "date", ["2020-05-01"]),
        ("year = 2007", "date", ["2007"]),
        ("year = {c2007}, month = mar", "date", ["c2007"]),
    ],
)
def test_a_field_becomes_an_element(fields: str, element: str, values: list[str]) -> None:
    assert values_of(one(read_bibtex, f"@misc{{k, title = {{T}}, {fields}}}"), element) == values


@pytest.mark.parametrize(
    ("month", "date"),
    [
        ("1", "2007-01"), ("12", "2007-12"), ("03", "2007-03"), ("Dec.", "2007-12"), ("march", "2007-03"),
        ("0", "2007"), ("13", "2007"), ("012", "2007"), ("ma", "2007"), ("spring", "2007"), ("²", "2007"),
    ],
)  # fmt: skip
def test_a_month_is_a_number_or_a_name(month: str, date: str) -> None:
    entry = f"@misc{{k, title = {{T}}, year = 2007, month = {{{month}}}}}"
    assert values_of(one(read_bibtex, entry), "date") == [date]


@pytest.mark.parametrize(
    ("field", "text", "element", "people"),
    [
        ("author", "others", "creator", []),
        ("author", "Ana Silva and others", "creator", ["Silva, Ana"]),
        ("author", "de la Cruz, Jr., Juan Maria", "creator", ["de la Cruz, Jr., Juan Maria"]),
        ("author", "A, B, C, D", "creator", ["A, B, C, D"]),
        ("author", f"Ana {LONGEST}", "creator", [f"{LONGEST}, Ana"]),
        ("author", f"Ana {LONGEST}x", "creator", [f"Ana {LONGEST}x"]),
        ("editor", "Ana Silva", "contributor", ["Silva, Ana"]),
        ("orientador", "Ana Silva", "contributor", ["Silva, Ana [adviser]"]),
    ],
)
def test_people_have_their_family_name_first(field: str, text: str, element: str, people: list[str]) -> None:
    entry = f"@misc{{k, title = {{T}}, {field} = {{{text}}}}}"
    assert values_of(one(read_bibtex, entry), element) == people


def test_what_an_item_does_not_get_is_told() -> None:
    (found,) = read(
        read_bibtex,
        "@misc{k, title = {T}, file = {x.pdf}, blank = { }, abstract = {A}, note = {N}, url = {http://a.example},"
        " howpublished = {http://b.example}, journal = {J}, booktitle = {B}, language = {en}, langid = {english},"
        " date = {2020}, year = 2020, month = mar, file = {y.pdf}}",
    )
    assert found.left_out == ["file", "note", "howpublished", "booktitle"]


FAULTY = """\
@misc{two, title = {never closed, url = {http://far.example/2}
@misc{three, title {A}}
@misc{, title = {A}}
@misc{five, title = {A},
  note = {B}} @misc{six,
  title {A}}
"""


def test_the_fault_of_an_entry_is_told_with_its_line() -> None:
    assert [(each.line, each.name, str(each.draft)) for each in read(read_bibtex, FAULTY) if each.name != "five"] == [
        (1, "two", "the entry is not BibTeX from line 1 on: premature end of file"),
        (2, "three", "the entry is not BibTeX from line 2 on: '=' expected"),
        (3, "", "the entry is not BibTeX from line 3 on: entry key expected"),
        (5, "six", "the entry is not BibTeX from line 6 on: '=' expected"),
    ]  # fmt: skip


def test_an_entry_is_refused_for_bytes_in_a_field_that_no_item_has() -> None:
    text = b"@misc{k, title = {\xc3\xa9}}\n@misc{b, file = {\xe9}, title = {T}}\n"
    assert problems(read_bibtex, text) == [
        (2, "the text is not in the encoding that the rest of the file has")
    ]


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_entry_is_read_and_a_longer_one_is_not(more: int) -> None:
    begin, end = "@misc{k, title = {T}, note = {\n", "}}\n"
    entry = begin + "x" * (LONGEST_ENTRY - len(begin + end) + more) + end
    found = read(read_bibtex, f"@misc{{a, title = {{A}}}}\n{entry}@misc{{z, title = {{Z}}}}\n")
    assert [isinstance(each.draft, Draft) for each in found] == [True, not more, True]
    assert [each.line for each in found] == [1, 2, 4]


@pytest.mark.parametrize("more", [0, 1])
def test_so_much_of_strings_is_read_in_each_entry_and_no_more(more: int) -> None:
    parts = [MOST_FROM_STRINGS // 8] * 7 + [MOST_FROM_STRINGS // 8 + more]
    strings = "".join(f"@string{{s{n} = {{{'x' * size}}}}}\n" for n, size in enumerate(parts))
    entry = "@misc{k, title = {T}, file = s0 # s1 # s2 # s3 # s4 # s5 # s6 # s7}\n"
    refused = f"the entry is longer than {MOST_FROM_STRINGS} characters"
    assert problems(read_bibtex, strings + 2 * entry) == [(line, refused) for line in (9, 10)] * more


def test_words_between_entries_are_passed_over_and_an_entry_may_begin_within_a_line() -> None:
    text = "@misc(a, title = {A})\nwords {\n  @ misc (b,\n title = {B})\n\n@comment{x}\n@misc{c, title = {C}}"
    assert [(each.line, each.name) for each in read(read_bibtex, text)] == [(1, "a"), (3, "b"), (7, "c")]
