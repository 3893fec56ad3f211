"""What the tests of copies and hand-overs share: Archives that answer on sockets, with all that programs need."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from archive.world import RENDERER, Served, serving, settings_for
from ibi.archive.api import items
from ibi.archive.deposit import deposit
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.editing import edit
from ibi.archive.holding import Holding
from ibi.archive.item_lines import read_item
from ibi.archive.keeper import Keeper
from ibi.archive.ledgers import copies, history
from ibi.archive.service import ArchiveService
from ibi.archive.sharing.copying import Copier
from ibi.archive.sharing.giving import Giver
from ibi.archive.sharing.receiving import Receiver
from ibi.archive.sharing.refreshing import refresh
from ibi.archive.sharing.transfer import routes
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.interface.dispatch import Api
from ibi.minting.machine import this_machine
from ibi.serving import Service
from ibi.settings import ArchiveSettings, Peer
from ibi.tokens import Scope, Tokens
from support.ports import free_port

NAME = "a.example/b/2010/01.01.00.00"
FILES = {"index.html": b"<p>hello</p>", "data/a%20b.bin": bytes(range(256)) * 300}
LARGEST = 1 << 20


@dataclass
class Archive:
    """An Archive in a folder that may be served at an address."""

    data: Path
    port: int

    @property
    def directory(self) -> ArchiveDirectory:
        return ArchiveDirectory(self.data, this_machine())

    @property
    def settings(self) -> ArchiveSettings:
        return self.directory.settings()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        with self.directory.keeper() as keeper:
            yield keeper

    def put(self, name: str = NAME, files: dict[str, bytes] | None = None, **facts: Any) -> Holding:
        """Deposit an item with these files."""
        files = FILES if files is None and "url" not in facts else files or {}
        draft = read_item({"rep": name, "files": dict.fromkeys(files, "x"), **facts})
        with self.keeper() as keeper:
            return deposit(keeper, draft, _staged(keeper, files), "maria")

    def edit(self, name: str = NAME, files: dict[str, bytes] | None = None, **facts: Any) -> Holding:
        """Edit it."""
        with self.keeper() as keeper:
            return edit(keeper, parse_ibi(name), facts, "maria", staged=_staged(keeper, files or {}))

    def holding(self, name: str = NAME) -> Holding | None:
        with self.directory.catalogue() as catalogue:
            return catalogue.holding(parse_ibi(name))

    def held(self, name: str = NAME) -> Holding:
        holding = self.holding(name)
        assert holding is not None
        return holding

    def source(self, name: str = NAME) -> copies.Source:
        """What the ledger of copies says of it."""
        with self.directory.catalogue() as catalogue, catalogue.reading() as run:
            source = copies.source_of(run, self.held(name).number)
        assert source is not None
        return source

    def events(self, name: str = NAME) -> list[history.Event]:
        with self.directory.catalogue() as catalogue, catalogue.reading() as run:
            return history.events_of(run, self.held(name).number)

    def content(self, name: str = NAME) -> dict[str, bytes]:
        """Its files, read from the disk."""
        holding = self.held(name)
        found = {}
        for file in holding.files:
            with self.directory.storage().open(holding.forms, file) as opened:
                found[file.name] = opened.read()
        return found

    def copy(
        self, name: str = NAME, archive: str = "", *, private: bool = True, resolver: str = ""
    ) -> Holding:
        with self.keeper() as keeper:
            copier = Copier(keeper, resolver, LARGEST)
            return asyncio.run(copier.copy(parse_ibi(name), "otto", archive, private=private))

    def refresh(self, name: str = NAME, resolver: str = "") -> copies.Source:
        """Make a copy equal to its original."""
        with self.keeper() as keeper:
            return asyncio.run(refresh(Copier(keeper, resolver, LARGEST), parse_ibi(name), "refresh"))

    def knows(self, peer: Archive, name: str, token: str = "") -> None:
        """Have a peer in its settings."""
        peers = Peer.read_tables(self.data)
        Peer.write_tables(self.data, {**peers, name: Peer(address=peer.root, token=token)})

    def lets_in(self, name: str) -> str:
        """Make a token for hand-overs."""
        return Tokens(self.data).make(name, "2026-01-01T00:00:00Z", (Scope.TRANSFER,))

    @contextmanager
    def giver(self) -> Iterator[Giver]:
        with self.keeper() as keeper:
            yield Giver(keeper, self.data, self.root)

    @contextmanager
    def served(self) -> Iterator[Served]:
        """Answer at its address until the end of the block."""
        settings, directory = self.settings, self.directory
        catalogue = directory.open_catalogue()
        keeper = directory.keeper_of(catalogue, settings)
        receiver = Receiver(keeper, self.data, LARGEST)
        tables = (
            *routes(Giver(keeper, self.data, self.root), receiver),
            *items.routes(catalogue, directory.now),
        )
        api = Api(tables, Tokens(self.data), LARGEST)
        app = ArchiveService(
            settings, catalogue, directory.storage(), directory.now, RENDERER, api=api.answer
        )

        async def close() -> None:
            await receiver.close()
            await app.close()

        with ExitStack() as stack:
            ear = socket.create_server(("127.0.0.1", self.port))
            ear.setblocking(False)
            archive: Any = self
            yield stack.enter_context(serving(archive, ear, Service(app, close=close)))


def _staged(keeper: Keeper, files: dict[str, bytes]) -> list[Any]:
    staged = []
    for name, content in files.items():
        staging = keeper.storage.stage_stream(name)
        staging.write(content)
        staged.append(staging.finish())
    return staged


def make_archive(folder: Path, number: int, **more: object) -> Archive:
    """A new Archive in a folder of its own."""
    port = free_port()
    service = IBIForms.parse(f"rep archive{number}.example/w/2020/01.01.00.00")
    directory = ArchiveDirectory(folder / f"archive{number}", this_machine())
    directory.begin()
    directory.make(settings_for(f"127.0.0.1:{port}", service=service, **more))
    return Archive(folder / f"archive{number}", port)


class Elsewhere:
    """Any server of the Web: what it gives at a path, and what it was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answer; gives the root URL."""
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                world.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, headers, body = world.pages.get(self.path, (404, {}, b"nothing"))
                if headers.get("etag", "-") == self.headers.get("if-none-match"):
                    status, body = 304, b""
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

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

    def leads(self, name: str, url: str) -> None:
        """As a resolver, lead to the original of an item."""
        self.pages[f"/{name}?ibiurl.requireditemstatus=Original"] = (302, {"location": url}, b"")
