"""What the tests of keeping share: an Archive in a folder, items with files in it, and ways to harm them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibi.archive.catalogue import Catalogue
from ibi.archive.deposit import deposit
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.holding import Holding
from ibi.archive.item_lines import read_item
from ibi.archive.keeper import Keeper
from ibi.archive.storage import Storage
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings

SERVICE = "rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB"
NAME = "a.example/b/2010/01.01.00.00"
OTHER = "a.example/b/2011/01.01.00.00"
LINKED = "a.example/b/2012/01.01.00.00"
WHO = "maria"


@dataclass
class Kept:
    """An Archive in a folder."""

    data: Path

    @property
    def directory(self) -> ArchiveDirectory:
        return ArchiveDirectory(self.data, this_machine())

    @property
    def storage(self) -> Storage:
        return self.directory.storage()

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        with self.directory.keeper() as keeper:
            yield keeper

    @contextmanager
    def catalogue(self) -> Iterator[Catalogue]:
        with self.directory.catalogue() as catalogue:
            yield catalogue

    def put(self, name: str = NAME, files: Mapping[str, bytes] | None = None, **facts: Any) -> Holding:
        """Deposit an item with these files."""
        files = files or {}
        value = {"rep": name, "files": dict.fromkeys(files, "x"), **facts}
        with self.keeper() as keeper:
            staged = []
            for each, content in files.items():
                staging = keeper.storage.stage_stream(each)
                staging.write(content)
                staged.append(staging.finish())
            return deposit(keeper, read_item(value), staged, WHO)

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
        return self.storage.path_of(holding.forms, listed)

    def staging(self) -> list[str]:
        return sorted(path.name for path in (self.data / "staging").iterdir())

    def everything(self) -> list[dict[str, Any]]:
        """All that the catalogue says of every item, with its history, in a form that can be compared."""
        from ibi.archive.item_lines import write_item
        from ibi.archive.ledgers import history

        told = []
        with self.catalogue() as catalogue:
            for holding in catalogue.all():
                with catalogue.reading() as run:
                    events = [event._asdict() for event in history.events_of(run, holding.number)]
                told.append({**write_item(holding), "history": events})
        return json.loads(json.dumps(told))  # type: ignore[no-any-return]  # what was written is a list


def make_archive(data: Path, **more: Any) -> Kept:
    """A new Archive in a folder."""
    directory = ArchiveDirectory(data, this_machine())
    directory.begin()
    given: dict[str, Any] = {
        "address": "archive.example",
        "ip": "127.0.0.1",
        "service": IBIForms.parse(SERVICE),
        "key": "12345678901234567890",
        "secret": "ab" * 32,
        "admin": "admin@archive.example",
    }
    directory.make(ArchiveSettings(**(given | more)))
    return Kept(data)


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file, as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
