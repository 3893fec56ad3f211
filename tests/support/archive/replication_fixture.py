"""For the tests of replication: Archives that answer on sockets, with the JSON interface that other Archives call."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ibi.accounts.tokens import Scope, Tokens
from ibi.api.dispatch import Api
from ibi.app.archive import archive_service
from ibi.archive.api import items
from ibi.archive.api.transfers import peer_routes
from ibi.archive.model.access import day_of
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_item
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.receiving import Receiver
from ibi.archive.replication.refreshing import refresh
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit, edit
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.tables import copies, history
from ibi.http.server.service import Service
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings, Peer
from support.archive.archive_fixture import Served, serving, settings_for
from support.ports import free_port
from support.served import served
from support.web.unnamed import RENDERER

NAME = "a.example/b/2010/01.01.00.00"
FILES = {"index.html": b"<p>hello</p>", "data/a%20b.bin": bytes(range(256)) * 300}
LARGEST = 1 << 20


@dataclass
class Archive:
    """An Archive in a folder that may be served at an address."""

    data: Path
    port: int

    @property
    def directory(self) -> DataDirectory:
        return DataDirectory(self.data, this_machine())

    @property
    def settings(self) -> ArchiveSettings:
        return self.directory.settings()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def item_store(self) -> Iterator[ItemStore]:
        with self.directory.item_store() as item_store:
            yield item_store

    def put(self, name: str = NAME, files: dict[str, bytes] | None = None, **facts: Any) -> Holding:
        """Deposit an item with these files."""
        files = FILES if files is None and "url" not in facts else files or {}
        draft = read_item({"rep": name, "files": dict.fromkeys(files, "x"), **facts})
        with self.item_store() as item_store:
            return deposit(item_store, draft, _staged(item_store, files), "maria").holding

    def edit(self, name: str = NAME, files: dict[str, bytes] | None = None, **facts: Any) -> Holding:
        """Edit it."""
        with self.item_store() as item_store:
            return edit(item_store, parse_ibi(name), facts, "maria", staged=_staged(item_store, files or {}))

    def holding(self, name: str = NAME) -> Holding | None:
        with self.directory.catalogue() as catalogue:
            return catalogue.holding(parse_ibi(name))

    def held(self, name: str = NAME) -> Holding:
        holding = self.holding(name)
        assert holding is not None
        return holding

    def source(self, name: str = NAME) -> copies.CopySource:
        """Return the row about it in the table of copies."""
        with self.directory.catalogue() as catalogue, catalogue.reading() as run:
            source = copies.source_of(run, self.held(name).number)
        assert source is not None
        return source

    def events(self, name: str = NAME) -> list[history.ItemEvent]:
        with self.directory.catalogue() as catalogue, catalogue.reading() as run:
            return history.events_of(run, self.held(name).number)

    def content(self, name: str = NAME) -> dict[str, bytes]:
        """Its files, read from the disk."""
        holding = self.held(name)
        found = {}
        for file in holding.files:
            with self.directory.file_store().open(holding.forms, file) as opened:
                found[file.name] = opened.read()
        return found

    def copy(
        self, name: str = NAME, archive: str = "", *, private: bool = True, resolver: str = ""
    ) -> Holding:
        with self.item_store() as item_store:
            copier = Copier(item_store, resolver, LARGEST)
            return asyncio.run(copier.copy(parse_ibi(name), "otto", archive, private=private))

    def refresh(self, name: str = NAME, resolver: str = "") -> copies.CopySource:
        """Make a copy equal to its original."""
        with self.item_store() as item_store:
            return asyncio.run(refresh(Copier(item_store, resolver, LARGEST), parse_ibi(name), "refresh"))

    def knows(self, peer: Archive, name: str, token: str = "") -> None:
        """Have a peer in its settings."""
        peers = Peer.read_tables(self.data)
        Peer.write_tables(self.data, {**peers, name: Peer(address=peer.root, token=token)})

    def lets_in(self, name: str) -> str:
        """Make a token for hand-overs."""
        return Tokens(self.data).make(name, "2026-01-01T00:00:00Z", (Scope.TRANSFER,))

    @contextmanager
    def giver(self) -> Iterator[Giver]:
        with self.item_store() as item_store:
            yield Giver(item_store, self.data, self.root)

    @contextmanager
    def operated(self) -> Iterator[None]:
        """Serve it as the command does, with all that it does by itself, until the end of the block."""
        with served(lambda: archive_service(self.data), f"127.0.0.1:{self.port}"):
            yield

    @contextmanager
    def served(self) -> Iterator[Served]:
        """Answer at its address until the end of the block."""
        settings, directory = self.settings, self.directory
        catalogue = directory.open_catalogue()
        item_store = directory.item_store_over(catalogue, settings)
        receiver = Receiver(item_store, self.data, LARGEST)
        tables = (
            *peer_routes(Giver(item_store, self.data, self.root), receiver),
            *items.ItemView(catalogue, lambda: day_of(directory.now()), item_store.institution).routes(),
        )
        api = Api(tables, Tokens(self.data), LARGEST)
        app = ArchiveService(
            settings, catalogue, directory.file_store(), directory.now, RENDERER, api=api.answer
        )

        async def close() -> None:
            await receiver.close()
            await app.close()

        with ExitStack() as stack:
            ear = socket.create_server(("127.0.0.1", self.port))
            ear.setblocking(False)
            archive: Any = self
            yield stack.enter_context(serving(archive, ear, Service(app, close=close)))


def _staged(item_store: ItemStore, files: dict[str, bytes]) -> list[Any]:
    staged = []
    for name, content in files.items():
        staging = item_store.file_store.stage_stream(name)
        staging.write(content)
        staged.append(staging.finish())
    return staged


def make_archive(folder: Path, number: int, **more: object) -> Archive:
    """A new Archive in a folder of its own."""
    port = free_port()
    service = IBIForms.parse(f"rep archive{number}.example/w/2020/01.01.00.00")
    directory = DataDirectory(folder / f"archive{number}", this_machine())
    directory.reserve()
    directory.create(settings_for(f"127.0.0.1:{port}", service=service, **more))
    return Archive(folder / f"archive{number}", port)


class Elsewhere:
    """Any web server: `pages` are its answers by path, `requests` those it got.

    The body at a path of `drips` comes so slowly, byte by byte, that it has no end.
    """

    def __init__(self) -> None:
        self.drips: set[str] = set()
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answer; gives the root URL."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append(
                    (self.path, {name.lower(): value for name, value in self.headers.items()})
                )
                status, headers, body = site.answer(self.path)
                if headers.get("etag", "-") == self.headers.get("if-none-match"):
                    status, body = 304, b""
                self.send_response(status)
                length = LARGEST if self.path in site.drips else len(body)
                for name, value in {**headers, "content-length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                with suppress(OSError):  # the client has gone
                    while self.path in site.drips:
                        self.wfile.write(b"x")
                        time.sleep(0.02)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, target: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        return self.pages.get(target, (404, {}, b"nothing"))

    def leads(self, name: str, url: str) -> None:
        """As a resolver, lead to the original of an item."""
        self.pages[f"/{name}?ibiurl.requireditemstatus=Original"] = (302, {"location": url}, b"")
