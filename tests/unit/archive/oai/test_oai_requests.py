"""Requests of harvesters: what is read of them, and each fault with its code and its sentence; sets of records."""

from __future__ import annotations

import time

import pytest

from ibi.archive.oai.request import (
    OaiError,
    OaiRequest,
    index_key,
    known_sets,
    no_format,
    read_request,
    specs_of,
)
from ibi.protocol.query_string import MAX_QUERY

VERBS = "Identify, ListMetadataFormats, ListSets, GetRecord, ListIdentifiers, ListRecords"
NO_VERB = f"there must be one argument verb, and it is one of: {VERBS}"
NO_DATE = "is a day or a moment of UTC, as 2026-11-22 or 2026-11-22T10:30:00Z, not"
RECORDS = "verb=ListRecords&metadataPrefix=oai_dc"
GET = "verb=GetRecord&metadataPrefix=oai_dc&identifier="


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        ("", "badVerb", NO_VERB),
        ("verb=", "badVerb", NO_VERB),
        ("verb=identify", "badVerb", NO_VERB),
        ("verb=Identify&verb=Identify", "badVerb", NO_VERB),
        (f"{RECORDS}&metadataPrefix=x", "badArgument", "an argument stands twice"),
        ("verb=Identify&set=a", "badArgument", "Identify takes no argument set"),
        (f"verb=Identify&{'x' * 61}=", "badArgument", f"Identify takes no argument {'x' * 60}"),
        ("verb=ListSets&a%7Eb%7Fc%1F=", "badArgument", "ListSets takes no argument a~b?c?"),
        (f"{RECORDS}&resumptionToken=x", "badArgument",
         "a resumptionToken stands alone: it knows the other arguments"),
        ("verb=ListRecords", "badArgument", "ListRecords needs the argument metadataPrefix"),
        ("verb=ListIdentifiers&set=a", "badArgument", "ListIdentifiers needs the argument metadataPrefix"),
        ("verb=GetRecord", "badArgument", "GetRecord needs the argument identifier"),
        ("verb=GetRecord&identifier=oai:a:b", "badArgument", "GetRecord needs the argument metadataPrefix"),
        ("verb=ListRecords&metadataPrefix=a%20b", "badArgument", "the argument metadataPrefix cannot be a b"),
        (f"{RECORDS}&set=a::b", "badArgument", "the argument set cannot be a::b"),
        (f"{GET}x%C3%A9", "badArgument", "the argument identifier cannot be x??"),
        (f"{RECORDS}&from=2020-02-30", "badArgument", f"from {NO_DATE} 2020-02-30"),
        (f"{RECORDS}&until=2020-02-03T10:00Z", "badArgument", f"until {NO_DATE} 2020-02-03T10:00Z"),
        (f"{RECORDS}&from=2020-01-01&until=2020-01-02T00:00:00Z", "badArgument",
         "from and until must be written alike: both with a time, or neither"),
        (f"{RECORDS}&from=2020-01-02&until=2020-01-01", "badArgument", "from must not be later than until"),
        (f"{RECORDS}&from=2020-01-01T00:00:01Z&until=2020-01-01T00:00:00Z", "badArgument",
         "from must not be later than until"),
    ],
)  # fmt: skip
def test_each_fault_has_its_code_and_its_sentence(raw: str, code: str, words: str) -> None:
    with pytest.raises(OaiError) as caught:
        read_request(raw)
    assert (caught.value.code, caught.value.words, str(caught.value)) == (code, words, words)


def test_a_query_that_is_too_long_is_a_bad_argument() -> None:
    with pytest.raises(OaiError) as caught:
        read_request("x" * (MAX_QUERY + 1))
    assert caught.value.code == "badArgument"


