"""Resumable uploads: tus 1.0.0 with its extensions creation, expiration and termination.

A complete upload becomes a file when an item is deposited with `uploads`, or when it is put into an item.

Uploads survive a restart, and a kill at any instant. Those of several nodes are in PostgreSQL (`shared_uploads`), all
others on disk:

    DIR/uploads/<id>.json    {"token": ..., "length": ..., "metadata": ...}
    DIR/uploads/<id>.part    the received bytes; the client continues at their number

An upload belongs to the name of the token, or to the account, that began it, and expires a day after its last bytes
came. A request that uses an upload locks its .part file, so two requests never write at the same time, not even in two
processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ibi.accounts.tokens import Scope
from ibi.api.routes import BINARY, COUNT, ONCE, ROOT, TEXT, Route, in_quick_thread, once
from ibi.errors import HoldingError, IbiError, NotHeld
from ibi.http.response import NO_STORE, Refusal, Response
from ibi.runtime.durable_files import flush_folder, locked_file, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ibi.api.routes import Call


LIFETIME: Final = 24 * 3600
"""Seconds after which an upload expires, counted from its last bytes."""
MOST_UPLOADS: Final = 100
"""Uploads that one token may have under way."""
MOST_LARGEST: Final = 4
"""The uploads of one token together have at most the bytes of so many uploads of the largest size."""

ID: Final = re.compile(r"[0-9a-f]{32}")
"""The number of an upload."""

VERSION: Final = "1.0.0"
"""The version of the tus protocol."""
TUNNEL: Final = "/uploads/"
"""The beginning of upload paths; PATCH and DELETE may come as POST, as some networks block these methods."""
LONGEST_METADATA: Final = 2048
"""Characters of Upload-Metadata, which is stored and sent back."""

_PIECE: Final = 1 << 20  # bytes
_BYTES: Final = "application/offset+octet-stream"
_TUS: Final = (("tus-resumable", VERSION), *NO_STORE)
_HEADERS: Final = {"tus-resumable": {"type": "string", "enum": [VERSION]}}


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload. `length`: bytes when complete; `offset`: received bytes; `expires` in POSIX seconds."""

    id: str
    token: str
    length: int
    metadata: str
    offset: int = 0
    expires: int = 0


def check_whole(found: Upload) -> None:
    """Refuse an upload that is not complete (409)."""
    if found.offset != found.length:
        problem = "the upload {name} is not complete: {size} of {length} bytes have come"
        raise Refusal(409, HoldingError(problem, name=found.id, size=found.offset, length=found.length))


class UploadInUse(Refusal):
    """Another request is using an upload (409)."""

    def __init__(self) -> None:
        super().__init__(
            409, HoldingError("another request is at work on this upload; try again in a moment")
        )


