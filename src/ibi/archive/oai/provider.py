"""The OAI-PMH repository of one Archive: answers from the index and the catalogue (OAI-PMH 2.0, 3.1, 4).

    GET /-/oai?verb=ListRecords&metadataPrefix=oai_dc        or POST, with the same arguments as a form

Each record is an item. Its identifier is `oai:<domain>:<ibi>`, and its datestamp is the moment when the index
last recorded a change of it. Items that are metadata of others, and the Archive's own service item, are no
records. Removed items stay as deleted records for ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.api.bodies import Body
from ibi.api.routes import in_quick_thread
from ibi.archive.model.access import day_of
from ibi.archive.model.formats import DescribedItem, described
from ibi.archive.model.item import Access
from ibi.archive.model.relations import DUBLIN_CORE
from ibi.archive.oai import envelope
from ibi.archive.oai.envelope import xml_text
from ibi.archive.oai.lists import RecordLists, ResumptionTokens
from ibi.archive.oai.request import OaiError, known_sets, no_format, read_request, specs_of
from ibi.archive.search.search import facet_values
from ibi.archive.store.links import with_links
from ibi.archive.store.tables import listings
from ibi.errors import IbiError, NotHeld, ParseError, SetupError, Unsettled
from ibi.http.limits.token_bucket import client_key
from ibi.http.request import ClientGone, host_of
from ibi.http.response import NO_STORE, PLAIN, Refusal, Response
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import MAX_QUERY
from ibi.protocol.vocabulary import ContentType
from ibi.runtime.settings.institution import Institution

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any

    from ibi.archive.model.item import Holding
    from ibi.archive.oai.envelope import RecordFormat
    from ibi.archive.oai.request import OaiRequest
    from ibi.archive.search.index import IndexEntry, SearchIndex
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.runtime.settings import ArchiveSettings

    Receive = Callable[[], Awaitable[Any]]


OAI: Final = "/-/oai"
"""The path of the repository."""

SETTLING: Final = 5
"""Seconds that a change may take to reach the index; a responseDate is as much earlier than its answer."""

_NO_ECHO: Final = frozenset({"badVerb", "badArgument"})
"""The errors whose answers do not repeat the arguments (3.2)."""


class OaiProvider:
    """Answers the harvesters of one Archive. `formats` must have oai_dc; `now` returns POSIX seconds.

    `node` differs between the nodes that share a store: their indexes have other stamps, so a list that one node has
    begun is refused by the others, and a harvester begins again. May be used from several threads.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        index: SearchIndex,
        formats: Sequence[RecordFormat],
        now: Callable[[], float],
        institution: Institution = Institution(),  # noqa: B008 - an immutable value
        node: str = "",
    ) -> None:
        self._settings = settings
        self._institution = institution
        self._catalogue = catalogue
        self._index = index
        self._formats: Mapping[str, RecordFormat] = {each.prefix: each for each in formats}
        self._now = now
        self._base = settings.root
        self._domain = host_of(settings.address)
        service = catalogue.holding(settings.service.main)
        self._service = service.number if service is not None else 0
        tokens = ResumptionTokens(bytes.fromhex(settings.secret) + node.encode(), now)
        self._lists = RecordLists(index, tokens, self._service)
        self._verbs: Mapping[str, Callable[[OaiRequest], str]] = {
            "Identify": self._identify,
            "ListMetadataFormats": self._list_formats,
            "ListSets": self._list_sets,
            "GetRecord": self._get_record,
            "ListIdentifiers": self._list,
            "ListRecords": self._list,
        }

    def answer(self, raw: str) -> bytes:
        """Answer an encoded query string with XML. Raises SetupError while the index is not ready."""
        # A harvester asks next for the changes since the responseDate. The responseDate is early, so that the
        # harvester does not miss changes that are not in the index yet.
        moment = int(self._now()) - SETTLING
        arguments: Mapping[str, str] = {}
        try:
            request = read_request(raw)
            arguments = {"verb": request.verb, **request.arguments}
            inside = self._verbs[request.verb](request)
        except OaiError as fault:
            arguments = {} if fault.code in _NO_ECHO else arguments
            inside = f'<error code="{fault.code}">{xml_text(fault.words)}</error>\n'
        return envelope.document(f"{self._base}{OAI}", moment, arguments, inside)

    def _identify(self, _request: OaiRequest) -> str:
        settings = self._settings
        earliest = self._index.earliest()
        samples = [entry.name for entry in self._index.changed((0, 0), None, None, "data", 2)]
        service = str(settings.service.main)
        # The sample identifier must be that of a record, and the service item is no record.
        sample = next((name for name in samples if name != service), service)
        return envelope.identify(
            f"{self._base}{OAI}",
            self._institution.text("name", "en") or settings.address,
            settings.admin,
            int(self._now()) if earliest is None else earliest,
            self._domain,
            self._identifier(sample),
            self._institution.text("about", "en") or self._institution.text("welcome", "en"),
        )

    def _list_formats(self, request: OaiRequest) -> str:
        if request["identifier"]:
            self._item(request["identifier"])
        return envelope.formats(self._formats.values())

    def _list_sets(self, request: OaiRequest) -> str:
        if request.arguments:
            raise OaiError("badResumptionToken", "the list of sets has one page only")
        known = {what: facet_values(self._index, what, 1000) for what in ("kind", "language")}
        return envelope.sets(known_sets({what: [each.value for each in known[what]] for what in known}))

    def _get_record(self, request: OaiRequest) -> str:
        holding, entry = self._item(request["identifier"])
        format_ = self._formats.get(request["metadataPrefix"])
        if format_ is None:
            raise no_format(request["metadataPrefix"])
        return envelope.listed("GetRecord", (self._record(entry, holding, format_),))

    def _list(self, request: OaiRequest) -> str:
        entries, prefix, ending = self._lists.page(request, self._formats)
        write = self._header
        if request.verb == "ListRecords":
            write = partial(self._record, format_=self._formats[prefix])
        # Read all together: a look-up for each record would take most of the time.
        with self._catalogue.reading() as run:
            held = listings.holdings(run, [entry.number for entry in entries])
        lines = (write(entry, held[entry.number]) for entry in entries if entry.number in held)
        return envelope.listed(request.verb, lines, ending)

    def _item(self, identifier: str) -> tuple[Holding, IndexEntry]:
        """Find the item of an OAI identifier, and its entry in the index. Raises OaiError, Unsettled."""
        unknown = OaiError("idDoesNotExist", "there is no record of this identifier here")
        start = f"oai:{self._domain}:"
        # Domains are compared without regard to case.
        if identifier[: len(start)].lower() != start:
            raise unknown
        try:
            holding = self._catalogue.holding(parse_name(identifier[len(start) :]))
        except ParseError:
            raise unknown from None
        if holding is None or holding.content_type is ContentType.METADATA or holding.number == self._service:
            raise unknown
        holding.check_settled()
        entry = self._index.entry_of(holding.number)
        if entry is None:
            raise unknown
        return holding, entry

    def _identifier(self, name: str) -> str:
        return f"oai:{self._domain}:{name}"

    def _header(self, entry: IndexEntry, holding: Holding) -> str:
        has_data = bool(holding.deleted or holding.url or holding.files)
        is_open = has_data and holding.access_on(day_of(self._now())) is Access.OPEN
        specs = specs_of(entry.kind, entry.language, is_open=is_open)
        identifier = self._identifier(str(holding.forms.main))
        return envelope.header(identifier, entry.stamp, specs, removed=holding.deleted)

    def _record(self, entry: IndexEntry, holding: Holding, format_: RecordFormat) -> str:
        header = self._header(entry, holding)
        if holding.deleted:
            return envelope.record(header, "")
        resolver, archive, day = self._settings.resolver, self._settings.address, day_of(self._now())
        item = described(self._catalogue.holding, holding, self._base, resolver, archive, day)
        root = (resolver or self._base).rstrip("/")
        # An item without metadata is described by its name.
        item = item or DescribedItem(holding, {}, self._base, root, archive, day)
        item = replace(item, publisher=self._institution.as_publisher)
        # Dublin Core has no place for what links tell, and is written in half the time without them.
        linked = item if format_.prefix == DUBLIN_CORE else with_links(self._catalogue, item)
        return envelope.record(header, format_.write(linked))


