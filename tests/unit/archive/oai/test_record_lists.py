"""Pages of a list: where each begins and ends, what its token says, and how many records it has in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import pytest

from ibi.archive.oai import lists
from ibi.archive.oai.lists import LIFETIME, ListPosition, RecordLists, ResumptionTokens
from ibi.archive.oai.request import OaiError, OaiRequest
from ibi.archive.search.index import SearchIndex
from support.archive.search_fixture import update, words, write_index

NOW = 1_700_000_000
EXPIRES = NOW + LIFETIME
UNTIL = "2023-11-17T22:13:20Z"
SERVICE = 2
PREFIXES = ("oai_dc", "datacite")
TOKENS = ResumptionTokens(b"secret", lambda: NOW + 0.9)


class CountingIndex(SearchIndex):
    """An index that counts how often it had to count records."""

    counted = 0

    def size(self, first: int | None, last: int | None, part: str) -> int:
        self.counted += 1
        return super().size(first, last, part)


def write(folder: Path, stamps: Sequence[int], since: int = 1) -> None:
    """Write items with these stamps, numbered from `since` on: data sets in Portuguese, open to all."""
    data, of_service = words(language="pt", kind="Dataset"), words(language="en", kind="Service")
    numbered = enumerate(stamps, since)
    write_index(
        folder,
        *(update(each, of_service if each == SERVICE else data, changed_at=at) for each, at in numbered),
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingIndex]:
    """Five records, and the service item among them; a page has two records, or three headers."""
    monkeypatch.setattr(lists, "RECORDS", 2)
    monkeypatch.setattr(lists, "HEADERS", 3)
    write(tmp_path, [0, 10, 20, 20, 30, 40])
    with closing(CountingIndex(tmp_path)) as made:
        yield made


def request(
    verb: str = "ListRecords", first: int | None = None, last: int | None = None, **more: str
) -> OaiRequest:
    return OaiRequest(verb, {"metadataPrefix": "oai_dc"} | more, first, last)


def page(index: SearchIndex, question: OaiRequest, service: int = SERVICE) -> tuple[list[int], str, str]:
    """The numbers of a page, its format, and the end of its list."""
    entries, prefix, end = RecordLists(index, TOKENS, service).page(question, PREFIXES)
    return [each.number for each in entries], prefix, end


def token(end: str) -> str:
    return end.partition(">")[2].partition("<")[0]


def walked(index: SearchIndex, question: OaiRequest, service: int = SERVICE) -> list[tuple[list[int], str]]:
    """The numbers of all pages of a list, each with its end."""
    numbers, _, end = page(index, question, service)
    found = [(numbers, end)]
    while token(end):
        numbers, _, end = page(index, OaiRequest(question.verb, {"resumptionToken": token(end)}), service)
        found.append((numbers, end))
    return found


def test_each_page_says_where_the_list_goes_on_and_how_long_it_is(index: CountingIndex) -> None:
    (one, first), (two, second), (three, third) = walked(index, request())
    assert (one, two, three) == ([1, 3], [4, 5], [6])
    size = 'completeListSize="5"'
    assert (
        first
        == f'<resumptionToken expirationDate="{UNTIL}" {size} cursor="0">{token(first)}</resumptionToken>\n'
    )
    assert (
        second
        == f'<resumptionToken expirationDate="{UNTIL}" {size} cursor="2">{token(second)}</resumptionToken>\n'
    )
    assert third == f'<resumptionToken {size} cursor="4"></resumptionToken>\n'
    positions = [TOKENS.read(token(each), "ListRecords") for each in (first, second)]
    assert positions == [
        ListPosition("ListRecords", "oai_dc", "", None, None, 20, 3, 2, 5, EXPIRES),
        ListPosition("ListRecords", "oai_dc", "", None, None, 30, 5, 4, 5, EXPIRES),
    ]


def test_a_list_keeps_what_was_asked_for_until_its_end(index: CountingIndex) -> None:
    question = request("ListIdentifiers", 20, 39, metadataPrefix="datacite", set="language-pt")
    assert page(index, question) == ([3, 4, 5], "datacite", "")  # exactly a page is the whole list
    question = request("ListIdentifiers", 0, 30, metadataPrefix="datacite", set="language-pt")
    numbers, prefix, end = page(index, question)
    assert (numbers, prefix) == ([1, 3, 4], "datacite")
    position = ListPosition("ListIdentifiers", "datacite", "language-pt", 0, 30, 20, 4, 3, 4, EXPIRES)
    assert TOKENS.read(token(end), "ListIdentifiers") == position
    further = page(index, OaiRequest("ListIdentifiers", {"resumptionToken": token(end)}))
    assert further == (
        [5],
        "datacite",
        '<resumptionToken completeListSize="4" cursor="3"></resumptionToken>\n',
    )


@pytest.mark.parametrize("service", [SERVICE, 0])
def test_a_list_is_as_long_as_its_pages_together(
    index: CountingIndex, monkeypatch: pytest.MonkeyPatch, service: int
) -> None:
    monkeypatch.setattr(lists, "RECORDS", 1)
    write(index.path.parent, [5], 7)
    sets = ("", "openaccess", "language-pt", "language-en", "kind-Dataset", "kind-Service")
    for first, last, part in product((None, 9, 10, 11), (None, 9, 10, 11, 20), sets):
        if first is not None and last is not None and first > last:
            continue
        pages = []
        with suppress(OaiError):  # there may be none
            pages = walked(index, request(first=first, last=last, set=part), service)
        size = sum(len(numbers) for numbers, _ in pages)
        ends = [end for _, end in pages if end]
        assert len(ends) == (len(pages) if len(pages) > 1 else 0)
        assert all(f'completeListSize="{size}"' in end for end in ends), (first, last, part)


def test_the_size_of_a_list_is_the_one_at_its_beginning(index: CountingIndex) -> None:
    *_, end = page(index, request())
    write(index.path.parent, [50, 60], 7)
    *_, end = page(index, OaiRequest("ListRecords", {"resumptionToken": token(end)}))
    assert 'completeListSize="5" cursor="2"' in end
    assert [numbers for numbers, _ in walked(index, request())] == [[1, 3], [4, 5], [6, 7], [8]]


def test_records_of_a_list_are_counted_again_only_after_a_change_and_after_many_other_lists(
    index: CountingIndex,
) -> None:
    kept = RecordLists(index, TOKENS, SERVICE)

    def counted(last: int) -> int:
        before = index.counted
        kept.page(request(last=last), PREFIXES)
        return index.counted - before

    assert [counted(100), counted(100)] == [1, 0]
    write(index.path.parent, [50], 7)
    assert [counted(100), counted(100)] == [1, 0]
    assert [counted(101 + each) for each in range(62)] == [1] * 62
    assert counted(100) == 0  # with the one from before the change, 64 are known
    assert [counted(200), counted(100), counted(200)] == [1, 1, 0]


def test_each_refusal_of_a_list_has_its_code_and_its_sentence(index: CountingIndex) -> None:
    foreign = "this is no resumptionToken of this repository, or it has expired"
    other = TOKENS.write(ListPosition("ListRecords", "marcxml", "", None, None, 0, 0, 1, 5, EXPIRES))
    nothing = "there are no records that were changed then, or in this set"
    for question, code, sentence in (
        (OaiRequest("ListRecords", {"resumptionToken": "x"}), "badResumptionToken", foreign),
        (OaiRequest("ListRecords", {"resumptionToken": other}), "badResumptionToken", foreign),
        (
            request(metadataPrefix="marcxml"),
            "cannotDisseminateFormat",
            "there are no records in the format marcxml",
        ),
        (request(first=41), "noRecordsMatch", nothing),
        (request(first=10, last=10), "noRecordsMatch", nothing),  # of the service item
        (request(set="person-x"), "noRecordsMatch", nothing),
    ):
        with pytest.raises(OaiError) as caught:
            page(index, question)
        assert (caught.value.code, caught.value.words, str(caught.value)) == (code, sentence, sentence)
