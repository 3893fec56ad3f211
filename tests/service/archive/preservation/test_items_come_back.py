"""Any item comes back from an import, from a bag and from a backup as it was, with all of its files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ibi.archive.ingest.importing import FileImporter
from ibi.archive.model.item_json import write_item
from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import bag_at, write_bag
from ibi.archive.store.tables import history
from ibi.errors import HoldingError
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import WHEN
from support.archive.item_samples import ITEMS
from support.archive.preservation_fixture import WHO, ArchiveFolder, make_archive
from support.oracles.state_machines import folder_in_memory

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.model.item import Holding

ORIGINALS = ITEMS.map(lambda item: replace(item, state=ItemState.ORIGINAL, reason="", unsettled=""))


def contents(kept: ArchiveFolder, item: Holding) -> dict[str, bytes]:
    return {file.name: kept.folder.path_of(item.forms, file).read_bytes() for file in item.files}


def imported(kept: ArchiveFolder, folder: Path, item: Holding) -> Holding:
    """The item as an Archive gets it by a line of a file, beside which its files lie."""
    paths = {file.name: f"file{number}" for number, file in enumerate(item.files)}
    for file in item.files:
        (folder / paths[file.name]).write_bytes(file.name.encode())
    (folder / "items.jsonl").write_text(json.dumps({**write_item(item), "files": paths}), "utf-8")
    refused: list[Any] = []
    with kept.item_store() as item_store:
        FileImporter(item_store, WHO, refused.append).run(folder / "items.jsonl")
    if refused:
        raise HoldingError("refused")
    return kept.held(str(item.forms.main))


@settings(max_examples=max(1, settings().max_examples // 12))
@given(item=ORIGINALS, as_file=st.booleans())
def test_an_item_comes_back_as_it_was(item: Holding, as_file: bool) -> None:
    with folder_in_memory() as folder:
        kept = make_archive(folder / "one")
        try:
            held = imported(kept, folder, item)
        except HoldingError:  # such as an item that is its own next edition
            reject()
        # Only size and digest are those of the files that were made here.
        files = zip(item.files, held.files, strict=True)
        made = tuple(replace(old, size=new.size, sha256=new.sha256) for old, new in files)
        assert replace(held, number=0) == replace(item, files=made)
        written = {file.name: file.name.encode() for file in item.files}
        assert contents(kept, held) == written

        with kept.catalogue() as catalogue, catalogue.reading() as run:
            events = history.events_of(run, held.number)
        package = folder / ("bag.zip" if as_file else "bag")
        with bag_at(package) as put:
            write_bag(put, kept.file_store, held, events, "archive.example", WHEN)
        other = make_archive(folder / "two")
        with other.item_store() as item_store:
            take_bag(item_store, package, WHO)
        taken = other.held(str(item.forms.main))
        assert replace(taken, number=0) == replace(held, number=0)
        assert contents(other, taken) == written

        store = BackupStore(folder / "backups")
        Backup(kept.directory, store).run(7)
        assert restore(store, store.backups()[-1], folder / "back") == []
        back = ArchiveFolder(folder / "back")
        found = back.held(str(item.forms.main))
        assert found.unsettled
        assert replace(found, unsettled="") == held
        assert contents(back, found) == written
