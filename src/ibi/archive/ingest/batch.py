"""Records become items, in batches of one transaction each: wholly or not at all, and again without change (note 11).

Labels are minted and files are staged before the transaction. In it one query finds what is held already; new items
without files are inserted together, and all others go through the unit of work one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive.ingest.held import SimilarItems, differences, renewed, updated
from ibi.archive.model.file_names import check_names
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import CONTENT_KEY
from ibi.archive.store.links import check_editable
from ibi.archive.store.tables import batches, history, rows
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import AlreadyHeld, HoldingError, IbiError
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.archive.store.tables.batches import Row
    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.identifier.forms import IBIForms


@dataclass(slots=True)
class ImportReport:
    """The result of an import: numbers of records."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    refused: int = 0


class PreparedItem(NamedTuple):
    """An item that has its names and its staged files."""

    record: SourceRecord
    draft: Draft
    holding: Holding
    names: tuple[str, ...]
    """The canonical names that it is found by."""
    staged: tuple[StoredFile, ...] = ()
    nearly: IBIForms | None = None
    """The item that it is nearly, if it is new."""


class ImportBatch:
    """The items of one transaction, until they are in the catalogue."""

    def __init__(
        self, work: UnitOfWork, items: Sequence[PreparedItem], what: str, origin: str, *, update: bool
    ) -> None:
        """Find which of the names and keys of the items are held already."""
        self.report = ImportReport()
        self._work = work
        self._what = what
        self._origin = origin
        self._update = update
        self._detail = {"origin": origin} if origin else {}
        self._new: list[PreparedItem] = []
        self._coming: set[str] = set()  # names of the new ones
        self._keys_coming: set[str] = set()
        run = work.writer.run
        batches.prepare(run)
        self._names = batches.numbers_of_names(run, [name for item in items for name in item.names])
        self._keys = batches.numbers_of_keys(run, [item.draft.key for item in items if item.draft.key])
        numbers = {*self._names.values(), *self._keys.values()}
        self._rows: dict[int, Row] = batches.rows_of(run, numbers) if numbers else {}

    def put(self, item: PreparedItem) -> bool:
        """Add or change an item; False if its files are not needed. Raises AlreadyHeld, BadItem, HoldingError."""
        key = item.draft.key
        # A record may name an item that stands earlier in the same batch: then that one has to be written first.
        if not self._coming.isdisjoint(item.names) or key in self._keys_coming:
            self.flush()
        number = self._number(item)
        if number is None:
            self._add(item)
            return True
        run = self._work.writer.run
        row = self._rows.get(number) or batches.rows_of(run, [number])[number]
        if not item.staged and self._is_the_same(row, item):
            self.report.unchanged += 1
            return False
        held = run.item_of_row(row)
        return self._put_update(held, item) if self._update else self._change(held, item)

    def flush(self) -> None:
        """Insert the new items."""
        if not self._new:
            return
        work = self._work
        event = ItemEvent(work.moment, work.who, self._what, self._detail)
        numbers = batches.add_all(work.writer.run, [(item.holding, item.names) for item in self._new], event)
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

    def _number(self, item: PreparedItem) -> int | None:
        """Return the item that has one of these names, or this key. Raises AlreadyHeld if they are those of several."""
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

    def _add(self, item: PreparedItem) -> None:
        if item.staged or item.holding.next_edition is not None:
            added = self._work.add(item.holding, item.staged, self._what, **self._detail)
            self._note(added.number, item.names, item.draft.key)
        else:
            self._work.check_new(item.holding)
            self._new.append(item)
            self._coming.update(item.names)
            if item.draft.key:
                self._keys_coming.add(item.draft.key)
        self.report.added += 1

    def _is_the_same(self, row: Row, item: PreparedItem) -> bool:
        """Return whether an item is held as its record describes it; False also where only `_change` can decide.

        The rows are compared, not the holdings: an import that is run again compares millions.
        """
        described = list(rows.item_row(item.holding))
        held = row[1:]
        if item.draft.forms is None or all(self._names.get(name) == row[0] for name in item.names):
            described[_REP], described[_IBIP] = held[_REP], held[_IBIP]
        if not item.draft.key:
            described[_KEY] = held[_KEY]
        if item.draft.timestamp is None:
            described[_TIMESTAMP] = held[_TIMESTAMP]
        return described == list(held)

    def _change(self, held: Holding, item: PreparedItem) -> bool:
        """Change a held item to what its record says, if it came from the same origin; False if nothing changes."""
        work = self._work
        gone = bool(self._origin) and is_removed(item.draft)
        new = renewed(held, item.draft, item.holding, item.staged)
        differing = differences(held, new)
        if not differing or (gone and held.deleted):
            self.report.unchanged += 1
            return False
        # Only the repository that an item was added from may change it.
        first = next(iter(history.events_of(work.writer.run, held.number)), None)
        if not self._origin or first is None or first.detail != self._detail:
            raise differs(item.holding.forms, differing)
        if gone:
            work.remove(held, "it was removed from the repository that it came from")
            self.report.removed += 1
        elif held.deleted:
            raise HoldingError("{name} was removed on {date}", name=held.forms.main, date=held.timestamp)
        else:
            new = replace(new, files=held.files)
            work.change(held, new, item.staged, self._what, **self._detail, fields=differing)
            self.report.changed += 1
        self._note(held.number, item.names, item.draft.key)
        return not gone

    def _put_update(self, held: Holding, item: PreparedItem) -> bool:
        """Change a held item to what its record says and leave the rest; False if its files are not needed."""
        work = self._work
        new = updated(held, item.draft, item.staged)
        differing = differences(held, new)
        if not differing:
            self.report.unchanged += 1
            return False
        check_editable(work, held)
        if new.deleted:
            work.remove(held, new.reason)
            self.report.removed += 1
        else:
            new = replace(new, files=held.files, timestamp=work.next_timestamp(held))
            work.change(held, new, item.staged, self._what, fields=differing)
            self.report.changed += 1
        self._note(held.number, item.names, item.draft.key)
        return not new.deleted


