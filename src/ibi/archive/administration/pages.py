"""What the pages of the administration say, as values; a renderer given from above writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.fixity import Known
    from ibi.archive.ledgers.history import Event
    from ibi.archive.ledgers.memberships import Member
    from ibi.archive.ledgers.visits import Line
    from ibi.errors import IbiError
    from ibi.settings import ArchiveSettings
    from ibi.tokens import Token


@dataclass(frozen=True, slots=True)
class Health:
    """What goes on: counts of items, files and bytes, the disk, and whatever needs somebody."""

    states: Mapping[str, int]
    files: int
    size: int
    free: int
    faults: int
    audited: str
    """When the present audit began, "" before the first."""
    lagging: int
    transfers: int
    members: Sequence[Member]
    switched_on: bool


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The beginning: how the Archive is, and what was changed last."""

    health: Health
    recent: Sequence[Holding]


@dataclass(frozen=True, slots=True)
class ItemsPage:
    """The items in the order of their names; `after` leads to the next page, "" at the end."""

    items: Sequence[Holding]
    after: str = ""
    asked: str = ""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One item and what can be done with it. `archive`: where the original of a copy is, as far as it is known."""

    holding: Holding
    persistent: str
    history: Sequence[Event]
    archive: str = ""


@dataclass(frozen=True, slots=True)
class FormPage:
    """The form of an item: a new one, or one that is edited.

    `values`: what stands in it, by the names of its fields; `before`: the item that a new one follows or translates, or
    the one that is edited. `theirs`: fields that somebody else has changed meanwhile, with what they are now.
    """

    values: Mapping[str, Sequence[tuple[str, str]]]
    """Of each field its values, each with its language ("" for none)."""
    place: str = ""
    """"edition_of", "translation_of", "edit", or "" for an item by itself."""
    before: Holding | None = None
    since: str = ""
    once: str = ""
    """What makes sure that a form that is sent twice makes one item."""
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
    """The files of an item, to be added to, replaced and taken out."""

    holding: Holding
    since: str
    largest: int


@dataclass(frozen=True, slots=True)
class DeletePage:
    """Whether an item shall really go. `reason`: what was typed."""

    holding: Holding
    since: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CopyPage:
    """A copy from elsewhere: what was typed, and whether a resolver can be asked."""

    ibi: str = ""
    archive: str = ""
    resolver: str = ""


@dataclass(frozen=True, slots=True)
class TransferPage:
    """An original that goes to another Archive: to which of the `peers`; or what is under way, without an item."""

    holding: Holding | None
    peers: Mapping[str, str]
    under_way: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ImportPage:
    """Items from a file: nothing yet, what would come of it, or what has.

    `report`: numbers by the words added, unchanged and refused; `refused`: the first records that were not taken, each
    as line, name and reason; `upload`: the file that waits for a yes, `name`: what it is called over there.
    """

    report: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[tuple[int, str, IbiError]] = ()
    upload: str = ""
    name: str = ""
    kind: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True)
class MembershipPage:
    """The place of the Archive in networks; `key` and `command` after it has joined, for whoever runs the resolver."""

    settings: ArchiveSettings
    resolvers: Sequence[tuple[str, Member | None]]
    joined: str = ""
    key: str = ""
    command: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class StatisticsPage:
    """How often items were looked at and fetched, by month."""

    months: Sequence[Line]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """What was found wrong with stored files, and how far the present audit has come."""

    health: Health
    faults: Sequence[Known]
    days: int


@dataclass(frozen=True, slots=True)
class TokensPage:
    """The tokens of programs; `made`: a new one, shown this once; what was typed before."""

    tokens: Sequence[Token]
    made: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ()


Page = (
    OverviewPage | ItemsPage | ItemPage | FormPage | FilesPage | DeletePage | CopyPage | TransferPage | ImportPage
    | MembershipPage | StatisticsPage | AuditPage | TokensPage
)  # fmt: skip
"""Whatever the pages of an Archive are, besides those of every administration."""
