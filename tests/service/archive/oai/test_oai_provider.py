"""The OAI-PMH repository: every verb, every error, and lists that neither skip nor repeat."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.item import Holding
from ibi.archive.oai import lists
from ibi.archive.oai.lists import LIFETIME
from ibi.archive.store.tables.copies import CopySource, save_source
from ibi.errors import Unsettled
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.runtime.settings.institution import Institution
from ibi.web.formats import RECORD_FORMATS
from support.archive.archive_fixture import GONE, NOW, REP, SERVICE, NewArchive, fill, make_archive
from support.archive.oai_provider_fixture import (
    Mirror,
    Repository,
    identifiers,
    repository,
    texts,
    token_of,
    valid,
)
from support.archive.search_fixture import item

DAY = 86_400
ALL = {"metadataPrefix": "oai_dc"}
ITEMS = 230
"""Items of the small Archive: three pages of records."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """An Archive with three pages of records; for tests that only read."""
    archive = make_archive(tmp_path_factory.mktemp("oai") / "archive", "archive.example", {})
    archive.load(*(item(number, f"Title {number}", language="pt") for number in range(1, ITEMS + 1)))
    with repository(archive) as held:
        yield held
    archive.catalogue.close()


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """The repository of an Archive with the usual items; for tests that only read."""
    archive = make_archive(tmp_path_factory.mktemp("oai") / "archive", "archive.example", {})
    fill(archive)
    with repository(archive) as held:
        yield held
    archive.catalogue.close()


@pytest.fixture
def held(archive: NewArchive) -> Iterator[Repository]:
    """The repository of a new Archive with the usual items."""
    fill(archive)
    with repository(archive) as made:
        yield made


def test_its_name_and_what_it_says_of_itself_are_those_of_the_institution(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "archive", "archive.example", {})
    Institution(name="Names & <Numbers>", about="It keeps > names").write(archive.data)
    archive.load(item(1, "Title"))
    with repository(archive) as held:
        answer = held.ask("Identify")
        assert texts(answer, "repositoryName") == texts(answer, "title") == ["Names & <Numbers>"]
        assert texts(answer, "description")[-1] == "It keeps > names"
    archive.catalogue.close()


def test_links_that_only_the_catalogue_knows_are_told(archive: NewArchive) -> None:
    first, second, copy = (str(item(number)["rep"]) for number in (1, 2, 3))
    archive.load(
        item(1, "One") | {"next_edition": f"rep {second}"},
        item(2, "Two"),
        item(3, "Three") | {"state": "Copy"},
    )
    with archive.item_store.unit_of_work("maria") as work:
        held = work.get(parse_name(copy))
        source = CopySource(archive="http://far.example/")
        save_source(work.writer.run, held.number, source)
    with repository(archive) as known:
        for prefix in ("datacite", "oai_datacite", "oai_openaire"):
            assert _related(known, 1, prefix) == [("IsPreviousVersionOf", f"http://archive.example/{second}")]
            assert _related(known, 2, prefix) == [("IsNewVersionOf", f"http://archive.example/{first}")]
            assert _related(known, 3, prefix) == [("IsIdenticalTo", f"http://far.example/{copy}")]
        with archive.item_store.unit_of_work("maria") as work:
            save_source(work.writer.run, held.number, replace(source, since="2026-11-21T10:00:00Z"))
        assert _related(known, 3, "datacite") == []


def _related(known: Repository, number: int, prefix: str) -> list[tuple[str | None, str | None]]:
    answer = known.ask("GetRecord", identifier=known.name(number), metadataPrefix=prefix)
    return [(each.get("relationType"), each.text) for each in answer.iter("{*}relatedIdentifier")]


def test_it_says_who_it_is(small: Repository) -> None:
    answer = small.ask("Identify")
    assert texts(answer, "baseURL") == texts(answer, "request") == ["http://archive.example/-/oai"]
    assert texts(answer, "repositoryIdentifier") == ["archive.example"]
    assert texts(answer, "adminEmail") == ["admin@archive.example"]
    sample = texts(answer, "sampleIdentifier")[0]
    assert identifiers(small.ask("GetRecord", identifier=sample, **ALL)) == [sample]
    earliest = texts(answer, "earliestDatestamp")[0]
    assert min(texts(small.ask("ListRecords", **ALL), "datestamp")) >= earliest


def test_an_address_that_no_oai_identifier_can_have_is_not_described(
    new_archive: Callable[..., NewArchive],
) -> None:
    with repository(new_archive("127.0.0.1:8080")) as held:
        assert texts(held.ask("Identify"), "sampleIdentifier") == []


@pytest.mark.parametrize("prefix", [each.prefix for each in RECORD_FORMATS])
def test_every_record_can_be_had_in_every_format(small: Repository, usual: Repository, prefix: str) -> None:
    assert prefix in texts(small.ask("ListMetadataFormats"), "metadataPrefix")
    assert prefix in texts(small.ask("ListMetadataFormats", identifier=small.name(1)), "metadataPrefix")
    assert sum(len(identifiers(page)) for page in small.pages(metadataPrefix=prefix)) == ITEMS
    assert len(identifiers(usual.ask("ListRecords", metadataPrefix=prefix))) == 4


@pytest.mark.parametrize(
    ("code", "verb", "arguments"),
    [
        ("badVerb", "", {}),
        ("badVerb", "identify", {}),
        ("badVerb", "</request>\x00", {}),
        ("badArgument", "Identify", {"set": "openaire"}),
        ("badArgument", "ListRecords", {}),
        ("badArgument", "GetRecord", {"metadataPrefix": "oai_dc"}),
        ("badArgument", "GetRecord", {"identifier": "oai:archive.example:x"}),
        ("badArgument", "GetRecord", {"identifier": "<b>\x01\xff", **ALL}),
        ("badArgument", "ListRecords", {"metadataPrefix": '"><b>\ud7ff'}),
        ("badArgument", "ListRecords", {"set": "a b", **ALL}),
        ("badArgument", "ListRecords", {"from_": "2020-02-30", **ALL}),
        ("badArgument", "ListRecords", {"from_": "2020-02-03T10:00Z", **ALL}),
        ("badArgument", "ListRecords", {"until": "٢٠٢٠-01-01", **ALL}),
        ("badArgument", "ListRecords", {"from_": "2020-01-02", "until": "2020-01-01", **ALL}),
        ("badArgument", "ListRecords", {"from_": "2020-01-01", "until": "2020-01-02T00:00:00Z", **ALL}),
        ("badArgument", "ListRecords", {"resumptionToken": "x", **ALL}),
        ("badResumptionToken", "ListRecords", {"resumptionToken": "x"}),
        ("badResumptionToken", "ListIdentifiers", {"resumptionToken": ""}),
        ("badResumptionToken", "ListRecords", {"resumptionToken": "x" * 5000}),
        ("badResumptionToken", "ListSets", {"resumptionToken": "x"}),
        ("cannotDisseminateFormat", "ListRecords", {"metadataPrefix": "marcxml"}),
        ("cannotDisseminateFormat", "GetRecord", {"identifier": f"oai:archive.example:{REP}", "metadataPrefix": "x"}),
        ("idDoesNotExist", "GetRecord", {"identifier": "oai:archive.example:a.example/b/2031/01.01.00.00", **ALL}),
        ("idDoesNotExist", "GetRecord", {"identifier": f"oai:other.example:{REP}", **ALL}),
        ("idDoesNotExist", "GetRecord", {"identifier": "http://archive.example/x", **ALL}),
        ("idDoesNotExist", "GetRecord", {"identifier": f"oai:archive.example:{SERVICE.main}", **ALL}),
        ("idDoesNotExist", "ListMetadataFormats", {"identifier": "oai:archive.example:x"}),
        ("noRecordsMatch", "ListRecords", {"until": "2001-01-01", **ALL}),
        ("noRecordsMatch", "ListIdentifiers", {"from_": "2999-01-01T00:00:00Z", **ALL}),
        ("noRecordsMatch", "ListRecords", {"set": "nothing:like:this", **ALL}),
        ("noRecordsMatch", "ListRecords", {"set": "kind-Sound", **ALL}),
    ],
)  # fmt: skip
def test_whatever_is_wrong_has_its_code(
    usual: Repository, code: str, verb: str, arguments: dict[str, str]
) -> None:
    answer = usual.ask(verb, **arguments)
    error, request = answer.find("{*}error"), answer.find("{*}request")
    assert error is not None
    assert request is not None
    assert error.get("code") == code
    assert bool(request.attrib) == (code not in {"badVerb", "badArgument"})


def test_an_argument_that_stands_twice_is_refused(usual: Repository) -> None:
    for more in ("&verb=ListRecords", "&metadataPrefix=oai_dc"):
        question = f"verb=ListRecords&metadataPrefix=oai_dc{more}"
        assert b'<error code="bad' in usual.provider.answer(question)
    assert b"badArgument" in usual.provider.answer("&".join(["a"] * 1000))


WORDS = st.sampled_from([
    "verb", "=", "&", "ListRecords", "GetRecord", "ListIdentifiers", "ListSets", "Identify", "&from=", "&until=",
    "metadataPrefix=oai_dc", "2023-11-14", "&set=", "kind-", ":", "&resumptionToken=", "identifier=", REP, "%00", "%",
    "oai:archive.example:", "<", '"', "\xff", "+", "T25:00:00Z", "0000-00-00", "9999-12-31",
])  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(st.characters(max_codepoint=255), max_size=4)), max_size=12))
@settings(max_examples=300, deadline=None)
def test_whatever_is_asked_is_answered_as_the_protocol_wants(usual: Repository, words: list[str]) -> None:
    valid(usual.provider.answer("".join(words)))
    valid(usual.provider.answer("verb=ListRecords&" + "".join(words)))


def test_one_record_is_had_by_any_name_of_its_item(usual: Repository) -> None:
    for name in (REP, "8JMKD3MGP8W/35MME4E"):
        answer = usual.ask("GetRecord", identifier=f"OAI:archive.example:{name}".replace("OAI", "oai"), **ALL)
        assert identifiers(answer) == [f"oai:archive.example:{REP}"]
        assert texts(answer, "title") == ["One & <two>"]


def test_what_was_removed_is_told_for_ever_and_nothing_more_of_it(usual: Repository) -> None:
    answer = usual.ask("GetRecord", identifier=f"oai:archive.example:{GONE}", **ALL)
    assert [header.get("status") for header in answer.iter("{*}header")] == ["deleted"]
    assert texts(answer, "title") == []
    assert identifiers(answer)[0] in identifiers(usual.ask("ListRecords", **ALL))


def test_items_that_are_metadata_and_the_service_itself_are_no_records(held: Repository) -> None:
    held.put(2, "Told of the other", contenttype="Metadata", url=None)
    held.put(1, metadata_item=item(2)["rep"])
    held.look()
    names = identifiers(held.ask("ListRecords", **ALL))
    assert (held.name(1) in names, held.name(2) in names, len(names)) == (True, False, 5)
    assert held.fault("GetRecord", identifier=held.name(2), **ALL) == "idDoesNotExist"
    assert texts(held.ask("GetRecord", identifier=held.name(1), **ALL), "title") == ["Told of the other"]
    stamp = texts(held.ask("GetRecord", identifier=held.name(1), **ALL), "datestamp")[0]
    held.archive.clock.now += 100
    held.change(2, "Told anew")
    held.look()
    changed = held.ask("GetRecord", identifier=held.name(1), **ALL)
    assert texts(changed, "title") == ["Told anew"]
    assert texts(changed, "datestamp")[0] > stamp


def test_from_and_until_include_their_ends_in_days_and_in_seconds(archive: NewArchive) -> None:
    with repository(archive) as held:
        for number in (1, 2, 3):
            held.archive.clock.now = NOW + number * DAY
            held.put(number, "x")
            held.look()
        stamps = {
            number: texts(held.ask("GetRecord", identifier=held.name(number), **ALL), "datestamp")[0]
            for number in (1, 2, 3)
        }
        days = {number: stamp[:10] for number, stamp in stamps.items()}

        def listed(**dates: str) -> list[str]:
            return identifiers(held.ask("ListIdentifiers", **ALL, **dates))

        for when in (stamps, days):
            assert listed(from_=when[2]) == [held.name(2), held.name(3)]
            assert listed(until=when[2]) == [held.name(1), held.name(2)]
            assert listed(from_=when[2], until=when[2]) == [held.name(2)]


def test_sets_are_listed_and_hold_what_they_say(held: Repository) -> None:
    held.put(1, "Thesis", type="tese", language="pt-BR")
    held.put(2, "Data", type="Dataset", access="closed")
    held.put(3, "Soon", access="embargoed", embargo="2023-12-01")
    held.put(4, "Only told of", url=None)
    held.put(5, "Gone")
    held.remove(5)
    held.look()
    specs = texts(held.ask("ListSets"), "setSpec")
    assert len(specs) == len(set(specs))
    inside = {spec: identifiers(held.ask("ListRecords", set=spec, **ALL)) for spec in specs}
    for answer in held.ask("ListRecords", **ALL).iter("{*}header"):
        name = texts(answer, "identifier")[0]
        assert texts(answer, "setSpec") == [spec for spec in specs if name in inside[spec]]
    assert inside["openaire"] == inside["driver"] == inside["openaccess"]
    assert {held.name(1), held.name(5)} <= set(inside["openaire"])
    assert not {held.name(2), held.name(3), held.name(4)} & set(inside["openaire"])
    assert inside["openaire_data"] == [held.name(2)]
    assert inside["kind-Dissertation"] == inside["language-pt"][-1:] == [held.name(1)]


def test_an_embargo_that_ends_is_told_as_a_change(archive: NewArchive) -> None:
    with repository(archive) as held:
        held.put(1, "Soon", access="embargoed", embargo="2023-12-01")
        held.look()
        before = held.ask("GetRecord", identifier=held.name(1), **ALL)
        assert "info:eu-repo/semantics/embargoedAccess" in texts(before, "rights")
        assert "info:eu-repo/date/embargoEnd/2023-12-01" in texts(before, "date")
        archive.clock.now += 30 * DAY
        held.look()
        after = next(held.pages(**ALL, from_="2023-12-01", set="openaire"))
        assert "info:eu-repo/semantics/openAccess" in texts(after, "rights")
        assert not [date for date in texts(after, "date") if "embargoEnd" in date]
        assert texts(after, "datestamp") > texts(before, "datestamp")


def test_a_list_comes_in_pages_that_say_how_far_they_are(small: Repository) -> None:
    pages = list(small.pages())
    assert [len(identifiers(page)) for page in pages] == [100, 100, 30]
    assert sorted(name for page in pages for name in identifiers(page)) == sorted(
        small.name(number) for number in range(1, ITEMS + 1)
    )
    ends = [page.find(".//{*}resumptionToken") for page in pages]
    assert [end.get("cursor") for end in ends if end is not None] == ["0", "100", "200"]
    of_a_set = [page.find(".//{*}resumptionToken") for page in small.pages(set="language-pt")]
    assert {end.get("completeListSize") for end in (*ends, *of_a_set) if end is not None} == {str(ITEMS)}
    assert [bool(end.get("expirationDate")) for end in ends if end is not None] == [True, True, False]
    assert token_of(pages[-1]) == ""
    assert len(list(small.pages("ListIdentifiers"))) == 1
    assert small.ask("ListIdentifiers", **ALL).find(".//{*}resumptionToken") is None


def test_a_token_is_good_for_three_days_for_its_own_verb_and_as_it_was_made(small: Repository) -> None:
    token = token_of(small.ask("ListRecords", **ALL))
    assert small.fault("ListIdentifiers", resumptionToken=token) == "badResumptionToken"
    for place in range(len(token)):
        forged = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert small.fault("ListRecords", resumptionToken=forged) == "badResumptionToken", place
    for forged in (token + "A", token + "=", token[:-4], base64.urlsafe_b64encode(b"0" * 60).decode()):
        assert small.fault("ListRecords", resumptionToken=forged) == "badResumptionToken"
    small.archive.clock.now += LIFETIME
    try:
        assert small.fault("ListRecords", resumptionToken=token) == ""
        small.archive.clock.now += 1
        assert small.fault("ListRecords", resumptionToken=token) == "badResumptionToken"
    finally:
        small.archive.clock.now -= LIFETIME + 1


def test_the_same_token_asked_twice_gives_the_same_page(small: Repository) -> None:
    token = token_of(small.ask("ListRecords", **ALL))
    first, second = (small.ask("ListRecords", resumptionToken=token) for _ in range(2))
    assert identifiers(first) == identifiers(second)


def test_a_token_of_another_archive_is_none_of_ours(
    small: Repository, new_archive: Callable[..., NewArchive]
) -> None:
    token = token_of(small.ask("ListRecords", **ALL))
    with repository(new_archive(secret="cd" * 32)) as other:
        assert other.fault("ListRecords", resumptionToken=token) == "badResumptionToken"


@pytest.mark.parametrize("seed", range(6))
def test_changes_between_pages_hide_nothing_and_repeat_nothing_that_stayed(
    archive: NewArchive, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "RECORDS", 5)
    chance = random.Random(seed)
    count = 40
    archive.load(*(item(number, f"Title {number}") for number in range(1, count + 1)))
    with repository(archive) as held:
        archive.clock.now += 100  # else every list would begin before all of this
        mirror, expected = Mirror(), {held.name(n): f"Title {n}" for n in range(1, count + 1)}
        truth: dict[str, str | None] = dict(expected)
        unseen: set[str] = set()
        for _ in range(6):
            touched, going = set(unseen), True
            while going:
                going = mirror.step(held)
                for _ in range(chance.randrange(4)):
                    unseen.add(_disturb(held, truth, chance))
                touched |= unseen
                if chance.random() < 0.7:
                    held.look()
                    unseen.clear()
                held.archive.clock.now += chance.choice((0, 0, 0.3, 0.9, 1.5))
            stayed = [name for name in mirror.names if name not in touched]
            assert len(stayed) == len(set(stayed))
        held.look()
        while mirror.step(held):
            pass
        assert mirror.known == truth


def _disturb(held: Repository, truth: dict[str, str | None], chance: random.Random) -> str:
    """Change, add or remove something; its identifier."""
    living = [name for name, title in truth.items() if title is not None]
    action = chance.choice(("change", "change", "add", "remove"))
    if action == "add" or not living:
        number = len(truth) + 1
        name = held.name(number)
        truth[name] = f"Title {number}"
        held.put(number, f"Title {number}")
        return name
    name = chance.choice(living)
    number = list(truth).index(name) + 1
    if action == "remove":
        truth[name] = None
        held.remove(number)
    else:
        truth[name] = f"Title {chance.random()}"
        held.change(number, str(truth[name]))
    return name


def test_an_original_that_is_not_settled_is_neither_shown_nor_denied(archive: NewArchive) -> None:
    """It came back from a backup, and may be elsewhere by now: the harvester is to come again."""
    holding = Holding(
        forms=IBIForms.of(parse_ibi(REP)), timestamp="2020-01-01T00:00:00Z", unsettled="2026-11-21T10:00:00Z"
    )
    archive.catalogue.put(holding)
    with repository(archive) as held:
        identifier = f"oai:archive.example:{holding.forms.main}"
        for verb, arguments in (("GetRecord", ALL), ("ListMetadataFormats", {})):
            with pytest.raises(Unsettled):
                held.ask(verb, identifier=identifier, **arguments)
