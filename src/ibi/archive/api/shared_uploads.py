"""Uploads of an Archive of several nodes: in its store, so that each node goes on with what another has begun.

Bytes are rows of up to 1 MiB, each safe when it is written. A complete upload becomes a file of the node that uses it.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.api.uploads import ID, LIFETIME, Upload, UploadInUse, Uploads, UploadWriter, check_whole
from ibi.archive.store.postgresql.upload_rows import UploadRow, UploadRows
from ibi.errors import HoldingError, NotHeld
from ibi.http.response import Refusal
from ibi.runtime.durable_files import make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.archive.store.postgresql.upload_rows import LockedUpload
    from ibi.runtime.shared.store import SharedStore

_PIECE: Final = 1 << 20  # bytes of a row
_WHOLE: Final = ".whole"


class SharedUploads(Uploads):
    """The uploads in a store; `folder`: where complete ones are put together. Raises SetupError besides."""

    def __init__(self, folder: Path, store: SharedStore, now: Callable[[], float], largest: int) -> None:
        super().__init__(folder, now, largest)
        self._rows = UploadRows(store)

    def start(self, token: str, length: int, metadata: str) -> Upload:
        """Start an upload. Raises Refusal (429)."""
        moment = self._now()
        self._rows.expire(moment - LIFETIME)
        with self._rows.adding(token) as new:
            self.check_share(new.lengths, length)
            found = Upload(secrets.token_hex(16), token, length, metadata, 0, int(moment) + LIFETIME)
            new.add(found.id, UploadRow(token, length, metadata, moment, 0))
        return found

    def find(self, upload: str, token: str) -> Upload:
        """Find an upload. Raises NotHeld, Refusal (410)."""
        return self._as_found(upload, token, self._rows.find(upload) if ID.fullmatch(upload) else None)

    @contextmanager
    def writing(self, upload: str, token: str) -> Iterator[UploadWriter]:
        """Lock an upload, and yield a writer that adds bytes. Raises NotHeld, Refusal (409, 410)."""
        with self._held(upload, token) as (row, found):
            writer = _RowWriter(row, found, self._now)
            try:
                yield writer
            finally:
                writer.flush()

    @contextmanager
    def whole(self, upload: str, token: str) -> Iterator[Path]:
        """Lock a complete upload; yield the path of a file of it. Raises NotHeld, Refusal (409, 410), OSError."""
        with self._held(upload, token) as (row, found), self._put_together(row, found) as path:
            yield path

    @contextmanager
    def used(self, upload: str, token: str) -> Iterator[Path]:
        """Do the same as `whole`, and delete the upload after the block, unless the block raises."""
        with self._held(upload, token) as (row, found), self._put_together(row, found) as path:
            yield path
            row.remove()

    def delete(self, upload: str, token: str) -> None:
        """Delete an upload. Raises NotHeld, Refusal (409, 410)."""
        with self._held(upload, token) as (row, _):
            row.remove()

    def expire(self) -> None:
        """Delete expired uploads, and what a killed process has put together. Raises OSError."""
        before = self._now() - LIFETIME
        self._rows.expire(before)
        for path in self._folder.glob(f"*{_WHOLE}"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= before:
                    path.unlink()

    @contextmanager
    def _held(self, upload: str, token: str) -> Iterator[tuple[LockedUpload, Upload]]:
        self.find(upload, token)
        with self._rows.locked(upload) as row:
            if row is None:
                raise UploadInUse
            # Read again under the lock, because bytes may have come meanwhile.
            yield row, self._as_found(upload, token, row.read())

    def _as_found(self, upload: str, token: str, row: UploadRow | None) -> Upload:
        if row is None or row.token != token:
            raise NotHeld("there is no such upload")
        expires = int(row.touched) + LIFETIME
        if expires <= self._now():
            raise Refusal(410, HoldingError("the upload {name} has expired; begin it again", name=upload))
        return Upload(upload, token, row.length, row.metadata, row.offset, expires)

    @contextmanager
    def _put_together(self, row: LockedUpload, found: Upload) -> Iterator[Path]:
        check_whole(found)
        make_folder(self._folder)
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=_WHOLE)
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in row.pieces():
                    file.write(piece)
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)


class _RowWriter(UploadWriter):
    """Writes into an upload, row by row."""

    def __init__(self, row: LockedUpload, found: Upload, now: Callable[[], float]) -> None:
        super().__init__(-1, found)
        self._row = row
        self._now = now
        self._waiting = bytearray()

    def write(self, piece: bytes) -> None:
        """Append all these bytes. Raises SetupError."""
        self._waiting += piece
        self.offset += len(piece)
        while len(self._waiting) >= _PIECE:
            self._put(_PIECE)

    def flush(self) -> None:
        """Write what is left."""
        if self._waiting:
            self._put(len(self._waiting))

    def _put(self, count: int) -> None:
        content = bytes(self._waiting[:count])
        self._row.put(self.offset - len(self._waiting), content, self._now())
        del self._waiting[:count]
