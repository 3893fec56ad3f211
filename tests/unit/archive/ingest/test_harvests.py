"""Harvests from a scripted repository: what is urls for, how long is waited, what is kept, and each refusal, whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from ibi.archive.ingest.batch import ImportReport
from ibi.archive.ingest.harvesting import Harvester
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import HarvestProgress
from ibi.errors import BadItem, IbiError, PeerGarbled, PeerSilent
from support.archive.archive_fixture import NewArchive

OAI, DC = "http://www.openarchives.org/OAI/2.0/", "http://purl.org/dc/elements/1.1/"
AT = "http://far.example/oai"
FIRST = f"{AT}?verb=ListRecords&metadataPrefix=oai_dc"
MOMENT = "2021-01-01T00:00:00Z"
ON = "the next run goes on where this one is"


def item(number: int, stamp: str = "2020-01-01", **more: str) -> str:
    values = {"title": f"Title {number}", "identifier": f"http://far.example/{number}", **more}
    words = "".join(f"<dc:{name}>{text}</dc:{name}>" for name, text in values.items())
    head = f"<header><identifier>oai:{number}</identifier><datestamp>{stamp}</datestamp></header>"
    return f"<record>{head}<metadata><dc:dc>{words}</dc:dc></metadata></record>"


def page(*records: str, token: str = "", moment: str = MOMENT, more: str = "") -> bytes:
    going_on = f"<resumptionToken>{token}</resumptionToken>" if token else ""
    inside = (
        f"<responseDate>{moment}</responseDate>{more}<ListRecords>{''.join(records)}{going_on}</ListRecords>"
    )
    return f'<OAI-PMH xmlns="{OAI}" xmlns:dc="{DC}">{inside}</OAI-PMH>'.encode()


def fault(code: str, words: str = "words") -> bytes:
    return page(more=f'<error code="{code}">{words}</error>')


@dataclass
class Reply:
    """One answer of the repository."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body


