"""Import of items from a file: JSON lines, BibTeX, RIS or CSV (note 11); or a dry run of it.

Whatever the size of the file, only one batch of records is in memory. An interrupted import is run again: items that
are held already are skipped.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.ingest.batch import ImportReport, RecordIngest, RefusedRecord
from ibi.archive.ingest.sources.records import read_json_lines
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table
from ibi.errors import BadItem, IbiError
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore


@dataclass(slots=True)
class DryRun:
    """Checks records as `RecordIngest` does, and changes nothing. `refused` gets every record that would be refused.

    `look` checks the files of a draft, and raises IbiError where one is missing. A record whose name or key is held
    counts as unchanged, whether or not it differs from what is held.
    """

    item_store: ItemStore
    refused: Callable[[RefusedRecord], None]
    look: Callable[[Draft], None]
    report: ImportReport = field(default_factory=ImportReport)

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Check some records."""
        for record in records:
            draft = record.draft
            try:
                if isinstance(draft, IbiError):
                    raise draft
                if draft.files:
                    self.look(draft)
                store = self.item_store
                new = draft.holding(draft.forms or store.service, store.moment)
                store.check_answers(new, store.catalogue.holding)
            except IbiError as error:
                self.report.refused += 1
                self.refused(RefusedRecord(record.line, error, record.name))
                continue
            if draft.forms is not None:
                held = self.item_store.catalogue.holding(draft.forms.main)
            else:
                held = self.item_store.catalogue.holding_by_key(draft.key) if draft.key else None
            if held is not None:
                self.report.unchanged += 1
            else:
                self.report.added += 1


BATCH: Final = 2000
"""Records in one transaction, at most."""

# Of the file, in one transaction: a batch of longest lines would be too much at once.
_BATCH_BYTES: Final = 8 << 20
_ENDINGS: Final = {".bib": "bibtex", ".bibtex": "bibtex", ".ris": "ris", ".csv": "csv", ".tsv": "csv"}


def _bibtex(file: BinaryIO) -> Iterator[SourceRecord]:
    # Loaded when it is needed: pybtex and its codec take a while.
    from ibi.archive.ingest.sources.bibtex import read_bibtex

    return read_bibtex(file)


IMPORT_FORMATS: Final[dict[str, Callable[[BinaryIO], Iterator[SourceRecord]]]] = {
    "jsonl": read_json_lines,
    "bibtex": _bibtex,
    "ris": read_ris,
    "csv": read_table,
}
"""The formats that can be imported, and their readers."""


def format_of(path: Path) -> str:
    """Return the format of a file by the end of its name; JSON lines for any other."""
    return _ENDINGS.get(path.suffix.lower(), "jsonl")


@dataclass(frozen=True, slots=True)
class FileImporter:
    """Imports files into one Archive, in the name of the account `who`.

    `refused` is called with every record that is refused, `progress` with the bytes of the file that have been read.
    """

    item_store: ItemStore
    who: str
    refused: Callable[[RefusedRecord], None]
    progress: Callable[[int], None] = lambda _: None

    def run(self, path: Path, form: str | None = None, *, dry: bool = False) -> ImportReport:
        """Import a file in one of IMPORT_FORMATS, by default that of its name; `dry`: only check what could be.

        Raises SetupError if it cannot be read, or the Archive not be written, and BadItem if it is no such file.
        """
        folder = path.parent

        def staged(draft: Draft) -> Iterator[StoredFile]:
            for name, source in draft.files.items():
                yield self.item_store.file_store.stage(name, _inside(folder, source))

        def there(draft: Draft) -> None:
            for source in draft.files.values():
                if not _inside(folder, source).is_file():
                    raise BadItem("{path} does not exist", path=source)

        ingest = RecordIngest(self.item_store, self.who, self.refused, staged)
        taking = DryRun(self.item_store, self.refused, there) if dry else ingest
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
    """Exclude the objects of the program from garbage collection, which would visit them again with every batch."""
    if gc.get_freeze_count():  # a server has done so, and for good
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _batches(records: Iterator[SourceRecord]) -> Iterator[list[SourceRecord]]:
    """Group records into batches; one with files ends its batch, so that its files do not wait in staging."""
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
    """Resolve a path relative to the folder of the file, which it must not leave (threat T21). Raises BadItem."""
    try:
        path = (folder / source).resolve()
        if path.is_relative_to(folder.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):
        # The last: links that lead in a circle, before Python 3.13.
        pass
    raise BadItem("{path} is not inside the folder of the file that names it", path=source)
