"""Items taken in from a file: JSON lines, BibTeX, RIS or CSV (note 11).

All formats become the same description of an item, record by record; whatever the size of the file, one batch of
records is in memory. A run that was interrupted goes on when it is run again: what is held already is passed over.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from ibi.archive.intake.batch import Report
from ibi.archive.intake.taking import Intake, Refused
from ibi.archive.intake.weighing import Weighing
from ibi.errors import BadItem, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.holding import StoredFile
    from ibi.archive.intake.sources.record import Record
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Keeper

__all__ = ["BATCH", "FORMATS", "Importer", "Refused", "Report", "fill", "format_of"]

BATCH: Final = 2000
"""Records in one transaction, at most."""

_BATCH_BYTES: Final = (
    8 << 20
)  # of the file, in one transaction: a batch of longest lines would be too much at once
_ENDINGS: Final = {".bib": "bibtex", ".bibtex": "bibtex", ".ris": "ris", ".csv": "csv", ".tsv": "csv"}


def _json_lines(file: BinaryIO) -> Iterator[Record]:
    from ibi.archive.intake.sources.json_lines import read_json_lines

    return read_json_lines(file)


def _bibtex(file: BinaryIO) -> Iterator[Record]:
    from ibi.archive.intake.sources.bibtex import read_bibtex

    return read_bibtex(file)


def _ris(file: BinaryIO) -> Iterator[Record]:
    from ibi.archive.intake.sources.ris import read_ris

    return read_ris(file)


def _csv(file: BinaryIO) -> Iterator[Record]:
    from ibi.archive.intake.sources.table import read_table

    return read_table(file)


FORMATS: Final[dict[str, Callable[[BinaryIO], Iterator[Record]]]] = {
    "jsonl": _json_lines,
    "bibtex": _bibtex,
    "ris": _ris,
    "csv": _csv,
}
"""What can be read, and how."""


def format_of(path: Path) -> str:
    """The format of a file, told by the end of its name; JSON lines where that says nothing."""
    return _ENDINGS.get(path.suffix.lower(), "jsonl")


class Importer:
    """Takes items into one Archive, in the name of `who`.

    `refused` is told every record that is not taken in, and `progress` how many bytes of the file have been read.
    """

    def __init__(
        self,
        keeper: Keeper,
        who: str,
        refused: Callable[[Refused], None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._keeper = keeper
        self._who = who
        self._refused = refused
        self._progress = progress

    def run(self, path: Path, form: str | None = None, *, dry: bool = False) -> Report:
        """Import a file in one of FORMATS, by default that of its name; or (`dry`) only look what would come of it.

        Raises SetupError if it cannot be read, or the Archive not be written, and BadItem if it is no such file.
        """
        folder = path.parent

        def staged(draft: Draft) -> Iterator[StoredFile]:
            for name, source in draft.files.items():
                yield self._keeper.storage.stage(name, _inside(folder, source))

        def there(draft: Draft) -> None:
            for source in draft.files.values():
                if not _inside(folder, source).is_file():
                    raise BadItem("{path} does not exist", path=source)

        intake = Intake(self._keeper, self._who, self._refused, staged)
        taking = Weighing(self._keeper.catalogue, self._refused, there) if dry else intake
        try:
            with path.open("rb") as file, nullcontext() if dry else self._keeper.working(), _many_objects():
                fill(taking, file, form or format_of(path), self._progress)
        except OSError as error:
            reason = error.strerror or error
            raise SetupError("{path}: {reason}", path=error.filename or path, reason=reason) from None
        return taking.report


def fill(
    taking: Intake | Weighing, file: BinaryIO, form: str, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Take the records of a file in, or weigh them, batch by batch. Raises BadItem, SetupError, OSError."""
    for batch in _batches(FORMATS[form](file)):
        taking.take(batch)
        progress(batch[-1].read)


@contextmanager
def _many_objects() -> Iterator[None]:
    """Spare the collector the objects of the whole program, which it would look at again with every batch."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Records in small numbers; one with files ends its batch, so that they do not wait in staging for others."""
    batch: list[Record] = []
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
    """A path relative to the folder of the file, which it must not leave."""
    try:
        path = (folder / source).resolve()
        if path.is_relative_to(folder.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):  # the last: links that lead in a circle, before Python 3.13
        pass
    raise BadItem("{path} is not inside the folder of the file that names it", path=source)