@dataclass
class Scripted:
    """A repository that gives these answers, one after the other; what it was urls, and how."""

    replies: Iterator[Reply]
    urls: list[str] = field(default_factory=list)
    ways: list[dict[str, Any]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def get(self, url: str, **ways: Any) -> AsyncIterator[Reply]:
        self.urls.append(url)
        self.ways.append(ways)
        yield next(self.replies)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


Harvest = Callable[..., tuple[ImportReport, Scripted]]


def harvested(
    archive: NewArchive, *replies: Reply | bytes, at: str = AT, **options: str
) -> tuple[ImportReport, Scripted]:
    """The report of a harvest, and what the repository has seen. Raises like `Harvester.run`."""
    scripted = Scripted(iter([each if isinstance(each, Reply) else Reply(each) for each in replies]))
    refused = archive.refused
    refused.clear()
    harvester = Harvester(
        archive.item_store, scripted, "tester", refused.append, scripted.pause, scripted.counts.append,  # type: ignore[arg-type]  # it gives what is used
    )  # fmt: skip
    report = asyncio.run(harvester.run(at, **options))
    assert list(scripted.replies) == []
    return report, scripted


def kept(archive: NewArchive, at: str = AT, part: str = "", form: str = "oai_dc") -> HarvestProgress:
    with archive.catalogue.reading() as run:
        return copies.harvest_progress(run, at, part, form)


def test_a_list_is_asked_for_page_by_page_and_the_next_time_from_its_newest_record(
    archive: NewArchive,
) -> None:
    pages = (
        page(item(1), item(2, "2020-02-02"), token="a b&amp;c"),
        page(item(3), moment="2021-02-02T00:00:00Z"),
    )
    report, seen = harvested(archive, *pages)
    assert report == ImportReport(added=3)
    assert (seen.urls, seen.pauses, seen.counts) == (
        [FIRST, f"{AT}?verb=ListRecords&resumptionToken=a+b%26c"], [], [2, 3],
    )  # fmt: skip
    way = {"most_bytes": 32 << 20, "seconds": 300.0, "headers": {"Accept": "text/xml"}, "follow": True}
    assert seen.ways == [way, way]
    assert kept(archive) == HarvestProgress(AT, "", "oai_dc", since="2020-02-02")
    report, seen = harvested(archive, page(item(3), item(4, "2020-01-05")))
    assert (report, seen.urls) == (ImportReport(added=1, unchanged=1), [f"{FIRST}&from=2020-02-02"])
    assert kept(archive).since == "2020-01-05"
    report, seen = harvested(archive, fault("noRecordsMatch"), since="2019-01-01T00:00:00Z")
    assert (report, seen.urls) == (ImportReport(), [f"{FIRST}&from=2019-01-01T00%3A00%3A00Z"])
    assert kept(archive).since == "2019-01-01T00:00:00Z"


def test_a_set_in_another_format_has_its_own_progress(archive: NewArchive) -> None:
    at = f"{AT}?x=y"
    _, seen = harvested(archive, page(item(1)), at=at, part="mar:ART", metadata_format="other")
    assert seen.urls == [f"{at}&verb=ListRecords&metadataPrefix=other&set=mar%3AART"]
    assert kept(archive, at, "mar:ART", "other").since == "2020-01-01"
    assert kept(archive, at).since == ""


@pytest.mark.parametrize(
    ("stamp", "moment", "since"),
    [
        ("2021-01-01", MOMENT, "2021-01-01"), ("2021-01-02", MOMENT, "2021-01-01"),
        ("2021-01-01T23:00:00Z", MOMENT, "2021-01-01T23:00:00Z"), ("2021-01-02T00:00:00Z", MOMENT, MOMENT),
        ("2031-01-01", "no moment", "2031-01-01"), ("no stamp", MOMENT, ""),
    ],
)  # fmt: skip
def test_a_record_from_the_future_does_not_hide_those_until_then(
    archive: NewArchive, stamp: str, moment: str, since: str
) -> None:
    harvested(archive, page(item(1, stamp), moment=moment))
    assert kept(archive) == HarvestProgress(AT, "", "oai_dc", since=since)


def test_an_interrupted_list_goes_on_and_one_that_is_not_known_any_more_restarts_once(
    archive: NewArchive,
) -> None:
    with pytest.raises(PeerGarbled) as ended:
        harvested(archive, page(item(1, "2020-03-03"), token="one"), Reply(status=500))
    assert str(ended.value) == "the repository answers with the status 500"
    assert kept(archive) == HarvestProgress(AT, "", "oai_dc", "one", MOMENT, "2020-03-03", "")
    report, seen = harvested(
        archive, fault("badResumptionToken"), page(item(1, "2020-03-03"), item(2), moment="x")
    )
    assert (report, seen.urls) == (
        ImportReport(added=1, unchanged=1), [f"{AT}?verb=ListRecords&resumptionToken=one", FIRST],
    )  # fmt: skip
    assert kept(archive).since == "2020-03-03"
    for replies in (
        [fault("badResumptionToken", "no")],
        [page(token="a"), *[fault("badResumptionToken", "no")] * 2],
    ):
        with pytest.raises(PeerGarbled) as unknown:
            harvested(archive, *replies)
        assert str(unknown.value) == "the repository answers badResumptionToken: no"


def refusal_of(archive: NewArchive, *replies: Reply | bytes, **options: str) -> tuple[type[IbiError], str]:
    with pytest.raises(IbiError) as refused:
        harvested(archive, *replies, **options)
    return type(refused.value), str(refused.value)


def test_a_list_that_leads_nowhere_ends(archive: NewArchive) -> None:
    nowhere = PeerGarbled, "the list of records leads nowhere"
    empty = [page(token=str(number)) for number in range(101)]
    assert refusal_of(archive, *empty) == nowhere
    # The list goes on where it broke off, and a hundred empty pages are borne after each page that has a record.
    going_on = [*empty[:100], page(item(1), token="x"), *empty[:100], page(item(2))]
    report, seen = harvested(archive, *going_on, since="2020-01-01")
    assert (report, seen.urls[0]) == (ImportReport(added=2), f"{FIRST}&from=2020-01-01")
    assert refusal_of(archive, page(item(1), token="x" * 4097)) == nowhere
    long = "x" * 4096
    again = PeerGarbled, "the repository gives the same resumption token again and again"
    assert refusal_of(archive, page(item(1), token=long), page(item(2), token=long)) == again
    assert refusal_of(archive, since="yesterday") == (BadItem, "--from is a day such as 2027-01-31")


def test_a_pause_is_as_long_as_the_repository_asks(archive: NewArchive) -> None:
    date = {"date": "Fri, 01 Jan 2021 00:00:00 GMT"}
    busy = [
        Reply(status=503, headers={"retry-after": " 600 "}),
        Reply(status=429, headers={"retry-after": "Fri, 01 Jan 2021 00:00:07 GMT", **date}),
        Reply(status=503, headers={"retry-after": "Thu, 31 Dec 2020 00:00:07 GMT", **date}),
        Reply(status=503, headers={"retry-after": "soon", **date}),
    ]
    assert harvested(archive, *busy, page(item(1)))[1].pauses == [600, 7, 0, 10]
    other = [
        {"retry-after": "Fri, 01 Jan 2021 00:00:07 GMT"},
        {"retry-after": "Fri, 01 Jan 2021 00:00:07", **date},
        {},
    ]
    replies = [Reply(status=503, headers=each) for each in other]
    assert harvested(archive, *replies, page(item(1)))[1].pauses == [10, 10, 10]
    wait = "the repository asks to wait"
    for text, seconds in (("601", 601), ("1" * 12, 111_111_111)):
        expected = PeerSilent, f"{wait} for {seconds} s; {ON}"
        assert refusal_of(archive, Reply(status=503, headers={"retry-after": text})) == expected
    assert refusal_of(archive, *[Reply(status=503)] * 5) == (PeerSilent, f"{wait} again and again; {ON}")
    assert harvested(archive, *[Reply(status=503)] * 4, page(item(1)))[1].pauses == [10] * 4


def test_each_record_that_is_no_item_is_refused_by_its_name(archive: NewArchive) -> None:
    nameless = "<record><header/><metadata/></record>"
    gone = '<record><header status="deleted"><identifier>oai:9</identifier></header></record>'
    nowhere = "<record><header><identifier>oai:8</identifier></header><metadata/></record>"
    report, _ = harvested(archive, page(nameless, gone, nowhere, item(1, language="por")))
    assert report == ImportReport(added=1, unchanged=1, refused=2)
    assert [(each.line, str(each.why), each.name) for each in archive.refused] == [
        (0, "the record has no identifier", ""), (0, "the record does not say where the item lives", "oai:8"),
    ]  # fmt: skip
    held = archive.catalogue.holding_by_key("oai:1")
    assert held
    assert (held.url, held.language, held.timestamp) == ("http://far.example/1", "pt", "2020-01-01T00:00:00Z")
    assert urlsplit(held.url).hostname == "far.example"
