"""The judge's own look at a data directory: with its own SQL, its own paths and its own hashes.

Nothing here is shared with the code on trial but the layout of the tables and of DIR/col.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

_ITEMS = "SELECT name.name AS main, item.* FROM item JOIN name ON name.item = item.number AND name.main"
_NAMES = "SELECT name FROM name WHERE item = ? ORDER BY name"
_FILES = "SELECT name, size, sha256 FROM file WHERE item = ?"
_EVENTS = "SELECT who, what, moment, detail FROM event WHERE item = ? ORDER BY number"
_ODD_ITEMS = (
    "SELECT number FROM item WHERE 1 <> (SELECT count(*) FROM name WHERE name.item = item.number AND name.main)"
    " OR file_count <> (SELECT count(*) FROM file WHERE file.item = item.number)"
)
_BESIDE = ("/item.json", "/.item.json.new")
"""What a served Archive writes beside the files of an item, some time after it was changed."""


@dataclass(frozen=True)
class Item:
    """One item as the catalogue has it. `files`: size and SHA-256 by name; `events`: who, what, moment, detail."""

    names: tuple[str, ...]
    facts: dict[str, Any]
    files: dict[str, tuple[int, str]]
    events: tuple[tuple[str, str, str, str | None], ...]

    @property
    def history(self) -> list[tuple[str, str]]:
        """Who, and what."""
        return [(who, what) for who, what, _, _ in self.events]


def items_of(data: Path) -> dict[str, Item]:
    """All items, by their canonical main names."""
    with closing(sqlite3.connect(data / "catalogue.sqlite", timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        return {row["main"]: _item(connection, dict(row)) for row in connection.execute(_ITEMS).fetchall()}


def _item(connection: sqlite3.Connection, facts: dict[str, Any]) -> Item:
    number = facts.pop("number")
    return Item(
        tuple(name for (name,) in connection.execute(_NAMES, [number])),
        facts,
        {name: (size, sha256) for name, size, sha256 in connection.execute(_FILES, [number])},
        tuple(
            (who, what, moment, detail) for who, what, moment, detail in connection.execute(_EVENTS, [number])
        ),
    )


def faults(data: Path) -> list[str]:
    """All that is not as it must be in a directory where no process is at work, after the last one has cleared up."""
    return [*_in_database(data), *_on_disk(data)]


def _in_database(data: Path) -> Iterator[str]:
    with closing(sqlite3.connect(data / "catalogue.sqlite", timeout=10)) as connection:
        for (word,) in connection.execute("PRAGMA integrity_check"):
            if word != "ok":
                yield f"the database is damaged: {word}"
        for row in connection.execute("PRAGMA foreign_key_check"):
            yield f"a row belongs to nothing: {row}"
        for (number,) in connection.execute(_ODD_ITEMS):
            yield f"item {number} has no main name, or miscounts its files"
        for name, staged in connection.execute("SELECT name, staged FROM file WHERE staged IS NOT NULL"):
            yield f"the file {name} is still in staging as {staged}"
        for (path,) in connection.execute("SELECT path FROM leaving"):
            yield f"still to be removed: {os.fsdecode(path)}"


def _on_disk(data: Path) -> Iterator[str]:
    root = data / "col"
    items = items_of(data)
    there, empty = _walk(root)
    yield from (f"an empty folder: {path}" for path in empty)
    yield from (f"left in staging: {path.name}" for path in (data / "staging").iterdir())
    sidecars = {path for path in there if path.rpartition("/")[0] in items and path.endswith(_BESIDE)}
    yield from (
        f"an item.json is not whole: {path}" for path in sorted(sidecars) if not _is_json(root / path)
    )
    there -= sidecars
    listed = {
        f"{main}/doc/{os.fsdecode(unquote_to_bytes(name))}": expected
        for main, item in items.items()
        for name, expected in item.files.items()
    }
    yield from (f"listed by nobody: {path}" for path in sorted(there - listed.keys()))
    yield from (f"listed, but not there: {path}" for path in sorted(listed.keys() - there))
    for path in sorted(there & listed.keys()):
        if _size_and_hash(root / path) != listed[path]:
            yield f"other bytes than listed: {path}"


def _walk(root: Path) -> tuple[set[str], list[str]]:
    """The paths of all files below a folder, and of all empty folders."""
    files, empty = set[str](), list[str]()
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        files.update(str(here / name) for name in names)
        if not folders and not names and folder != str(root):
            empty.append(str(here))
    return files, empty


def _is_json(path: Path) -> bool:
    """Whether a file is whole; one that is only about to take its place need not be."""
    if path.name.startswith("."):
        return True
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _size_and_hash(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, file_digest(file, "sha256").hexdigest()
