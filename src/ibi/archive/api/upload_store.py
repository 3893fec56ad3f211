"""Uploads that can be resumed, on disk: they survive a restart, and a kill at any instant.

    DIR/uploads/<id>.json    {"token": ..., "length": ..., "metadata": ...}
    DIR/uploads/<id>.part    the bytes that came; how many there are is where the client goes on

An upload belongs to the token that began it. It expires a day after its last bytes came. Whoever works at one holds a
lock on its bytes, so two never write at once, in whichever process. Everything here may wait for the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.durable import flush_folder, make_folder
from ibi.errors import HoldingError, NotHeld
from ibi.interface.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIFETIME: Final = 24 * 3600
"""Seconds after its last bytes for which an upload is kept."""
MOST_UPLOADS: Final = 100
"""Uploads that one token may have under way."""
MOST_LARGEST: Final = 4
"""How many uploads of the largest size one token may have under way, in bytes of all of them."""

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload. `length` is what it will have, `offset` what came; `expires` in POSIX seconds."""

    id: str
    token: str
    length: int
    metadata: str
    offset: int
    expires: int


class _Facts(NamedTuple):
    token: str
    length: int
    metadata: str


class Uploads:
    """The uploads of one Archive. `largest`: bytes of one upload; `now` gives POSIX seconds."""

    def __init__(self, folder: Path, now: Callable[[], float], largest: int) -> None:
        self._folder = folder
        self._now = now
        self.largest = largest

    def begin(self, token: str, length: int, metadata: str) -> Upload:
        """Begin one; there is room for all that it may become. Raises Refusal (429), OSError."""
        make_folder(self._folder)
        with self._locked(self._folder / "lock"):
            self._expire()
            mine = [facts for facts in map(self._facts, self._ids()) if facts and facts.token == token]
            if len(mine) >= MOST_UPLOADS or sum(facts.length for facts in mine) + length > self._room:
                raise Refusal(
                    429,
                    HoldingError(
                        "too much is being uploaded with this token; finish or cancel another upload first"
                    ),
                    ("retry-after", "60"),
                )
            found = Upload(secrets.token_hex(16), token, length, metadata, 0, int(self._now()) + LIFETIME)
            with self._part(found.id).open("xb") as part:
                self._touch(part.fileno())
            facts = {"token": token, "length": length, "metadata": metadata}
            with self._said(found.id).open("xb") as said:
                said.write(json.dumps(facts).encode())
                said.flush()
                os.fsync(said.fileno())
            flush_folder(self._folder)
        return found

    def find(self, upload: str, token: str) -> Upload:
        """How far one is; what it says has come is safe on disk. Raises NotHeld, Refusal (410), OSError."""
        return self._read(upload, token)

    @contextmanager
    def writing(self, upload: str, token: str) -> Iterator[Writing]:
        """Go on with one. Raises NotHeld, Refusal (409, 410), OSError."""
        self._read(upload, token)
        with self._locked(self._part(upload), wait=False) as handle:
            writing = Writing(handle, self._read(upload, token), self._touch)
            try:
                yield writing
            finally:
                writing.flush()

    @contextmanager
    def whole(self, upload: str, token: str) -> Iterator[Path]:
        """Where the bytes of one lie that has come to its end. Raises NotHeld, Refusal (409, 410), OSError."""
        self._read(upload, token)
        with self._locked(self._part(upload), wait=False):
            found = self._read(upload, token)
            if found.offset != found.length:
                problem = "the upload {name} is not complete: {size} of {length} bytes have come"
                raise Refusal(409, HoldingError(problem, name=upload, size=found.offset, length=found.length))
            yield self._part(upload)

    def forget(self, upload: str, token: str) -> None:
        """Give one up, or have done with it. Raises NotHeld, Refusal (409, 410), OSError."""
        self._read(upload, token)
        with self._locked(self._part(upload), wait=False):
            self._remove(upload)

    def expire(self) -> None:
        """Remove those whose time is over. Raises OSError."""
        if self._folder.exists():
            with self._locked(self._folder / "lock"):
                self._expire()

    @property
    def _room(self) -> int:
        return MOST_LARGEST * self.largest

    def _expire(self) -> None:
        for upload in self._ids():
            with suppress(FileNotFoundError, NotHeld, Refusal):
                over = self._part(upload).stat().st_mtime + LIFETIME <= self._now()
                if over or self._facts(upload) is None:
                    with self._locked(self._part(upload), wait=False):
                        self._remove(upload)

    def _ids(self) -> list[str]:
        """All that were begun, also those whose beginning was interrupted."""
        return [path.stem for path in self._folder.glob("*.part") if _ID.fullmatch(path.stem)]

    def _facts(self, upload: str) -> _Facts | None:
        """What was said of one at its beginning; None if that never came to its end."""
        try:
            said: Any = json.loads(self._said(upload).read_bytes())
            return _Facts(said["token"], said["length"], said["metadata"])
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def _read(self, upload: str, token: str) -> Upload:
        facts = self._facts(upload) if _ID.fullmatch(upload) else None
        if facts is None or facts.token != token:
            raise NotHeld("there is no such upload")
        try:
            handle = os.open(self._part(upload), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotHeld("there is no such upload") from None
        try:
            os.fsync(handle)  # what was written before a kill may be in memory only
            part = os.fstat(handle)
        finally:
            os.close(handle)
        expires = int(part.st_mtime) + LIFETIME
        if expires <= self._now():
            raise Refusal(410, HoldingError("the upload {name} has expired; begin it again", name=upload))
        return Upload(upload, token, facts.length, facts.metadata, part.st_size, expires)

    def _remove(self, upload: str) -> None:
        self._said(upload).unlink(missing_ok=True)
        self._part(upload).unlink(missing_ok=True)

    def _touch(self, handle: int) -> None:
        os.utime(handle, (self._now(), self._now()))

    def _part(self, upload: str) -> Path:
        return self._folder / f"{upload}.part"

    def _said(self, upload: str) -> Path:
        return self._folder / f"{upload}.json"

    @contextmanager
    def _locked(self, path: Path, *, wait: bool = True) -> Iterator[int]:
        create = os.O_CREAT if wait else 0
        try:
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | create, 0o600)
        except FileNotFoundError:
            raise NotHeld("there is no such upload") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        except BlockingIOError:
            raise Refusal(409, HoldingError("another request is at work on this upload")) from None
        finally:
            os.close(handle)


class Writing:
    """An upload that is being gone on with; `found` is how it stood at the beginning."""

    def __init__(self, handle: int, found: Upload, touch: Callable[[int], None]) -> None:
        self._handle = handle
        self._touch = touch
        self.found = found
        self.offset = found.offset

    def write(self, piece: bytes) -> None:
        """Add bytes at its end, all of them or an OSError."""
        left = memoryview(piece)
        while left:
            written = os.write(self._handle, left)
            self.offset += written
            left = left[written:]

    def flush(self) -> None:
        """What came is safe on disk when this returns."""
        os.fsync(self._handle)
        self._touch(self._handle)
