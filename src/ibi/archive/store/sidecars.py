"""Sidecars: an item.json beside the files of an item, with all its facts, to rebuild a lost catalogue from.

    DIR/col/<the parts of the name>/doc/…          the files
    DIR/col/<the parts of the name>/item.json      {"version": 1, "item": {…}, "history": […], "sha256": "…"}

Items that have or had files have a sidecar, also removed items. A linked item has none, because a million
linked items would need a million small files; linked items are in the backup alone. A sidecar is replaced as
a whole, after the change that it records is durable. After a crash it stays marked as outdated, and the next
process writes it. Its last member, the SHA-256 of the rest, shows whether the sidecar itself is damaged.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item import StoredFile
from ibi.archive.model.item_json import read_item, write_item
from ibi.archive.store.tables import history, sidecars
from ibi.errors import BadItem
from ibi.runtime.durable_files import flush_folder, open_regular, setup_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.files import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent

FILE: Final = "item.json"
VERSION: Final = 1
LONGEST: Final = 256 << 20
"""Bytes of the longest sidecar that is read: an item may have many files and a long history."""

# Items in one transaction; few, because no other process can write meanwhile.
_AT_ONCE: Final = 20


def sidecar_text(holding: Holding, events: Sequence[ItemEvent]) -> bytes:
    """Return the content of the sidecar of an item."""
    value = {
        "version": VERSION,
        "item": write_item(holding),
        "history": [event._asdict() for event in events],
        **({"unsettled": holding.unsettled} if holding.unsettled else {}),
    }
    return _written({**value, "sha256": hashlib.sha256(_written(value)).hexdigest()})


def _written(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def read_sidecar(text: bytes) -> tuple[Holding, list[ItemEvent]]:
    """Read an item and its history from the content of a sidecar. Raises BadItem or ParseError."""
    try:
        value = json.loads(text)
        digest = value.pop("sha256")
        if digest != hashlib.sha256(_written(value)).hexdigest():
            raise BadItem("it is damaged: its SHA-256 differs")
        item: dict[str, Any] = value["item"]
        files = tuple(
            StoredFile(name, int(file["size"]), str(file["sha256"]), str(file["type"]))
            for name, file in item.pop("files", {}).items()
        )
        events = [
            history.ItemEvent(str(each["moment"]), str(each["who"]), str(each["what"]), dict(each["detail"]))
            for each in value["history"]
        ]
        if value["version"] != VERSION:
            raise BadItem("it was written by another version")
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadItem("it is not what this Archive writes") from None
    draft = read_item({**item, "files": {file.name: file.name for file in files}})
    if draft.forms is None or draft.timestamp is None:
        raise BadItem("it is not what this Archive writes")
    holding = draft.holding(draft.forms, draft.timestamp, tuple(sorted(files, key=lambda file: file.name)))
    return replace(holding, unsettled=str(value.get("unsettled", ""))), events


def tells_the_same(recorded: Holding, held: Holding) -> bool:
    """Return whether the item of a sidecar equals that of the catalogue, but for number and staging names."""
    files = tuple(replace(file, staged="") for file in held.files)
    return recorded == replace(held, number=0, files=files)


def path_of(file_store: FileStore, holding: Holding) -> Path:
    """Return the path of the sidecar of an item."""
    return file_store.path_of(holding.forms, StoredFile("x", 0, "", "")).parents[1] / FILE


def write_outdated(catalogue: Catalogue, file_store: FileStore) -> None:
    """Write all outdated sidecars. Raises SetupError, after which they are still marked as outdated.

    Their transaction marks them as current, so that no item changes meanwhile and only one process writes.
    """
    while True:
        with catalogue.reading() as run:
            if not sidecars.any_outdated(run):
                return
        with catalogue.writing() as writer:
            for holding in sidecars.outdated(writer.run, _AT_ONCE):
                text = sidecar_text(holding, history.events_of(writer.run, holding.number))
                _keep(file_store, path_of(file_store, holding), text)
                sidecars.record_written(writer.run, holding.number)


def read_file(path: Path) -> bytes:
    """Read the content of a sidecar. Raises OSError, also if the file is not regular or is too long."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LONGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read()


def _keep(file_store: FileStore, path: Path, text: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with setup_errors("{path} cannot be written: {reason}", path=path):
        file_store.make_folder_of(path)
        # An interrupted process may have left it; no other process writes it now.
        with suppress(FileNotFoundError):
            temporary.unlink()
        # Only its owner may read it, even if a web server may read the files: it names who changed the item.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        flush_folder(path.parent)
