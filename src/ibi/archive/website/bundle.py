"""An item as a zip file, made while it is sent: nothing is kept in memory or on disk for it.

    <the folders of the item>/item.json         what the catalogue knows of it
    <the folders of the item>/doc/<file>        its files, stored and not compressed

The folders are those of DIR/col: items unpacked side by side keep the relative links between them. File names become
Unicode, and what some system cannot write is percent-encoded, so that every program can unpack them.

Sending takes as long as the reader likes, and files may be replaced meanwhile. So they are opened before the answer
begins, which keeps their bytes; those that would be too many to keep open are opened when their turn comes. All are
hashed on their way: where one is not the listed one, the zip is never completed.
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

from ibi.archive.item_lines import write_item
from ibi.archive.website.conditions import http_date, unchanged
from ibi.archive.website.files import named
from ibi.exchange import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from typing import BinaryIO

    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.storage import Storage
    from ibi.archive.website.files import Opener
    from ibi.exchange import Asked, Headers
    from ibi.exchange.long_bodies import Send

_CHUNK: Final = 128 * 1024  # of a slow reader's bundle, about four of these are in memory
MOST_OPEN: Final = 64
"""Files of one bundle that are kept open while it is sent."""

_MOST_OPEN_OF_ALL: Final = 256  # of all bundles that are being sent: who has none left cannot answer anybody
_REFUSED: Final = re.compile(
    r'[<>:"|?*%\x00-\x1f\x7f-\x9f\\]|[. ]$'
)  # by some system, or by our own spelling
_DEVICES: Final = re.compile(
    r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE
)  # names of no file there


_log = logging.getLogger(__name__)


class Bundles:
    """The items of one Archive, each as one zip file."""

    def __init__(self, storage: Storage, opener: Opener) -> None:
        self._storage = storage
        self._opener = opener
        self._places = threading.BoundedSemaphore(_MOST_OPEN_OF_ALL)

    def serve(self, asked: Asked, holding: Holding, kept: str) -> Response:
        """All files of an item, and what is known of it. `kept`: what caches may do with it.

        Raises as `Opener.open` does.
        """
        folder = holding.forms.main.canonical
        item = f"{json.dumps(write_item(holding), indent=1, ensure_ascii=False)}\n".encode()
        tag = f'W/"{hashlib.sha256(item).hexdigest()}"'  # it names all files by their digests
        headers: Headers = (
            ("etag", tag),
            ("cache-control", kept),
            ("last-modified", http_date(holding.timestamp)),
        )
        if unchanged(asked, tag, holding.timestamp):
            return Response(304, headers=headers)
        disposition = named("attachment", f"{re.sub(r'[^A-Za-z0-9.-]', '-', folder)}.zip")
        size, parts = self._zipped(
            holding, folder, item, [] if asked.method == "HEAD" else self._open(holding)
        )
        return _Bundle(
            200,
            content_type="application/zip",
            headers=(*headers, ("accept-ranges", "none"), ("content-disposition", disposition)),
            size=size,
            parts=parts,
        )

    def _zipped(
        self, holding: Holding, folder: str, item: bytes, opened: list[BinaryIO]
    ) -> tuple[int, Iterator[bytes]]:
        """How long the zip file is, and its pieces; with the pieces go the files that are `opened`."""
        bundle: Any = ZipStream(sized=True)
        parts = _in_chunks(bundle)
        weakref.finalize(parts, self._close, opened)  # also if nobody ever asks for the first piece
        bundle.add(item, f"{folder}/item.json")
        for number, (name, file) in enumerate(names_in_bundle(holding.files)):
            handle = opened[number] if number < len(opened) else None
            content = _Content(self._storage, holding, file, handle)
            bundle.add(content, f"{folder}/doc/{name}", size=file.size)
        return len(bundle), parts

    def _open(self, holding: Holding) -> list[BinaryIO]:
        """Open as many files, from the first on, as may be kept open."""
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
    """An answer that breaks the connection where its files turn out not to be the listed ones."""

    async def send(
        self, send: Send, *, head_only: bool, receive: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        """As every answer; what is left out then shows the reader that this is not all."""
        try:
            await super().send(send, head_only=head_only, receive=receive)
        except OSError as error:
            _log.error("a zip file was broken off: %s", error)


def names_in_bundle(files: tuple[StoredFile, ...]) -> list[tuple[str, StoredFile]]:
    """Under which name each file is unpacked. No two are alike, also where case and composition do not count."""
    named_so, taken = [], set[str]()
    for file in files:
        name = "/".join(_portable(part) for part in file.raw.split(b"/"))
        if _folded(name) in taken:
            name = file.name  # percent-encoded: every file has its own
        taken.add(_folded(name))
        named_so.append((name, file))
    return named_so


def _portable(part: bytes) -> str:
    """A name inside a folder: UTF-8 if that is what it is, else ISO-8859-1."""
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError:
        text = part.decode("latin-1")
    text = _REFUSED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
    return f"%{ord(text[0]):02X}{text[1:]}" if _DEVICES.match(text) else text


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


class _Content:
    """The bytes of a file, which may be open already. Raises OSError where they are not those that are listed."""

    def __init__(self, storage: Storage, holding: Holding, file: StoredFile, opened: BinaryIO | None) -> None:
        self._storage, self._holding, self._file, self._opened = storage, holding, file, opened

    def __iter__(self) -> Iterator[bytes]:
        digest, left = hashlib.sha256(), self._file.size
        with self._opened or self._storage.open(self._holding.forms, self._file) as opened:
            while left and (chunk := opened.read(min(left, _CHUNK))):
                left -= len(chunk)
                digest.update(chunk)
                yield chunk
        if digest.hexdigest() != self._file.sha256:
            msg = f"{self._file.name} of {self._holding.forms.main} is not the file that was listed"
            raise OSError(msg)


def _in_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: each piece is made in a thread, which costs more than a small copy."""
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
