"""Administration pages besides those of items: the Archive itself, its tokens, and its exchange with others.

An import form first does a dry run, and then, after a confirmation, the import of the same file.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.accounts.layout import ROOT, Form, PageHandler
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import accounts
from ibi.api.operation_pages import form_fields
from ibi.archive.ingest.importing import format_of
from ibi.archive.ingest.sources.table import TableColumns
from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.operations import exchange, ingest, membership
from ibi.archive.pages.statistics import Statistics
from ibi.archive.preservation.audit import SERVED_AUDIT
from ibi.archive.preservation.status import outgoing_facts
from ibi.archive.store.tables import fixity, history, listings, memberships, transfers
from ibi.archive.store.tables.listings import count_unsettled
from ibi.errors import BadItem, IbiError
from ibi.identifier.unwrapping import unwrap
from ibi.runtime.settings import ArchiveSettings, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import PageRequest
    from ibi.accounts.tokens import Token
    from ibi.api.accounts import AccountContext
    from ibi.archive.api.imports import Imports
    from ibi.archive.ingest.batch import ImportReport, RecordNotice, RefusedRecord
    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.memberships import MembershipRecord
    from ibi.archive.store.tables.usage import UsageRow


_RECENT: Final = 20
_MOST_FAULTS: Final = 1000  # faulty files that are listed
_MONTHS: Final = 36
_LONGEST_NAME: Final = 200  # characters of a name
_LONGEST_PREVIEWED: Final = 300  # characters of the values of an element of a record


@dataclass(frozen=True, slots=True)
class ArchiveHealth:
    """The state of an Archive: counts of items, files and bytes, free disk space, and problems."""

    states: Mapping[str, int]
    files: int
    size: int
    free: int
    faults: int
    audited: str
    """When the present audit began, "" before the first one."""
    lagging: int
    unsettled: int
    """Originals that came back from a backup and are not settled."""
    transfers: int
    members: Sequence[MembershipRecord]
    switched_on: bool


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The first page: the state of the Archive, and the latest changed items."""

    health: ArchiveHealth
    recent: Sequence[Holding]


@dataclass(frozen=True, slots=True)
class MembershipPage:
    """The memberships of the Archive; after joining, `key` and `command` for the resolver's administrator.

    `unconfirmed`: what was not confirmed: "switch", or the URL of the resolver that was to be left.
    """

    settings: ArchiveSettings
    resolvers: Sequence[tuple[str, MembershipRecord | None]]
    joined: str = ""
    key: str = ""
    command: str = ""
    resolver: str = ""
    unconfirmed: str = ""


@dataclass(frozen=True, slots=True)
class StatisticsPage:
    """Visits to all items, by month."""

    months: Sequence[UsageRow]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """The damaged files, and how far the present audit has come."""

    health: ArchiveHealth
    faults: Sequence[KnownFault]
    days: int


@dataclass(frozen=True, slots=True)
class TokensPage:
    """The tokens of programs; `made`: a new token, shown only now; `name` and `scopes` as typed.

    `unconfirmed`: the token whose revocation was not confirmed.
    """

    tokens: Sequence[Token]
    made: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ()
    unconfirmed: str = ""


@dataclass(frozen=True, slots=True)
class CopyPage:
    """The form that copies an item: the typed values, and the resolver that can be asked."""

    ibi: str = ""
    archive: str = ""
    resolver: str = ""


@dataclass(frozen=True, slots=True)
class TransferPage:
    """The form that hands an original over to one of the `peers`, and the hand-overs that are under way."""

    holding: Holding | None
    peers: Mapping[str, str]
    under_way: Sequence[Mapping[str, Any]]


class PreviewRecord(NamedTuple):
    """One record of a file as it will be: the texts of some elements, and where its data are, or its problem."""

    line: int
    name: str
    texts: Mapping[str, str]
    place: str = ""
    problem: IbiError | None = None


@dataclass(frozen=True, slots=True)
class ImportPage:
    """The form for an import, the result of a dry run, or that of the import.

    `report`: the fields of an ImportReport; `refused`: the first refused records, each as line, name and
    reason; `notices`: the first notices about records, likewise; `upload`: the file that waits for a
    confirmation, `name`: its name at the client; `columns`: of a table, or the fields that items do not have;
    `preview`: the first records as they will be.
    """

    report: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[tuple[int, str, IbiError]] = ()
    notices: Sequence[tuple[int, str, IbiError]] = ()
    upload: str = ""
    name: str = ""
    format: str = ""
    update: bool = False
    done: bool = False
    columns: TableColumns = TableColumns()  # noqa: RUF009 - an immutable value
    preview: Sequence[PreviewRecord] = ()


