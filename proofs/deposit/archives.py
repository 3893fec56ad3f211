"""Archives to be tried, made of a pattern: what is needed once is made once, and then copied.

A copied directory must not mint (it would give labels twice), so each copy has a waiting room of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from ibi.archive.care.check import check
from ibi.archive.deposit import Place, deposit
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.holding import Holding, StoredFile
from ibi.archive.item_lines import read_item
from ibi.archive.keeper import Keeper
from ibi.identifier.forms import IBIForms, parse_name
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings
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


def at(data: Path) -> ArchiveDirectory:
    """An Archive's directory, by the clock of this machine."""
    return ArchiveDirectory(data, this_machine())


def found(data: Path, address: str = HOST) -> ArchiveDirectory:
    """A new Archive, with nothing in it but its service."""
    directory = at(data)
    directory.begin()
    directory.make(settings(address))
    return directory


def copy(pattern: Path, data: Path) -> None:
    """Another Archive with the same items; nobody may be at work in the pattern."""
    at(data).begin()
    for name in _COPIED:
        if (pattern / name).is_dir():
            shutil.copytree(pattern / name, data / name, dirs_exist_ok=True)
        else:
            shutil.copy(pattern / name, data / name)


def all_faults(data: Path) -> list[str]:
    """All that the judge sees, and all that the Archive's own check finds, where nobody changes anything."""
    return [*faults(data), *(f"ibi archive check: {found.what}" for found in check(at(data), this_machine()))]


def stage(keeper: Keeper, files: Mapping[str, bytes]) -> list[StoredFile]:
    """Put contents into staging, by their names in the item."""
    staged = []
    for name, content in files.items():
        staging = keeper.storage.stage_stream(name)
        staging.write(content)
        staged.append(staging.finish())
    return staged


def put(keeper: Keeper, files: Mapping[str, bytes], who: str, edition_of: str = "", key: str = "") -> Holding:
    """Deposit an item with files of these contents."""
    draft = read_item(
        {"key": key, "files": dict.fromkeys(files, "")} if key else {"files": dict.fromkeys(files, "")}
    )
    place = Place(edition_of=parse_name(edition_of)) if edition_of else None
    return deposit(keeper, draft, stage(keeper, files), who, place)
