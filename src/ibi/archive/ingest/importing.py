"""Imports items from a file of JSON lines, BibTeX, RIS or CSV, or a folder of DSpace, or makes a dry run.

Only one batch of records is in memory (with PostgreSQL two), whatever the size of the file; a dry run also remembers
the names and keys of all records before. After an interruption, run the import again: items that are held already are
skipped. See note 11: importing twice.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ibi.archive.ingest.batch import (
    ImportReport,
    RecordIngest,
    RecordNotice,
    RefusedRecord,
    differs,
    doubtful,
    nearly_held,
    notice_of,
    of_several,
)
from ibi.archive.ingest.comparison import SimilarItems, differences, renewed, shown_differences, updated
from ibi.archive.ingest.sources.dspace import CORE, read_dspace
from ibi.archive.ingest.sources.records import read_json_lines
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.item import StoredFile
from ibi.archive.model.item_json import CONTENT_KEY
from ibi.archive.store.tables import batches
from ibi.errors import AlreadyHeld, BadItem, HoldingError, IbiError, SetupError
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.database import is_postgresql
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import Holding
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.identifier.forms import Name


_NOT_KEPT: Final = "the temporary file of the dry run cannot be written: {reason}"


class RunItem(NamedTuple):
    """An item as the records of a dry run so far would leave it."""

    name: str
    """The name by which people know it; of a new item without names, its key."""
    holding: Holding
    """Of a new item: its number is negative, and its files have no digests."""
    files: Mapping[str, Path]
    """The paths of the files that records of this run would add, by name."""
    earlier: bool = True
    """Whether an earlier record would add or change it; else it is as it is held."""


class RunItems:
    """The items that the records of a dry run would add or change, by name and by key.

    They are in a temporary file, because an import may have millions of records. Close it. Raises SetupError.
    """

    def __init__(self) -> None:
        with setup_errors(_NOT_KEPT):
            self._file = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._places: dict[str, int] = {}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def put(self, item: RunItem, names: Iterable[Name]) -> None:
        """Keep an item, in place of the one with these names, or with the same key. Raises SetupError."""
        with setup_errors(_NOT_KEPT):
            place = self._file.seek(0, os.SEEK_END)
            pickle.dump(item, self._file)
        self._places |= dict.fromkeys((name.canonical for name in names), place)
        if item.holding.key:
            self._places[_key(item.holding.key)] = place

    def find(self, canonical: str) -> RunItem | None:
        """Return the item of a canonical name or a `_key`; None if no record so far concerns it."""
        place = self._places.get(canonical)
        if place is None:
            return None
        self._file.seek(place)
        return cast("RunItem", pickle.load(self._file))  # noqa: S301 - written by `put`; the file has no name


def _key(key: str) -> str:
    """Return a key so that it is equal to no name."""
    return f" {key}"


@dataclass
class DryRun:
    """Checks records as `RecordIngest` does, and changes nothing. `refused` gets those that would be refused.

    `look` returns the paths of a draft's files by name, and raises IbiError if a file is missing. Without
    `update`, a record that differs from its item is refused; with it, `noticed` gets the differences. Circles
    of editions are not found. Close it.
    """

    item_store: ItemStore
    refused: Callable[[RefusedRecord], None]
    look: Callable[[Draft], Mapping[str, Path]]
    noticed: Callable[[RecordNotice], None] = lambda _: None
    update: bool = False
    report: ImportReport = field(default_factory=ImportReport)
    _items: RunItems = field(default_factory=RunItems)

    def close(self) -> None:
        """Forget the records of this run."""
        self._items.close()

    @cached_property
    def _similar(self) -> SimilarItems:
        return SimilarItems(self.item_store.catalogue)

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Check some records. Raises SetupError if the Archive cannot be read."""
        for record in records:
            try:
                note = self._look_at(record)
            except SetupError:
                raise
            except IbiError as error:
                self.report.refused += 1
                self.refused(RefusedRecord(record.line, error, record.name))
                continue
            for each in (*([note] if note else []), *record.notes()):
                self.noticed(notice_of(record, each))

    def _look_at(self, record: SourceRecord) -> IbiError | None:
        """Count a record; returns a notice about it, or None. Raises IbiError if it would be refused."""
        draft = record.draft
        if isinstance(draft, IbiError):
            raise draft
        files = self.look(draft) if draft.files else {}
        item = self._find(draft)
        if item is None:
            return self._new(draft, files)
        if self.update:
            return self._change(item, draft, files)
        described = draft.holding(draft.forms or item.holding.forms, self.item_store.moment)
        differing = differences(replace(item.holding, files=()), renewed(item.holding, draft, described))
        if not _are_held(files, item):
            differing.append("files")
        if differing and item.earlier:
            problem = "{name} is in an earlier record, but differs in: {fields}"
            raise AlreadyHeld(problem, name=item.name, fields=", ".join(differing))
        if differing:
            raise differs(described.forms, differing)
        self.report.unchanged += 1
        return None

    def _find(self, draft: Draft) -> RunItem | None:
        """Return the item of a record, as the records before leave it. Raises AlreadyHeld for several items."""
        catalogue, found = self.item_store.catalogue, dict[int, RunItem]()
        for name in _names_of(draft):
            if item := self._items.find(name.canonical) or _held(catalogue.holding(name)):
                found[item.holding.number] = item
        key = draft.key
        if key and (item := self._items.find(_key(key)) or _held(catalogue.holding_by_key(key))):
            found[item.holding.number] = item
        if len(found) > 1:
            raise of_several(found[number].name for number in sorted(found))
        return next(iter(found.values()), None)

    def _new(self, draft: Draft, files: Mapping[str, Path]) -> IbiError | None:
        store = self.item_store
        nearly = self._similar.find(draft) if draft.forms is None else None
        if nearly and self.update and draft.key.startswith(CONTENT_KEY):
            raise doubtful(nearly)
        # An item without names would get them from the mint. Here it has those of the service, which no rule
        # looks at, and which nothing finds.
        new = draft.holding(draft.forms or store.service, store.moment)
        store.check_new(new, store.catalogue.holding)
        self.report.added += 1
        name = next(map(str, _names_of(draft)), new.key)
        new = replace(new, number=-self.report.added, files=_placeholders(files))
        self._put(RunItem(name, new, files))
        return nearly_held(nearly) if nearly else None

    def _put(self, item: RunItem) -> None:
        service = self.item_store.service
        of_service = {service.rep, service.ibip} if item.holding.number < 0 else set()
        self._items.put(item, (name for name in item.holding.names if name not in of_service))

    def _change(self, item: RunItem, draft: Draft, files: Mapping[str, Path]) -> IbiError | None:
        """Count an update, and return a notice of its changes; it does not compare files that are held."""
        held = item.holding
        new = updated(held, draft)
        differing = shown_differences(held, new)
        added = [name for name in draft.files if held.file(name) is None]
        if not differing and not added:
            self.report.unchanged += 1
            return None
        if held.deleted:
            raise HoldingError("{name} was removed on {date}", name=item.name, date=held.timestamp)
        if held.state is ItemState.COPY:
            raise HoldingError("{name} is a copy; it is edited where its original is", name=item.name)
        new = replace(new, files=(*held.files, *_placeholders({name: files[name] for name in added})))
        self._put(RunItem(item.name, new, {**item.files, **files}))
        if new.deleted:
            self.report.removed += 1
            return IbiError("{name} would be removed", name=item.name)
        self.report.changed += 1
        fields = ", ".join(filter(None, (differing, *added)))
        return IbiError("{name} would be changed: {fields}", name=item.name, fields=fields)


