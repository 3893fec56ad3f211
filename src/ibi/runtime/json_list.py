"""JSON list files: short lists that a person edits by commands and a running service obeys, readable by their owner.

    DIR/WHAT.json    {"version": 1, "WHAT": [{...}, ...]}    e.g. the accounts, or the tokens, of a service
    DIR/WHAT.lock    locked during a change

One change at a time; the file is replaced as a whole, so a reader finds the list as it was before or after. A
running service sees a change when it looks for a row the next time. In a data directory with a shared store, the list
is a document there, under the name of the file (`runtime.shared`).
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ibi.errors import SetupError
from ibi.runtime.durable_files import locked_file, make_folder, replace_file, setup_errors
from ibi.runtime.shared.documents import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LONGEST_NAME: Final = 64
"""Characters of the name of a row."""

_VERSION: Final = 1
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
_MADE = re.compile(r"[0-9TZ:.-]{20,30}")


def unchecked(_rows: Sequence[Any]) -> None:
    """Check nothing: for a change that depends on nothing that was seen before."""


class Row(Protocol):
    """A named tuple of texts and tuples of texts; an empty tuple is not written. `made`: RFC 3339 in UTC."""

    @property
    def name(self) -> str:
        """The name that a person calls the row by."""

    @property
    def made(self) -> str:
        """When it was made."""

    def _asdict(self) -> dict[str, Any]: ...


RowT = TypeVar("RowT", bound=Row)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a row: letters, digits, dots, hyphens and underlines, not too many."""
    return _NAME.fullmatch(text) is not None


class JsonList(Generic[RowT]):
    """The list in a folder under a word. Every method raises SetupError if the file cannot be used."""

    def __init__(
        self, folder: Path, word: str, read: Callable[[dict[str, Any]], RowT], key: Callable[[RowT], str]
    ) -> None:
        """`read` makes a row of its JSON object, or raises ValueError; `find` looks for a row by its `key`."""
        self._path = folder / f"{word}.json"
        self._word = word
        self._read = read
        self._key = key
        self._documents = documents_of(folder)
        self._version: object = None  # of the text that `_known` was read from
        self._known: dict[str, RowT] = {}

    def all(self) -> Sequence[RowT]:
        """Return every row, in the order in which they were added."""
        if self._documents is not None:
            return self._rows_of(self._documents.read(self._path.name))
        try:
            return self._rows(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ()
        except UnicodeDecodeError:
            raise self._damaged() from None
        except OSError as error:
            raise self._unreadable(error) from None

    def find(self, key: str) -> RowT | None:
        """Return the row with a key; None if there is none. Reads the file again if it has changed."""
        version = self._present_version()
        if version is None:
            return None
        if version != self._version:
            self._known = {self._key(row): row for row in self.all()}
            # `version` was taken before reading, so that a change in between is noticed the next time.
            self._version = version
        return self._known.get(key)

    @contextmanager
    def changing(self, check: Callable[[Sequence[RowT]], None] = unchecked) -> Iterator[list[RowT]]:
        """Yield all rows, to be changed in place; write them unless the block raises. One change at a time.

        `check` is given the rows before the block; if it raises, nothing is changed.
        """
        if self._documents is not None:
            with self._documents.changing(self._path.name) as document:
                rows = list(self._rows_of(document.text))
                check(rows)
                yield rows
                document.write(self._content(rows))
            return
        with setup_errors("{path} cannot be written: {reason}", path=self._path):
            make_folder(self._path.parent)
            # A separate lock file: the list is replaced, and a lock on the old one excludes no new user.
            with locked_file(self._path.with_suffix(".lock")):
                rows = list(self.all())
                check(rows)
                yield rows
                replace_file(self._path, self._content(rows).encode())

    def _content(self, rows: Sequence[RowT]) -> str:
        written = [{name: value for name, value in row._asdict().items() if value != ()} for row in rows]
        content = json.dumps({"version": _VERSION, self._word: written}, indent=1)
        return f"{content}\n"

    def _present_version(self) -> object:
        """Return what differs after each change of the list; None if there is none."""
        if self._documents is not None:
            return self._documents.version(self._path.name) or None
        try:
            file = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from None
        return file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns

    def _rows_of(self, text: str | None) -> Sequence[RowT]:
        return () if text is None else self._rows(text)

    def _rows(self, text: str) -> list[RowT]:
        """Return the rows in the text of a file. Raises SetupError for anything that we did not write."""
        try:
            content: Any = json.loads(text)
            if content["version"] == _VERSION:
                rows = [self._read(row) for row in content[self._word]]
                if all(_NAME.fullmatch(row.name) and _MADE.fullmatch(row.made) for row in rows):
                    return rows
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        raise self._damaged() from None

    def _damaged(self) -> SetupError:
        problem = "{path} is damaged: put it back from a backup, or remove it and make anew what it held"
        return SetupError(problem, path=self._path)

    def _unreadable(self, error: OSError) -> SetupError:
        reason = error.strerror or error
        return SetupError("{path} cannot be read: {reason}", path=self._path, reason=reason)
