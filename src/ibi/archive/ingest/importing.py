"""Imports items from a file of JSON lines, BibTeX, RIS or CSV (note 11), or makes a dry run.

Only one batch of records is in memory, whatever the size of the file. After an interruption, run the import
again: items that are held already are skipped.
"""

from __future__ import annotations

import gc
import hashlib
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ibi.archive.ingest.batch import (
    ImportReport,
    RecordIngest,
    RecordNotice,
    RefusedRecord,
    differs,
    doubtful,
    nearly_held,
    notice_of,
)
from ibi.archive.ingest.held import SimilarItems, differences, renewed, shown_differences, updated
from ibi.archive.ingest.sources.records import read_json_lines
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.item_json import CONTENT_KEY
from ibi.errors import BadItem, HoldingError, IbiError
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore


@dataclass
class DryRun:
    """Checks records as `RecordIngest` does, and changes nothing. `refused` gets those that would be refused.

    `look` returns the paths of a draft's files by name, and raises IbiError if a file is missing. Without
    `update`, a record that differs from the held item is refused; with it, `noticed` gets the differences.
    """

    item_store: ItemStore
    refused: Callable[[RefusedRecord], None]
    look: Callable[[Draft], Mapping[str, Path]]
    noticed: Callable[[RecordNotice], None] = lambda _: None
    update: bool = False
    report: ImportReport = field(default_factory=ImportReport)

    @cached_property
    def _similar(self) -> SimilarItems:
        return SimilarItems(self.item_store.catalogue)

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Check some records."""
        for record in records:
            try:
                note = self._look_at(record)
            except IbiError as error:
                self.report.refused += 1
                self.refused(RefusedRecord(record.line, error, record.name))
                continue
            for each in (*([note] if note else []), *record.notes()):
                self.noticed(notice_of(record, each))

    def _look_at(self, record: SourceRecord) -> IbiError | None:
        """Count a record; returns a notice about it, or None. Raises IbiError if it would be refused."""
        draft, store = record.draft, self.item_store
        if isinstance(draft, IbiError):
            raise draft
        files = self.look(draft) if draft.files else {}
        held = self._held(draft)
        if held is None or not self.update:
            new = draft.holding(draft.forms or store.service, store.moment)
            store.check_answers(new, store.catalogue.holding)
        if held is None:
            return self._new(draft)
        if self.update:
            return self._change(held, draft)
        described = draft.holding(draft.forms or held.forms, store.moment)
        differing = differences(replace(held, files=()), renewed(held, draft, described))
        if not _are_held(files, held):
            differing.append("files")
        if differing:
            raise differs(described.forms, differing)
        self.report.unchanged += 1
        return None

    def _held(self, draft: Draft) -> Holding | None:
        catalogue = self.item_store.catalogue
        forms = draft.forms
        names = [*(each for each in (forms and forms.rep, forms and forms.ibip) if each)]
        found = (catalogue.holding(name) for name in (*names, *draft.facts.get("aliases", ())))
        held = next((each for each in found if each), None)
        return held or (catalogue.holding_by_key(draft.key) if draft.key else None)

    def _new(self, draft: Draft) -> IbiError | None:
        nearly = self._similar.find(draft) if draft.forms is None else None
        if nearly and self.update and draft.key.startswith(CONTENT_KEY):
            raise doubtful(nearly)
        self.report.added += 1
        return nearly_held(nearly) if nearly else None

    def _change(self, held: Holding, draft: Draft) -> IbiError | None:
        """Count an update, and return a notice of its changes; it does not compare files that are held."""
        new = updated(held, draft)
        differing = shown_differences(held, new)
        added = [name for name in draft.files if held.file(name) is None]
        if not differing and not added:
            self.report.unchanged += 1
            return None
        if held.deleted:
            raise HoldingError("{name} was removed on {date}", name=held.forms.main, date=held.timestamp)
        if held.state is ItemState.COPY:
            raise HoldingError("{name} is a copy; it is edited where its original is", name=held.forms.main)
        if new.deleted:
            self.report.removed += 1
            return IbiError("{name} would be removed", name=held.forms.main)
        self.report.changed += 1
        fields = ", ".join(filter(None, (differing, *added)))
        return IbiError("{name} would be changed: {fields}", name=held.forms.main, fields=fields)


def _are_held(files: Mapping[str, Path], held: Holding) -> bool:
    """Return whether these files have the same names and bytes as those of the item. Raises BadItem."""
    digests = {file.name: file.sha256 for file in held.files}
    if files.keys() != digests.keys():
        return False
    return all(_digest_of(path) == digests[name] for name, path in files.items())


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
_ENDINGS: Final = {".bib": "bibtex", ".bibtex": "bibtex", ".ris": "ris", ".csv": "csv", ".tsv": "csv"}


def _bibtex(file: BinaryIO) -> Iterator[SourceRecord]:
    # Imported only when it is needed, because pybtex and its codec load slowly.
    from ibi.archive.ingest.sources.bibtex import read_bibtex

    return read_bibtex(file)


IMPORT_FORMATS: Final[dict[str, Callable[[BinaryIO], Iterator[SourceRecord]]]] = {
    "jsonl": read_json_lines,
    "bibtex": _bibtex,
    "ris": read_ris,
    "csv": read_table,
}
"""The readers of the formats that can be imported, by format."""


def format_of(path: Path) -> str:
    """Return the format of a file by the extension of its name; "jsonl" for an unknown extension."""
    return _ENDINGS.get(path.suffix.lower(), "jsonl")


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

    def run(
        self, path: Path, form: str | None = None, *, dry: bool = False, update: bool = False
    ) -> ImportReport:
        """Import a file in one of IMPORT_FORMATS, by default that of its name.

        `dry`: only check the records; `update`: change the items that records find by a name or a key. Raises
        SetupError if the file cannot be read or the Archive not be written, BadItem for another format.
        """
        folder = path.parent

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
            path.open("rb") as file,
            nullcontext() if dry else self.item_store.staging_session(),
            _many_objects(),
        ):
            ingest_file(taking, file, form or format_of(path), self.progress)
        return taking.report


def ingest_file(
    taking: RecordIngest | DryRun, file: BinaryIO, form: str, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Ingest the records of a file, or only check them, batch by batch. Raises BadItem, SetupError, OSError."""
    for batch in _batches(IMPORT_FORMATS[form](file)):
        taking.take(batch)
        progress(batch[-1].read)


@contextmanager
def _many_objects() -> Iterator[None]:
    """Exclude the program's objects from garbage collection, which would visit them for each batch."""
    if gc.get_freeze_count():  # a server has done this already, for its lifetime
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