def _names_of(draft: Draft) -> list[Name]:
    """Return the names that a record gives its item: those that it has, and its older opaque ids."""
    forms = draft.forms
    names = (forms.rep, forms.ibip) if forms else ()
    return [*(name for name in names if name), *draft.facts.get("aliases", ())]


def _held(holding: Holding | None) -> RunItem | None:
    return RunItem(str(holding.forms.main), holding, {}, earlier=False) if holding else None


def _placeholders(files: Mapping[str, Path]) -> tuple[StoredFile, ...]:
    """Return files that have not been read, so that neither their sizes nor their digests are known."""
    return tuple(StoredFile(name, 0, "", "") for name in sorted(files))


def _are_held(files: Mapping[str, Path], item: RunItem) -> bool:
    """Return whether these files have the same names and bytes as those of the item. Raises BadItem."""
    digests = {file.name: file.sha256 for file in item.holding.files}
    if files.keys() != digests.keys():
        return False
    return all(
        _digest_of(path) == (_digest_of(item.files[name]) if name in item.files else digests[name])
        for name, path in files.items()
    )


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadItem("{path} cannot be read: {reason}", path=path, reason=error.strerror) from None


BATCH: Final = 2000
"""Records in one transaction, at most."""

# Bytes of the file in one transaction, since a batch of very long lines would take too much memory.
_BATCH_BYTES: Final = 8 << 20
ENDINGS: Final = {".bib": "bibtex", ".bibtex": "bibtex", ".ris": "ris", ".csv": "csv", ".tsv": "csv"}
"""Ending of a file's name -> format; any other ending is one of JSON lines."""


def _bibtex(file: BinaryIO) -> Iterator[SourceRecord]:
    # Imported only when it is needed, because pybtex and its codec load slowly.
    from ibi.archive.ingest.sources.bibtex import read_bibtex

    return read_bibtex(file)


IMPORT_FORMATS: Final[dict[str, Callable[[BinaryIO], Iterator[SourceRecord]]]] = {
    "bibtex": _bibtex,
    "csv": read_table,
    "jsonl": read_json_lines,
    "ris": read_ris,
}
"""The readers of the formats that can be imported, by format."""


def format_of(path: Path) -> str:
    """Return the format of a file by the extension of its name; "jsonl" for an unknown extension."""
    return ENDINGS.get(path.suffix.lower(), "jsonl")


