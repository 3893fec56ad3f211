"""Harvests: another repository's records become linked items, once each, and stay as they are over there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from ibi.archive.ingest.batch import ImportReport
from ibi.archive.ingest.harvesting import Harvester
from ibi.archive.model.item import Holding
from ibi.archive.model.record_values import without_html
from ibi.archive.store.tables import copies as harvests
from ibi.archive.store.tables import history
from ibi.errors import BadItem, ForbiddenAddress, PeerError, PeerGarbled, PeerSilent
from ibi.http.client.address_policy import AddressPolicy
from ibi.http.client.download import Downloads
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import NewArchive
from support.archive.oai_repository import (
    DC,
    Entry,
    Repository,
    answering,
    article,
    journal_article,
    thesis,
)


@pytest.fixture
def repository() -> Iterator[Repository]:
    """Seven records, three on a page."""
    with answering(Repository([article(number) for number in range(1, 8)])) as answers:
        yield answers


def harvest(
    archive: NewArchive,
    repository: Repository,
    pauses: list[float] | None = None,
    progress: Callable[[int], None] = lambda _: None,
    **options: str,
) -> ImportReport:
    async def pause(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)

    async def run() -> ImportReport:
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            harvester = Harvester(
                archive.item_store, downloads, "tester", archive.refused.append, pause, progress
            )
            return await harvester.run(options.pop("url", repository.url), **options)

    archive.refused.clear()
    return asyncio.run(run())


def held(archive: NewArchive, number: int) -> Holding:
    found = archive.catalogue.holding_by_key(f"oai:repository.example:{number}")
    assert found is not None
    return found


def known(archive: NewArchive, repository: Repository) -> harvests.HarvestProgress:
    with archive.catalogue.reading() as run:
        return harvests.harvest_progress(run, repository.url, "", "oai_dc")


def test_records_become_linked_items_with_their_metadata(archive: NewArchive, repository: Repository) -> None:
    assert harvest(archive, repository) == ImportReport(added=7)
    item = held(archive, 1)
    assert (item.url, item.language, item.state) == (
        "http://repository.example/handle/1", "pt", ItemState.ORIGINAL,
    )  # fmt: skip
    assert item.timestamp == "2020-01-01T00:00:00Z"
    assert item.metadata is not None
    assert item.metadata["title"] == (("Título 1", "pt"),)
    with archive.catalogue.reading() as run:
        assert [event.what for event in history.events_of(run, item.number)] == ["harvested"]
    assert len(repository.queries) == 3


def test_a_second_harvest_asks_only_for_what_is_new_and_changes_nothing_else(
    archive: NewArchive, repository: Repository
) -> None:
    harvest(archive, repository)
    before = list(archive.catalogue.all())
    assert harvest(archive, repository) == ImportReport(unchanged=7)  # all bear the newest datestamp
    assert repository.queries[-3]["from"] == "2020-01-01T00:00:00Z"
    assert list(archive.catalogue.all()) == before
    repository.entries.append(article(8, "2020-02-01T00:00:00Z"))
    repository.entries[0] = article(1, "2020-02-02T00:00:00Z", title="Outro")
    assert harvest(archive, repository) == ImportReport(added=1, changed=1, unchanged=6)
    changed = held(archive, 1)
    assert changed.metadata is not None
    assert changed.metadata["title"] == (("Outro", "pt"),)
    assert changed.forms == next(each.forms for each in before if each.key == changed.key)
    assert harvest(archive, repository) == ImportReport(unchanged=1)
    assert archive.minted == 8


def test_what_is_deleted_over_there_is_removed_here_for_ever(
    archive: NewArchive, repository: Repository
) -> None:
    harvest(archive, repository)
    repository.entries[1] = Entry("oai:repository.example:2", "2020-03-01T00:00:00Z", deleted=True)
    repository.entries.append(Entry("oai:repository.example:99", "2020-03-01T00:00:00Z", deleted=True))
    assert harvest(archive, repository) == ImportReport(removed=1, unchanged=7)
    gone = held(archive, 2)
    assert (gone.state, gone.url, gone.reason) == (
        ItemState.DELETED, "", "it was removed from the repository that it came from",
    )  # fmt: skip
    assert archive.catalogue.holding_by_key("oai:repository.example:99") is None
    assert harvest(archive, repository) == ImportReport(unchanged=2)
    repository.entries[1] = article(2, "2020-04-01T00:00:00Z")
    assert harvest(archive, repository).refused == 1
    assert "was removed on" in str(archive.refused[0].why)
    assert archive.refused[0].name == "oai:repository.example:2"


def test_an_interrupted_harvest_goes_on_where_it_was(archive: NewArchive, repository: Repository) -> None:
    repository.before = lambda query: (500, {}, b"") if "resumptionToken" in query else None
    with pytest.raises(PeerGarbled, match="status 500"):
        harvest(archive, repository)
    assert archive.catalogue.count() == 4  # a page, and the Archive service
    assert known(archive, repository).token == "3||"
    repository.before = lambda _: None
    repository.queries.clear()
    assert harvest(archive, repository) == ImportReport(added=4)
    assert "resumptionToken" in repository.queries[0]
    assert known(archive, repository).since == "2020-01-01T00:00:00Z"


def test_a_page_that_is_cut_off_leaves_nothing_of_itself(archive: NewArchive, repository: Repository) -> None:
    def cut(query: dict[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        body = repository.answer(query)
        return (200, {}, body[: len(body) // 2]) if "resumptionToken" in query else None

    repository.before = cut
    with pytest.raises(PeerGarbled, match="not XML"):
        harvest(archive, repository)
    assert archive.catalogue.count() == 4
    repository.before = lambda _: None
    assert harvest(archive, repository) == ImportReport(added=4)


def test_a_token_that_is_no_longer_known_begins_the_list_anew(
    archive: NewArchive, repository: Repository
) -> None:
    state = harvests.HarvestProgress(repository.url, token="forgotten")
    with archive.catalogue.writing() as writer:
        harvests.save_harvest(writer.run, state)
    assert harvest(archive, repository) == ImportReport(added=7)
    assert [("resumptionToken" in query) for query in repository.queries] == [True, False, True, True]


def test_the_number_of_records_is_told_after_each_page(archive: NewArchive, repository: Repository) -> None:
    counts: list[int] = []
    harvest(archive, repository, progress=counts.append)
    assert counts == [3, 6, 7]


def test_a_date_of_ones_own_begins_an_interrupted_list_anew(
    archive: NewArchive, repository: Repository
) -> None:
    repository.before = lambda query: (500, {}, b"") if "resumptionToken" in query else None
    with pytest.raises(PeerGarbled, match="the repository answers with the status 500"):
        harvest(archive, repository)
    repository.before = lambda _: None
    repository.queries.clear()
    harvest(archive, repository, since="2019-05-01")
    assert repository.queries[0] == {
        "verb": "ListRecords", "metadataPrefix": "oai_dc", "from": "2019-05-01",
    }  # fmt: skip


def test_a_repository_may_lead_elsewhere_and_is_asked_for_xml(
    archive: NewArchive, repository: Repository
) -> None:
    with answering(Repository([])) as moved:
        moved.before = lambda query: (302, {"Location": f"{repository.url}?{urlencode(query)}"}, b"")
        assert harvest(archive, repository, url=moved.url) == ImportReport(added=7)
        assert {each["accept"] for each in moved.headers} == {"text/xml"}


def test_a_repository_that_forgets_every_token_is_given_up(
    archive: NewArchive, repository: Repository
) -> None:
    body = repository.error("badResumptionToken", "never heard of it")
    repository.before = lambda query: (200, {}, body) if "resumptionToken" in query else None
    with pytest.raises(PeerGarbled, match="badResumptionToken: never heard of it"):
        harvest(archive, repository)
    assert len(repository.queries) < 6


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({}, 10),
        ({"Retry-After": "soon"}, 10),
        ({"Retry-After": "600"}, 600),
        ({"Retry-After": "0000000014"}, 1),  # nine digits are read
        ({"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT", "Date": "Fri, 31 Dec 2100 23:59:29 GMT"}, 30),
        ({"Retry-After": "Fri, 31 Dec 2100 23:59:29 GMT", "Date": "Fri, 31 Dec 2100 23:59:59 GMT"}, 0),
        ({"Retry-After": "Fri, 31 Dec 2100 23:59:29", "Date": "Fri, 31 Dec 2100 23:59:00 GMT"}, 10),
    ],
)
def test_a_busy_repository_is_given_the_time_it_asks_for(
    archive: NewArchive, repository: Repository, headers: dict[str, str], seconds: int
) -> None:
    pauses: list[float] = []
    repository.before = lambda _: (503, headers, b"") if len(repository.queries) == 1 else None
    assert harvest(archive, repository, pauses) == ImportReport(added=7)
    assert pauses == [seconds]


def test_a_repository_that_requests_too_long_a_pause_is_left_for_another_day(
    archive: NewArchive, repository: Repository
) -> None:
    busy = (503, {"Retry-After": "601"}, b"")
    repository.before = lambda query: busy if "resumptionToken" in query else None
    with pytest.raises(PeerSilent, match="wait for 601 s; the next run goes on"):
        harvest(archive, repository)
    repository.before = lambda _: None
    assert harvest(archive, repository) == ImportReport(added=4)


def test_a_repository_that_is_always_busy_is_given_up(archive: NewArchive, repository: Repository) -> None:
    pauses: list[float] = []
    repository.before = lambda _: (503, {"Retry-After": "1"}, b"")
    with pytest.raises(PeerSilent, match="again and again"):
        harvest(archive, repository, pauses)
    assert len(pauses) == 5


def test_each_set_has_its_own_progress(archive: NewArchive, repository: Repository) -> None:
    repository.entries[4].part = "theses"
    assert harvest(archive, repository, part="theses") == ImportReport(added=1)
    assert harvest(archive, repository) == ImportReport(added=6, unchanged=1)


def test_a_date_of_ones_own_asks_for_what_changed_since(archive: NewArchive, repository: Repository) -> None:
    repository.entries.append(article(8, "2020-06-01T00:00:00Z"))
    assert harvest(archive, repository, since="2020-05-01") == ImportReport(added=1)
    with pytest.raises(BadItem, match="--from is a day"):
        harvest(archive, repository, since="yesterday")


def test_an_empty_list_is_no_error(archive: NewArchive, repository: Repository) -> None:
    repository.entries.clear()
    assert harvest(archive, repository) == ImportReport()


def test_a_datestamp_in_the_future_hides_nothing_that_comes_later(
    archive: NewArchive, repository: Repository
) -> None:
    repository.entries[0] = article(1, "2999-01-01T00:00:00Z")
    harvest(archive, repository)
    assert known(archive, repository).since == repository.moment


HOSTILE: list[tuple[bytes, str]] = [
    (
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>',
        "document type",
    ),
    (b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>', "document type"),
    (b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x/>', "document type"),
    (b"<html><body>It works!</body></html>", "not come from an OAI-PMH repository"),
    (b"It works!", "not XML"),
    (b"", "not XML"),
    (b'<?xml version="1.0" encoding="klingon"?><x/>', "encoding"),
    (b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">' + b"<a>" * 100, "nested too deeply"),
    (b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">\xff', "not XML"),
    (b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">&undefined;', "not XML"),
    (
        b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument">\xc2\x9b</error></OAI-PMH>',
        "badArgument: ?",
    ),
]


@pytest.mark.parametrize(("body", "sentence"), HOSTILE)
def test_a_hostile_answer_is_refused_with_one_sentence(
    archive: NewArchive, repository: Repository, body: bytes, sentence: str
) -> None:
    repository.before = lambda _: (200, {}, body)
    with pytest.raises(PeerGarbled) as refusal:
        harvest(archive, repository)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert archive.catalogue.count() == 1


def _endless(token: Callable[[int], str], repository: Repository) -> Callable[[dict[str, str]], object]:
    def answer(_query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        given = token(len(repository.queries))
        return 200, {}, repository.page(f"<resumptionToken>{given}</resumptionToken>")

    return answer


@pytest.mark.parametrize(
    ("token", "sentence", "pages"),
    [
        (lambda _: "same", "same resumption token", 2),
        (lambda number: f"next {number}", "leads nowhere", 101),
        (lambda _: "x" * 4096, "same resumption token", 2),
        (lambda _: "x" * 4097, "leads nowhere", 1),
    ],
)
def test_a_list_without_end_is_given_up(
    archive: NewArchive, repository: Repository, token: Callable[[int], str], sentence: str, pages: int
) -> None:
    repository.before = _endless(token, repository)  # type: ignore[assignment]  # it answers as it should
    with pytest.raises(PeerGarbled, match=sentence):
        harvest(archive, repository)
    assert len(repository.queries) == pages


def test_empty_pages_may_come_between_others(archive: NewArchive, repository: Repository) -> None:
    def answer(_query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        number = len(repository.queries)
        some = article(number).xml() if number in {1, 102} else ""
        token = f"<resumptionToken>{number}</resumptionToken>" if number < 102 else ""
        return 200, {}, repository.page(some + token)

    repository.before = answer
    assert harvest(archive, repository).added == 2


def _record(*dublin_core: tuple[str, str], identifier: str = "oai:repository.example:1") -> Entry:
    return Entry(identifier, "2020-01-01", [(element, text, "") for element, text in dublin_core])


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (_record(("title", "Nowhere")), "does not say where the item lives"),
        (_record(("identifier", "javascript:alert(1)")), "does not say where the item lives"),
        (_record(("identifier", "http://user@far.example/x")), "does not say where the item lives"),
        (_record(("identifier", "http://far.example/x"), identifier=""), "no identifier"),
        (_record(("identifier", "http://far.example/x"), identifier="x" * 600), "key is a short printable"),
        (_record(("identifier", "http://far.example:99999/")), "an address is a host"),
    ],
)
def test_a_record_that_is_refused_harms_no_other(
    archive: NewArchive, repository: Repository, entry: Entry, sentence: str
) -> None:
    repository.entries[0] = entry
    assert harvest(archive, repository) == ImportReport(added=6, refused=1)
    assert sentence in str(archive.refused[0].why)


def test_the_landing_page_is_the_one_at_home(archive: NewArchive, repository: Repository) -> None:
    repository.entries[:] = [
        _record(("identifier", "https://doi.org/10.1234/x"), ("identifier", "http://127.0.0.1/handle/é 1")),
        _record(("identifier", "doi:10.1234/only"), identifier="oai:repository.example:2"),
        _record(("identifier", "http://far.example/a"), identifier="oai:repository.example:3"),
    ]
    assert harvest(archive, repository).added == 3
    assert [held(archive, number).url for number in (1, 2, 3)] == [
        "http://127.0.0.1/handle/%C3%A9%201", "https://doi.org/10.1234/only", "http://far.example/a",
    ]  # fmt: skip


@pytest.mark.proves("ARC-04")
def test_what_has_an_ibi_already_is_a_copy_under_it_and_gets_no_second_one(
    archive: NewArchive, repository: Repository
) -> None:
    url = ("identifier", "http://far.example/col/a.example/b/2010/01.01.00.00/doc/x.pdf")
    repository.entries[:] = [
        _record(url, identifier="oai:far.example:a.example/b/2010/01.01.00.00"),
        _record(url, ("identifier", "http://urlib.net/rep/8JMKD3MGP8W/35MME4E"), identifier="oai:x:2"),
    ]
    assert harvest(archive, repository).added == 2
    copies = [item for item in archive.catalogue.all() if item.state is ItemState.COPY]
    assert {str(item.forms.main) for item in copies} == {
        "a.example/b/2010/01.01.00.00", "8JMKD3MGP8W/35MME4E",
    }  # fmt: skip
    assert archive.minted == 0


def test_an_item_deposited_here_is_not_changed_by_a_harvest(
    archive: NewArchive, repository: Repository
) -> None:
    own = "a.example/b/2010/01.01.00.00"
    archive.load(
        {"rep": own, "url": "http://archive.example/own"}, {"key": "mine", "url": "http://archive.example/2"}
    )
    before = list(archive.catalogue.all())
    repository.entries[:] = [
        _record(("identifier", f"http://urlib.net/{own}"), ("identifier", "http://evil.example/")),
        _record(("identifier", "http://evil.example/"), identifier="mine"),
        Entry("mine", "2020-01-01", deleted=True),
    ]
    report = harvest(archive, repository)
    assert (report.added, report.changed, report.removed, report.refused) == (0, 0, 0, 3)
    assert list(archive.catalogue.all()) == before


def test_one_repository_cannot_change_what_came_from_another(
    archive: NewArchive, repository: Repository
) -> None:
    harvest(archive, repository)
    repository.entries[:] = [Entry("oai:repository.example:1", "2022-01-01", deleted=True)]
    with answering(Repository(repository.entries)) as other:
        url = other.url.replace("127.0.0.1", "localhost")  # another name of the same machine
        report = harvest(archive, other, url=url)
    assert (report.removed, report.refused) == (0, 1)
    assert held(archive, 1).state is ItemState.ORIGINAL


def test_private_addresses_are_out_of_bounds_unless_allowed(
    archive: NewArchive, repository: Repository
) -> None:
    async def run() -> None:
        async with Downloads(AddressPolicy()) as downloads:
            harvester = Harvester(
                archive.item_store, downloads, "tester", archive.refused.append, asyncio.sleep
            )
            await harvester.run(repository.url)

    with pytest.raises(ForbiddenAddress):
        asyncio.run(run())
    assert repository.queries == []


@pytest.mark.parametrize("url", ["ftp://a.example/oai", "http://", "nonsense", "http://a b/"])
def test_what_is_no_url_is_one_sentence(archive: NewArchive, repository: Repository, url: str) -> None:
    with pytest.raises((PeerError, ValueError)):
        harvest(archive, repository, url=url)


def test_other_words_than_those_of_dublin_core_are_passed_over(
    archive: NewArchive, repository: Repository
) -> None:
    dublin_core = "<dc:title xml:lang='!'>T</dc:title><dc:colour>red</dc:colour><dc:identifier>http://far.example/</dc:identifier>"
    about = "<about><x xmlns='urn:x'><identifier>no</identifier></x></about>"
    record = (
        "<record><header><identifier>oai:repository.example:1</identifier><datestamp>2020</datestamp></header>"
        f"<metadata>{DC.format(dublin_core)}</metadata>{about}</record>"
    )
    repository.before = lambda _: (200, {}, repository.page(record))
    assert harvest(archive, repository).refused == 1  # 2020 is no moment
    repository.before = lambda _: (200, {}, repository.page(record.replace(">2020<", ">2020-01-01<")))
    assert harvest(archive, repository).added == 1
    item = held(archive, 1)
    assert item.metadata == {"title": (("T", None),), "identifier": (("http://far.example/", None),)}


def _only(archive: NewArchive, entry: Entry) -> Holding:
    with answering(Repository([entry])) as repository:
        assert harvest(archive, repository) == ImportReport(added=1)
    found = archive.catalogue.holding_by_key(entry.identifier)
    assert found is not None
    return found


def test_the_date_of_a_thesis_in_dspace_is_not_the_day_on_which_it_came_in(archive: NewArchive) -> None:
    item = _only(archive, thesis(1))
    assert item.metadata is not None
    assert [value for value, _ in item.metadata["date"]] == ["2021", *["2022-02-28T09:00:00Z"] * 2]
    assert item.url == "http://dspace.example.org/handle/123456789/1"


def test_an_abstract_of_ojs_is_read_without_its_html(archive: NewArchive) -> None:
    item = _only(archive, journal_article(45))
    assert item.metadata is not None
    assert item.metadata["description"] == (("Um censo de peixes. Terra & mar.", "pt-BR"),)


@pytest.mark.parametrize("text", ["x < y e y > z", "o <sic> do autor", "R&amp;D", "<p"])
def test_what_is_no_html_of_an_editor_stays_as_it_is(text: str) -> None:
    assert without_html(text) == text


def test_a_licence_that_many_use_is_that_of_the_item(archive: NewArchive) -> None:
    assert _only(archive, journal_article(45)).licence == "https://creativecommons.org/licenses/by/4.0"
    other = journal_article(46)
    other.statements[-1] = ("rights", "https://revista.example.org/direitos", "")
    assert _only(archive, other).licence == ""
