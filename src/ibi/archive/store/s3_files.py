"""The files of items in a bucket of an S3 store (decision 0056). An object never changes once it is there.

    s3://BUCKET/PREFIX/staging/<random>                                       a file that was received
    s3://BUCKET/PREFIX/col/<the parts of the item's name>/doc/<SHA-256>       a listed file, in its place
    s3://BUCKET/PREFIX/col/<the parts of the item's name>/item.json           the sidecar, which has the names of files

Two files of an item with the same bytes are one object. A file is received on the disk of this machine, then put as a
whole; what a killed process has received is lost with it. Objects are placed and removed by one process at a time.
What no item lists stays for a day, for readers who are at it, and for transactions whose end is not known.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from ibi.archive.model.file_names import file_parts, media_type
from ibi.archive.model.item import StoredFile
from ibi.archive.store.file_store import CHUNK, NOT_KEPT, SIDECAR, FileStore, StagingFile, relative_path
from ibi.archive.store.s3_client import READ_SIZE, S3Client
from ibi.errors import IbiError, ParseError
from ibi.http.response import RemoteFile
from ibi.identifier.forms import parse_ibi
from ibi.runtime.database.advisory_lock import advisory_lock
from ibi.runtime.durable_files import locked_file, setup_errors
from ibi.runtime.environment import environment_of_s3

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from pathlib import Path

    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.rows import ListedFile
    from ibi.identifier.forms import IBIForms

UNLISTED_SECONDS: Final = 86_400
"""How long an object that no item lists stays: longer than any deposit takes from its first file to its end."""
SIGNED_SECONDS: Final = 300
"""How long a signed URL of a file may be used."""
COPIED_INSIDE: Final = 64 << 20
"""Bytes of the largest object that the store copies by itself; others are copied in parts, each a call."""

_IN_MEMORY: Final = 1 << 20  # bytes of a received file that need no disk
_STAGING: Final = "staging"
_COL: Final = "col"
_JSON: Final = "application/json"
_DIGESTS: Final = re.compile(r"\b[0-9a-f]{64}\b")
_discarding: Final = ThreadPoolExecutor(1, "discarded-objects")
_log = logging.getLogger(__name__)


class _ReceivedFile(StagingFile):
    """A file that is received in memory, and on the disk of this machine once it is large."""

    def __init__(self, name: str, folder: Path, put: Any) -> None:
        self._name, self._folder, self._put = name, folder, put
        self._digest, self._size = hashlib.sha256(), 0
        self._file: BinaryIO = BytesIO()

    def write(self, chunk: bytes | memoryview) -> None:
        """Append some bytes. Raises OSError."""
        self._digest.update(chunk)
        self._size += len(chunk)
        if self._size > _IN_MEMORY and isinstance(self._file, BytesIO):
            received = self._file.getbuffer()
            # It has no name, so nothing is left of it after a crash.
            self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 - closed later
            self._file.write(received)
        self._file.write(chunk)

    def finish(self) -> StoredFile:
        """Put the complete file; it is in the store when this returns. Raises OSError, SetupError."""
        staged, kind = secrets.token_hex(16), media_type(self._name)
        with self._file:
            self._file.seek(0)
            self._put(f"{_STAGING}/{staged}", self._file, self._size, kind)
        return StoredFile(self._name, self._size, self._digest.hexdigest(), kind, staged)

    def discard(self) -> None:
        """Delete the file, because it is not needed."""
        with suppress(OSError):
            self._file.close()


class S3File(RemoteFile):
    """An object that is open for reading."""

    def __init__(self, client: S3Client, key: str, size: int) -> None:
        super().__init__()
        self._client, self._key, self._size = client, key, size
        self._at, self._buffer = 0, memoryview(b"")
        self._first = b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer; return how many. Raises OSError, SetupError."""
        if not self._buffer:
            length = min(READ_SIZE, self._size - self._at)
            self._buffer = memoryview(self._client.read(self._key, self._at, length))
            self._at += length
        count = min(len(buffer), len(self._buffer))
        buffer[:count] = self._buffer[:count]
        self._buffer = self._buffer[count:]
        return count

    def range(self, start: int, size: int) -> bytes:
        """Read at most `size` bytes from `start` on. Raises OSError, SetupError."""
        return self._client.read(self._key, start, min(size, self._size - start))

    def begin(self, start: int, size: int) -> None:
        """Read the first part of a piece. Raises OSError, SetupError."""
        self._first = self.range(start, min(size, READ_SIZE))

    async def parts(self, start: int, size: int) -> AsyncGenerator[bytes, None]:
        """Read a piece, part by part, the first of which was read by `begin`. Raises OSError, SetupError."""
        first, self._first = self._first, b""
        done = len(first)
        if first:
            yield first
            del first  # the next part takes its place in memory
        async with aclosing(self._client.parts(self._key, start + done, size - done)) as parts:
            async for part in parts:
                yield part


