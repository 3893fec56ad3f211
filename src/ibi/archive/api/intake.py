"""Files on their way into an Archive over HTTP: in staging while they are taken in, and gone if nothing comes of it."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from ibi.archive.api.multipart import Form
from ibi.archive.holding import StoredFile
from ibi.errors import SetupError
from ibi.interface.routes import aside, in_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Keeper
    from ibi.archive.storage import Storage
    from ibi.interface.routes import Call

Files = dict[str, StoredFile]
"""Files in staging, by the names that they shall have in their item."""


@asynccontextmanager
async def taking_in(keeper: Keeper) -> AsyncIterator[Files]:
    """The right to stage files. Those that are in the dict at the end, by their names, were not listed: they go."""
    stack, files = ExitStack(), Files()
    try:
        await in_turn(stack.enter_context, keeper.working())
        stack.callback(_discard, keeper.storage, files)
        yield files
    finally:
        await in_turn(stack.close)


@contextmanager
def offered(files: Files) -> Iterator[None]:
    """Have the catalogue list them. Where disk or database fail, it may have done so: then they stay.

    A transaction whose flush has failed can come back after a crash. Whoever is at work next clears away what is not
    listed.
    """
    try:
        yield
    except SetupError:
        files.clear()
        raise


def listed(files: Files, holding: Holding) -> None:
    """Those files that are an item's now are no longer ours to discard."""
    names = {file.staged for file in holding.files}
    for name, file in list(files.items()):
        if file.staged in names:
            del files[name]


async def read_form(call: Call, storage: Storage, files: Files) -> bytes | None:
    """Read a form to its end; returns its part `item`. Raises Refusal, BadItem, SetupError, ClientGone, OSError."""
    form = Form(call.asked.header(b"content-type"), storage, files)
    try:
        async for piece in call.body.pieces():
            await aside(form.feed, piece)
        form.finish()
    finally:
        await aside(form.stop)
    return form.item


async def read_file(
    call: Call, storage: Storage, name: str, files: Files, longest: int | None = None
) -> None:
    """Read a body that is one file, of `longest` bytes at most.

    Raises Refusal, BadItem, SetupError, ClientGone, OSError.
    """
    staging = await aside(storage.stage_stream, name)
    try:
        async for piece in call.body.pieces(longest):
            await aside(staging.write, piece)
        files[name] = await aside(staging.finish)
    finally:
        if name not in files:
            await aside(staging.discard)


def _discard(storage: Storage, files: Files) -> None:
    for file in files.values():
        with suppress(OSError):  # it is cleared away later
            storage.discard(file)
