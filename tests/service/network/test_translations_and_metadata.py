"""What readers mostly ask for, of a real resolver and real Archives: an item in Portuguese that has an English
translation, and metadata with and without a name of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ibi.protocol.pair_list import read_pairs
from support.network.own_network import OwnNetwork, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = "archive.example", "annex.example"
FIRST_SERVICE, SECOND_SERVICE = "archive.example/s/2020/01.01.00.00", "annex.example/s/2020/01.01.00.00"
NAME = "archive.example/s/2021/01.01.00"
REPORT, ITS_ENGLISH = f"{NAME}.01", f"{NAME}.02"
DIVIDED, ENGLISH_THERE = f"{NAME}.03", f"{NAME}.04"
RECORDED, RECORD = f"{NAME}.05", f"{NAME}.06"
RECORDED_THERE, RECORD_THERE = f"{NAME}.07", f"{NAME}.08"
PORTUGUESE_RECORD, ENGLISH_RECORD, FRENCH_RECORD, SPANISH_RECORD = (
    f"{NAME}.{number}" for number in range(10, 14)
)
DESCRIBED, COPY, RECORD_OF_COPY, OTHER_COPY, RECORD_OF_OTHER = (
    f"{NAME}.{number}" for number in range(14, 19)
)
ORIGINAL = "?ibiurl.requireditemstatus=Original"
EDITION, REMOVED_EDITION, LAST_EDITION = (f"{NAME}.{number}" for number in range(19, 22))
TITLE = {"title": ["Relatório de atividades"]}
ITEMS: list[dict[str, object]] = [
    {"rep": REPORT, "language": "pt", "url": "http://a.example/pt", "translations": {"en": ITS_ENGLISH}},
    {"rep": ITS_ENGLISH, "language": "en", "url": "http://a.example/en"},
    {
        "rep": DIVIDED,
        "language": "pt",
        "url": "http://a.example/pt-alone",
        "translations": {"en": ENGLISH_THERE},
        "metadata": TITLE,
        "timestamp": "2014-01-02T18:23:57.25+01:00",
    },
    {"rep": RECORDED, "url": "http://a.example/recorded", "metadata_item": RECORD},
    {
        "rep": RECORD,
        "contenttype": "Metadata",
        "url": "http://a.example/record",
        "formats": {"oai_dc": "http://a.example/record.xml"},
    },
    {"rep": RECORDED_THERE, "url": "http://a.example/recorded-there", "metadata_item": RECORD_THERE},
    {"rep": DESCRIBED, "url": "http://a.example/described", "metadata_item": PORTUGUESE_RECORD},
    {
        "rep": PORTUGUESE_RECORD,
        "contenttype": "Metadata",
        "language": "pt",
        "metadata": TITLE,
        "translations": {"en": ENGLISH_RECORD, "fr": FRENCH_RECORD, "es": SPANISH_RECORD},
    },
    {"rep": ENGLISH_RECORD, "contenttype": "Metadata", "language": "en", "metadata": {"title": ["Report"]}},
    {
        "rep": FRENCH_RECORD,
        "contenttype": "Metadata",
        "language": "fr",
        "url": "http://a.example/record.mods",
    },
    {"rep": COPY, "state": "Copy", "url": "http://a.example/copy", "metadata_item": RECORD_OF_COPY},
    {"rep": OTHER_COPY, "state": "Copy", "url": "http://a.example/other", "metadata_item": RECORD_OF_OTHER},
    {
        "rep": RECORD_OF_COPY,
        "state": "Copy",
        "contenttype": "Metadata",
        "url": "http://a.example/copy.mods",
        "formats": {"oai_dc": "http://a.example/copy.xml"},
    },
    {
        "rep": RECORD_OF_OTHER,
        "state": "Copy",
        "contenttype": "Metadata",
        "url": "http://a.example/copy.mods",
        "formats": {"oai_dc": "http://a.example/copy.xml"},
    },
    {"rep": EDITION, "url": "http://a.example/first", "next_edition": REMOVED_EDITION},
    {"rep": REMOVED_EDITION, "state": "Deleted", "next_edition": LAST_EDITION},
    {"rep": LAST_EDITION, "language": "en", "url": "http://a.example/last", "metadata": TITLE},
]
THERE: list[dict[str, object]] = [
    {"rep": ENGLISH_THERE, "language": "en", "url": "http://b.example/en"},
    {
        "rep": RECORD_THERE,
        "contenttype": "Metadata",
        "url": "http://b.example/record",
    },
    {
        "rep": SPANISH_RECORD,
        "contenttype": "Metadata",
        "language": "es",
        "url": "http://b.example/record.mods",
    },
    {"rep": RECORD_OF_COPY, "contenttype": "Metadata", "url": "http://b.example/original.mods"},
    {
        "rep": RECORD_OF_OTHER,
        "contenttype": "Metadata",
        "url": "http://b.example/original.mods",
        "formats": {"oai_dc": "http://b.example/original.xml"},
    },
]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    folder = tmp_path_factory.mktemp("items")
    for name, items in (("first", ITEMS), ("second", THERE)):
        lines = (
            json.dumps(item | {"timestamp": item.get("timestamp", "2021-01-01T00:00:00Z")}) for item in items
        )
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    first = Peer(FIRST, FIRST_SERVICE, (folder / "first.jsonl",))
    second = Peer(SECOND, SECOND_SERVICE, (folder / "second.jsonl",))
    with OwnNetwork(tmp_path_factory.mktemp("network"), first, second) as running:
        yield running


READERS = [
    ("pt-BR,pt;q=0.9,en;q=0.5", "pt"),
    ("pt", "pt"),
    ("en-US,en;q=0.9", "en"),
    ("en;q=0.4,pt;q=0.6", "pt"),
    ("de,en;q=0.5", "en"),
    ("de", "pt"),  # neither: the item in its own language, without a warning
    ("", "pt"),
]


@pytest.mark.proves("URL-11", "AMB-46", "RES-07")
@pytest.mark.parametrize(("header", "language"), READERS)
def test_an_item_in_portuguese_comes_in_the_language_of_its_reader(
    network: OwnNetwork, header: str, language: str
) -> None:
    answer = network.resolve(f"/{REPORT}+", accept_language=header)
    assert (answer.status, answer.location) == (302, f"http://a.example/{language}")


@pytest.mark.proves("URL-11", "AMB-46", "RES-07", "RES-09")
@pytest.mark.parametrize(("header", "language"), READERS)
def test_the_translation_may_be_in_another_archive(network: OwnNetwork, header: str, language: str) -> None:
    answer = network.resolve(f"/{DIVIDED}+", accept_language=header)
    places = {"pt": "http://a.example/pt-alone", "en": "http://b.example/en"}
    assert (answer.status, answer.location) == (302, places[language])


@pytest.mark.proves("URL-12", "URL-13", "AMB-47")
def test_a_language_that_is_named_wins_over_the_readers(network: OwnNetwork) -> None:
    places = {"pt": "http://a.example/pt", "en": "http://a.example/en"}
    for language, place in places.items():
        answer = network.resolve(f"/{REPORT}+({language})", accept_language="pt,en;q=0.5")
        assert (answer.status, answer.location) == (302, place)
    missing = network.resolve(f"/{REPORT}+(fr)", accept="application/json", accept_language="pt")
    assert (missing.status, json.loads(missing.body)["kind"]) == (404, "no-translation")


@pytest.mark.proves("URL-17")
@pytest.mark.parametrize(
    ("target", "location"),
    [
        (f"{RECORDED}:", "http://a.example/record"),
        (f"{RECORDED}:(oai_dc)", "http://a.example/record.xml"),
        (f"{DIVIDED}:", f"http://{FIRST}/-/metadata/{DIVIDED}"),
        (f"{DIVIDED}:(oai_dc)", f"http://{FIRST}/-/metadata/{DIVIDED}?format=oai_dc"),
    ],
)
def test_a_reader_is_sent_to_metadata_with_and_without_a_name_in_each_format(
    network: OwnNetwork, target: str, location: str
) -> None:
    network.forget()
    answer = network.resolve(f"/{target}")
    assert (answer.status, answer.location) == (302, location)
    [answered] = [read_pairs(each.body.encode()) for each in network.heard("urlRequest") if each.body]
    qualifier = ".metadata(oai_dc)" if target.endswith(")") else ".metadata"
    named = ("rep", RECORD) if target.startswith(RECORDED) else None
    assert (answered[f"contenttype{qualifier}"], answered.get(f"ibi{qualifier}")) == ("Metadata", named)


@pytest.mark.proves("URL-17", "RES-09")
def test_metadata_may_be_in_another_archive(network: OwnNetwork) -> None:
    answer = network.resolve(f"/{RECORDED_THERE}:")
    assert (answer.status, answer.location) == (302, "http://b.example/record")


@pytest.mark.proves("URL-17")
def test_metadata_kept_with_an_item_are_found_where_the_resolver_leads(network: OwnNetwork) -> None:
    location = network.resolve(f"/{DIVIDED}:(oai_dc)").location
    document = network.ask(FIRST, location.removeprefix(f"http://{FIRST}"))
    assert document.headers["content-type"] == "application/xml"
    assert "<dc:title>Relatório de atividades</dc:title>".encode() in document.body
    page = network.ask(FIRST, f"/-/metadata/{DIVIDED}", accept="text/html")
    assert "Relatório de atividades".encode() in page.body


@pytest.mark.proves("URL-17", "RES-09")
@pytest.mark.parametrize(
    ("target", "location"),
    [
        (f"{DESCRIBED}:(oai_dc)+(pt)", f"http://{FIRST}/-/metadata/{PORTUGUESE_RECORD}?format=oai_dc"),
        (f"{DESCRIBED}:(oai_dc)+(en)", f"http://{FIRST}/-/metadata/{ENGLISH_RECORD}?format=oai_dc"),
        (f"{DESCRIBED}:+(fr)", "http://a.example/record.mods"),
        (f"{DESCRIBED}:+(es)", "http://b.example/record.mods"),
        (f"{OTHER_COPY}:(oai_dc){ORIGINAL}", "http://b.example/original.xml"),
        (f"{COPY}:{ORIGINAL}", "http://b.example/original.mods"),
    ],
)
def test_translations_and_originals_of_a_record_are_found_in_the_format_asked_for(
    network: OwnNetwork, target: str, location: str
) -> None:
    answer = network.resolve(f"/{target}")
    assert (answer.status, answer.location) == (302, location)


@pytest.mark.proves("URL-17", "RES-08", "RES-09")
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (f"{DESCRIBED}:(oai_dc)+(fr)", "no-translation"),
        (f"{DESCRIBED}:(oai_dc)+(es)", "no-translation"),
        (f"{DIVIDED}:(oai_dc)+(en)", "no-translation"),
        (f"{COPY}:(oai_dc){ORIGINAL}", "no-original"),
    ],
)
def test_no_record_in_another_format_replaces_the_one_asked_for(
    network: OwnNetwork, target: str, kind: str
) -> None:
    answer = network.resolve(f"/{target}", accept="application/json")
    assert (answer.status, json.loads(answer.body)["kind"]) == (404, kind)


@pytest.mark.proves("RES-09")
@pytest.mark.parametrize(
    ("modifier", "kind"), [("!+:(marc21)", "not-found"), ("+!:(oai_dc)+(de)", "no-translation")]
)
def test_what_the_last_edition_lacks_is_not_said_to_be_removed_with_an_edition_before_it(
    network: OwnNetwork, modifier: str, kind: str
) -> None:
    answer = network.resolve(f"/{EDITION}{modifier}", accept="application/json")
    assert (answer.status, json.loads(answer.body)["kind"]) == (404, kind)


@pytest.mark.proves("AMB-57")
def test_a_date_with_another_zone_and_a_fraction_is_told_in_utc_with_seconds(network: OwnNetwork) -> None:
    query = f"clientinformation.ipaddress=192.0.2.1&parsedibiurl.ibi={DIVIDED}&servicesubject=urlRequest"
    answered = read_pairs(network.ask(FIRST, f"/{FIRST_SERVICE}?{query}").body)
    assert answered["timestamp"] == "2014-01-02T17:23:57Z"
