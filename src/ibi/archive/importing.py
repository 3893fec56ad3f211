"""Items taken in from JSON lines: each wholly or not at all, and a second time without any change (note 11).

Lines are read in small batches, one transaction each. What must happen before (minting a label, copying files) is
done outside the transaction; the files move to their place inside it, just before the catalogue lists them.
"""

from __future__ import annotations

import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from ibi.archive.holding import Holding
from ibi.archive.item_lines import LONGEST_LINE, read_line, timestamp_text
from ibi.errors import AlreadyHeld, BadItem, IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.catalogue import Catalogue, Writer
    from ibi.archive.item_lines import Draft
    from ibi.archive.storage import StagedFile, Storage
    from ibi.identifier.forms import IBIForms

BATCH = 1000
"""Lines in one transaction."""


class Refused(NamedTuple):
    """A line that was not taken in, and why."""

    line: int
    why: IbiError


@dataclass(slots=True)
class Report:
    """What an import came to: numbers of lines."""

    added: int = 0
    unchanged: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class _Ready:
    """An item for which everything is at hand."""

    line: int
    holding: Holding
    timestamp_given: bool
    staged: tuple[StagedFile, ...] = ()


class Importer:
    """Takes items into one Archive.

    `mint` gives so many labels, for items that have none; `now` gives POSIX seconds; `refused` is told every line that
    is not taken in, and `progress` how many bytes of the file have been dealt with.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        storage: Storage,
        mint: Callable[[int], Iterator[IBIForms]],
        now: Callable[[], float],
        refused: Callable[[Refused], None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._mint = mint
        self._now = now
        self._tell_refused = refused
        self._progress = progress
        self._report = Report()

    def run(self, path: Path) -> Report:
        """Import a file of JSON lines. Raises SetupError if it cannot be read, or the Archive not be written."""
        self._report = Report()
        try:
            with path.open("rb") as lines, self._storage.ingesting():
                self._take_all(lines, path.parent)
        except OSError as error:
            reason = error.strerror or error
            raise SetupError("{path}: {reason}", path=error.filename or path, reason=reason) from None
        return self._report

    def _take_all(self, lines: BinaryIO, folder: Path) -> None:
        batch: list[tuple[int, Draft]] = []
        for number, line in _numbered(lines):
            try:
                draft = read_line(_checked(line))
            except IbiError as error:
                self._refuse(number, error)
                continue
            batch.append((number, draft))
            if len(batch) >= BATCH or draft.files:
                self._take(batch, folder)
                batch = []
                self._progress(lines.tell())
        self._take(batch, folder)
        self._progress(lines.tell())

    def _take(self, batch: list[tuple[int, Draft]], folder: Path) -> None:
        """Prepare the items of a batch, then put them in with one transaction."""
        now = timestamp_text(self._now())
        named = self._named([draft.key for _, draft in batch if draft.forms is None])
        with ExitStack() as leftovers:
            prepared = (
                self._prepare(number, draft, draft.forms or named[draft.key], now, folder, leftovers)
                for number, draft in batch
            )
            ready = [item for item in prepared if item]
            if ready:
                with self._catalogue.writing() as writer:
                    for item in ready:
                        try:
                            self._put(writer, item)
                        except IbiError as error:
                            self._refuse(item.line, error)

    def _named(self, keys: list[str]) -> dict[str, IBIForms | IbiError]:
        """The names of the items that came under these keys, or why there are none: those they have, or new ones."""
        held = {key: self._catalogue.holding_of_key(key) for key in keys}
        new = [key for key, holding in held.items() if holding is None]
        named: dict[str, IBIForms | IbiError] = {
            key: holding.forms for key, holding in held.items() if holding
        }
        try:
            return named | dict(zip(new, self._mint(len(new)), strict=True)) if new else named
        except IbiError as error:
            return named | dict.fromkeys(new, error)

    def _prepare(
        self,
        line: int,
        draft: Draft,
        forms: IBIForms | IbiError,
        now: str,
        folder: Path,
        leftovers: ExitStack,
    ) -> _Ready | None:
        """Copy the files in; None if the line had to be refused."""
        try:
            _check_files(draft)
            if isinstance(forms, IbiError):
                raise forms
            staged = []
            for name, source in draft.files.items():
                staged.append(self._storage.stage(forms, name, _inside(folder, source)))
                leftovers.callback(self._storage.discard, staged[-1])
        except IbiError as error:
            self._refuse(line, error)
            return None
        files = tuple(sorted((each.file for each in staged), key=lambda file: file.name))
        holding = draft.holding(forms, now, files)
        return _Ready(line, holding, draft.timestamp is not None, tuple(staged))

    def _put(self, writer: Writer, item: _Ready) -> None:
        held = self._held(writer, item.holding)
        if held is None:
            for staged in item.staged:
                self._storage.place(item.holding.forms, staged)
            writer.add(item.holding)
            self._report.added += 1
            return
        differences = _differences(held, item)
        if differences:
            problem = "{name} is already held, but differs in: {fields}"
            raise AlreadyHeld(problem, name=item.holding.forms.main, fields=", ".join(differences))
        self._report.unchanged += 1

    @staticmethod
    def _held(writer: Writer, holding: Holding) -> Holding | None:
        """The item that bears one of these names, or this key. Raises AlreadyHeld if they are those of several."""
        found = {held.number: held for name in holding.names if (held := writer.holding(name))}
        if holding.key and (held := writer.holding_of_key(holding.key)):
            found[held.number] = held
        if len(found) > 1:
            names = ", ".join(str(held.forms.main) for held in found.values())
            raise AlreadyHeld("its names and its key are those of several items: {names}", names=names)
        return next(iter(found.values()), None)

    def _refuse(self, line: int, why: IbiError) -> None:
        self._report.refused += 1
        self._tell_refused(Refused(line, why))


def _numbered(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that hold anything, with their numbers; of an overlong one only the beginning."""
    number = 0
    while line := lines.readline(LONGEST_LINE + 1):
        number += 1
        whole = line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = lines.readline(LONGEST_LINE + 1)
        if number == 1:
            whole = whole.removeprefix(b"\xef\xbb\xbf")
        if whole.strip():
            yield number, whole