@dataclass(frozen=True, slots=True)
class FileImporter:
    """Imports files into one Archive, in the name of the account `who`.

    `refused` is called with every refused record, `noticed` with every notice about another record,
    `progress` with the number of bytes of the file that have been read.
    """

    item_store: ItemStore
    who: str
    refused: Callable[[RefusedRecord], None]
    progress: Callable[[int], None] = lambda _: None
    noticed: Callable[[RecordNotice], None] = lambda _: None

    def run(self, path: Path, form: str = "", *, dry: bool = False, update: bool = False) -> ImportReport:
        """Import a file in one of IMPORT_FORMATS, by default that of its name; or a folder that DSpace exported.

        `dry`: only check the records; `update`: change the items that records find by a name or a key. Raises
        SetupError if the file cannot be read or the Archive not be written, BadItem for another format.
        """
        folder = path if path.is_dir() else path.parent

        def staged(draft: Draft) -> Iterator[StoredFile]:
            for name, source in draft.files.items():
                yield self.item_store.file_store.stage(name, _inside(folder, source))

        def there(draft: Draft) -> Mapping[str, Path]:
            files = {name: _inside(folder, source) for name, source in draft.files.items()}
            for name, file in files.items():
                if not file.is_file():
                    raise BadItem("{path} does not exist", path=draft.files[name])
            return files

        taking: RecordIngest | DryRun
        if dry:
            taking = DryRun(self.item_store, self.refused, there, self.noticed, update)
        else:
            taking = RecordIngest(
                self.item_store, self.who, self.refused, staged, noticed=self.noticed, update=update
            )
        with (
            setup_errors("{path}: {reason}", under=path),
            self._records(path, form) as records,
            closing(taking) if isinstance(taking, DryRun) else self.item_store.staging_session(),
        ):
            _ingest(taking, records, self.progress)
        return taking.report

    @contextmanager
    def _records(self, path: Path, form: str) -> Iterator[Iterator[SourceRecord]]:
        """Open a file, or a folder that DSpace exported, for its records. Raises BadItem, OSError."""
        if not path.is_dir():
            with path.open("rb") as file:
                yield IMPORT_FORMATS[form or format_of(path)](file)
            return
        if form or not any(path.rglob(CORE)):
            raise BadItem(
                "{path} is a folder, but none that DSpace has exported: no {name} is in it",
                path=path,
                name=CORE,
            )
        with self.item_store.catalogue.reading() as run:
            keys = {key.split(":", 2)[2]: key for key in batches.harvested_keys(run)}
        yield read_dspace(path, keys)


def ingest_file(
    taking: RecordIngest | DryRun, file: BinaryIO, form: str, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Ingest the records of a file, or only check them, batch by batch. Raises BadItem, SetupError, OSError."""
    _ingest(taking, IMPORT_FORMATS[form](file), progress)


def _ingest(
    taking: RecordIngest | DryRun, records: Iterator[SourceRecord], progress: Callable[[int], None]
) -> None:
    if not (isinstance(taking, RecordIngest) and is_postgresql(taking.item_store.catalogue.engine)):
        for batch in _batches(records):
            taking.take(batch)
            progress(batch[-1].read)
        return
    # While a transaction waits for the database, the records of the next one are read.
    with ThreadPoolExecutor(1, "import") as thread:
        under_way: list[tuple[Future[None], int]] = []
        for batch in _batches(records):
            _await(under_way, progress)
            under_way.append((thread.submit(copy_context().run, taking.take, batch), batch[-1].read))
        _await(under_way, progress)


def _await(under_way: list[tuple[Future[None], int]], progress: Callable[[int], None]) -> None:
    """Wait for the transaction that is under way, if there is one. Raises as `RecordIngest.take`."""
    while under_way:
        transaction, read = under_way.pop()
        transaction.result()
        progress(read)


def first_records(file: BinaryIO, form: str, most: int) -> list[SourceRecord]:
    """Return the first records of a file. Raises BadItem."""
    return list(islice(IMPORT_FORMATS[form](file), most))


def _batches(records: Iterator[SourceRecord]) -> Iterator[list[SourceRecord]]:
    """Group records into batches; a record with files ends its batch, so that no file waits in staging."""
    batch: list[SourceRecord] = []
    begun = 0
    for record in records:
        batch.append(record)
        heavy = bool(getattr(record.draft, "files", None)) or record.read - begun > _BATCH_BYTES
        if heavy or len(batch) >= BATCH:
            yield batch
            batch, begun = [], record.read
    if batch:
        yield batch


def _inside(folder: Path, source: str) -> Path:
    """Resolve a path that must be inside the folder of the imported file (threat T21). Raises BadItem."""
    try:
        path = (folder / source).resolve()
        if path.is_relative_to(folder.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):
        # RuntimeError: links that lead in a circle, before Python 3.13.
        pass
    raise BadItem("{path} is not inside the folder of the file that names it", path=source)
