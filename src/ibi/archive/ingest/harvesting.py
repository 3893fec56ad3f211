"""Harvests by OAI-PMH: the records of another repository become linked items of this Archive.

A list of records comes page by page. The progress is saved after each page, so an interrupted harvest
continues there, and the next harvest requests only newer records. A repeated record changes nothing, because
its identifier is its key. An item that the repository deletes is removed here; its names stay known.

Answers are parsed piece by piece. A document type or an entity ends the parsing, and nothing that an answer refers to
is ever fetched (T23: hostile uploads).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode
from xml.parsers import expat

from ibi.archive.ingest.batch import RecordIngest
from ibi.archive.ingest.sources.oai_records import OaiRecord, item_of
from ibi.archive.ingest.sources.records import SourceRecord, printable, record
from ibi.archive.model.item import ELEMENTS
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

_PAGE_SECONDS: Final = 300.0  # for one page of a harvest
_USUAL_PAUSE: Final = 10
_MOST_PAUSES: Final = 5  # times that a repository may request a pause, for one page
_MOST_PAGES: Final = 1_000_000  # pages of one harvest
_MOST_EMPTY: Final = 100  # empty pages in a row; a repository could send them for ever (T23: hostile uploads)
_BUSY: Final = frozenset({429, 503})
_OK: Final = 200
_LONGEST_TOKEN: Final = 4096  # bytes of a resumption token
_DATESTAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")
_DAY: Final = len("2026-11-21")


@dataclass(frozen=True, slots=True)
class Harvester:
    """Harvests other repositories into one Archive, in the name of the account `who`.

    `refused` is called with every refused record, `progress` with the number of records so far; `pause` waits
    as many seconds as a repository requests.
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
        """Harvest the new and changed records of a repository, or of one of its sets (`part`).

        `since`: a datestamp from which to harvest; by default that of the last harvest. Raises
        ForbiddenAddress, PeerSilent or PeerGarbled, after which another run may succeed, BadItem for an
        invalid `since`, and SetupError.
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
    """Return the URL of the next page; beside a resumption token OAI-PMH allows no other argument."""
    words = {"verb": "ListRecords"}
    if harvest.token:
        words["resumptionToken"] = harvest.token
    else:
        words["metadataPrefix"] = harvest.format
        words |= {"set": harvest.part} if harvest.part else {}
        words |= {"from": harvest.since} if harvest.since else {}
    return f"{harvest.repository}{'&' if '?' in harvest.repository else '?'}{urlencode(words)}"


def _further(harvest: HarvestProgress, page: RecordPage) -> HarvestProgress:
    """Return the progress after a page; after the last page with the start of the next list, a datestamp."""
    # The next list starts from the newest datestamp of this list, but not from one in the future by the clock
    # of the repository, which would hide all records until then.
    begun = harvest.begun if harvest.token else page.moment if _DATESTAMP.fullmatch(page.moment) else ""
    stamps = [each.datestamp for each in page.records if _DATESTAMP.fullmatch(each.datestamp)]
    newest = max([harvest.newest if harvest.token else "", *stamps])
    if page.token:
        return replace(harvest, token=page.token, begun=begun, newest=newest)
    if begun and newest[:_DAY] > begun[:_DAY]:
        newest = begun[: len(newest)]
    return replace(harvest, token="", begun="", newest="", since=newest or harvest.since)


def _record(each: OaiRecord, host: str) -> SourceRecord:
    """Return a record of OAI-PMH as a record with an item, or with an error."""
    name = printable(each.identifier)
    if not each.identifier:
        return SourceRecord(0, name, BadItem("the record has no identifier"), 0)
    if each.deleted:
        return record(0, name, {"key": each.identifier, "state": "Deleted"}, 0)
    value = item_of(each, host)
    if "url" not in value:
        return SourceRecord(0, name, BadItem("the record does not say where the item lives"), 0)
    return record(0, name, value, 0)


def _requested_pause(headers: Mapping[str, str]) -> int:
    """Return the seconds of Retry-After: a number, or a date, which is compared with the answer's date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        until = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
        return max(0, round(until.total_seconds()))
    except (TypeError, ValueError):
        # TypeError: one date has a time zone and the other has none.
        return _USUAL_PAUSE


