"""The administration pages as values; a renderer that `app` gives makes HTML of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.accounts.tokens import Token
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.archive.store.tables.memberships import MembershipRecord
    from ibi.archive.store.tables.usage import UsageRow
    from ibi.errors import IbiError
    from ibi.runtime.settings import ArchiveSettings


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
class ItemsPage:
    """The items in the order of their names; `after` leads to the next page, "" at the end."""

    items: Sequence[Holding]
    after: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One item and what can be done with it. `archive`: where the original of a copy is, if known."""

    holding: Holding
    persistent: str
    history: Sequence[ItemEvent]
    archive: str = ""


@dataclass(frozen=True, slots=True)
class ItemFormPage:
    """The form of an item: a new one, or one that is edited.

    `values`: what stands in it, by the names of its fields; `before`: the item that a new one follows or translates, or
    the one that is edited. `theirs`: fields that another librarian has changed meanwhile, with their present values.
    """

    values: Mapping[str, Sequence[tuple[str, str]]]
    """The values of each field, each with its language ("" for none)."""
    place: str = ""
    """"edition_of", "translation_of", "edit", or "" for an item by itself."""
    before: Holding | None = None
    since: str = ""
    once: str = ""
    """The Idempotency-Key of the form: sent twice, it makes one item."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    largest: int = 0

    def one(self, name: str) -> str:
        """The value of a field that has one."""
        return next((value for value, _ in self.values.get(name, ())), "")

    def rows(self, element: str) -> list[tuple[str, str]]:
        """The values of an element of Dublin Core, and one row more."""
        return [*self.values.get(f"dc.{element}", ()), ("", "")]


@dataclass(frozen=True, slots=True)
class FilesPage:
    """The files of an item, with the form that adds, replaces and removes them."""

    holding: Holding
    since: str
    largest: int


@dataclass(frozen=True, slots=True)
class DeletePage:
    """The form that removes an item. `reason`: the typed one."""

    holding: Holding
    since: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CopyPage:
    """The form that takes a copy: the typed values, and the resolver that can be asked."""

    ibi: str = ""
    archive: str = ""
    resolver: str = ""


@dataclass(frozen=True, slots=True)
class TransferPage:
    """The form that hands an original over to one of the `peers`; without an item, what is under way."""

    holding: Holding | None
    peers: Mapping[str, str]
    under_way: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ImportPage:
    """The form for an import, the result of a dry run, or that of the import.

    `report`: numbers by the words added, unchanged and refused; `refused`: the first records that were not taken, each
    as line, name and reason; `upload`: the file that waits for a confirmation, `name`: its name at the client.
    """

    report: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[tuple[int, str, IbiError]] = ()
    upload: str = ""
    name: str = ""
    kind: str = ""
    done: bool = False


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


AdminPage = (
    OverviewPage | ItemsPage | ItemPage | ItemFormPage | FilesPage | DeletePage | CopyPage | TransferPage | ImportPage
    | MembershipPage | StatisticsPage | AuditPage | TokensPage
)  # fmt: skip
"""The administration pages of an Archive, besides those that a resolver has, too."""
