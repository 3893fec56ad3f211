"""Sidecars: beside the files of an item, an item.json that tells all about it, so that a lost catalogue can be remade.

    DIR/col/<the parts of the name>/doc/…          the files
    DIR/col/<the parts of the name>/item.json      {"version": 1, "item": {…}, "history": […], "sha256": "…"}

Items that have files have one, and those that had: also removed ones. A linked item has none, for a million of them
would be a million small files; those are in the backup alone. Each sidecar is replaced as a whole, after the change
that it tells is durable; what a crash leaves untold stays owed in the ledger and is written by whoever comes next. Its
last member is the SHA-256 of the rest, so that between a sidecar and a catalogue it shows which one was damaged.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.care.regular import open_regular
from ibi.archive.holding import StoredFile
from ibi.archive.item_lines import read_item, write_item
from ibi.archive.ledgers import history, sidecars
from ibi.durable import flush_folder
from ibi.errors import BadItem, SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.history import Event
    from ibi.archive.storage import Storage

FILE: Final = "item.json"
VERSION: Final = 1
LONGEST: Final = 256 << 20
"""Bytes of the longest sidecar that is read: an item may have many files and a long history."""

_AT_ONCE: Final = 20  # items in one transaction, in which nobody else writes


def sidecar(holding: Holding, events: Sequence[Event]) -> bytes:
    """All about an item, as its sidecar tells it."""
    value = {
        "version": VERSION,
        "item": write_item(holding),
        "history": [event._asdict() for event in events],
    }
    return _written({**value, "sha256": hashlib.sha256(_written(value)).hexdigest()})


def _written(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def read_sidecar(text: bytes) -> tuple[Holding, list[Event]]:
    """An item and its history, as a sidecar tells them. Raises BadItem or ParseError."""
    try:
        value = json.loads(text)
        digest = value.pop("sha256")
        if digest != hashlib.sha256(_written(value)).hexdigest():
            raise BadItem("it is damaged: its SHA-256 is another")
        item: dict[str, Any] = value["item"]
        files = tuple(
            StoredFile(name, int(file["size"]), str(file["sha256"]), str(file["type"]))
            for name, file in item.pop("files", {}).items()
        )
        events = [
            history.Event(str(each["moment"]), str(each["who"]), str(each["what"]), dict(each["detail"]))
            for each in value["history"]
        ]
        if value["version"] != VERSION:
            raise BadItem("it was written by another version")
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadItem("it is not what this Archive writes") from None
    draft = read_item({**item, "files": {file.name: file.name for file in files}})
    if draft.forms is None or draft.timestamp is None:
        raise BadItem("it is not what this Archive writes")
    return draft.holding(
        draft.forms, draft.timestamp, tuple(sorted(files, key=lambda file: file.name))
    ), events


def same(told: Holding, held: Holding) -> bool:
    """Whether a sidecar tells of an item what the catalogue holds, but for what is the catalogue's own."""
    files = tuple(replace(file, staged="") for file in held.files)
    return told == replace(held, number=0, files=files)


def path_of(storage: Storage, holding: Holding) -> Path:
    """Where the sidecar of an item lies."""
    return storage.path_of(holding.forms, StoredFile("x", 0, "", "")).parents[1] / FILE


def write_owed(catalogue: Catalogue, storage: Storage) -> None:
    """Write all sidecars that are out of date. Raises SetupError, after which they are owed still.

    They are written inside the transaction that notes it: so nobody changes an item meanwhile, and two that come at the
    same time write one after the other.
    """
    while True:
        with catalogue.reading() as run:
            if not sidecars.is_any_owed(run):
                return
        with catalogue.writing() as writer:
            for holding, _ in sidecars.owed(writer.run, _AT_ONCE):
                text = sidecar(holding, history.events_of(writer.run, holding.number))
                _keep(path_of(storage, holding), text)
                sidecars.paid(writer.run, holding.number)


def read_file(path: Path) -> bytes:
    """The text of a sidecar. Raises OSError, also for what is no regular file, or too long."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LONGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read()


def _keep(path: Path, text: bytes) -> None:
    aside = path.with_name(f".{path.name}.new")
    try:
        missing = [each for each in path.parents if not each.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            aside.unlink()
        with aside.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
        flush_folder(path.parent)
        for each in missing:
            flush_folder(each.parent)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("{path} cannot be written: {reason}", path=path, reason=reason) from None