_OAI: Final = "http://www.openarchives.org/OAI/2.0/"
_DC: Final = "http://purl.org/dc/elements/1.1/"
_LANG: Final = "http://www.w3.org/XML/1998/namespace lang"
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_DEEPEST: Final = 64
_MOST_RECORDS: Final = 20_000  # records on one page
_LONGEST_REASON: Final = 200  # characters of a repository's reason that are shown
_PIECE: Final = 1 << 14


@dataclass(slots=True)
class RecordPage:
    """An answer to ListRecords. `token`: "" on the last page; `fault`, `words`: code and text of an error."""

    moment: str = ""
    records: list[OaiRecord] = field(default_factory=list)
    token: str = ""
    fault: str = ""
    words: str = ""


class PageReader:
    """Parses one answer. `feed` and `close` raise PeerGarbled for an answer that is not OAI-PMH."""

    def __init__(self) -> None:
        self._page = RecordPage()
        self._path: list[str] = []
        self._text: list[str] = []
        self._language = ""
        self._record: OaiRecord | None = None
        self._in_metadata = False
        self._waiting = bytearray()
        self._read = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = _refuse
        self._parser.EntityDeclHandler = _refuse
        self._parser.ExternalEntityRefHandler = _refuse
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def feed(self, chunk: bytes) -> None:
        """Parse a further piece."""
        # Some kilobytes at a time, and larger pieces for longer pages: with each piece expat scans an
        # unfinished token again from its start, so the time would grow with the square of its length.
        self._waiting += chunk
        if len(self._waiting) >= max(_PIECE, self._read // 8):
            self._parse(last=False)

    def close(self) -> RecordPage:
        """Parse the rest, and return the page."""
        self._parse(last=True)
        return self._page

    def _parse(self, *, last: bool) -> None:
        chunk = bytes(self._waiting)
        self._waiting.clear()
        self._read += len(chunk)
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "")
            problem = "the answer is not XML in line {line}: {reason}"
            raise PeerGarbled(problem, line=error.lineno, reason=reason) from None
        except (ValueError, LookupError):  # an unknown encoding
            raise PeerGarbled("the answer is in an unknown encoding") from None

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) == 1 and name != f"{_OAI} OAI-PMH":
            raise PeerGarbled("the answer does not come from an OAI-PMH repository")
        if len(self._path) > _DEEPEST:
            raise PeerGarbled("the answer is nested too deeply")
        record = self._record
        if record is None:
            if name == f"{_OAI} record":
                self._record = OaiRecord()
            elif name == f"{_OAI} error":
                self._page.fault = attributes.get("code", "")[:_LONGEST_REASON] or "error"
        elif name == f"{_OAI} header":
            record.deleted = attributes.get("status") == "deleted"
        elif name == f"{_OAI} metadata":
            self._in_metadata = True
        elif self._in_metadata:
            self._language = attributes.get(_LANG, "")

    def _end(self, name: str) -> None:
        self._path.pop()
        text = " ".join("".join(self._text).split())
        self._text.clear()
        space, _, local = name.rpartition(" ")
        if self._record is None:
            self._end_outside(name, text)
        elif space == _OAI:
            self._end_of_record(self._record, local, text)
        elif self._in_metadata and space == _DC and local in ELEMENTS and text:
            language = self._language if _LANGUAGE.fullmatch(self._language) else ""
            self._record.values.append((local, text, language))

    def _end_outside(self, name: str, text: str) -> None:
        if name == f"{_OAI} responseDate":
            self._page.moment = text[:_LONGEST_REASON]
        elif name == f"{_OAI} resumptionToken":
            self._page.token = text
        elif name == f"{_OAI} error":
            self._page.words = text[:_LONGEST_REASON]

    def _end_of_record(self, record: OaiRecord, local: str, text: str) -> None:
        if local == "identifier" and not self._in_metadata:
            record.identifier = record.identifier or text
        elif local == "datestamp" and not self._in_metadata:
            record.datestamp = record.datestamp or text
        elif local == "metadata":
            self._in_metadata = False
        elif local == "record":
            if len(self._page.records) >= _MOST_RECORDS:
                raise PeerGarbled("the answer has more than {most} records", most=_MOST_RECORDS)
            self._page.records.append(record)
            self._record = None


def _refuse(*_: object) -> int:
    raise PeerGarbled("the answer contains a document type or an entity, which is not accepted")
