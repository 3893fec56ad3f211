"""An Archive in a folder for the tests of preservation: items with files in it, and ways to damage them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.file_store import FileStore
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_changes import deposit
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from support.archive.archive_fixture import next_place

SERVICE = "rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB"
NAME = "a.example/b/2010/01.01.00.00"
OTHER = "a.example/b/2011/01.01.00.00"
LINKED = "a.example/b/2012/01.01.00.00"
WHO = "maria"


@dataclass
class ArchiveFolder:
    """An Archive in a folder."""

    data: Path

    @property
    def directory(self) -> DataDirectory:
        return DataDirectory(self.data, this_machine())

    @property
    def file_store(self) -> FileStore:
        return self.directory.file_store()

    @property
    def folder(self) -> FolderFiles:
        """The store of its files, which is its folder."""
        store = self.file_store
        assert isinstance(store, FolderFiles)
        return store

    @contextmanager
    def item_store(self) -> Iterator[ItemStore]:
        with self.directory.item_store() as item_store:
            yield item_store

    @contextmanager
    def catalogue(self) -> Iterator[Catalogue]:
        with self.directory.catalogue() as catalogue:
            yield catalogue

    def put(self, name: str = NAME, files: Mapping[str, bytes] | None = None, **facts: Any) -> Holding:
        """Deposit an item with these files."""
        files = files or {}
        value = {"rep": name, "files": dict.fromkeys(files, "x"), **facts}
        with self.item_store() as item_store:
            staged = []
            for each, content in files.items():
                staging = item_store.file_store.stage_stream(each)
                staging.write(content)
                staged.append(staging.finish())
            return deposit(item_store, read_item(value), staged, WHO).holding

    def held(self, name: str = NAME) -> Holding:
        with self.catalogue() as catalogue:
            found = catalogue.holding(parse_ibi(name))
        assert found is not None
        return found

    def path(self, file: str, name: str = NAME) -> Path:
        """Where a file of an item lies."""
        holding = self.held(name)
        listed = holding.file(file)
        assert listed is not None
        return self.folder.path_of(holding.forms, listed)

    def contents(self, name: str = NAME) -> dict[str, bytes]:
        """The bytes of the files of an item, wherever they are."""
        held, found = self.held(name), {}
        for file in held.files:
            with self.file_store.open(held.forms, file) as opened:
                found[file.name] = opened.read()
        return found

    def staging(self) -> list[str]:
        return sorted(path.name for path in (self.data / "staging").iterdir())

    def everything(self) -> list[dict[str, Any]]:
        """All that the catalogue says of every item, with its history, in a form that can be compared."""
        from ibi.archive.model.item_json import write_item
        from ibi.archive.store.tables import history

        items = []
        with self.catalogue() as catalogue:
            for holding in catalogue.all():
                with catalogue.reading() as run:
                    events = [event._asdict() for event in history.events_of(run, holding.number)]
                items.append({**write_item(holding), "history": events})
        return json.loads(json.dumps(items))  # type: ignore[no-any-return]  # what was written is a list


def make_archive(data: Path, **more: Any) -> ArchiveFolder:
    """A new Archive in a folder."""
    directory = DataDirectory(data, this_machine())
    directory.reserve()
    given: dict[str, Any] = {
        "address": "archive.example",
        "ip": "127.0.0.1",
        "service": IBIForms.parse(SERVICE),
        "key": "12345678901234567890",
        "secret": "ab" * 32,
        "admin": "admin@archive.example",
        "files": next_place(),
    }
    directory.create(ArchiveSettings(**(given | more)))
    return ArchiveFolder(data)


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file, as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
