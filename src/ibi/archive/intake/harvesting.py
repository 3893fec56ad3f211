"""Another repository's records, harvested by OAI-PMH, become linked items of this Archive.

A list of records comes page by page; how far it has come stands in a ledger after each page, so an interrupted harvest
goes on there, and the next one asks only for what is newer. Whatever is asked for twice changes nothing: a record has
its identifier as its key. What is deleted over there is removed here, and stays known.
"""

from __future__ import annotations

import re
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.archive.intake.sources.oai_pmh import OaiRecord, Page, PageReader, item_of
from ibi.archive.intake.sources.record import Record, record, shown
from ibi.archive.intake.taking import Intake
from ibi.archive.ledgers import harvests
from ibi.errors import BadItem, PeerGarbled, PeerSilent
from ibi.transport.download import Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.archive.intake.batch import Report
    from ibi.archive.intake.taking import Refused
    from ibi.archive.keeper import Keeper
    from ibi.archive.ledgers.harvests import Harvest
    from ibi.transport.download import Downloads

PAGE_BYTES: Final = 32 << 20
"""Bytes of the longest page that is read."""

LONGEST_PAUSE: Final = 600
"""Seconds that a repository may ask us to wait, at most."""

_PAGE_SECONDS: Final = 300.0
_USUAL_PAUSE: Final = 10
_MOST_PAUSES: Final = 5  # for one page
_MOST_PAGES: Final = 1_000_000
_MOST_EMPTY: Final = 100  # pages without any record, one after the other
_BUSY: Final = frozenset({429, 503})
_OK: Final = 200
_LONGEST_TOKEN: Final = 4096
_DATESTAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")
_DAY: Final = len("2026-11-21")


class Harvester:
    """Takes records of other repositories into one Archive, in the name of `who`.

    `refused` is told every record that is not taken in, `progress` how many have come so far; `pause` waits so many
    seconds, where a repository asks for that.
    """

    def __init__(
        self,
        keeper: Keeper,
        downloads: Downloads,
        who: str,
        refused: Callable[[Refused], None],
        pause: Callable[[float], Awaitable[None]],
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._keeper = keeper
        self._downloads = downloads
        self._who = who
        self._refused = refused
        self._pause = pause
        self._progress = progress

    async def run(
        self, repository: str, part: str = "", since: str = "", metadata_format: str = "oai_dc"
    ) -> Report:
        """Harvest the records of a repository, or of a set of it, that are new or changed.

        Without `since`, a datestamp, that is: since the last harvest. Raises ForbiddenAddress, PeerSilent or
        PeerGarbled, which may be worth another run, BadItem for a `since` that is none, and SetupError.
        """
        host = Place.parse(repository).where.host
        if since and not _DATESTAMP.fullmatch(since):
            raise BadItem("{name} is a day such as 2027-01-31", name="--from")
        with self._keeper.catalogue.reading() as run:
            harvest = harvests.known(run, repository, part, metadata_format)
        if since:
            harvest = replace(harvest, token="", since=since)
        intake = Intake(self._keeper, self._who, self._refused, what="harvested", origin=host)
        with self._keeper.working():
            await self._pages(harvest, host, intake)
        return intake.report

    async def _pages(self, harvest: Harvest, host: str, intake: Intake) -> None:
        taken = empty = 0
        anew = False
        for _ in range(_MOST_PAGES):
            page = await self._page(_request(harvest))
            if page.fault == "badResumptionToken" and harvest.token and not anew:
                anew, harvest = True, replace(harvest, token="")
                continue
            if page.fault not in {"", "noRecordsMatch"}:
                problem = "the repository answers {code}: {words}"
                raise PeerGarbled(problem, code=shown(page.fault), words=shown(page.words))
            intake.take([_record(each, host) for each in page.records])
            taken += len(page.records)
            self._progress(taken)
            empty = 0 if page.records else empty + 1
            if empty > _MOST_EMPTY or len(page.token) > _LONGEST_TOKEN:
                raise PeerGarbled("the list of records leads nowhere")
            if page.token and page.token == harvest.token:
                raise PeerGarbled("the repository gives the same resumption token again and again")
            harvest = _further(harvest, page)
            with self._keeper.catalogue.writing() as writer:
                harvests.keep(writer.run, harvest)
            if not harvest.token:
                return

    async def _page(self, url: str) -> Page:
        for _ in range(_MOST_PAUSES):
            async with self._downloads.get(
                url, most_bytes=PAGE_BYTES, seconds=_PAGE_SECONDS, headers={"Accept": "text/xml"}, follow=True
            ) as reply:
                if reply.status == _OK:
                    reader = PageReader()
                    async for chunk in reply.chunks():
                        reader.feed(chunk)
                    return reader.close()
                if reply.status not in _BUSY:
                    raise PeerGarbled("the repository answers with the status {status}", status=reply.status)
                seconds = _asked_pause(reply.headers)
            if seconds > LONGEST_PAUSE:
                problem = (
                    "the repository asks to wait for {seconds} s; the next run goes on where this one is"
                )
                raise PeerSilent(problem, seconds=seconds)
            await self._pause(seconds)
        raise PeerSilent(
            "the repository asks to wait again and again; the next run goes on where this one is"
        )


def _request(harvest: Harvest) -> str:
    """The URL of the next page: a resumption token stands alone."""
    words = {"verb": "ListRecords"}
    if harvest.token:
        words["resumptionToken"] = harvest.token
    else:
        words["metadataPrefix"] = harvest.format
        words |= {"set": harvest.part} if harvest.part else {}
        words |= {"from": harvest.since} if harvest.since else {}
    return f"{harvest.repository}{'&' if '?' in harvest.repository else '?'}{urlencode(words)}"


def _further(harvest: Harvest, page: Page) -> Harvest:
    """How far the list is after a page; after the last one, from when on the next list is asked for.

    That is its newest datestamp, which the next list repeats; one in the future would hide what comes before it.
    """
    begun = harvest.begun if harvest.token else page.moment if _DATESTAMP.fullmatch(page.moment) else ""
    stamps = [each.datestamp for each in page.records if _DATESTAMP.fullmatch(each.datestamp)]
    newest = max([harvest.newest if harvest.token else "", *stamps])
    if page.token:
        return replace(harvest, token=page.token, begun=begun, newest=newest)
    if begun and newest[:_DAY] > begun[:_DAY]:
        newest = begun[: len(newest)]
    return replace(harvest, token="", begun="", newest="", since=newest or harvest.since)


def _record(each: OaiRecord, host: str) -> Record:
    """A record as an item, or why it is none."""
    name = shown(each.identifier)
    if not each.identifier:
        return Record(0, name, BadItem("the record has no identifier"), 0)
    value: dict[str, Any]
    if each.deleted:
        value = {"key": each.identifier, "state": "Deleted"}
    else:
        value = item_of(each, host)
        if "url" not in value:
            return Record(0, name, BadItem("the record does not say where the item lives"), 0)
    return record(0, name, value, 0)


def _asked_pause(headers: Mapping[str, str]) -> int:
    """Seconds to wait, as Retry-After says: a number, or a date, which is compared with that of the answer itself."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return int(said[:9])
    try:
        until = parsedate_to_datetime(said) - parsedate_to_datetime(headers.get("date", ""))
        return max(0, round(until.total_seconds()))
    except (TypeError, ValueError):  # the first: one date with a zone and one without
        return _USUAL_PAUSE
