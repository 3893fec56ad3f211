"""Administration pages for the Archive itself: overview, statistics, audit, memberships, tokens."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.accounts.layout import ROOT, PageHandler
from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.membership.founding import register_command
from ibi.archive.membership.joining import Resolvers, root_url
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.pages.statistics import Statistics
from ibi.archive.preservation.audit import WALK
from ibi.archive.store.tables import fixity, history, listings, memberships, transfers
from ibi.errors import BadItem
from ibi.identifier.forms import parse_name
from ibi.runtime.settings import settings_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ibi.accounts.layout import Form, PageRequest
    from ibi.accounts.tokens import Token
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.memberships import MembershipRecord
    from ibi.archive.store.tables.usage import UsageRow
    from ibi.runtime.settings import ArchiveSettings


_RECENT: Final = 20
_MOST_NAMES: Final = 8  # of one item
_MOST_FAULTS: Final = 1000
_MONTHS: Final = 36


@dataclass(frozen=True, slots=True)
class ArchiveHealth:
    """The state of an Archive: counts of items, files and bytes, the disk, and what needs attention."""

    states: Mapping[str, int]
    files: int
    size: int
    free: int
    faults: int
    audited: str
    """When the present audit began, "" before the first one."""
    lagging: int
    transfers: int
    members: Sequence[MembershipRecord]
    switched_on: bool


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The first page: the state of the Archive, and the items that were changed last."""

    health: ArchiveHealth
    recent: Sequence[Holding]


@dataclass(frozen=True, slots=True)
class MembershipPage:
    """The memberships of the Archive; `key` and `command` after it has joined, for the resolver's administrator."""

    settings: ArchiveSettings
    resolvers: Sequence[tuple[str, MembershipRecord | None]]
    joined: str = ""
    key: str = ""
    command: str = ""
    url: str = ""


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
    """The tokens of programs; `made`: a new one, shown this once; `name` and `scopes` as typed."""

    tokens: Sequence[Token]
    made: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ()


class OverviewPages:
    """The pages of the Archive itself. `moment` gives the time, as tokens record when they were made."""

    def __init__(self, data: Path, catalogue: Catalogue, audit_days: int, moment: Callable[[], str]) -> None:
        self._data = data
        self._catalogue = catalogue
        self._audit_days = audit_days
        self._tokens = Tokens(data)
        self._moment = moment

    def handlers(self) -> dict[str, PageHandler]:
        """The handler of each page, by the word in its address."""
        return {
            "": PageHandler(Scope.READ, self._overview),
            "membership": PageHandler(Scope.ADMIN, self._membership, self._change_membership),
            "statistics": PageHandler(Scope.READ, self._statistics),
            "audit": PageHandler(Scope.READ, self._audit),
            "tokens": PageHandler(Scope.ADMIN, self._tokens_form, self._change_tokens),
        }

    def _overview(self, _visit: PageRequest, _typed: Form | None) -> OverviewPage:
        """The state of the Archive, and the items that were changed last, the latest first."""
        with self._catalogue.reading() as run:
            # Events, not timestamps: an import may carry timestamps of long ago.
            last = history.newest_change(run)
            names = history.changed_names(run, max(0, last - _RECENT), last, _RECENT * _MOST_NAMES) or []
        found = [self._catalogue.holding(parse_name(name)) for name in names]
        items = {each.number: each for each in found if each is not None}
        recent = sorted(items.values(), key=lambda each: (each.timestamp, each.number), reverse=True)
        return OverviewPage(self._health(), recent)

    def _health(self) -> ArchiveHealth:
        """Read the state of the Archive from its tables and its disk. Raises SetupError."""
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            files, size = fixity.total(run)
            place = fixity.position_of(run, WALK)
            known = memberships.all_memberships(run)
            return ArchiveHealth(
                states={state.value: count for state, count in listings.count_states(run).items()},
                files=files,
                size=size,
                free=shutil.disk_usage(self._data).free,
                faults=len(fixity.faults(run, _MOST_FAULTS)),
                audited=timestamp_text(int(place.begun)) if place else "",
                lagging=listings.lagging(run)[0],
                transfers=len(transfers.open_outgoing(run)),
                members=[known[url] for url in resolvers.keys if url in known],
                switched_on=resolvers.settings.switched_on,
            )

    def _statistics(self, _visit: PageRequest, _typed: Form | None) -> StatisticsPage:
        """The visits to all items together, the latest month first."""
        lines = Statistics(self._catalogue).of_all()
        latest = sorted({line.month for line in lines}, reverse=True)[:_MONTHS]
        return StatisticsPage([line for month in latest for line in lines if line.month == month])

    def _audit(self, _visit: PageRequest, _typed: Form | None) -> AuditPage:
        with self._catalogue.reading() as run:
            faults = fixity.faults(run, _MOST_FAULTS)
        return AuditPage(self._health(), faults, self._audit_days)

    def _membership(self, _visit: PageRequest, typed: Form | None) -> MembershipPage:
        """How the Archive stands at each of its resolvers."""
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            known = memberships.all_memberships(run)
        listed = [(url, known.get(url)) for url in resolvers.keys]
        return MembershipPage(resolvers.settings, listed, url=typed.one("url") if typed else "")

    def _change_membership(self, visit: PageRequest, form: Form) -> MembershipPage | str:
        """Switch on or off, join or leave; the running Archive follows within a second."""
        with settings_lock(self._data):
            resolvers = Resolvers.read(self._data)
            match form.one("what"):
                case "on" | "off" as word:
                    resolvers.switching(on=word == "on").write(self._data)
                    return f"{ROOT}/membership?done=switched-{word}"
                case "leave":
                    resolvers.leaving(form.one("url")).write(self._data)
                    return f"{ROOT}/membership?done=left"
                case "join":
                    joined = resolvers.joining(form.one("url"), form.one("key") or None, also=True)
                    joined.write(self._data)
                case _:
                    raise BadItem("this is not the form of this page; open the page again")
        url = root_url(form.one("url"))
        key = joined.keys[url]
        command = register_command(joined.settings.service, key)
        return replace(self._membership(visit, None), joined=url, key=key, command=command)

    def _tokens_form(self, _visit: PageRequest, typed: Form | None) -> TokensPage:
        name, scopes = (typed.one("name"), tuple(typed.many("scope"))) if typed else ("", ())
        return TokensPage(self._tokens.all(), name=name, scopes=scopes)

    def _change_tokens(self, visit: PageRequest, form: Form) -> TokensPage | str:
        """Make a token, which is shown now and never again; or revoke one."""
        if form.one("revoke"):
            self._tokens.revoke(form.one("revoke"))
            return f"{ROOT}/tokens?done=revoked"
        ticked = form.many("scope")
        scopes = [scope for scope in Scope if scope in ticked]
        if not scopes:
            raise BadItem("tick what the token is good for")
        made = self._tokens.make(form.one("name"), self._moment(), scopes)
        return replace(self._tokens_form(visit, None), made=made, name=form.one("name"))