def _checked(line: bytes) -> bytes:
    if len(line) > LONGEST_LINE:
        raise BadItem("the line is longer than {limit} bytes", limit=LONGEST_LINE)
    return line


def _check_files(draft: Draft) -> None:
    """Refuse names that some file system takes for one (threat T22), and files that are also folders."""
    seen: dict[str, str] = {}
    for name in draft.files:
        raw = unquote_to_bytes(name)
        folded = unicodedata.normalize("NFC", raw.decode("utf-8", "surrogateescape")).casefold()
        other = seen.setdefault(folded, name)
        if other != name:
            raise BadItem("the file names {one} and {other} are too much alike", one=other, other=name)
    for folded, name in seen.items():
        if any(other.startswith(f"{folded}/") for other in seen):
            raise BadItem("{name} is a file and a folder", name=name)


def _inside(folder: Path, source: str) -> Path:
    """A path relative to the folder of the lines, which it must not leave."""
    try:
        path = (folder / source).resolve()
        if path.is_relative_to(folder.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):  # the last: links that lead in a circle, before Python 3.13
        pass
    raise BadItem("{path} is not inside the folder of the file that names it", path=source)


def _differences(held: Holding, item: _Ready) -> list[str]:
    """The facts in which an item differs from how it is held. Whatever its line leaves open does not differ."""
    described = item.holding
    if all(name in held.names for name in described.names):
        described = replace(described, forms=held.forms)
    described = replace(
        described,
        number=held.number,
        key=described.key or held.key,
        timestamp=described.timestamp if item.timestamp_given else held.timestamp,
    )
    return [
        each.name for each in fields(Holding) if getattr(held, each.name) != getattr(described, each.name)
    ]
