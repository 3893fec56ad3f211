"""An Archive whose JSON interface is served over a socket, and a client that says exactly what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from archive.world import RENDERER, Answer, NewArchive, Served, listener, serving
from ibi.archive.api import editing, items, openapi, uploads
from ibi.archive.api.dispatch import Api
from ibi.archive.api.upload_store import Uploads
from ibi.archive.service import ArchiveService
from ibi.serving import Service
from ibi.tokens import Scope, Tokens

MADE = "2023-11-14T22:13:20Z"
LARGEST = 64 << 20
BOUNDARY = "sFrontier"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


@dataclass
class Asking:
    """Whoever asks an Archive, with a token for each set of scopes."""

    served: Served
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def archive(self) -> NewArchive:
        return self.served.archive

    def token(self, *scopes: Scope) -> str:
        """A token with these scopes; it is called by them."""
        name = "-".join(scopes) or "nothing"
        if name not in self.tokens:
            self.tokens[name] = Tokens(self.archive.data).make(name, MADE, scopes)
        return self.tokens[name]

    def ask(
        self, method: str, path: str, body: Any = None, *scopes: Scope, token: str = "", **headers: str
    ) -> Answer:
        """One request below /-/api; a body that is no bytes goes as JSON. Header names with "_" for "-"."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("content-type", "application/json")
        if scopes or token:
            given["authorization"] = f"Bearer {token or self.token(*scopes)}"
        connection = HTTPConnection("127.0.0.1", self.served.port, timeout=30)
        try:
            connection.request(method, f"/-/api{path}", body, given)
            reply = connection.getresponse()
            told = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, told, reply.read())
        finally:
            connection.close()

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
    return Api(openapi.routes(table, "0"), Tokens(archive.data), largest + (1 << 20))


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
