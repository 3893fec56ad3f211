"""Queries over many items, for the search index, pages, hand-overs and the holdings filter.

Items are numbered in the order in which they are added, and no number is ever used twice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.store.tables.batches import rows_of
from ibi.archive.store.tables.rows import forms_of
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.tables.catalogue import SqlRunner


_STANDING: Final = (
    "SELECT (SELECT coalesce(max(number), 0) FROM changed), (SELECT coalesce(min(number), 1) FROM changed),"
    " (SELECT coalesce(max(number), 0) FROM item)"
)
_EVENTS: Final = "(SELECT coalesce(max(number), 0) FROM event WHERE event.item = item.number)"
_FACTS: Final = (
    f"item.number, {_EVENTS},"  # noqa: S608 - made of our own column names
    " (SELECT moment FROM event WHERE event.item = item.number ORDER BY number DESC LIMIT 1),"
    " coalesce(item.rep, item.ibip), item.state, item.content_type, item.timestamp, item.language, item.metadata,"
    " item.metadata_item, item.access, item.embargo, item.url IS NOT NULL OR item.file_count > 0,"
    " item.unsettled IS NOT NULL"
)
_AFTER: Final = f"SELECT {_FACTS} FROM item WHERE item.number > :after ORDER BY item.number LIMIT :most"  # noqa: S608 - made of our own column names
_SOME: Final = f"SELECT {_FACTS} FROM json_each(:numbers) AS wanted JOIN item ON item.number = wanted.value"  # noqa: S608 - made of our own column names
_COUNTS: Final = (
    f"SELECT item.number, {_EVENTS} FROM item WHERE item.number > :after ORDER BY item.number LIMIT :most"  # noqa: S608 - made of our own column names
)
_CHANGED: Final = (
    "SELECT DISTINCT item FROM changed WHERE number > :after AND number <= :last AND item IS NOT NULL"
    " ORDER BY item"
)
_NAME: Final = "SELECT coalesce(rep, ibip) FROM item WHERE number = :number"


class CataloguePosition(NamedTuple):
    """Numbers of the last change (0: none), of the oldest one in the log, and of the last item."""

    events: int
    oldest: int
    items: int


class ItemFacts(NamedTuple):
    """The facts of an item that the search index needs.

    `events`: the number of its events; `moment`: that of its last event, or None; `name`: its main name, as
    spelled; `metadata`: Dublin Core as JSON, or None; `metadata_item`: the forms of its metadata item, or
    None; `has_data`: whether it has files or a URL; `unsettled`: restored from a backup, not to be shown.
    """

    number: int
    events: int
    moment: str | None
    name: str
    state: str
    content_type: str
    timestamp: str
    language: str | None
    metadata: str | None
    metadata_item: str | None
    access: str
    embargo: str | None
    has_data: bool
    unsettled: bool


def position(run: SqlRunner) -> CataloguePosition:
    """Return the state of the catalogue."""
    return CataloguePosition(*run(_STANDING).fetchone())


def facts_after(run: SqlRunner, after: int, most: int) -> list[ItemFacts]:
    """Return at most `most` items with numbers above `after`, in the order of numbers; [] at the end."""
    return [ItemFacts(*row) for row in run(_AFTER, after=after, most=most).fetchall()]


def facts_of(run: SqlRunner, numbers: Iterable[int]) -> list[ItemFacts]:
    """Return the items of these numbers, in any order."""
    return [ItemFacts(*row) for row in run(_SOME, numbers=json.dumps(list(numbers))).fetchall()]


def event_counts(run: SqlRunner, after: int, most: int) -> list[tuple[int, int]]:
    """Return (number, count of events) of at most `most` items with numbers above `after`; [] at the end."""
    return [(number, count) for number, count in run(_COUNTS, after=after, most=most).fetchall()]


def changed(run: SqlRunner, after: int, last: int) -> list[int]:
    """Return the numbers of the items that changed after number `after` of the log, up to number `last`."""
    return [row[0] for row in run(_CHANGED, after=after, last=last).fetchall()]


def name_of(run: SqlRunner, number: int) -> str | None:
    """Return the main name of the item of this number, as spelled; None if there is none."""
    row = run(_NAME, number=number).fetchone()
    return row[0] if row else None


def holdings(run: SqlRunner, numbers: Iterable[int]) -> dict[int, Holding]:
    """Return the items of these numbers, by number; numbers without an item are left out."""
    return {number: run.item_of_row(row) for number, row in rows_of(run, numbers).items()}


_EARLIER: Final = (
    "SELECT rep, ibip FROM item WHERE next_edition IN (:both, :rep, :ibip) ORDER BY number LIMIT :most"
)
_FIXITY: Final = "SELECT name, sha256, read, good, fault FROM fixity WHERE item = :item"
_NEWEST: Final = (
    "SELECT rep, ibip FROM item WHERE state <> 'Deleted' AND content_type = 'Data' AND unsettled IS NULL"
    " ORDER BY number DESC LIMIT :most"
)


class FixityRecord(NamedTuple):
    """The last audit of a file: the listed digest, when it was read, when it was last good, its fault.

    Moments: "2026-11-21T10:00:00Z". `good` is "" if the file was never good, `fault` is "" if there is none.
    """

    sha256: str
    read: str
    good: str
    fault: str

    def is_of(self, file: StoredFile) -> bool:
        """Return whether the file is still the one that was read."""
        return self.sha256 == file.sha256


def earlier(run: SqlRunner, forms: IBIForms, most: int) -> list[IBIForms]:
    """Return the items whose next edition is the item of these names, in the order in which they were added."""
    # A link is stored as it was written, with both forms or one of them.
    alone = [str(IBIForms.of(form)) for form in (forms.rep, forms.ibip) if form]
    rows = run(_EARLIER, both=str(forms), rep=alone[0], ibip=alone[-1], most=most).fetchall()
    return [forms_of(*row) for row in rows]


def fixity_of(run: SqlRunner, item: int) -> dict[str, FixityRecord]:
    """Return the last audits of the files of an item, by their names."""
    rows = run(_FIXITY, item=item).fetchall()
    return {row[0]: FixityRecord(row[1], row[2], row[3] or "", row[4] or "") for row in rows}


def newest_items(run: SqlRunner, most: int) -> list[IBIForms]:
    """Return the data items that were added last, the newest first, without removed and unsettled ones."""
    return [forms_of(*row) for row in run(_NEWEST, most=most).fetchall()]


_LAGGING = (
    "SELECT count(*), min(copied.since) FROM copied JOIN item ON item.number = copied.item"
    " WHERE item.state = 'Copy' AND copied.since <> ''"
)
_ORIGINALS = (
    "SELECT name.name FROM item JOIN name ON name.item = item.number AND name.main"
    " WHERE item.state = 'Original' AND item.transferable = :transferable AND name.name > :after"
    " ORDER BY name.name LIMIT :most"
)
_PAGE = 500
_STATES = "SELECT state, count(*) FROM item GROUP BY state"


def count_states(run: SqlRunner) -> dict[ItemState, int]:
    """Count the items in each state."""
    found = {ItemState(state): int(count) for state, count in run(_STATES).fetchall()}
    return {state: found.get(state, 0) for state in ItemState}


def lagging(run: SqlRunner) -> tuple[int, str]:
    """Count the copies not known to equal their originals; return (count, earliest `since` or "")."""
    count, since = run(_LAGGING).fetchone()
    return int(count), since or ""


def originals(run: SqlRunner, after: str, *, transferable: bool) -> list[str]:
    """Return a page of canonical names after `after`, of originals that are, or are not, transferable."""
    return [row[0] for row in run(_ORIGINALS, transferable=transferable, after=after, most=_PAGE).fetchall()]


_COUNT = "SELECT count(*) FROM name"
_NAMES_PAGE = "SELECT name FROM name WHERE name > :after ORDER BY name LIMIT :most"


def count_names(run: SqlRunner) -> int:
    """Count the names. A name is never deleted, so an equal count means equal names."""
    return int(run(_COUNT).fetchone()[0])


def names_page(run: SqlRunner, after: str, most: int) -> list[str]:
    """Return at most `most` canonical names after `after`, in order; [] at the end."""
    return [row[0] for row in run(_NAMES_PAGE, after=after, most=most).fetchall()]


_ADDED: Final = "SELECT number, number FROM item WHERE number > :after ORDER BY number LIMIT :most"
_ADDED_LAST: Final = "SELECT number, number FROM item WHERE number < :after ORDER BY number DESC LIMIT :most"
_BY_NAME: Final = "SELECT name, item FROM name WHERE main AND name > :after ORDER BY name LIMIT :most"
_BY_NAME_BACK: Final = (
    "SELECT name, item FROM name WHERE main AND name < :after ORDER BY name DESC LIMIT :most"
)
_ORDERS: Final = {"added": _ADDED, "-added": _ADDED_LAST, "name": _BY_NAME, "-name": _BY_NAME_BACK}
_CHOSEN: Final = (
    "SELECT item.number FROM json_each(:numbers) AS wanted JOIN item ON item.number = wanted.value"
    " WHERE (:state = '' OR item.state = :state)"
    " AND (:access = '' OR item.access = :access AND item.state <> 'Deleted')"
)
_STANDINGS: Final = (
    "SELECT wanted.value,"
    " (SELECT moment FROM event WHERE item = wanted.value ORDER BY number LIMIT 1),"
    " (SELECT moment FROM event WHERE item = wanted.value ORDER BY number DESC LIMIT 1),"
    " EXISTS (SELECT 1 FROM fixity JOIN file USING (item, name, sha256)"
    " WHERE fixity.item = wanted.value AND fault IS NOT NULL),"
    " EXISTS (SELECT 1 FROM giving WHERE item = wanted.value AND stage IN ('offered', 'handed'))"
    " FROM json_each(:numbers) AS wanted"
)


class ItemStanding(NamedTuple):
    """What a list shows beside an item: when it was added and changed, and what is the matter with it."""

    added: str = ""
    changed: str = ""
    is_damaged: bool = False
    is_leaving: bool = False


def numbers_in_order(run: SqlRunner, order: str, after: str | int, most: int) -> list[tuple[str, int]]:
    """Return (key, number) of at most `most` items whose keys follow `after` in this order; [] at the end.

    `order`: "added" (the key is the number), "name" (it is the canonical main name), with "-" for the reverse.
    """
    rows = run(_ORDERS[order], after=after, most=most).fetchall()
    return [(str(key), int(number)) for key, number in rows]


def choose(run: SqlRunner, numbers: Iterable[int], state: str, access: str) -> set[int]:
    """Return which items are in a state and have an access; "" is no condition. Removed items have no access."""
    wanted = json.dumps(list(numbers))
    return {row[0] for row in run(_CHOSEN, numbers=wanted, state=state, access=access).fetchall()}


def standings(run: SqlRunner, numbers: Iterable[int]) -> dict[int, ItemStanding]:
    """Return what a list shows beside these items, by number."""
    rows = run(_STANDINGS, numbers=json.dumps(list(numbers))).fetchall()
    return {row[0]: ItemStanding(row[1] or "", row[2] or "", bool(row[3]), bool(row[4])) for row in rows}


# Originals that were restored from a backup, and may have moved or been removed since (decision 0039).
_UNSETTLE: Final = "UPDATE item SET unsettled = :moment WHERE state = 'Original' AND number <> :service"
_COUNT_UNSETTLED: Final = "SELECT count(*) FROM item WHERE unsettled IS NOT NULL"
_UNSETTLED: Final = (
    "SELECT item.number, name.name FROM item JOIN name ON name.item = item.number AND name.main"
    " WHERE item.unsettled IS NOT NULL AND item.number > :after ORDER BY item.number LIMIT :most"
)


class UnsettledItem(NamedTuple):
    """The number and the canonical main name of an unsettled original."""

    number: int
    name: str


def unsettle_originals(run: SqlRunner, moment: str, service: int) -> None:
    """Mark every original as unsettled, except the item number `service`; `moment`: that of the backup."""
    run(_UNSETTLE, moment=moment, service=service)


def count_unsettled(run: SqlRunner) -> int:
    """Count the originals that are not settled."""
    return int(run(_COUNT_UNSETTLED).fetchone()[0])


def some_unsettled(run: SqlRunner, after: int, most: int) -> list[UnsettledItem]:
    """Return at most `most` unsettled originals with numbers above `after`, in order; [] at the end."""
    return [UnsettledItem(*row) for row in run(_UNSETTLED, after=after, most=most).fetchall()]
