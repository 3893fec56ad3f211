"""The first page of the administration, and what is known of the state of the Archive: statistics, audit."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from ibi.archive.administration.pages import AuditPage, Health, OverviewPage, StatisticsPage
from ibi.archive.care.audit_duty import WALK
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import changes, fixity, inventory, memberships, transfers
from ibi.archive.networking.joining import Resolvers
from ibi.archive.website.reports import Statistics
from ibi.identifier.forms import parse_name
from ibi.signing_in.visit import ReadOnly
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.administration.pages import Page
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.signing_in.visit import Form, Visit

_RECENT: Final = 20
_MOST_NAMES: Final = 8  # of one item
_MOST_FAULTS: Final = 1000
_MONTHS: Final = 36


def health(data: Path, catalogue: Catalogue) -> Health:
    """How an Archive is, as its ledgers and its disk tell. Raises SetupError."""
    resolvers = Resolvers.read(data)
    with catalogue.reading() as run:
        files, size = fixity.total(run)
        place = fixity.place_of(run, WALK)
        known = memberships.members(run)
        return Health(
            states={state.value: count for state, count in inventory.states(run).items()},
            files=files,
            size=size,
            free=shutil.disk_usage(data).free,
            faults=len(fixity.faults(run, _MOST_FAULTS)),
            audited=timestamp_text(int(place.begun)) if place else "",
            lagging=inventory.lagging(run)[0],
            transfers=len(transfers.open_givings(run)),
            members=[known[url] for url in resolvers.keys if url in known],
            switched_on=resolvers.settings.switched_on,
        )


class Overview(ReadOnly):
    """The beginning."""

    scope = Scope.READ

    def __init__(self, data: Path, catalogue: Catalogue) -> None:
        self._data = data
        self._catalogue = catalogue

    def show(self, _visit: Visit, _typed: Form | None) -> Page:
        """How the Archive is, and what was changed last."""
        return OverviewPage(health(self._data, self._catalogue), self._recent())

    def _recent(self) -> list[Holding]:
        """The items that were changed last, the latest first."""
        with self._catalogue.reading() as run:
            last = changes.newest(run)
            names = changes.names(run, max(0, last - _RECENT), last, _RECENT * _MOST_NAMES) or []
        found = [self._catalogue.holding(parse_name(name)) for name in names]
        items = {each.number: each for each in found if each is not None}
        return sorted(items.values(), key=lambda each: (each.timestamp, each.number), reverse=True)


class StatisticsScreen(ReadOnly):
    """How often items were looked at and fetched."""

    scope = Scope.READ

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def show(self, _visit: Visit, _typed: Form | None) -> Page:
        """The figures of all items together, the latest month first."""
        lines = Statistics(self._catalogue).of_all()
        latest = sorted({line.month for line in lines}, reverse=True)[:_MONTHS]
        return StatisticsPage([line for month in latest for line in lines if line.month == month])


class AuditScreen(ReadOnly):
    """What audits of the stored files have found."""

    scope = Scope.READ

    def __init__(self, data: Path, catalogue: Catalogue, days: int) -> None:
        self._data = data
        self._catalogue = catalogue
        self._days = days

    def show(self, _visit: Visit, _typed: Form | None) -> Page:
        """The faults that are known."""
        with self._catalogue.reading() as run:
            faults = fixity.faults(run, _MOST_FAULTS)
        return AuditPage(health(self._data, self._catalogue), faults, self._days)
