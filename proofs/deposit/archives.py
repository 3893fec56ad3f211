"""Archives to be tried, made of a pattern: what is needed once is made once, and then copied.

A copied directory must not mint (it would give labels twice), so each copy has a waiting room of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.model.item_json import read_item
from ibi.archive.preservation.check import check
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import ItemPlacement, deposit
from ibi.archive.store.item_store import ItemStore
from ibi.identifier.forms import IBIForms, parse_name
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from proofs.deposit.looking import faults

HOST, IP = "archive.example.org", "150.163.34.243"
_COPIED = ("archive.toml", "catalogue.sqlite", "col", "staging")


def settings(address: str = HOST) -> ArchiveSettings:
    """The settings of all of them; `address` is where it answers."""
    return ArchiveSettings(
        address=address,
        ip="127.0.0.1",
        service=IBIForms.parse(f"rep {HOST}/service/2020/01.01.00.00"),
        key="12345678901234567890",
        secret="ab" * 32,
        admin="admin@archive.example.org",
        mint_host=HOST,
        mint_ip=IP,
        granularity="0.001",
    )


def at(data: Path) -> DataDirectory:
    """An Archive's directory, by the clock of this machine."""
    return DataDirectory(data, this_machine())


def found(data: Path, address: str = HOST) -> DataDirectory:
    """A new Archive, with nothing in it but its service."""
    directory = at(data)
    directory.reserve()
    directory.create(settings(address))
    return directory


def copy(pattern: Path, data: Path) -> None:
    """Another Archive with the same items; no process may be at work in the pattern."""
    at(data).reserve()
    for name in _COPIED:
        if (pattern / name).is_dir():
            shutil.copytree(pattern / name, data / name, dirs_exist_ok=True)
        else:
            shutil.copy(pattern / name, data / name)


def all_faults(data: Path) -> list[str]:
    """All that the judge sees, and all that the Archive's own check finds, while nothing changes."""
    return [*faults(data), *(f"ibi archive check: {found.what}" for found in check(at(data), this_machine()))]


def stage(item_store: ItemStore, files: Mapping[str, bytes]) -> list[StoredFile]:
    """Put contents into staging, by their names in the item."""
    staged = []
    for name, content in files.items():
        staging = item_store.file_store.stage_stream(name)
        staging.write(content)
        staged.append(staging.finish())
    return staged


def put(
    item_store: ItemStore, files: Mapping[str, bytes], who: str, edition_of: str = "", key: str = ""
) -> Holding:
    """Deposit an item with files of these contents."""
    draft = read_item(
        {"key": key, "files": dict.fromkeys(files, "")} if key else {"files": dict.fromkeys(files, "")}
    )
    place = ItemPlacement(edition_of=parse_name(edition_of)) if edition_of else None
    return deposit(item_store, draft, stage(item_store, files), who, place).holding
