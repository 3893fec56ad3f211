"""Sidecars: an item.json beside the files of an item, with all its facts, to rebuild a lost catalogue from.

    DIR/col/<the parts of the name>/doc/…          the files
    DIR/col/<the parts of the name>/item.json      {"version": 1, "item": {…}, "history": […], "sha256": "…"}

Items that have or had files have a sidecar, also removed items. A linked item has none, because a million
linked items would need a million small files; linked items are in the backup alone. A sidecar is replaced as
a whole, after the change that it records is durable. After a crash it stays marked as outdated, and the next
process writes it. Its last member, the SHA-256 of the rest, shows whether the sidecar itself is damaged.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item import StoredFile
from ibi.archive.model.item_json import read_item, write_item
from ibi.archive.store.tables import history, sidecars
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue, SqlRunner
    from ibi.archive.store.tables.history import ItemEvent

VERSION: Final = 1

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


def write_outdated(catalogue: Catalogue, file_store: FileStore) -> None:
    """Write all outdated sidecars. Raises SetupError, after which they are still marked as outdated."""
    while True:
        with catalogue.reading() as run:
            if not sidecars.any_outdated(run):
                return
        if file_store.is_remote:
            _write_remote(catalogue, file_store)
            continue
        # The transaction marks them as current, so that no item changes meanwhile and only one process writes.
        with catalogue.writing() as writer:
            for holding in sidecars.outdated(writer.run, _AT_ONCE):
                text = sidecar_text(holding, history.events_of(writer.run, holding.number))
                file_store.write_sidecar(holding.forms, text)
                sidecars.record_written(writer.run, holding.number)


def _write_remote(catalogue: Catalogue, file_store: FileStore) -> None:
    """Write some outdated sidecars on another machine, for which no transaction waits."""
    with file_store.placing() as check:  # so that an older text never replaces a newer one
        with catalogue.snapshot() as snapshot:
            texts = _outdated_texts(snapshot)
        for holding, text in texts:
            check()
            file_store.write_sidecar(holding.forms, text)
        with catalogue.writing() as writer:
            now = {holding.number: text for holding, text in _outdated_texts(writer.run)}
            for holding, text in texts:
                if now.get(holding.number) == text:  # else it has changed meanwhile, and is written again
                    sidecars.record_written(writer.run, holding.number)


def _outdated_texts(run: SqlRunner) -> list[tuple[Holding, bytes]]:
    return [
        (holding, sidecar_text(holding, history.events_of(run, holding.number)))
        for holding in sidecars.outdated(run, _AT_ONCE)
    ]