_REP, _IBIP, _KEY, _TIMESTAMP = map(rows.ITEM_COLUMNS.index, ("rep", "ibip", "key", "timestamp"))


def is_removed(draft: Draft) -> bool:
    """Return whether a draft is that of a removed item."""
    return draft.facts.get("state") is ItemState.DELETED


class RefusedRecord(NamedTuple):
    """A record that was refused: the line it starts in (0 without lines), the reason, its name in the source."""

    line: int
    why: IbiError
    name: str = ""


class RecordNotice(NamedTuple):
    """What should be known of a record that is not refused: line, sentence and name as of a refused one."""

    line: int
    note: IbiError
    name: str = ""


def notice_of(record: SourceRecord, note: IbiError) -> RecordNotice:
    """What should be known of a record, with its place in the source."""
    return RecordNotice(record.line, note, record.name)


@dataclass
class RecordIngest:
    """Ingests records into one Archive, in the name of the account `who`; `what` is the event in their history.

    `refused` is called with every record that is refused, `noticed` with every new item that is nearly one that is
    held; `stage` copies the files of a draft into staging. A record that differs from what is held is refused; but with
    an `origin`, the name of another host, an item that came from there is changed to what its record says, or removed;
    and with `update`, any item that a record finds by a name or its key.
    """

    item_store: ItemStore
    who: str
    refused: Callable[[RefusedRecord], None]
    stage: Callable[[Draft], Iterable[StoredFile]] = lambda _: ()
    what: str = "imported"
    origin: str = ""
    noticed: Callable[[RecordNotice], None] = lambda _: None
    update: bool = False
    report: ImportReport = field(default_factory=ImportReport)

    @cached_property
    def similar(self) -> SimilarItems:
        """Finds what new records are nearly."""
        return SimilarItems(self.item_store.catalogue)

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Ingest a batch. Raises SetupError where the Archive cannot be written; then none of it has happened."""
        refusals: list[RefusedRecord] = []
        ready = self._prepared(records, refusals)
        if ready:
            unneeded: list[StoredFile] = []
            notices: list[RecordNotice] = []
            with self.item_store.unit_of_work(self.who) as work:
                batch = ImportBatch(work, ready, self.what, self.origin, update=self.update)
                for item in ready:
                    try:
                        if not batch.put(item):
                            unneeded += item.staged
                        elif item.nearly:
                            notices.append(notice_of(item.record, nearly_held(item.nearly)))
                        notices.extend(notice_of(item.record, note) for note in item.record.notes())
                    except IbiError as error:
                        refusals.append(RefusedRecord(item.record.line, error, item.record.name))
                        unneeded += item.staged
                batch.flush()
            for notice in notices:
                self.noticed(notice)
            # Not where the transaction failed: it may count after all, and then lists these files.
            for staged in unneeded:
                self.item_store.file_store.discard(staged)
            for each in fields(ImportReport):
                setattr(
                    self.report, each.name, getattr(self.report, each.name) + getattr(batch.report, each.name)
                )
        self.report.refused += len(refusals)
        for refusal in sorted(refusals, key=lambda refusal: refusal.line):
            self.refused(refusal)

    def _prepared(self, records: Sequence[SourceRecord], refusals: list[RefusedRecord]) -> list[PreparedItem]:
        """Return the records that can be ingested, with their names and staged files."""
        nearly: dict[str, IBIForms] = {}
        named = self._named(records, nearly)
        now = self.item_store.moment
        ready = []
        for record in records:
            draft = record.draft
            try:
                if isinstance(draft, IbiError):
                    raise draft
                forms = draft.forms or named.get(draft.key)
                if isinstance(forms, IbiError):
                    raise forms
                if forms is None:
                    # Removed in its repository before it was ever harvested.
                    self.report.unchanged += 1
                    continue
                staged = self._staged(draft) if draft.files else ()
            except IbiError as error:
                refusals.append(RefusedRecord(record.line, error, record.name))
                continue
            holding = draft.holding(forms, now)
            names = tuple(name.canonical for name in holding.names)
            ready.append(PreparedItem(record, draft, holding, names, staged, nearly.get(draft.key)))
        return ready

    def _staged(self, draft: Draft) -> tuple[StoredFile, ...]:
        check_names(draft.files)
        staged: list[StoredFile] = []
        try:
            staged.extend(self.stage(draft))
        except IbiError:
            for file in staged:
                self.item_store.file_store.discard(file)
            raise
        return tuple(staged)

    def _named(
        self, records: Sequence[SourceRecord], nearly: dict[str, IBIForms]
    ) -> dict[str, IBIForms | IbiError]:
        """Return the names of items that come under keys: those they have, or new ones, or the error of minting.

        `nearly` gets those of the items that new ones are nearly the same as.
        """
        drafts = {
            record.draft.key: record.draft
            for record in records
            if not isinstance(record.draft, IbiError) and record.draft.forms is None
        }
        if not drafts:
            return {}
        with self.item_store.catalogue.reading() as run:
            named: dict[str, IBIForms | IbiError] = {**batches.forms_of_keys(run, list(drafts))}
            for key, draft in drafts.items():
                if key not in named and (held := _forms_of_aliases(run, draft)):
                    named[key] = held
        new = [
            key
            for key, draft in drafts.items()
            if key not in named and not (self.origin and is_removed(draft))
        ]
        if not self.origin:
            found = {key: self.similar.find(drafts[key]) for key in new}
            nearly |= {key: forms for key, forms in found.items() if forms}
        if self.update:
            named |= {key: doubtful(forms) for key, forms in nearly.items() if key.startswith(CONTENT_KEY)}
            new = [key for key in new if key not in named]
        try:
            return named | dict(zip(new, self.item_store.mint(len(new)), strict=True)) if new else named
        except IbiError as error:
            return named | dict.fromkeys(new, error)


def differs(held: IBIForms, fields: Iterable[str]) -> AlreadyHeld:
    """The refusal of a record that is held, and not as it describes the item."""
    problem = "{name} is already held, but differs in: {fields}"
    return AlreadyHeld(problem, name=held.main, fields=", ".join(fields))


def doubtful(held: IBIForms) -> AlreadyHeld:
    """The refusal of a record that names no item, where one is to be updated that it may be."""
    problem = (
        "nearly the same as {name}: give the record this name if it is that item,"
        " or a key of its own if it is another"
    )
    return AlreadyHeld(problem, name=held.main)


def nearly_held(held: IBIForms) -> IbiError:
    """The warning that a new item is nearly one that was held before."""
    problem = (
        "a new item, but nearly the same as {name}: if it is that one, give the record this name, and update"
    )
    return IbiError(problem, name=held.main)


def _forms_of_aliases(run: SqlRunner, draft: Draft) -> IBIForms | None:
    """Return the names of the item that is held under a legacy identifier of a draft; None if there is none."""
    aliases = [each.canonical for each in draft.facts.get("aliases", ())]
    numbers = batches.numbers_of_names(run, aliases) if aliases else {}
    return batches.forms_of_number(run, next(iter(numbers.values()))) if numbers else None
