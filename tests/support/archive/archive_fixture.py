"""For the tests of the Archive: Archives in folders of their own, and the same over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from ibi.archive.ingest.batch import ImportReport, RefusedRecord
from ibi.archive.ingest.importing import FileImporter
from ibi.archive.model.answer import check_answers
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory, identity_of
from ibi.archive.store.file_store import FileStore
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.http.server.service import Service, run
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import Machine
from ibi.runtime.settings import ArchiveSettings
from support.programs import Reply
from support.web.unnamed import RENDERER

SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB")
NOW = 1_700_000_000
WHEN = "2023-11-14T22:13:20Z"
PLACE = ""
"""The place in an S3 store below which Archives of the test keep their files, if they do; see `files_place`."""
_numbers = count()


class Clock:
    """A clock that is set by hand; minting waits by moving it on."""

    def __init__(self) -> None:
        self.now: float = NOW

    def seconds(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def machine(self) -> Machine:
        """A machine with this clock."""

        def ticks() -> int:
            return int(self.now * 10**9)

        return Machine(ticks, self.sleep, ticks, "boot", "machine", lambda: None)


@dataclass
class NewArchive:
    """An Archive in a folder of its own."""

    data: Path
    settings: ArchiveSettings
    catalogue: Catalogue
    file_store: FileStore
    clock: Clock
    refused: list[RefusedRecord] = field(default_factory=list)
    minted: int = 0

    @property
    def folder(self) -> FolderFiles:
        """The store of its files, which is its folder."""
        assert isinstance(self.file_store, FolderFiles)
        return self.file_store

    def mint(self, count: int) -> Iterator[IBIForms]:
        for _ in range(count):
            self.minted += 1
            minutes, seconds = divmod(self.minted, 60)
            hours, minutes = divmod(minutes, 60)
            yield IBIForms.parse(f"rep archive.example/w/2022/01.01.{hours:02}.{minutes:02}.{seconds:02}")

    def load(self, *lines: object, file: str = "items.jsonl") -> ImportReport:
        """Import lines: objects, or bytes as they are."""
        path = self.data / file
        path.write_bytes(b"\n".join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines))
        self.refused.clear()
        return FileImporter(self.item_store, "tester", self.refused.append).run(path)

    @property
    def item_store(self) -> ItemStore:
        """What changes the items of this Archive."""
        settings = self.settings
        return ItemStore(
            self.catalogue,
            self.file_store,
            self.mint,
            self.clock.seconds,
            settings.service,
            partial(check_answers, identity=identity_of(settings), filtered=settings.filter_answers),
            retired=settings.retired,
        )


def next_place() -> str:
    """Return the setting `files` for a new Archive: a place of its own below `PLACE`, "" for its folder."""
    return f"{PLACE}/{next(_numbers)}" if PLACE else ""


def settings_for(address: str, **more: object) -> ArchiveSettings:
    given: dict[str, object] = {
        "address": address,
        "ip": "127.0.0.1",
        "service": SERVICE,
        "key": "12345678901234567890",
        "secret": "ab" * 32,
        "admin": "admin@archive.example",
        "files": next_place(),
    }
    return ArchiveSettings(**(given | more))  # type: ignore[arg-type]  # what a test gives is right


def make_archive(data: Path, address: str, more: dict[str, object]) -> NewArchive:
    """Make an Archive in a folder; `more` are settings that differ from those of `settings_for`."""
    clock = Clock()
    directory = DataDirectory(data, clock.machine)
    directory.reserve()
    settings = settings_for(address, **more)
    directory.create(settings)
    clock.now = NOW
    return NewArchive(data, settings, directory.open_catalogue(), directory.file_store(), clock)


Answer = Reply


class Served:
    """An Archive that answers on a socket of this machine."""

    def __init__(self, archive: NewArchive, port: int) -> None:
        self.archive = archive
        self.port = port

    def get(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """Ask for a target exactly as it is written; header names with "_" for "-"."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in ({"host": self.archive.settings.address} | headers).items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            reply = connection.getresponse()
            return Answer(
                reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
            )
        finally:
            connection.close()


@contextmanager
def serving(archive: NewArchive, listener: socket.socket, service: Service | None = None) -> Iterator[Served]:
    """Serve an Archive in a thread of its own until the end of the block."""
    made = service
    if made is None:
        app = ArchiveService(
            archive.settings, archive.catalogue, archive.file_store, archive.clock.seconds, RENDERER
        )
        app.log_rules()
        made = Service(app, close=app.close)
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(run([made], [listener], lambda _: ready.set(), stop))
    )
    thread.start()
    try:
        assert ready.wait(10)
        yield Served(archive, listener.getsockname()[1])
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(15)
        assert not thread.is_alive()
        loop.close()


def listener() -> socket.socket:
    """A socket of this machine that listens."""
    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


REP = "a.example/b@80/2010/01.01.00.00"
LAST = "a.example/b/2011/01.01.00.00"
GONE = "a.example/b/2012/01.01.00.00"
LINKED = "LK47B6W/362SFKH"
ITEMS = [
    {
        "rep": REP,
        "ibip": "8JMKD3MGP8W/35MME4E",
        "language": "en",
        "next_edition": LAST,
        "translations": {"pt": LINKED},
        "files": {"index.html": "index.html", "a%20b.txt": "a.txt", "@big": "big"},
        "target": "index.html",
        "metadata": {"title": ["One & <two>"]},
    },
    {"rep": LAST, "files": {"a.txt": "a.txt"}, "file_list_public": False},
    {
        "rep": GONE,
        "state": "Deleted",
        "timestamp": "2012-02-01T00:00:00Z",
        "metadata": {"title": ["It was here"]},
    },
    {"ibip": LINKED, "url": "http://far.example/x?y=1", "language": "pt"},
]
"""Items for an Archive that is served."""


def fill(archive: NewArchive) -> None:
    """Give an Archive those items."""
    (archive.data / "index.html").write_bytes(b"<script>alert(1)</script>")
    (archive.data / "a.txt").write_bytes(b"aaa")
    (archive.data / "big").write_bytes(bytes(range(256)) * 4096)
    report = archive.load(*ITEMS)
    assert (report.added, archive.refused) == (len(ITEMS), [])