class Uploads:
    """The uploads of one Archive. `largest`: bytes of the largest upload; `now` returns POSIX seconds.

    Public methods may wait for the disk, so call them in a thread.
    """

    def __init__(self, folder: Path, now: Callable[[], float], largest: int) -> None:
        self._folder = folder
        self._now = now
        self.largest = largest

    def start(self, token: str, length: int, metadata: str) -> Upload:
        """Start an upload. Raises Refusal (429), OSError."""
        # The whole length counts from the start: the limit must hold when all the uploads are complete.
        make_folder(self._folder)
        with locked_file(self._folder / "lock"):
            self._expire()
            # Counted under the lock, so that two requests of one token cannot both pass the limit.
            mine = [each for each in map(self._as_started, self._ids()) if each and each.token == token]
            self.check_share([each.length for each in mine], length)
            found = Upload(secrets.token_hex(16), token, length, metadata, 0, int(self._now()) + LIFETIME)
            with self._part(found.id).open("xb") as part:
                self._touch(part.fileno())
            facts = {"token": token, "length": length, "metadata": metadata}
            with self._facts_path(found.id).open("xb") as file:
                file.write(json.dumps(facts).encode())
                file.flush()
                os.fsync(file.fileno())
            flush_folder(self._folder)
        return found

    def check_share(self, lengths: Sequence[int], length: int) -> None:
        """Refuse one upload more (429) beside those of a token that have these lengths."""
        if len(lengths) >= MOST_UPLOADS or sum(lengths) + length > MOST_LARGEST * self.largest:
            problem = "too much is being uploaded with this token; finish or cancel another upload first"
            raise Refusal(429, HoldingError(problem), ("retry-after", "60"))

    def make_complete(self, token: str, source: BinaryIO, size: int, metadata: str) -> str:
        """Make a complete upload of a file; return the id of the upload. Raises Refusal (429), OSError."""
        upload = self.start(token, size, metadata).id
        with self.writing(upload, token) as writing:
            while piece := source.read(_PIECE):
                writing.write(piece)
        return upload

    def find(self, upload: str, token: str) -> Upload:
        """Find an upload; the bytes up to its offset are safe on disk. Raises NotHeld, Refusal (410), OSError."""
        known = self._as_started(upload) if ID.fullmatch(upload) else None
        if known is None or known.token != token:
            raise NotHeld("there is no such upload")
        try:
            handle = os.open(self._part(upload), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotHeld("there is no such upload") from None
        try:
            # Flushed, because after a kill they may be only in memory, and the client forgets received bytes.
            os.fsync(handle)
            part = os.fstat(handle)
        finally:
            os.close(handle)
        expires = int(part.st_mtime) + LIFETIME
        if expires <= self._now():
            raise Refusal(410, HoldingError("the upload {name} has expired; begin it again", name=upload))
        return replace(known, offset=part.st_size, expires=expires)

    @contextmanager
    def writing(self, upload: str, token: str) -> Iterator[UploadWriter]:
        """Lock an upload, and yield a writer that adds bytes. Raises NotHeld, Refusal (409, 410), OSError."""
        with self._found_and_locked(upload, token) as (handle, found):
            try:
                yield UploadWriter(handle, found)
            finally:
                os.fsync(handle)
                if os.fstat(handle).st_size > found.offset:
                    self._touch(handle)

    @contextmanager
    def whole(self, upload: str, token: str) -> Iterator[Path]:
        """Lock a complete upload; yield its path. Raises NotHeld, Refusal (409, 410), OSError."""
        with self._found_and_locked(upload, token) as (_handle, found):
            check_whole(found)
            yield self._part(upload)

    @contextmanager
    def used(self, upload: str, token: str) -> Iterator[Path]:
        """Do the same as `whole`, and delete the upload after the block, unless the block raises."""
        with self.whole(upload, token) as path:
            yield path
            # Deleted under the lock, so that no other request can make a second file of it.
            self._remove(upload)

    def delete(self, upload: str, token: str) -> None:
        """Delete an upload. Raises NotHeld, Refusal (409, 410), OSError."""
        with self._found_and_locked(upload, token):
            self._remove(upload)

    def expire(self) -> None:
        """Delete expired uploads. Raises OSError."""
        if self._folder.exists():
            with locked_file(self._folder / "lock"):
                self._expire()

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of uploads."""
        refused = (410, 412)
        return (
            Route("OPTIONS", "/uploads", None, self._options, "what this server understands of tus", status=204),
            Route(
                "POST", "/uploads", Scope.DEPOSIT, self._start, "begin an upload that can be resumed", status=201,
                refusals=(409, 412, 413, 422, 429, 507),
                headers={**_HEADERS, **ONCE, "upload-length": COUNT, "upload-metadata": TEXT},
            ),
            Route(
                "HEAD", "/uploads/<word>", Scope.DEPOSIT, self._find, "how far an upload is", refusals=refused,
                headers=_HEADERS,
            ),
            Route(
                "PATCH", "/uploads/<word>", Scope.DEPOSIT, self._add, "bring more bytes of an upload", status=204,
                refusals=(*refused, 409, 411, 413, 415, 507), headers={**_HEADERS, "upload-offset": COUNT},
                other_bodies={_BYTES: BINARY},
            ),
            Route(
                "DELETE", "/uploads/<word>", Scope.DEPOSIT, self._delete, "give an upload up", status=204,
                refusals=(*refused, 409), headers=_HEADERS,
            ),
        )  # fmt: skip

    async def _options(self, _call: Call) -> Response:
        supported = (
            ("tus-version", VERSION),
            ("tus-extension", "creation,expiration,termination"),
            ("tus-max-size", str(self.largest)),
        )
        return Response(204, headers=(*_TUS, *supported))

    async def _start(self, call: Call) -> Response:
        _check_version(call)
        length = _number(call, b"upload-length", "Upload-Length")
        if length > self.largest:
            problem = "an upload may have at most {most} bytes"
            raise Refusal(413, IbiError(problem, most=self.largest), *_TUS)
        metadata = call.request.header(b"upload-metadata")
        if len(metadata) > LONGEST_METADATA or not metadata.isprintable():
            raise Refusal(400, IbiError("Upload-Metadata is a short printable text"), *_TUS)
        # Bytes come only with PATCH: a body is refused here.
        async for _ in call.body.pieces(0):
            pass

        def start() -> Response:
            found = self.start(call.token_name, length, metadata)
            location = ("location", f"{ROOT}/uploads/{found.id}")
            return Response(201, headers=(location, *_state_headers(found)))

        return await in_quick_thread(once, call, [length, metadata], start)

    async def _find(self, call: Call) -> Response:
        _check_version(call)
        found = await in_quick_thread(self.find, call.values["word"], call.token_name)
        metadata = (("upload-metadata", found.metadata),) if found.metadata else ()
        return Response(
            200, headers=(*_state_headers(found), ("upload-length", str(found.length)), *metadata)
        )

    async def _add(self, call: Call) -> Response:
        """Add bytes to an upload; bytes that came before the client disconnects are kept."""
        _check_version(call)
        if call.body.kind != _BYTES:
            raise Refusal(415, IbiError("the body must be {kind}", kind=_BYTES), *_TUS)
        call.body.check_announced(*_TUS)
        offset = _number(call, b"upload-offset", "Upload-Offset")
        stack = ExitStack()
        try:
            writing = await in_quick_thread(
                stack.enter_context, self.writing(call.values["word"], call.token_name)
            )
            found = writing.found
            if offset != found.offset:
                why = IbiError("the upload goes on at {offset}", offset=found.offset)
                raise Refusal(409, why, ("upload-offset", str(found.offset)), *_TUS)
            async for piece in call.body.pieces(found.length - found.offset):
                await in_quick_thread(writing.write, piece)
        finally:
            await in_quick_thread(stack.close)
        return Response(204, headers=_state_headers(replace(found, offset=writing.offset)))

    async def _delete(self, call: Call) -> Response:
        _check_version(call)
        await in_quick_thread(self.delete, call.values["word"], call.token_name)
        return Response(204, headers=_TUS)

    def _expire(self) -> None:
        for upload in self._ids():
            with suppress(FileNotFoundError, NotHeld, Refusal):
                expired = self._part(upload).stat().st_mtime + LIFETIME <= self._now()
                if expired or self._as_started(upload) is None:
                    with self._locked(upload):
                        self._remove(upload)

    def _ids(self) -> list[str]:
        """Return the ids of all uploads, including those whose start was interrupted."""
        return [path.stem for path in self._folder.glob("*.part") if ID.fullmatch(path.stem)]

    def _as_started(self, upload: str) -> Upload | None:
        """Return the upload as it was started, with offset 0; None if its start was interrupted."""
        try:
            facts: Any = json.loads(self._facts_path(upload).read_bytes())
            return Upload(upload, facts["token"], facts["length"], facts["metadata"])
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    @contextmanager
    def _found_and_locked(self, upload: str, token: str) -> Iterator[tuple[int, Upload]]:
        self.find(upload, token)
        with self._locked(upload) as handle:
            # Read again under the lock, because bytes may have come meanwhile.
            yield handle, self.find(upload, token)

    def _remove(self, upload: str) -> None:
        self._facts_path(upload).unlink(missing_ok=True)
        self._part(upload).unlink(missing_ok=True)

    def _touch(self, handle: int) -> None:
        os.utime(handle, (self._now(), self._now()))

    def _part(self, upload: str) -> Path:
        return self._folder / f"{upload}.part"

    def _facts_path(self, upload: str) -> Path:
        return self._folder / f"{upload}.json"

    @contextmanager
    def _locked(self, upload: str) -> Iterator[int]:
        try:
            handle = os.open(self._part(upload), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotHeld("there is no such upload") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        except BlockingIOError:
            raise UploadInUse from None
        finally:
            os.close(handle)


class UploadWriter:
    """Writes into an upload; `found`: the upload when it was locked."""

    def __init__(self, handle: int, found: Upload) -> None:
        self._handle = handle
        self.found = found
        self.offset = found.offset

    def write(self, piece: bytes) -> None:
        """Append all these bytes, or raise OSError."""
        left = memoryview(piece)
        # os.write may write only a part, for example when the disk becomes full.
        while left:
            written = os.write(self._handle, left)
            self.offset += written
            left = left[written:]


def _state_headers(upload: Upload) -> tuple[tuple[str, str], ...]:
    expires = formatdate(upload.expires, usegmt=True)
    return (("upload-offset", str(upload.offset)), ("upload-expires", expires), *_TUS)


def _check_version(call: Call) -> None:
    if call.request.header(b"tus-resumable") not in {"", VERSION}:
        why = IbiError("only version {version} of tus is understood here", version=VERSION)
        raise Refusal(412, why, ("tus-version", VERSION), *_TUS)


def _number(call: Call, header: bytes, shown: str) -> int:
    text = call.request.header(header)
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - fits into 64 bits
        raise Refusal(400, IbiError("{header} must be a whole number", header=shown), *_TUS)
    return int(text)
