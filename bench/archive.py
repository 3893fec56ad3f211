"""An Archive to be measured: made in a directory, filled with items, and served as in operation."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from bench.processes import NotStarted
from ibi.app.archive import indexer
from ibi.archive.ingest.importing import FileImporter
from ibi.archive.store.data_directory import DataDirectory
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECRET: Final = "ab" * 32
SERVICE: Final = "archive.example/w/2020/01.01.00.00"
_FIRST: Final = 1_262_304_000  # 2010-01-01; each item is named a second after the one before


def name_of(number: int) -> str:
    """The name of an item."""
    return time.strftime("archive.example/b@80/%Y/%m.%d.%H.%M.%S", time.gmtime(_FIRST + number))


def item(size: str, number: int) -> dict[str, Any]:
    """An item to be imported: `small`, a name and a URL, or `large`, with the metadata of a report."""
    small = {"rep": name_of(number), "url": f"http://far.example/{number}"}
    if size == "small":
        return small
    return small | {
        "language": "en",
        "metadata": {
            "title": [f"Report {number} on the vegetation of a river basin"],
            "creator": ["Silva, Maria da", "Souza, Ana"],
            "subject": ["remote sensing", {"value": "sensoriamento remoto", "lang": "pt"}],
            "description": ["An abstract of some two hundred characters. " * 5],
            "date": ["2010-01-01"],
        },
        "rights": "All may read it.",
        "licence": "https://licence.example/by/4.0/",
    }


def settings(accel_prefix: str = "") -> ArchiveSettings:
    """Those of an Archive on this machine."""
    return ArchiveSettings(
        address="127.0.0.1",
        ip="127.0.0.1",
        service=IBIForms.parse(f"rep {SERVICE}"),
        key="1" * 20,
        secret=SECRET,
        admin="admin@archive.example",
        accel_prefix=accel_prefix,
    )


def made(data: Path) -> DataDirectory:
    """A new Archive without items."""
    directory = DataDirectory(data, this_machine())
    directory.reserve()
    directory.create(settings())
    return directory


def take_in(directory: DataDirectory, items: Sequence[dict[str, Any]]) -> None:
    """Import items, whose files, if any, lie in the Archive's own directory. Raises NotStarted where one is refused."""
    path = directory.path / "items.jsonl"
    with path.open("w") as lines:
        lines.writelines(f"{json.dumps(each)}\n" for each in items)
    with directory.item_store() as item_store:
        report = FileImporter(item_store, "bench", lambda refused: print(refused.why)).run(path)
    path.unlink()
    if report.added != len(items):
        raise NotStarted(f"only {report.added} of {len(items)} items were taken in")


def filled(data: Path, size: str, items: int) -> DataDirectory:
    """An Archive with so many items of one size, all of which can be found: nothing of it is still to be done."""
    directory = made(data)
    for first in range(0, items, 100_000):
        take_in(directory, [item(size, number) for number in range(first, min(first + 100_000, items))])
    with directory.catalogue() as catalogue, closing(indexer(directory, catalogue)) as index:
        index.bring_up_to_date()
    return directory


def serve(data: Path) -> tuple[str | Path, ...]:
    """The command that serves an Archive."""
    return (sys.executable, "-m", "ibi", "archive", "serve", "--data", data, "--bind", "127.0.0.1:0")


def bring_into_memory(data: Path) -> None:
    """Have the system read the catalogue: some systems soon drop pages that are not used."""
    with (data / "catalogue.sqlite").open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
