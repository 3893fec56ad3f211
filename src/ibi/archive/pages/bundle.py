"""Serve an item as a zip file that is made while it is sent, and never stored as a whole.

    <the folders of the item>/item.json         the facts of the catalogue
    <the folders of the item>/doc/<file>        its files, stored and not compressed

The folders are those of DIR/col, so that relative links between items unpacked side by side work. File names
become Unicode, and characters that some system cannot write are percent-encoded for every program.

Files may be replaced while a slow reader receives the zip file. Therefore as many files as may be open are
opened before the answer begins, which keeps their bytes; the others are opened when their turn comes. Every
file is hashed while it is sent. If one is not the listed file, the zip file is never completed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import unicodedata
import weakref
from typing import TYPE_CHECKING, Any, Final

from zipstream import ZipStream

from ibi.archive.model.file_names import portable_part
from ibi.archive.model.item import readable
from ibi.archive.model.item_json import write_item
from ibi.archive.pages.files import disposition
from ibi.http.conditional import http_date, unchanged
from ibi.http.response import Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.pages.files import FileOpener
    from ibi.archive.store.file_store import FileStore
    from ibi.http.request import Request
    from ibi.http.response import Headers, Receive, Send

# About four chunks of each bundle that is being sent are in memory.
_CHUNK: Final = 128 * 1024
MOST_OPEN: Final = 64
"""Files of one bundle that are kept open while it is sent."""

# Open files of all bundles together: a process without a free file descriptor can accept no connection.
_MOST_OPEN_OF_ALL: Final = 256

_log = logging.getLogger(__name__)


class Bundles:
    """The items of one Archive, each as one zip file."""

    def __init__(self, file_store: FileStore, opener: FileOpener) -> None:
        self._file_store = file_store
        self._opener = opener
        # Shared by all bundles of the process; a bundle without a slot opens each file when its turn comes.
        self._places = threading.BoundedSemaphore(_MOST_OPEN_OF_ALL)

    def serve(self, request: Request, holding: Holding, kept: str) -> Response:
        """Serve all files of an item, and its facts. `kept`: the Cache-Control.

        Raises the same errors as `FileOpener.open`.
        """
        folder = holding.forms.main.canonical
        item = f"{json.dumps(write_item(holding), indent=1, ensure_ascii=False)}\n".encode()
        # The facts contain the digests of all files, so their digest identifies the whole bundle.
        tag = f'W/"{hashlib.sha256(item).hexdigest()}"'
        headers: Headers = (
            ("etag", tag),
            ("cache-control", kept),
            ("last-modified", http_date(holding.timestamp)),
        )
        if unchanged(request, tag, holding.timestamp):
            return Response(304, headers=headers)
        shown_as = disposition("attachment", f"{re.sub(r'[^A-Za-z0-9.-]', '-', folder)}.zip")
        size, parts = self._zipped(
            holding, folder, item, [] if request.method == "HEAD" else self._open(holding)
        )
        # No ranges: the zip file is made anew for each request, and contains the time, so its bytes differ.
        return _Bundle(
            200,
            content_type="application/zip",
            headers=(*headers, ("accept-ranges", "none"), ("content-disposition", shown_as)),
            size=size,
            parts=parts,
        )

    def _zipped(
        self, holding: Holding, folder: str, item: bytes, opened: list[BinaryIO]
    ) -> tuple[int, Iterator[bytes]]:
        """Return the size of the zip file, and its pieces; `opened` is closed together with the pieces."""
        bundle: Any = ZipStream(sized=True)
        parts = _in_chunks(bundle)
        # This also closes them if the reader is gone before the first piece, when no generator has run yet.
        weakref.finalize(parts, self._close, opened)
        bundle.add(item, f"{folder}/item.json")
        for number, (name, file) in enumerate(names_in_bundle(holding.files)):
            handle = opened[number] if number < len(opened) else None
            content = _content(self._file_store, holding, file, handle)
            bundle.add(content, f"{folder}/doc/{name}", size=file.size)
        return len(bundle), parts

    def _open(self, holding: Holding) -> list[BinaryIO]:
        """Open as many files as may be open, from the first on."""
        places = 0
        while places < min(MOST_OPEN, len(holding.files)) and self._places.acquire(blocking=False):
            places += 1
        try:
            return self._opener.open(holding, holding.files[:places])
        except BaseException:
            self._free(places)
            raise

    def _close(self, opened: list[BinaryIO]) -> None:
        for each in opened:
            each.close()
        self._free(len(opened))

    def _free(self, places: int) -> None:
        if places:
            self._places.release(places)


class _Bundle(Response):
    """A response that breaks off if a file is not the listed one."""

    async def send(self, send: Send, *, head_only: bool, receive: Receive | None = None) -> None:
        """Send the response; log an error of a file."""
        # A zip file without its last part is recognized as incomplete.
        try:
            await super().send(send, head_only=head_only, receive=receive)
        except OSError as error:
            _log.error("a zip file was broken off: %s", error)


def names_in_bundle(files: tuple[StoredFile, ...]) -> list[tuple[str, StoredFile]]:
    """Return the name of each file in the zip; no two are equal, even if case and composition are ignored."""
    named_so, taken = [], set[str]()
    for file in files:
        parts = (readable(part).replace("%", "%25") for part in file.raw.split(b"/"))
        name = "/".join(portable_part(part, "%") for part in parts)
        if _folded(name) in taken:
            name = file.name  # percent-encoded, and so unique
        taken.add(_folded(name))
        named_so.append((name, file))
    return named_so


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _content(
    file_store: FileStore, holding: Holding, file: StoredFile, opened: BinaryIO | None
) -> Iterator[bytes]:
    """Yield the bytes of a file, which may be open already. Raises OSError if the digest differs."""
    digest, left = hashlib.sha256(), file.size
    with opened or file_store.open(holding.forms, file) as handle:
        while left and (chunk := handle.read(min(left, _CHUNK))):
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != file.sha256:
        msg = f"{file.name} of {holding.forms.main} is not the file that was listed"
        raise OSError(msg)


def _in_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces."""
    # Each piece is made in a thread, and switching threads costs more than copying a small piece.
    waiting = bytearray()
    for part in parts:
        if waiting and len(waiting) + len(part) > _CHUNK:
            yield bytes(waiting)
            waiting.clear()
        if len(part) < _CHUNK:
            waiting += part
        else:
            yield part
    if waiting:
        yield bytes(waiting)
