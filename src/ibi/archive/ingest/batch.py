"""Turns records into items, a batch in one transaction; ingesting them again changes nothing.

Labels are minted and files are staged before the transaction. In it a few queries find the items that are held already;
new items without files are inserted together, all others one by one through the unit of work. See note 11: importing
twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive.ingest.comparison import SimilarItems, differences, renewed, updated
from ibi.archive.model.file_names import check_names
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import CONTENT_KEY
from ibi.archive.store.links import check_editable
from ibi.archive.store.tables import batches, history, rows
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import AlreadyHeld, HoldingError, IbiError, SetupError
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
    """The result of an import, as numbers of records."""

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
    """The canonical names by which the item is found."""
    staged: tuple[StoredFile, ...] = ()
    nearly: IBIForms | None = None
    """If the item is new: the held item to which it is nearly the same."""


class ImportBatch:
    """The items of one transaction, until they are in the catalogue."""

    def __init__(
        self, work: UnitOfWork, items: Sequence[PreparedItem], what: str, origin: str, *, update: bool
    ) -> None:
        """Find which names and keys of the items are held already."""
        self.report = ImportReport()
        self._work = work
        self._what = what
        self._origin = origin
        self._update = update
        self._detail = {"origin": origin} if origin else {}
        self._new: list[PreparedItem] = []
        self._coming: set[str] = set()  # names of the new items
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
        # A record may name an item that comes earlier in the same batch; that item must be written first.
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
        """Return the number of the held item of these names and this key. Raises AlreadyHeld for several."""
        found = {self._names[name] for name in item.names if name in self._names}
        if item.draft.key in self._keys:
            found.add(self._keys[item.draft.key])
        if len(found) > 1:
            forms = (
                rows.forms_of(*self._rows[number][1:3]) for number in sorted(found) if number in self._rows
            )
            raise of_several(str(each.main) for each in forms)
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
        """Return whether an item is held as its record describes it; False also if only `_change` can decide.

        Rows are compared, not holdings, because an import that is run again compares millions of items.
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
        """Change a held item as its record says, if it has the same origin; False if no files are needed."""
        work = self._work
        gone = bool(self._origin) and is_removed(item.draft)
        new = renewed(held, item.draft, item.holding, item.staged)
        differing = differences(held, new)
        if not differing or (gone and held.deleted):
            self.report.unchanged += 1
            return False
        # Only the repository from which an item was added may change it.
        first = next(iter(history.events_of(work.writer.run, held.number)), None)
        if not self._origin or first is None or first.detail != self._detail:
            raise differs(item.holding.forms, differing)
        if held.files:
            problem = "{name} has its files in this Archive, so a harvest neither changes nor removes it"
            raise HoldingError(problem, name=held.forms.main)
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
        """Change the facts of a held item that its record states; False if its files are not needed."""
        work = self._work
        new = updated(held, item.draft, item.staged)
        differing = differences(held, new)
        if not differing:
            self.report.unchanged += 1
            return False
        check_editable(work, held)
        if new.deleted:
            work.remove(held, new.reason, new.replacement)
            self.report.removed += 1
        else:
            new = replace(new, files=held.files, timestamp=work.next_timestamp(held))
            work.change(held, new, item.staged, self._what, fields=differing)
            self.report.changed += 1
        self._note(held.number, item.names, item.draft.key)
        return not new.deleted


_REP, _IBIP, _KEY, _TIMESTAMP = map(rows.ITEM_COLUMNS.index, ("rep", "ibip", "key", "timestamp"))


def is_removed(draft: Draft) -> bool:
    """Return whether a draft describes a removed item."""
    return draft.facts.get("state") is ItemState.DELETED


class RefusedRecord(NamedTuple):
    """A refused record: the line in which it starts (0 without lines), the reason, its name in the source."""

    line: int
    why: IbiError
    name: str = ""


class RecordNotice(NamedTuple):
    """A notice about a record that is not refused: its line, the notice, its name in the source."""

    line: int
    note: IbiError
    name: str = ""


def notice_of(record: SourceRecord, note: IbiError) -> RecordNotice:
    """Return a notice about a record, with its place in the source."""
    return RecordNotice(record.line, note, record.name)