class S3Files(FileStore):
    """The files of one Archive in `place`, "s3://BUCKET/PREFIX".

    `data`: the data directory; `service`: the IBI of its Archive service, which names the owner of the place;
    `redirect`: whether readers are sent to signed URLs; `store`: the URL of the database that the nodes of the Archive
    share, "" for an Archive of one machine.
    """

    is_remote = True

    def __init__(
        self, data: Path, place: str, service: str, *, redirect: bool = False, store: str = ""
    ) -> None:
        self._data, self._service, self._redirect, self._store = data, service, redirect, store
        self.client = _client(place, tuple(sorted(environment_of_s3().items())))
        self._checked = False

    @property
    def where(self) -> str:
        """Where the files are, for messages."""
        return self.client.place

    def create_folders(self) -> None:
        """Make the folder in which files are received, and the marker of the place. Raises OSError, SetupError."""
        self._make_staging()
        self.client.claim(self._service)

    def check(self) -> None:
        """Check that the store answers, and that the place is ours. Raises SetupError."""
        self.client.check(self._service)
        self._checked = True

    @contextmanager
    def staging_session(self, catalogue: Catalogue) -> Iterator[None]:
        """Hold the right to stage files, which any number of processes may have, but none while files are moved."""
        del catalogue
        with ExitStack() as held:
            with setup_errors(NOT_KEPT, path=self._data):
                self._make_staging()
                held.enter_context(locked_file(self._data / "ingest.lock", fcntl.LOCK_SH))
            yield

    def stage_stream(self, name: str) -> StagingFile:
        """Start a file that arrives in pieces. Raises BadItem."""
        file_parts(name)
        return _ReceivedFile(name, self._data / _STAGING, self._put)

    def discard(self, staged: StoredFile) -> None:
        """Delete a staged file that was not listed, in another thread."""
        _discarding.submit(self._delete_quietly, [f"{_STAGING}/{staged.staged}"])

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        """Open a listed file. Raises OSError if it is missing, or not as it was listed; SetupError."""
        relative_path(forms, file.name)  # the same names are refused as in a folder
        keys = [_key(forms, file)]
        if file.staged:
            keys.insert(0, f"{_STAGING}/{file.staged}")
        for key in keys:
            with suppress(FileNotFoundError):  # it may have been placed meanwhile
                if self.client.size(key) != file.size:
                    raise OSError("the stored file is not the one that was listed")
                return cast("BinaryIO", S3File(self.client, key, file.size))
        # A missing bucket, or another one, must not pass for a missing file.
        self.client.check(self._service)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.name)

    @contextmanager
    def placing(self) -> Iterator[Callable[[], None]]:
        """Hold the right to place and remove objects, and to replace sidecars. Raises SetupError."""
        if self._store:
            with advisory_lock(self._store, "files") as check:
                yield check
            return
        with setup_errors(NOT_KEPT, path=self._data), locked_file(self._data / "settle.lock"):
            yield lambda: None

    def place_files(self, catalogue: Catalogue) -> None:
        """Put listed files into their places, and remove those of files that are listed no longer."""
        lost: set[ListedFile] = set()
        with self.placing() as check:
            while True:
                paths = catalogue.paths_to_remove()
                staged = [each for each in catalogue.staged_files() if each not in lost]
                if not paths and not staged:
                    return
                self._check_once()
                self._remove_unlisted(catalogue, {_item_of(path) for path in paths}, check)
                for each in staged:
                    check()
                    if not self._place(each):
                        lost.add(each)
                with catalogue.writing() as writer:
                    for path in paths:
                        writer.cancel_removal(path)
                    for each in staged:
                        if each not in lost:
                            writer.record_placed(each)
                self._delete_quietly(
                    [f"{_STAGING}/{each.file.staged}" for each in staged if each not in lost]
                )

    def put(self, forms: IBIForms, file: StoredFile, source: BinaryIO) -> bool:
        """Put a listed file into its place, unless it is there; return False for other bytes."""
        key = _key(forms, file)
        with suppress(FileNotFoundError):
            if self.client.size(key) == file.size and self._digest(key, file.size) == file.sha256:
                return True
        received = _ReceivedFile(file.name, self._data / _STAGING, self._put)
        try:
            while chunk := source.read(CHUNK):
                received.write(chunk)
            staged = received.finish()
        except BaseException:
            received.discard()
            raise
        right = (staged.size, staged.sha256) == (file.size, file.sha256)
        if right:
            self._copy(f"{_STAGING}/{staged.staged}", key, file)
        self._delete_quietly([f"{_STAGING}/{staged.staged}"])
        return right

    def read_sidecar(self, forms: IBIForms) -> bytes:
        """Read the sidecar of an item. Raises OSError, SetupError."""
        return self._whole(_sidecar_key(forms))

    def write_sidecar(self, forms: IBIForms, text: bytes) -> None:
        """Put the sidecar of an item, or replace it as a whole. Raises SetupError."""
        self._check_once()
        self.client.put(_sidecar_key(forms), text, len(text), _JSON)

    def sidecars(self) -> Iterator[tuple[str, bytes | OSError]]:
        """Yield all sidecars: paths, and contents."""
        self.check()
        for each in self.client.listed(_COL):
            if each.key.endswith(f"/{SIDECAR}"):
                try:
                    content: bytes | OSError = self._whole(each.key)
                except OSError as error:
                    content = error
                yield each.key.removeprefix(f"{_COL}/"), content

    def signed_url(self, forms: IBIForms, file: StoredFile) -> str:
        """Return a URL of a placed file for some minutes; "" unless readers are sent there."""
        if not self._redirect or file.staged:
            return ""
        return self.client.signed(_key(forms, file), SIGNED_SECONDS)

    def remove_old_unlisted(self, catalogue: Catalogue, now: float) -> int:
        """Remove the objects that no item lists and that are older than a day; return how many. Raises SetupError.

        `now`: POSIX seconds.
        """
        self.check()
        old, items = list[str](), set[str]()
        for each in self.client.listed(_STAGING):
            if each.changed < now - UNLISTED_SECONDS:
                old.append(each.key)
        with self.placing() as check:
            listed = catalogue.staged_names()
            gone = [key for key in old if key.rpartition("/")[2] not in listed]
            check()
            self.client.delete(gone)
        removed = len(gone)
        for each in self.client.listed(_COL):
            if each.changed < now - UNLISTED_SECONDS and "/doc/" in each.key:
                items.add(each.key.removeprefix(f"{_COL}/").rpartition("/doc/")[0])
        for item in sorted(items):
            with self.placing() as check:
                removed += self._remove_unlisted(catalogue, {item}, check, now - UNLISTED_SECONDS)
        return removed

    # Inside

    def _make_staging(self) -> None:
        (self._data / _STAGING).mkdir(parents=True, exist_ok=True, mode=0o700)

    def _check_once(self) -> None:
        if not self._checked:
            self.check()

    def _put(self, key: str, content: BinaryIO, size: int, kind: str) -> None:
        self._check_once()
        self.client.put(key, content.read() if size <= _IN_MEMORY else content, size, kind)

    def _whole(self, key: str) -> bytes:
        return self.client.read(key, 0, self.client.size(key))

    def _digest(self, key: str, size: int) -> str:
        digest = hashlib.sha256()
        for start in range(0, size, READ_SIZE):
            digest.update(self.client.read(key, start, min(READ_SIZE, size - start)))
        return digest.hexdigest()

    def _copy(self, key: str, target: str, file: StoredFile) -> None:
        if file.size <= COPIED_INSIDE:
            self.client.copy(key, target)
            return
        with tempfile.TemporaryFile(dir=self._data / _STAGING) as copied:
            for start in range(0, file.size, READ_SIZE):
                copied.write(self.client.read(key, start, min(READ_SIZE, file.size - start)))
            copied.seek(0)
            self.client.put(target, copied, file.size, file.media_type)

    def _place(self, each: ListedFile) -> bool:
        """Copy a staged file to its place; return whether it is there."""
        key = _key(each.forms, each.file)
        try:
            self._copy(f"{_STAGING}/{each.file.staged}", key, each.file)
        except FileNotFoundError:
            pass
        else:
            return True
        try:  # an interrupted process may have placed it, and cleared staging
            return self.client.size(key) == each.file.size
        except FileNotFoundError:
            self.check()
            _log.error("%s of %s is missing from staging", each.file.name, each.forms.main)
            return False

    def _remove_unlisted(
        self, catalogue: Catalogue, items: set[str], check: Callable[[], None], before: float | None = None
    ) -> int:
        """Remove the objects of items that they do not list, only those put `before` if that is given."""
        count = 0
        for item in items:
            try:
                held = catalogue.holding(parse_ibi(item))
            except ParseError:
                continue  # not one of our names, so not one of our objects
            if held is None:
                continue  # a catalogue that was set back does not know it: `rebuild` needs its objects
            listed = {file.sha256 for file in held.files}
            if before is not None:
                listed |= self._in_sidecar(held.forms)
            gone = [
                each.key
                for each in self.client.listed(f"{_COL}/{item}/doc")
                if each.key.rpartition("/")[2] not in listed and (before is None or each.changed < before)
            ]
            check()
            self.client.delete(gone)
            count += len(gone)
        return count

    def _in_sidecar(self, forms: IBIForms) -> set[str]:
        """Return the digests in the sidecar of an item, which may be newer than a catalogue that was set back."""
        try:
            return set(_DIGESTS.findall(self.read_sidecar(forms).decode()))
        except FileNotFoundError:
            return set()

    def _delete_quietly(self, keys: list[str]) -> None:
        # What cannot be deleted now is not listed, and goes after a day.
        try:
            self.client.delete(keys)
        except IbiError as error:
            _log.warning("objects that are not needed stay for a day: %s", error)


def _key(forms: IBIForms, file: StoredFile) -> str:
    return f"{_COL}/{forms.main.canonical}/doc/{file.sha256}"


def _sidecar_key(forms: IBIForms) -> str:
    return f"{_COL}/{forms.main.canonical}/{SIDECAR}"


def _item_of(path: bytes) -> str:
    """Return the name of the item of a path below DIR/col."""
    parts = path.split(b"/")
    depth = 2 if parts[2] == b"doc" else 4  # the third part of a repository name is a year
    return b"/".join(parts[:depth]).decode()


@lru_cache(maxsize=8)
def _client(place: str, _variables: tuple[tuple[str, str], ...]) -> S3Client:
    """Return the client of a place; all users of this process share it, with its connections."""
    return S3Client(place)
