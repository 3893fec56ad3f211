"""A resolver and an Archive with items, both served on sockets of this machine; the resolver knows the Archive."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope, Tokens
from ibi.app.archive import archive_service
from ibi.app.resolver import resolver_service
from ibi.archive.model.item_json import read_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit
from ibi.http.server.service import Service, listen, run
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from proofs.common import numbered
from proofs.common.resolver_directory import directory
from proofs.fuzz import corpus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ARCHIVE: Final = 1
"""The number of the Archive that is served; the next one is dead."""

_SETTINGS: Final[dict[str, Any]] = {
    "request_rate": 1e5,
    "request_burst": 10**6,
    "archive_seconds": 0.5,
    "overall_seconds": 1.0,
    "metrics_networks": ("127.0.0.0/8",),
}


class Faults(logging.Handler):
    """Hears what the program has to say, and keeps what are faults of its own."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it if it is one."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None or record.levelno >= logging.CRITICAL or record.name == "asyncio":
            trace = error.__traceback__ if error is not None else None
            places = []
            while trace is not None:
                places.append(f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}")
                trace = trace.tb_next
            self.heard.append(
                f"{record.getMessage()}: {type(error).__name__} {error!s:.200} in {places[-1:]}"
            )

    def taken(self) -> list[str]:
        """What was heard since this was called last."""
        heard, self.heard = self.heard, []
        return heard


@dataclass
class World:
    """Both of them."""

    folder: Path
    resolver: Service
    archive: Service
    ports: tuple[int, int]
    token: str
    faults: Faults


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Have them run until the end of the block."""
    faults = Faults()
    logging.getLogger().addHandler(faults)
    with tempfile.TemporaryDirectory(prefix="ibi-fuzz-") as parent:
        folder = Path(parent)
        token = _archive(folder / "archive")
        listeners = [listen("127.0.0.1:0"), listen("127.0.0.1:0")]
        ports = listeners[0].getsockname()[1], listeners[1].getsockname()[1]

        async def names(host: str, _port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", ports[1] if host == numbered.host(ARCHIVE) else 9)]

        data = directory(folder / "resolver", 2, **_SETTINGS)
        (data / "tokens.json").write_bytes((folder / "archive" / "tokens.json").read_bytes())  # it opens both
        resolver = resolver_service(data, host_lookup=names, trusted=[ip_network("127.0.0.0/8")])
        archive = archive_service(folder / "archive", host_lookup=names, trusted=["127.0.0.0/8"])
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(run([resolver, archive], listeners, lambda _: ready.set(), stop))
        await asyncio.wait(
            [serving, asyncio.ensure_future(ready.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        try:
            yield World(folder, resolver, archive, ports, token, faults)
        finally:
            stop.set()
            await serving
            logging.getLogger().removeHandler(faults)


def _archive(data: Path) -> str:
    """Make the Archive; a token for all that can be done with it."""
    made = DataDirectory(data, this_machine())
    made.reserve()
    settings: dict[str, Any] = {
        "address": numbered.host(ARCHIVE),
        "ip": "127.0.0.1",
        "service": IBIForms.parse(f"rep {numbered.service(ARCHIVE)}"),
        "key": numbered.KEY,
        "secret": "ab" * 32,
        "admin": "a@a.example",
        "mint_host": "archive.example.org",
        "mint_ip": "150.163.34.243",
        "granularity": "0.001",
        "largest_upload": 1 << 20,
    }
    made.create(ArchiveSettings(**settings))
    with made.item_store() as item_store:
        for value in corpus.ITEMS:
            fields = {**value, "access": "open", "embargo": ""} if "embargo" in value else value
            fields = {name: each for name, each in fields.items() if each != ""}
            staged = []
            for name in fields.get("files", {}):
                staging = item_store.file_store.stage_stream(name)
                staging.write(b"<script>" + b"abc" * 500)
                staged.append(staging.finish())
            if fields.get("state") != "Deleted":
                deposit(item_store, read_item(fields), staged, "a proof")
    return Tokens(data).make("all", "2026-11-22T10:00:00Z", tuple(Scope))