class OtherPages:
    """The pages besides those of items. `context_of`, `accounts_of` make the context of operations."""

    def __init__(
        self,
        directory: DataDirectory,
        catalogue: Catalogue,
        context_of: Callable[[PageRequest], ArchiveContext],
        accounts_of: Callable[[PageRequest], AccountContext],
        imports: Imports,
        audit_days: int,
    ) -> None:
        self._data = directory.path
        self._catalogue = catalogue
        self._context_of = context_of
        self._accounts_of = accounts_of
        self._imports = imports
        self._audit_days = audit_days
        self._tokens = Tokens(directory.path)

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of each page, by the word in its path."""
        return {
            "": PageHandler(Scope.READ, self._overview),
            "copy": PageHandler(Scope.TRANSFER, self._copy_form, self._copy),
            "transfer": PageHandler(Scope.TRANSFER, self._transfer_form, self._transfer),
            "import": PageHandler(Scope.ADMIN, self._import_form, self._import, files=True),
            "membership": PageHandler(Scope.ADMIN, self._membership_form, self._change_membership),
            "statistics": PageHandler(Scope.READ, self._statistics),
            "audit": PageHandler(Scope.READ, self._audit),
            "tokens": PageHandler(Scope.ADMIN, self._tokens_form, self._change_tokens),
        }

    def _overview(self, _visit: PageRequest, _typed: Form | None) -> OverviewPage:
        """Return the state of the Archive, and the items that were changed last, the latest first."""
        with self._catalogue.reading() as run:
            # Found by events, not by timestamps, because imported items may have old timestamps.
            items = listings.holdings(run, history.recent_items(run, _RECENT))
        recent = sorted(items.values(), key=lambda each: (each.timestamp, each.number), reverse=True)
        return OverviewPage(self._health(), recent)

    def _health(self) -> ArchiveHealth:
        """Read the state of the Archive from its tables and its disk. Raises SetupError."""
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            files, size = fixity.total(run)
            place = fixity.position_of(run, SERVED_AUDIT)
            known = memberships.all_memberships(run)
            return ArchiveHealth(
                states={state.value: count for state, count in listings.count_states(run).items()},
                files=files,
                size=size,
                free=shutil.disk_usage(self._data).free,
                faults=len(fixity.faults(run, _MOST_FAULTS)),
                audited=timestamp_text(int(place.begun)) if place else "",
                lagging=listings.lagging(run)[0],
                unsettled=count_unsettled(run),
                transfers=len(transfers.open_outgoing(run)),
                members=[known[url] for url in resolvers.keys if url in known],
                switched_on=resolvers.settings.switched_on,
            )

    def waiting(self) -> dict[str, int]:
        """Count what waits for a person, by the word of the page where it is. Raises SetupError."""
        with self._catalogue.reading() as run:
            known = memberships.all_memberships(run)
            return {
                "audit": len(fixity.faults(run, _MOST_FAULTS)),
                "transfer": len(transfers.open_outgoing(run)),
                "membership": sum(each.problem is not None for each in known.values()),
            }

    def _statistics(self, _visit: PageRequest, _typed: Form | None) -> StatisticsPage:
        """Return the visits to all items together, the latest month first."""
        lines = Statistics(self._catalogue).of_all()
        latest = sorted({line.month for line in lines}, reverse=True)[:_MONTHS]
        return StatisticsPage([line for month in latest for line in lines if line.month == month])

    def _audit(self, _visit: PageRequest, _typed: Form | None) -> AuditPage:
        with self._catalogue.reading() as run:
            faults = fixity.faults(run, _MOST_FAULTS)
        return AuditPage(self._health(), faults, self._audit_days)

    def _membership_form(self, _visit: PageRequest, typed: Form | None) -> MembershipPage:
        """Return the state of the Archive at each of its resolvers."""
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            known = memberships.all_memberships(run)
        listed = [(url, known.get(url)) for url in resolvers.keys]
        page = MembershipPage(resolvers.settings, listed)
        if typed is None:
            return page
        match typed.one("what"):
            case "switch":
                return replace(page, unconfirmed="switch")
            case "leave":
                return replace(page, unconfirmed=typed.one("resolver"))
        return replace(page, resolver=typed.one("resolver"))

    def _change_membership(self, visit: PageRequest, form: Form) -> MembershipPage | str:
        """Switch on or off, join or leave; the running Archive follows within a second."""
        context = self._context_of(visit)
        match form.one("what"):
            case "switch":
                switch = form_fields(membership.SwitchFields, form)
                if not switch.switched_on:
                    form.check_confirmed()
                switched = membership.switch(context, switch)
                return f"{ROOT}/membership?done=switched-{'on' if switched['switched_on'] else 'off'}"
            case "leave":
                form.check_confirmed()
                membership.leave(context, form_fields(membership.ResolverFields, form))
                return f"{ROOT}/membership?done=left"
            case "join":
                joined = membership.join(context, form_fields(membership.JoinFields, form))
                page = self._membership_form(visit, None)
                return replace(page, joined=joined["resolver"], key=joined["key"], command=joined["command"])
        raise BadItem("this is not the form of this page; open the page again")

    def _copy_form(self, _visit: PageRequest, typed: Form | None) -> CopyPage:
        typed = typed or Form()
        return CopyPage(typed.one("ibi"), typed.one("archive"), ArchiveSettings.read(self._data).resolver)

    def _copy(self, visit: PageRequest, form: Form) -> str:
        """Copy an item whose original another Archive holds."""
        fields = form_fields(exchange.CopyFields, form)
        exchange.copy(self._context_of(visit), fields)
        copy = self._catalogue.settled(unwrap(fields.ibi).ibi)
        return f"{ROOT}/items/{copy.forms.main}?done=copied"

    def _transfer_form(self, visit: PageRequest, _typed: Form | None) -> TransferPage:
        """Return the peers that the item may go to, and the hand-overs that are under way."""
        holding = self._catalogue.settled(visit.name) if visit.rest else None
        return TransferPage(holding, self.peers(), self._under_way())

    def peers(self) -> dict[str, str]:
        """Return the Archives that originals can go to: name -> root URL. Raises SetupError."""
        return {name: peer.address for name, peer in Peer.read_tables(self._data).items() if peer.token}

    def _under_way(self) -> list[dict[str, Any]]:
        """Return the hand-overs that have not ended, with their problems as errors, not as sentences."""
        with self._catalogue.reading() as run:
            return [
                {**outgoing_facts(run, transfer, str), "problem": transfer.problem}
                for transfer in transfers.open_outgoing(run)
            ]

    def _transfer(self, visit: PageRequest, form: Form) -> str:
        """Start a hand-over, which the running Archive then continues by itself; or take an item back."""
        context = self._context_of(visit)
        if form.many("transfer"):
            exchange.cancel(context, form_fields(exchange.TransferFields, form))
            return f"{ROOT}/transfer?done=taken-back"
        fields = form_fields(exchange.OfferFields, form, ibi=str(visit.name))
        if form.one("sure") != "yes":
            raise BadItem("tick the box to confirm: the other Archive will hold the original")
        exchange.offer(context, fields)
        return f"{ROOT}/transfer?done=offered"

    def _import_form(self, _visit: PageRequest, typed: Form | None) -> ImportPage:
        return (
            ImportPage(format=typed.one("format"), update=typed.one("update") == "yes")
            if typed
            else ImportPage()
        )

    def _import(self, visit: PageRequest, form: Form) -> ImportPage:
        """Do a dry run of a new file, or import the file of an earlier dry run."""
        fields, who = form_fields(ingest.ImportFields, form), visit.signed.name
        if fields.upload:
            name = form.one("name")[:_LONGEST_NAME]
            kind = fields.format or format_of(Path(name))
            result = self._imports.take(who, fields.upload, kind, update=fields.update)
            return ImportPage(*_reported(*result), "", name, kind, fields.update, done=True)
        if len(form.files) != 1:
            raise BadItem("choose one file with records: JSON lines, BibTeX, RIS or CSV")
        name, file = next(iter(form.files.items()))
        kind = fields.format or format_of(Path(name))
        with self._imports.kept(who, file, name[:_LONGEST_NAME]) as upload:
            columns, records = self._imports.look(who, upload, kind)
            if kind == "csv" and columns.unknown:
                problem = "columns that are not known: {unknown}; rename or remove them. Known ones: {known}"
                known, unknown = (", ".join(names) or "-" for names in columns)
                raise BadItem(problem, known=known, unknown=unknown)
            result = self._imports.try_out(who, upload, kind, update=fields.update)
            page = ImportPage(*_reported(*result), upload, name, kind, fields.update, columns=columns)
            return replace(page, preview=[_previewed(each) for each in records])

    def _tokens_form(self, _visit: PageRequest, typed: Form | None) -> TokensPage:
        typed = typed or Form()
        if typed.one("what") == "revoke":
            return TokensPage(self._tokens.all(), unconfirmed=typed.one("name"))
        return TokensPage(self._tokens.all(), name=typed.one("name"), scopes=tuple(typed.many("scopes")))

    def _change_tokens(self, visit: PageRequest, form: Form) -> TokensPage | str:
        """Make a token, which is shown only once, or revoke one."""
        context = self._accounts_of(visit)
        if form.one("what") == "revoke":
            form.check_confirmed()
            accounts.revoke_token(context, form_fields(accounts.TokenName, form))
            return f"{ROOT}/tokens?done=revoked"
        made = accounts.make_token(context, form_fields(accounts.NewToken, form))
        return replace(self._tokens_form(visit, None), made=made["token"], name=made["name"])


def _previewed(record: SourceRecord) -> PreviewRecord:
    """Return a record as a page shows it."""
    draft = record.draft
    if isinstance(draft, IbiError):
        return PreviewRecord(record.line, record.name, {}, problem=draft)
    values = draft.facts.get("metadata") or {}
    texts = {
        element: "; ".join(str(value) for value, _ in values.get(element, ()))[:_LONGEST_PREVIEWED]
        for element in ("title", "creator", "date", "type")
    }
    return PreviewRecord(record.line, record.name, texts, draft.facts.get("url") or ", ".join(draft.files))


def _reported(
    report: ImportReport, refused: Sequence[RefusedRecord], notices: Sequence[RecordNotice]
) -> tuple[dict[str, int], list[tuple[int, str, IbiError]], list[tuple[int, str, IbiError]]]:
    """Return the `report`, `refused` and `notices` of an ImportPage."""
    reasons = [(each.line, each.name, each.why) for each in refused]
    return asdict(report), reasons, [(each.line, each.name, each.note) for each in notices]
