"""Receive files over HTTP: write them into staging as they arrive, and discard them if no item lists them.

A deposit as multipart/form-data has the JSON of an item, and files:

    item                      JSON, at most once
    file; filename="a b.txt"  a file; its name in the item is its file name at the client, percent-encoded
    data/a%20b.txt; filename  a file; its name in the item is the name of the part, already percent-encoded

There are no other temporary files.
"""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from ibi.api.bodies import LONGEST_JSON
from ibi.api.routes import in_quick_thread, in_waiting_thread
from ibi.archive.operations.items import MOST_FILES
from ibi.archive.store.item_changes import Files
from ibi.errors import IbiError
from ibi.http.multipart import PartReader
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ibi.api.bodies import Body
    from ibi.api.routes import Call
    from ibi.archive.model.item import StoredFile
    from ibi.archive.store.file_store import FileStore, StagingFile
    from ibi.archive.store.item_store import ItemStore


SAFE: Final = "/!$&'()*+,;=:@~"
"""Characters of a file name that are not percent-encoded."""


class FormReader(PartReader):
    """Reads a form, piece by piece. Its methods may wait for the disk, so call them in a thread.

    Complete files are put into `files`, which the caller discards. A caller that stops before `finish` must
    call `stop`, which discards the incomplete file.
    """

    def __init__(self, content_type: str, file_store: FileStore, files: dict[str, StoredFile]) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise Refusal(415, IbiError("the body must be JSON, or multipart/form-data with its boundary"))
        try:
            super().__init__(boundary)
        except FormParserError:
            raise _broken() from None
        self.item: bytes | None = None
        self.files = files
        self._file_store = file_store
        self._text: bytearray | None = None  # the part `item`, while it is read
        self._staging: StagingFile | None = None  # the file that is being read
        self._name = ""

    async def receive(self, body: Body) -> None:
        """Read a body to its end. Raises Refusal, BadItem, SetupError, ClientGone, OSError."""
        try:
            async for piece in body.pieces():
                await in_quick_thread(self.feed, piece)
            self.finish()
        finally:
            await in_quick_thread(self.stop)

    def feed(self, piece: bytes) -> None:
        """Read a piece of the body. Raises Refusal, BadItem, SetupError, and OSError if the disk fails."""
        try:
            self.write(piece)
        except FormParserError:
            raise _broken() from None

    def finish(self) -> None:
        """Check that the form has ended with the body. Raises Refusal."""
        if not self.ended:
            raise _broken()

    def stop(self) -> None:
        """Discard the file that is being read, if there is one."""
        if self._staging is not None:
            self._staging.discard()
            self._staging = None

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        name = options.get(b"name", b"")
        if kind != b"form-data" or not name:
            problem = "every part of the form needs a name: Content-Disposition: form-data; name=…"
            raise Refusal(400, IbiError(problem))
        if name == b"item":
            if self.item is not None:
                raise Refusal(422, IbiError("the part {name} is there twice", name="item"))
            self._text = bytearray()
        elif b"filename" in options:
            self._file(options[b"filename"] if name == b"file" else None, name)
        else:
            shown = name.decode("ascii", "backslashreplace")[:40]
            raise Refusal(422, IbiError("the part {name} is neither the item nor a file", name=shown))

    def _file(self, filename: bytes | None, part: bytes) -> None:
        self._name = part.decode("latin-1") if filename is None else quote(filename, safe=SAFE)
        # A second file of the same name would replace the first, and the depositor would not notice.
        if self._name in self.files:
            raise Refusal(422, IbiError("the file {name} is there twice", name=self._name))
        if len(self.files) >= MOST_FILES:
            raise Refusal(413, IbiError("at most {most} files are taken at a time", most=MOST_FILES))
        self._staging = self._file_store.stage_stream(self._name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._staging is not None:
            self._staging.write(memoryview(data)[start:end])
        elif self._text is not None:
            if len(self._text) + end - start > LONGEST_JSON:
                problem = "the part {name} is too long: at most {most} bytes are read"
                raise Refusal(413, IbiError(problem, name="item", most=LONGEST_JSON))
            self._text += data[start:end]

    def _part_end(self) -> None:
        if self._staging is not None:
            self.files[self._name] = self._staging.finish()
            self._staging = None
        elif self._text is not None:
            self.item, self._text = bytes(self._text), None


def _broken() -> Refusal:
    return Refusal(400, IbiError("the form is broken off, or not as multipart/form-data has to be"))


@asynccontextmanager
async def staged_files(item_store: ItemStore) -> AsyncIterator[Files]:
    """Open a staging session, and yield a dict for its files; discard the files in the dict at the end."""
    stack, files = ExitStack(), Files()

    def discard() -> None:
        for file in files.values():
            # The next session deletes files that cannot be deleted now.
            with suppress(OSError):
                item_store.file_store.discard(file)

    try:
        await in_waiting_thread(stack.enter_context, item_store.staging_session())
        # Called before the session ends, after which another process may clear staging.
        stack.callback(discard)
        yield files
    finally:
        await in_waiting_thread(stack.close)


async def read_file(
    call: Call, file_store: FileStore, name: str, files: Files, longest: int | None = None
) -> None:
    """Read a body that is one file of at most `longest` bytes into staging; add it to `files`.

    Raises Refusal, BadItem, SetupError, ClientGone, OSError.
    """
    staging = await in_quick_thread(file_store.stage_stream, name)
    try:
        async for piece in call.body.pieces(longest):
            await in_quick_thread(staging.write, piece)
        files[name] = await in_quick_thread(staging.finish)
    finally:
        if name not in files:
            await in_quick_thread(staging.discard)