@dataclass
class RecordIngest:
    """Ingests records into one Archive, in the name of the account `who`; `what`: the event in the history.

    `refused` is called with every refused record, `noticed` with every notice about a record; `stage` copies
    the files of a draft into staging. A record that differs from the held item is refused, with two
    exceptions: with an `origin`, the name of another host, items that came from that host are changed as
    their records say, or removed; with `update`, all items that records find by a name or a key are changed.
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
        """Finds held items that are nearly the same as new records."""
        return SimilarItems(self.item_store.catalogue)

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Ingest a batch. Raises SetupError if the Archive cannot be written; then nothing of it is ingested."""
        refusals: list[RefusedRecord] = []
        ready = self._prepared(records, refusals)
        if ready:
            unneeded: list[StoredFile] = []
            notices: list[RecordNotice] = []
            with self.item_store.unit_of_work(self.who) as work:
                batch = ImportBatch(work, ready, self.what, self.origin, update=self.update)
                for item in ready:
                    if not self._put(batch, item, notices, refusals):
                        unneeded += item.staged
                batch.flush()
            for notice in notices:
                self.noticed(notice)
            # Only after a commit. SQLite's log may still have a transaction that failed, and a crash replays it: then
            # it lists staged files, which must be there. The end of the staging session deletes them safely.
            for staged in unneeded:
                self.item_store.file_store.discard(staged)
            for each in fields(ImportReport):
                setattr(
                    self.report, each.name, getattr(self.report, each.name) + getattr(batch.report, each.name)
                )
        self.report.refused += len(refusals)
        for refusal in sorted(refusals, key=lambda refusal: refusal.line):
            self.refused(refusal)

    @staticmethod
    def _put(
        batch: ImportBatch, item: PreparedItem, notices: list[RecordNotice], refusals: list[RefusedRecord]
    ) -> bool:
        """Add or change an item, or refuse its record; False if its files are not needed. Raises SetupError."""
        try:
            needed = batch.put(item)
        except SetupError:
            raise
        except IbiError as error:
            refusals.append(RefusedRecord(item.record.line, error, item.record.name))
            return False
        if needed and item.nearly:
            notices.append(notice_of(item.record, nearly_held(item.nearly)))
        notices.extend(notice_of(item.record, note) for note in item.record.notes())
        return needed

    def _prepared(self, records: Sequence[SourceRecord], refusals: list[RefusedRecord]) -> list[PreparedItem]:
        """Return the records that can be ingested, with their names and staged files.

        Raises SetupError if labels or files cannot be kept; files that were staged stay until the session ends.
        """
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
                    # The item was removed from its repository before it was ever harvested.
                    self.report.unchanged += 1
                    continue
                staged = self._staged(draft) if draft.files else ()
            except SetupError:
                # The fault is one of the Archive, not of this record: all further records would meet it, too.
                raise
            except IbiError as error:
                refusals.append(RefusedRecord(record.line, error, record.name))
                continue
            holding = self.item_store.at_home(draft.holding(forms, now))
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
        """Return, by key, the names for records without names: those held, those minted, or an error.

        `nearly` receives, by key, the names of held items that are nearly the same as new items.
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


def of_several(names: Iterable[str]) -> AlreadyHeld:
    """Return the error for a record whose names and key are those of several items."""
    problem = "its names and its key are those of several items: {names}"
    return AlreadyHeld(problem, names=", ".join(names))


def differs(held: IBIForms, fields: Iterable[str]) -> AlreadyHeld:
    """Return the error for a record whose item is held, but differs in these fields."""
    problem = "{name} is already held, but differs in: {fields}"
    return AlreadyHeld(problem, name=held.main, fields=", ".join(fields))


def doubtful(held: IBIForms) -> AlreadyHeld:
    """Return the error for a record of an update that names no item, but is nearly the same as a held one."""
    problem = (
        "nearly the same as {name}: give the record this name if it is that item,"
        " or a key of its own if it is another"
    )
    return AlreadyHeld(problem, name=held.main)


def nearly_held(held: IBIForms) -> IbiError:
    """Return the notice that a new item is nearly the same as an item that was held before."""
    problem = (
        "a new item, but nearly the same as {name}: if it is that one, give the record this name, and update"
    )
    return IbiError(problem, name=held.main)


def _forms_of_aliases(run: SqlRunner, draft: Draft) -> IBIForms | None:
    """Return the names of the item that is held under an older opaque id of a draft; None without one."""
    aliases = [each.canonical for each in draft.facts.get("aliases", ())]
    numbers = batches.numbers_of_names(run, aliases) if aliases else {}
    return batches.forms_of_number(run, next(iter(numbers.values()))) if numbers else None
