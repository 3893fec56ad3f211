"""An Archive that is served as in operation, with many items in it."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ibi.archive.ingest.importing import FileImporter
from ibi.archive.oai.provider import OAI
from proofs.common.served_archive import Served
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READY_SECONDS = 600.0
_FIRST = 1_262_304_000  # 2010-01-01; each item is named a second after the one before
_OK = 200


def name_of(number: int) -> str:
    """The name of an item."""
    return time.strftime("a.example/b/%Y/%m.%d.%H.%M.%S", time.gmtime(_FIRST + number))


def line(number: int, title: str, *, removed: bool = False) -> dict[str, Any]:
    """An item as it is imported."""
    rep = name_of(number)
    if removed:
        return {
            "rep": rep,
            "state": "Deleted",
            "timestamp": "2012-02-01T00:00:00Z",
            "metadata": {"title": title},
        }
    metadata = {"title": title, "creator": ["Silva, Maria"], "type": "tese", "date": "2010-01-01"}
    return {"rep": rep, "url": f"http://far.example/{number}", "language": "pt", "metadata": metadata}


@contextmanager
def holding(lines: Iterable[dict[str, Any]]) -> Iterator[Served]:
    """An Archive that holds these items and answers harvesters. Raises TimeoutError."""
    with TemporaryDirectory() as folder:
        archive = Served("giver", Path(folder) / "archive", free_port())
        archive.make()
        path = Path(folder) / "items.jsonl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in lines)
        with archive.directory.item_store() as item_store:
            report = FileImporter(item_store, "proof", lambda _: None).run(path)
        assert not report.refused  # noqa: S101 - they are our own lines
        archive.start()
        try:
            _wait(archive)
            yield archive
        finally:
            archive.stop()


def _wait(archive: Served) -> None:
    """Until the index is whole."""
    end = time.monotonic() + READY_SECONDS
    while _status(archive) != _OK:
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def _status(archive: Served) -> int:
    try:
        connection = HTTPConnection("127.0.0.1", archive.port, timeout=10)
        connection.request("GET", f"{OAI}?verb=Identify")
        status = connection.getresponse().status
        connection.close()
    except OSError:
        return 0
    return status
