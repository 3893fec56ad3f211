"""Answers of OAI-PMH repositories: pages of records, parsed piece by piece, and each record as an item.

A document type or an entity ends the parsing, and nothing is ever fetched from elsewhere (threat T23).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from xml.parsers import expat

from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.record_values import doi_address, language_of, names_in, web_address
from ibi.errors import PeerGarbled

if TYPE_CHECKING:
    from collections.abc import Mapping

_OAI: Final = "http://www.openarchives.org/OAI/2.0/"
_DC: Final = "http://purl.org/dc/elements/1.1/"
_LANG: Final = "http://www.w3.org/XML/1998/namespace lang"
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_DEEPEST: Final = 64
_MOST_RECORDS: Final = 20_000
_LONGEST_REASON: Final = 200
_PIECE: Final = 1 << 14


@dataclass(slots=True)
class OaiRecord:
    """A record: its header, and its Dublin Core as (element, text, language)."""

    identifier: str = ""
    datestamp: str = ""
    deleted: bool = False
    values: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class RecordPage:
    """An answer to ListRecords. `token`: "" on the last page; `fault`: the code of an error, `words`: its text."""

    moment: str = ""
    records: list[OaiRecord] = field(default_factory=list)
    token: str = ""
    fault: str = ""
    words: str = ""


class PageReader:
    """Parses one answer. `feed` and `close` raise PeerGarbled for anything but an answer of an OAI-PMH repository."""

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
        # Some kilobytes at a time, and the more the longer the page is: expat scans an unfinished token from its start
        # with each piece, which would make the time grow with the square of its length.
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
    raise PeerGarbled("the answer has a document type or an entity in it, which nobody should send")


def item_of(record: OaiRecord, host: str) -> dict[str, Any]:
    """Make the object of a record, as in a JSON line; `host` is the repository's.

    Its URL is its landing page: the first of its URLs that is on the repository's own host, else the first, else that
    of its DOI. A record that has an IBI already is a copy under that name, and gets no other (ARC-04).
    """
    values: dict[str, list[Any]] = {}
    for element, text, language in record.values:
        values.setdefault(element, []).append({"value": text, "lang": language} if language else text)
    texts = [text for element, text, _ in record.values if element == "identifier"]
    value: dict[str, Any] = {"key": record.identifier, "metadata": values}
    if record.datestamp:
        value["timestamp"] = record.datestamp
    # Its IBIs may stand bare, as persistent URLs, or after oai:host:.
    own = record.identifier.split(":", 2)[2:] if record.identifier.startswith("oai:") else []
    names = names_in([*own, *texts], only_names=True)
    if forms := {form: names[form] for form in ("rep", "ibip") if form in names}:
        value |= forms | {"state": "Copy"}
    if (url := _landing_page(texts, host)) is not None:
        value["url"] = url
    spoken = (language_of(text) for element, text, _ in record.values if element == "language")
    if (tag := next(filter(None, spoken), None)) is not None:
        value["language"] = tag
    return value


def _landing_page(texts: list[str], host: str) -> str | None:
    urls = [url for text in texts if (url := web_address(text)) is not None]
    at_home = (url for url in urls if _host(url) == host.lower())
    by_doi = (url for text in texts if (url := doi_address(text)) is not None)
    return next(at_home, None) or next(iter(urls), None) or next(by_doi, None)


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
