"""The OAI-PMH repository of one Archive: six verbs, answered from the index and the catalogue (OAI-PMH 2.0, 4).

    GET /-/oai?verb=ListRecords&metadataPrefix=oai_dc        POST with the same as a form

A record is an item, its identifier `oai:<domain>:<ibi>`, its datestamp the moment when the index last saw it change.
Items that are metadata of others, and the Archive's own service item, are no records. Removed items are told for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.access import day_of
from ibi.archive.holding import Access
from ibi.archive.ledgers import numbered
from ibi.archive.oai import envelope
from ibi.archive.oai.asking import Fault, read_question
from ibi.archive.oai.envelope import Header
from ibi.archive.oai.lists import Lists
from ibi.archive.oai.sets import known_parts, specs_of
from ibi.archive.oai.tokens import Tokens
from ibi.archive.website.formats import Described, described
from ibi.errors import ParseError
from ibi.exchange import host_of
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ContentType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.finding.index import Entry, Index
    from ibi.archive.holding import Holding
    from ibi.archive.oai.asking import Question
    from ibi.archive.oai.formats import RecordFormat
    from ibi.settings import ArchiveSettings

OAI: Final = "/-/oai"
"""The path of the repository."""

SETTLING: Final = 5
"""Seconds that the index may take to write what has changed: by so much a responseDate is earlier than the answer."""

_NO_ECHO: Final = frozenset({"badVerb", "badArgument"})
"""The errors whose answers repeat no arguments (3.2)."""


class Provider:
    """Answers harvesters of one Archive. `formats`: how records are written, oai_dc among them; `now`: POSIX seconds.

    May be used from several threads.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        index: Index,
        formats: Sequence[RecordFormat],
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._index = index
        self._formats: Mapping[str, RecordFormat] = {each.prefix: each for each in formats}
        self._now = now
        self._base = f"http://{settings.address}"
        self._domain = host_of(settings.address)
        service = catalogue.holding(settings.service.main)
        self._service = service.number if service is not None else 0
        tokens = Tokens(bytes.fromhex(settings.secret), now)
        self._lists = Lists(index, tokens, self._service)
        self._verbs: Mapping[str, Callable[[Question], str]] = {
            "Identify": self._identify,
            "ListMetadataFormats": self._list_formats,
            "ListSets": self._list_sets,
            "GetRecord": self._get_record,
            "ListIdentifiers": self._list_identifiers,
            "ListRecords": self._list_records,
        }

    def answer(self, raw: str) -> bytes:
        """The answer to a query as it came over the wire, as XML. Raises SetupError while nothing can be answered."""
        moment = int(self._now()) - SETTLING  # who asks from then on the next time misses nothing
        asked: Mapping[str, str] = {}
        try:
            question = read_question(raw)
            asked = {"verb": question.verb, **question.arguments}
            inside = self._verbs[question.verb](question)
        except Fault as fault:
            asked = {} if fault.code in _NO_ECHO else asked
            inside = envelope.fault(fault)
        return envelope.document(f"{self._base}{OAI}", moment, asked, inside)

    def _identify(self, _question: Question) -> str:
        settings = self._settings
        earliest = self._index.earliest()
        samples = [entry.name for entry in self._index.changed((0, 0), None, None, "data", 2)]
        service = str(settings.service.main)
        sample = next((name for name in samples if name != service), service)
        return envelope.identify(
            f"{self._base}{OAI}",
            settings.address,
            settings.admin,
            int(self._now()) if earliest is None else earliest,
            self._domain,
            self._identifier(sample),
        )

    def _list_formats(self, question: Question) -> str:
        if question["identifier"]:
            self._item(question["identifier"])
        return envelope.formats(self._formats.values())

    def _list_sets(self, question: Question) -> str:
        if question.arguments:
            raise Fault("badResumptionToken", "the list of sets has one page only")
        return envelope.sets(known_parts({what: self._index.parts(what) for what in ("kind", "language")}))

    def _get_record(self, question: Question) -> str:
        holding, entry = self._item(question["identifier"])
        format_ = self._formats.get(question["metadataPrefix"])
        if format_ is None:
            raise _no_format(question["metadataPrefix"])
        return envelope.listed("GetRecord", (self._record(entry, holding, format_),), None)

    def _list_identifiers(self, question: Question) -> str:
        chosen = self._lists.page(question, self._formats)
        lines = (
            envelope.header(self._header(entry, holding)) for entry, holding in self._held(chosen.entries)
        )
        return envelope.listed(question.verb, lines, chosen.ending)

    def _list_records(self, question: Question) -> str:
        chosen = self._lists.page(question, self._formats)
        format_ = self._formats[chosen.prefix]
        lines = (self._record(entry, holding, format_) for entry, holding in self._held(chosen.entries))
        return envelope.listed(question.verb, lines, chosen.ending)

    def _held(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Holding]]:
        """The items of entries, all read together."""
        with self._catalogue.reading() as run:
            found = numbered.holdings(run, [entry.number for entry in entries])
        return ((entry, found[entry.number]) for entry in entries if entry.number in found)

    def _item(self, identifier: str) -> tuple[Holding, Entry]:
        """The item of an identifier of ours, and its entry. Raises Fault."""
        unknown = Fault("idDoesNotExist", "there is no record of this identifier here")
        start = f"oai:{self._domain}:"
        if identifier[: len(start)].lower() != start:
            raise unknown
        try:
            holding = self._catalogue.holding(parse_name(identifier[len(start) :]))
        except ParseError:
            raise unknown from None
        if holding is None or holding.content_type is ContentType.METADATA or holding.number == self._service:
            raise unknown
        entry = self._index.entry_of(holding.number)
        if entry is None:
            raise unknown
        return holding, entry

    def _identifier(self, name: str) -> str:
        return f"oai:{self._domain}:{name}"

    def _header(self, entry: Entry, holding: Holding) -> Header:
        has_data = bool(holding.deleted or holding.url or holding.files)
        is_open = has_data and holding.access_on(day_of(self._now())) is Access.OPEN
        specs = specs_of(entry.kind, entry.language, is_open=is_open)
        return Header(self._identifier(str(holding.forms.main)), entry.stamp, specs, holding.deleted)

    def _record(self, entry: Entry, holding: Holding, format_: RecordFormat) -> str:
        metadata = "" if holding.deleted else format_.write(self._described(holding))
        return envelope.record(self._header(entry, holding), metadata)

    def _described(self, holding: Holding) -> Described:
        """What is known of an item; of one of which nothing is said, its name."""
        resolver, archive, day = self._settings.resolver, self._settings.address, day_of(self._now())
        told = described(self._catalogue.holding, holding, self._base, resolver, archive, day)
        return told or Described(holding, {}, self._base, (resolver or self._base).rstrip("/"), archive, day)


def _no_format(prefix: str) -> Fault:
    return Fault("cannotDisseminateFormat", f"there are no records in the format {prefix[:60]}")
