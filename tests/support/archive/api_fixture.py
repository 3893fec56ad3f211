"""An Archive whose JSON interface is served over a socket, and a client that says exactly what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ibi.accounts.tokens import Scope, Tokens
from ibi.api import operations
from ibi.api.dispatch import Api
from ibi.api.jobs import Jobs
from ibi.api.routes import Call
from ibi.app.archive import archive_directory, indexer
from ibi.archive.api import changes, deposits, openapi, uploads
from ibi.archive.api.items import ItemView
from ibi.archive.api.labels import DepositLabels
from ibi.archive.api.uploads import Uploads
from ibi.archive.model.access import day_of
from ibi.archive.operations import items
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.service.service import ArchiveService
from ibi.http.server.service import Service
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import Answer, NewArchive, Served, listener, serving
from support.programs import Program
from support.web.unnamed import RENDERER

LARGEST = 64 << 20
BOUNDARY = "sFrontier"
TITLE = {"metadata": {"title": ["A title"]}}
BYTES = "application/offset+octet-stream"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


class Asking(Program):
    """A client of an Archive, with a token for each set of scopes."""

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


class WaitingLabels(DepositLabels):
    """The labels that an Archive of a test gives, which may wait in threads."""

    def __init__(self, archive: NewArchive) -> None:
        self._archive = archive
        self._threads = ThreadPoolExecutor(32)

    async def draw(self, count: int) -> list[IBIForms]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: list(self._archive.mint(count)))


def api_of(archive: NewArchive, largest: int = LARGEST) -> Api:
    """The JSON interface of an Archive."""
    under_way = Uploads(archive.data / "uploads", archive.clock.seconds, largest)
    directory = archive_directory(archive.data)
    jobs = Jobs(archive.data, archive.clock.seconds, archive.clock.seconds)

    def context_of(call: Call) -> ArchiveContext:
        return ArchiveContext(
            who=call.token_name, say=call.say, directory=directory, jobs=jobs, indexer=partial(indexer, directory),
            is_administrator=call.may(Scope.ADMIN), served=archive.item_store,
            upload=partial(under_way.used, token=call.token_name),
        )  # fmt: skip

    view = ItemView(archive.catalogue, lambda: day_of(archive.clock.seconds()))
    acts = deposits.ItemTransports(
        archive.item_store, view, deposits.Deposits(WaitingLabels(archive)), context_of
    ).acts()
    services = operations.OperationRunner(archive.data, items.OPERATIONS, jobs)
    table = (
        *view.routes(),
        *changes.routes(archive.catalogue, archive.settings.service),
        *operations.routes(items.OPERATIONS, context_of, services, acts),
        *under_way.routes(),
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
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        api=api_of(archive).answer,
    )
    with serving(archive, socket, Service(app, close=app.close, largest_body=LARGEST + (2 << 20))) as served:
        yield Asking(served)


def json_of(answer: Answer) -> Any:
    return json.loads(answer.body)


def refused(answer: Answer, status: int) -> str:
    """The sentence of a problem (RFC 9457)."""
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    problem = json_of(answer)
    assert problem["status"] == status
    assert problem["title"]
    assert "\n" not in problem["detail"]
    assert str(Path.cwd()) not in problem["detail"]
    sentence: str = problem["detail"]
    return sentence


def path_of(answer: Answer) -> str:
    """Where an item is, below /-/api."""
    assert answer.status in {200, 201}, answer.body
    return answer.headers["location"].removeprefix("/-/api")


def deposited(api: Asking, value: Any = TITLE, *files: tuple[str, bytes]) -> str:
    """The path of a new item, with files if there are some."""
    if files:
        body = form(item_part(value), *(file_part(name, content) for name, content in files))
        return path_of(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM))
    return path_of(api.ask("POST", "/items", value, Scope.DEPOSIT))


def count(api: Asking) -> int:
    return api.archive.catalogue.count()


def begun(api: Asking, length: int, **headers: str) -> str:
    answer = api.ask(
        "POST", "/uploads", None, Scope.DEPOSIT, upload_length=str(length), tus_resumable="1.0.0", **headers
    )
    assert (answer.status, answer.headers["tus-resumable"]) == (201, "1.0.0")
    return path_of(answer)


def brought(api: Asking, path: str, offset: int, body: bytes, **headers: str) -> Answer:
    given = {"content_type": BYTES, "tus_resumable": "1.0.0", **headers}
    return api.ask("PATCH", path, body, Scope.DEPOSIT, upload_offset=str(offset), **given)


def whole(api: Asking, content: bytes) -> str:
    """The id of an upload that has come to its end."""
    path = begun(api, len(content))
    assert brought(api, path, 0, content).status == 204
    return path.rpartition("/")[2]
