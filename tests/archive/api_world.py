"""An Archive whose JSON interface is served over a socket, and a client that says exactly what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archive.world import RENDERER, NewArchive, Served, listener, serving
from ibi.archive.api import editing, items, openapi, uploads
from ibi.archive.api.upload_store import Uploads
from ibi.archive.service import ArchiveService
from ibi.interface.dispatch import Api
from ibi.serving import Service
from ibi.tokens import Tokens
from support.programs import Program

LARGEST = 64 << 20
BOUNDARY = "sFrontier"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


class Asking(Program):
    """Whoever asks an Archive, with a token for each set of scopes."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.archive.data, served.port)
        self.served = served

    @property
    def archive(self) -> NewArchive:
        return self.served.archive

    @property
    def staging(self) -> list[Path]:
        """What lies in staging."""
        folder = self.archive.data / "staging"
        return sorted(folder.iterdir()) if folder.exists() else []


def part(head: str, body: bytes) -> bytes:
    """A part of a form; `head` is what follows "form-data; "."""
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + body + b"\r\n"


def form(*parts: tuple[str, bytes], end: bytes = f"--{BOUNDARY}--\r\n".encode()) -> bytes:
    """A form."""
    return b"".join(part(head, body) for head, body in parts) + end


def file_part(name: str, body: bytes = b"abc") -> tuple[str, bytes]:
    """A part that is a file, called as it was where it came from."""
    return f'name="file"; filename="{name}"', body


def item_part(value: Any) -> tuple[str, bytes]:
    """The part that is the item."""
    return 'name="item"', json.dumps(value).encode()


def api_of(archive: NewArchive, largest: int = LARGEST) -> Api:
    """The JSON interface of an Archive."""
    under_way = Uploads(archive.data / "uploads", archive.clock.seconds, largest)
    table = (
        *items.routes(archive.catalogue, archive.clock.seconds),
        *editing.routes(archive.keeper, under_way),
        *uploads.routes(under_way),
    )
    return Api(openapi.routes(table, "0"), Tokens(archive.data), largest + (1 << 20), uploads.TUNNEL)


@contextmanager
def asking(make: Callable[..., NewArchive], **more: object) -> Iterator[Asking]:
    """Serve a new Archive with its JSON interface until the end of the block."""
    socket = listener()
    archive = make(f"127.0.0.1:{socket.getsockname()[1]}", **more)
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.storage,
        archive.clock.seconds,
        RENDERER,
        api=api_of(archive).answer,
    )
    with serving(archive, socket, Service(app, close=app.close, largest_body=LARGEST + (2 << 20))) as served:
        yield Asking(served)
