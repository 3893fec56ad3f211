"""Harvesting by OAI-PMH: the records of another repository become linked items of this Archive.

A list of records comes page by page; its progress is saved after each page, so an interrupted harvest continues there,
and the next one asks only for newer records. A record that comes twice changes nothing, for its identifier is its key.
What is deleted in the repository is removed here, and its names stay known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.archive.ingest.batch import RecordIngest
from ibi.archive.ingest.sources.oai_pmh import OaiRecord, PageReader, RecordPage, item_of
from ibi.archive.ingest.sources.records import SourceRecord, printable, record
from ibi.archive.store.tables import copies
from ibi.errors import BadItem, PeerGarbled, PeerSilent
from ibi.http.client.download import CheckedURL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.archive.ingest.batch import ImportReport, RefusedRecord
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.copies import HarvestProgress
    from ibi.http.client.download import Downloads

PAGE_BYTES: Final = 32 << 20
"""Bytes of the longest page that is read."""

LONGEST_PAUSE: Final = 600
"""The longest pause, in seconds, that a repository may request."""

_PAGE_SECONDS: Final = 300.0
_USUAL_PAUSE: Final = 10
_MOST_PAUSES: Final = 5  # for one page
_MOST_PAGES: Final = 1_000_000
# A repository could answer with empty pages for ever (threat T23).
_MOST_EMPTY: Final = 100
_BUSY: Final = frozenset({429, 503})
_OK: Final = 200
_LONGEST_TOKEN: Final = 4096
_DATESTAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")
_DAY: Final = len("2026-11-21")


@dataclass(frozen=True, slots=True)
class Harvester:
    """Harvests other repositories into one Archive, in the name of the account `who`.

    `refused` is called with every record that is refused, `progress` with the number of records so far; `pause` waits
    so many seconds, where a repository requests that.
    """

    item_store: ItemStore
    downloads: Downloads
    who: str
    refused: Callable[[RefusedRecord], None]
    pause: Callable[[float], Awaitable[None]]
    progress: Callable[[int], None] = lambda _: None

    async def run(
        self, repository: str, part: str = "", since: str = "", metadata_format: str = "oai_dc"
    ) -> ImportReport:
        """Harvest the records of a repository, or of a set of it, that are new or changed.

        Without `since`, a datestamp: since the last harvest. Raises ForbiddenAddress, PeerSilent or PeerGarbled, after
        which another run may succeed, BadItem for a wrong `since`, and SetupError.
        """
        host = CheckedURL.parse(repository).where.host
        if since and not _DATESTAMP.fullmatch(since):
            raise BadItem("{name} is a day such as 2027-01-31", name="--from")
        with self.item_store.catalogue.reading() as run:
            harvest = copies.harvest_progress(run, repository, part, metadata_format)
        if since:
            harvest = replace(harvest, token="", since=since)
        ingest = RecordIngest(self.item_store, self.who, self.refused, what="harvested", origin=host)
        with self.item_store.staging_session():
            await self._pages(harvest, host, ingest)
        return ingest.report

    async def _pages(self, harvest: HarvestProgress, host: str, ingest: RecordIngest) -> None:
        taken = empty = 0
        anew = False
        for _ in range(_MOST_PAGES):
            page = await self._page(_request(harvest))
            if page.fault == "badResumptionToken" and harvest.token and not anew:
                anew, harvest = True, replace(harvest, token="")
                continue
            if page.fault not in {"", "noRecordsMatch"}:
                problem = "the repository answers {code}: {words}"
                raise PeerGarbled(problem, code=printable(page.fault), words=printable(page.words))
            ingest.take([_record(each, host) for each in page.records])
            taken += len(page.records)
            self.progress(taken)
            empty = 0 if page.records else empty + 1
            if empty > _MOST_EMPTY or len(page.token) > _LONGEST_TOKEN:
                raise PeerGarbled("the list of records leads nowhere")
            if page.token and page.token == harvest.token:
                raise PeerGarbled("the repository gives the same resumption token again and again")
            harvest = _further(harvest, page)
            with self.item_store.catalogue.writing() as writer:
                copies.save_harvest(writer.run, harvest)
            if not harvest.token:
                return

    async def _page(self, url: str) -> RecordPage:
        for _ in range(_MOST_PAUSES):
            async with self.downloads.get(
                url, most_bytes=PAGE_BYTES, seconds=_PAGE_SECONDS, headers={"Accept": "text/xml"}, follow=True
            ) as reply:
                if reply.status == _OK:
                    reader = PageReader()
                    async for chunk in reply.chunks():
                        reader.feed(chunk)
                    return reader.close()
                if reply.status not in _BUSY:
                    raise PeerGarbled("the repository answers with the status {status}", status=reply.status)
                seconds = _requested_pause(reply.headers)
            if seconds > LONGEST_PAUSE:
                problem = (
                    "the repository asks to wait for {seconds} s; the next run goes on where this one is"
                )
                raise PeerSilent(problem, seconds=seconds)
            await self.pause(seconds)
        raise PeerSilent(
            "the repository asks to wait again and again; the next run goes on where this one is"
        )


def _request(harvest: HarvestProgress) -> str:
    """Return the URL of the next page; OAI-PMH allows nothing beside a resumption token."""
    words = {"verb": "ListRecords"}
    if harvest.token:
        words["resumptionToken"] = harvest.token
    else:
        words["metadataPrefix"] = harvest.format
        words |= {"set": harvest.part} if harvest.part else {}
        words |= {"from": harvest.since} if harvest.since else {}
    return f"{harvest.repository}{'&' if '?' in harvest.repository else '?'}{urlencode(words)}"


def _further(harvest: HarvestProgress, page: RecordPage) -> HarvestProgress:
    """Return the progress after a page; after the last page with the datestamp from which the next list starts."""
    # That is the newest datestamp of this list, which the next one repeats; but not one in the future, by the clock of
    # the repository, which would hide all records until then.
    begun = harvest.begun if harvest.token else page.moment if _DATESTAMP.fullmatch(page.moment) else ""
    stamps = [each.datestamp for each in page.records if _DATESTAMP.fullmatch(each.datestamp)]
    newest = max([harvest.newest if harvest.token else "", *stamps])
    if page.token:
        return replace(harvest, token=page.token, begun=begun, newest=newest)
    if begun and newest[:_DAY] > begun[:_DAY]:
        newest = begun[: len(newest)]
    return replace(harvest, token="", begun="", newest="", since=newest or harvest.since)


def _record(each: OaiRecord, host: str) -> SourceRecord:
    """Return a record as an item, or the reason why it is none."""
    name = printable(each.identifier)
    if not each.identifier:
        return SourceRecord(0, name, BadItem("the record has no identifier"), 0)
    value: dict[str, Any]
    if each.deleted:
        value = {"key": each.identifier, "state": "Deleted"}
    else:
        value = item_of(each, host)
        if "url" not in value:
            return SourceRecord(0, name, BadItem("the record does not say where the item lives"), 0)
    return record(0, name, value, 0)


def _requested_pause(headers: Mapping[str, str]) -> int:
    """Return the seconds of Retry-After: a number, or a date, which is compared with that of the answer itself."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        until = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
        return max(0, round(until.total_seconds()))
    except (TypeError, ValueError):
        # The first: one date with a zone and one without.
        return _USUAL_PAUSE
