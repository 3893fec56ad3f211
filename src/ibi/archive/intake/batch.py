"""One batch of records in one transaction: what is held already is told from what is new by one look for all of them.

What is new and has no files is written together; whatever else an item needs goes through the keeper, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive import rows
from ibi.archive.holding import Holding
from ibi.archive.ledgers import batches, history
from ibi.archive.ledgers.history import Event
from ibi.errors import AlreadyHeld, HoldingError
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.archive.holding import StoredFile
    from ibi.archive.intake.sources.record import Record
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Hand
    from ibi.archive.ledgers.batches import Row


@dataclass(slots=True)
class Report:
    """What an import came to: numbers of records."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    refused: int = 0


class Ready(NamedTuple):
    """An item for which everything is at hand."""

    record: Record
    draft: Draft
    holding: Holding
    names: tuple[str, ...]
    """What it is found by."""
    staged: tuple[StoredFile, ...] = ()


class Batch:
    """The items of one transaction on their way into the catalogue."""

    def __init__(self, what: str, origin: str, report: Report) -> None:
        self.report = report
        self._what = what
        self._origin = origin
        self._detail = {"origin": origin} if origin else {}
        self._new: list[Ready] = []
        self._coming: set[str] = set()  # what those are found by
        self._keys_coming: set[str] = set()
        self._names: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._rows: dict[int, Row] = {}

    def look(self, hand: Hand, items: Sequence[Ready]) -> None:
        """See which of the names and keys are held already."""
        run = hand.writer.run
        batches.prepare(run)
        self._names = batches.numbers_of_names(run, [name for item in items for name in item.names])
        self._keys = batches.numbers_of_keys(run, [item.draft.key for item in items if item.draft.key])
        numbers = {*self._names.values(), *self._keys.values()}
        self._rows = batches.rows_of(run, numbers) if numbers else {}

    def put(self, hand: Hand, item: Ready) -> bool:
        """Put an item in; False if its files are not needed. Raises AlreadyHeld, BadItem, HoldingError."""
        key = item.draft.key
        if not self._coming.isdisjoint(item.names) or key in self._keys_coming:
            self.flush(hand)
        number = self._number(item)
        if number is None:
            self._add(hand, item)
            return True
        row = self._rows.get(number) or batches.rows_of(hand.writer.run, [number])[number]
        if not item.staged and self._is_the_same(row, item):
            self.report.unchanged += 1
            return False
        return self._change(hand, hand.writer.run.whole(row), item)

    def flush(self, hand: Hand) -> None:
        """Put in what is new."""
        if not self._new:
            return
        event = Event(hand.moment, hand.who, self._what, self._detail)
        numbers = batches.add_all(hand.writer.run, [(item.holding, item.names) for item in self._new], event)
        for number, item in zip(numbers, self._new, strict=True):
            self._note(number, item.names, item.draft.key)
        self._new.clear()
        self._coming.clear()
        self._keys_coming.clear()

    def _note(self, number: int, names: Iterable[str], key: str) -> None:
        self._names.update(dict.fromkeys(names, number))
        if key:
            self._keys[key] = number
        self._rows.pop(number, None)

    def _number(self, item: Ready) -> int | None:
        """The item that bears one of these names, or this key. Raises AlreadyHeld if they are those of several."""
        found = {self._names[name] for name in item.names if name in self._names}
        if item.draft.key in self._keys:
            found.add(self._keys[item.draft.key])
        if len(found) > 1:
            problem = "its names and its key are those of several items: {names}"
            forms = (
                rows.forms_of(*self._rows[number][1:3]) for number in sorted(found) if number in self._rows
            )
            raise AlreadyHeld(problem, names=", ".join(str(each.main) for each in forms))
        return next(iter(found), None)

    def _add(self, hand: Hand, item: Ready) -> None:
        if item.staged or item.holding.next_edition is not None:
            added = hand.add(item.holding, item.staged, self._what, **self._detail)
            self._note(added.number, item.names, item.draft.key)
        else:
            hand.check_new(item.holding)
            self._new.append(item)
            self._coming.update(item.names)
            if item.draft.key:
                self._keys_coming.add(item.draft.key)
        self.report.added += 1

    def _is_the_same(self, row: Row, item: Ready) -> bool:
        """Whether an item without files is held as its record says; False also where that must be looked at closely."""
        described = list(rows.write(item.holding))
        held = row[1:]
        if item.draft.forms is None or all(self._names.get(name) == row[0] for name in item.names):
            described[_REP], described[_IBIP] = held[_REP], held[_IBIP]
        if not item.draft.key:
            described[_KEY] = held[_KEY]
        if item.draft.timestamp is None:
            described[_TIMESTAMP] = held[_TIMESTAMP]
        return described == list(held)

    def _change(self, hand: Hand, held: Holding, item: Ready) -> bool:
        """Give a held item the facts of its record, where there is leave to do so; False if nothing came of it."""
        gone = bool(self._origin) and is_gone(item.draft)
        new = _renewed(held, item)
        differing = _differences(held, new)
        if not differing or (gone and held.deleted):
            self.report.unchanged += 1
            return False
        if not self._came_from_there(hand, held):
            problem = "{name} is already held, but differs in: {fields}"
            raise AlreadyHeld(problem, name=item.holding.forms.main, fields=", ".join(differing))
        if gone:
            hand.remove(held, "it was removed from the repository that it came from")
            self.report.removed += 1
        elif held.deleted:
            raise HoldingError("{name} was removed on {date}", name=held.forms.main, date=held.timestamp)
        else:
            new = replace(new, files=held.files)
            hand.change(held, new, item.staged, self._what, **self._detail, fields=differing)
            self.report.changed += 1
        self._note(held.number, item.names, item.draft.key)
        return not gone

    def _came_from_there(self, hand: Hand, held: Holding) -> bool:
        """Whether this item is the origin's to change: it came from there first."""
        first = next(iter(history.events_of(hand.writer.run, held.number)), None)
        return bool(self._origin) and first is not None and first.detail == self._detail


_REP, _IBIP, _KEY, _TIMESTAMP = map(rows.ITEM_COLUMNS.index, ("rep", "ibip", "key", "timestamp"))


def is_gone(draft: Draft) -> bool:
    """Whether a draft is of a removed item."""
    return draft.facts.get("state") is State.DELETED


def _renewed(held: Holding, item: Ready) -> Holding:
    """The item as its record describes it. Whatever the record leaves open stays as it is held."""
    described = item.holding
    known = item.draft.forms is None or all(name in held.names for name in described.names)
    return replace(
        described,
        forms=held.forms if known else described.forms,
        number=held.number,
        key=described.key or held.key,
        timestamp=described.timestamp if item.draft.timestamp is not None else held.timestamp,
        files=item.staged,
    )


def _differences(held: Holding, described: Holding) -> list[str]:
    """The facts in which they differ."""
    held = replace(held, files=_placed(held.files))
    described = replace(described, files=_placed(described.files))
    return [
        each.name for each in fields(Holding) if getattr(held, each.name) != getattr(described, each.name)
    ]


def _placed(files: tuple[StoredFile, ...]) -> tuple[StoredFile, ...]:
    """The same files, wherever they lie, sorted by name."""
    return tuple(sorted((replace(file, staged="") for file in files), key=lambda file: file.name))