MOST_HARVESTERS: Final = 8
"""Requests of harvesters that wait for their answer; more are refused with 503 and Retry-After."""

MOST_OF_ONE: Final = 4
"""Such requests of one client, so that it leaves places to others (T30: slow requests)."""

_XML: Final = "text/xml; charset=utf-8"
_FORM: Final = "application/x-www-form-urlencoded"
_LATER: Final = ("retry-after", "10")


class OaiHandler:
    """Handles requests of harvesters. Errors of HTTP are plain text; all other answers are XML with 200.

    `proxies`: the networks of the trusted proxies, behind which clients are told apart.
    """

    def __init__(self, provider: OaiProvider, close: Callable[[], None], proxies: tuple[str, ...]) -> None:
        self._provider = provider
        self._proxies = proxies
        self.close = close
        """Close what the provider reads from."""
        self._waiting: Counter[str] = Counter()

    async def answer(self, request: Request, receive: Receive) -> Response:
        """Answer one request."""
        try:
            return await self._answer(request, receive)
        except Refusal as refusal:
            return _refused(refusal.status, refusal.why)
        except (SetupError, Unsettled) as error:
            return _refused(503, error, _LATER)
        except ClientGone:
            return Response(400)  # to a closed connection

    async def _answer(self, request: Request, receive: Receive) -> Response:
        if request.path != OAI:
            return _refused(404, NotHeld("there is no such page here"))
        query = request.query
        if request.method == "POST":
            # The form in the body is appended to the query.
            body = Body(request, receive, MAX_QUERY)
            if body.kind != _FORM:
                why = IbiError("a question is a form: Content-Type: application/x-www-form-urlencoded")
                return _refused(415, why)
            form = b"".join([piece async for piece in body.pieces()]).decode("latin-1")
            query = "&".join(filter(None, (query, form)))
        elif not request.reads:
            why = IbiError("only GET, HEAD and POST are understood here")
            return _refused(405, why, ("allow", "GET, HEAD, POST"))
        return await self._waited(client_key(request.trusted_address(self._proxies) or ""), query)

    async def _waited(self, client: str, query: str) -> Response:
        """Answer a question in a thread, unless too many wait, of all clients or of this one."""
        # Harvesters understand 503, and repeat the request after the seconds of Retry-After (3.1.2.2).
        if self._waiting.total() >= MOST_HARVESTERS or self._waiting[client] >= MOST_OF_ONE:
            return _refused(503, IbiError("too many harvesters are asking at once; ask again later"), _LATER)
        self._waiting[client] += 1
        try:
            return Response(200, await in_quick_thread(self._provider.answer, query), _XML, NO_STORE)
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]


def _refused(status: int, why: IbiError, *headers: tuple[str, str]) -> Response:
    return Response(status, f"{why}\n".encode("utf-8", "replace"), PLAIN, (*headers, *NO_STORE))