@pytest.mark.parametrize(
    ("raw", "verb", "arguments", "first", "last"),
    [
        ("verb=Identify", "Identify", {}, None, None),
        ("verb=ListMetadataFormats", "ListMetadataFormats", {}, None, None),
        ("verb=ListSets&resumptionToken=x", "ListSets", {"resumptionToken": "x"}, None, None),
        ("verb=ListRecords&resumptionToken=", "ListRecords", {"resumptionToken": ""}, None, None),
        (f"{GET}oai:a.example:b/c%2B%25D2", "GetRecord",
         {"metadataPrefix": "oai_dc", "identifier": "oai:a.example:b/c+%D2"}, None, None),
        (f"{RECORDS}&from=1970-01-02&until=1970-01-02", "ListRecords",
         {"metadataPrefix": "oai_dc", "from": "1970-01-02", "until": "1970-01-02"}, 86_400, 172_799),
        (f"{RECORDS}&from=1970-01-01T00:00:09Z&until=1970-01-01T00:00:09Z", "ListRecords",
         {"metadataPrefix": "oai_dc", "from": "1970-01-01T00:00:09Z", "until": "1970-01-01T00:00:09Z"}, 9, 9),
        (f"{RECORDS}&set=a:b-c", "ListRecords", {"metadataPrefix": "oai_dc", "set": "a:b-c"}, None, None),
        (f"{RECORDS}&until=1970-01-01", "ListRecords", {"metadataPrefix": "oai_dc", "until": "1970-01-01"},
         None, 86_399),
    ],
)  # fmt: skip
def test_what_is_right_is_read_whole(
    raw: str, verb: str, arguments: dict[str, str], first: int | None, last: int | None
) -> None:
    request = read_request(raw)
    assert request == OaiRequest(verb, arguments, first, last)
    assert request["set"] == arguments.get("set", "")


def test_a_moment_is_one_of_utc_wherever_the_archive_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/Sao_Paulo")
        time.tzset()
        assert read_request(f"{RECORDS}&from=1970-01-02").first == 86_400
    time.tzset()


def test_a_format_that_there_is_not_is_named_as_far_as_it_is_short() -> None:
    error = no_format("x" * 61)
    assert (error.code, error.words) == (
        "cannotDisseminateFormat", f"there are no records in the format {'x' * 60}",
    )  # fmt: skip


def test_all_sets_are_known_by_name_and_are_parts_of_the_index() -> None:
    known = {"language": ["pt", "en"], "kind": ["Text", "Dataset"]}
    assert [*known_sets(known)] == [
        ("openaccess", "Open access"),
        ("openaire", "OpenAIRE"),
        ("driver", "Open Access DRIVERset"),
        ("openaire_data", "OpenAIRE: data sets"),
        ("kind-Dataset", "Kind: Dataset"),
        ("kind-Text", "Kind: Text"),
        ("language-en", "Language: en"),
        ("language-pt", "Language: pt"),
    ]
    assert len([*known_sets({})]) == 4


@pytest.mark.parametrize(
    ("spec", "key"),
    [("", "data"), ("openaccess", "access:open"), ("openaire", "access:open"), ("driver", "access:open"),
     ("openaire_data", "kind:Dataset"), ("kind-Text", "kind:Text"), ("language-pt-BR", "language:pt-BR"),
     ("kind-", None), ("kind", None), ("person-x", None), ("-x", None)],
)  # fmt: skip
def test_a_set_is_a_part_of_the_index_or_cannot_be(spec: str, key: str | None) -> None:
    assert index_key(spec) == key


@pytest.mark.parametrize(
    ("kind", "language", "is_open", "specs"),
    [
        (
            "Dataset",
            "pt",
            True,
            ("openaccess", "openaire", "driver", "openaire_data", "kind-Dataset", "language-pt"),
        ),
        ("Text", "", True, ("openaccess", "openaire", "driver", "kind-Text")),
        ("Dataset", "", False, ("openaire_data", "kind-Dataset")),
        ("Text", "en", False, ("kind-Text", "language-en")),
        ("", "", False, ()),
    ],
)
def test_the_sets_of_a_record(kind: str, language: str, is_open: bool, specs: tuple[str, ...]) -> None:
    assert specs_of(kind, language, is_open=is_open) == specs
