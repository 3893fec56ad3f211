"""The nonce by which a name or address is proven to lead to the service of a data directory.

    `ibi doctor` writes a random number into DIR/nonce, asks for http://HOST:PORT/-/nonce, and removes the file again

A server that answers with that number serves DIR, or passes requests on to a server that does. The number is
no secret: it gives access to nothing, and means nothing after the proof. It is never cached.

See AMB-10: names for trying; T31: a label given twice.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.runtime.durable_files import open_regular, setup_errors
from ibi.runtime.shared.documents import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.runtime.shared.documents import Documents

LONGEST_AGE: Final = 60.0
"""Seconds for which a nonce is published: a file that was left behind proves nothing."""

_FILE: Final = "nonce"
_BYTES: Final = 16  # of a nonce
_TEXT = re.compile(rb"[0-9a-f]{32}")
_NONE: Final = (404, b"nobody is proving now that this address leads here\n")


class Nonce:
    """The nonce of one data directory. `now` gives POSIX seconds."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self._directory = directory
        self._path = directory / _FILE
        self._documents = documents_of(directory)
        self._now = now

    @contextmanager
    def published(self, nonce: str = "") -> Iterator[str]:
        """Publish a nonce (32 hexadecimal digits), a new one if none is given, until the end of the block.

        Raises SetupError where it cannot be written.
        """
        nonce = nonce or secrets.token_hex(_BYTES)
        if self._documents is not None:
            with self._published_by(self._documents, nonce):
                yield nonce
            return
        temporary = self._directory / f"{_FILE}.{os.getpid()}.new"
        with setup_errors("{path} cannot be written: {reason}", path=self._path):
            try:
                self._write(temporary, nonce)
                temporary.replace(self._path)
            except OSError:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
        try:
            yield nonce
        finally:
            # If the file cannot be removed, it is soon too old to be published.
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def answer(self) -> tuple[int, bytes]:
        """Return status and text for GET /-/nonce: 200 and the nonce, or 404 if it is missing or old."""
        if self._documents is not None:
            return self._answer_of(self._documents)
        try:
            with open_regular(self._path) as file:
                text, written = file.read(2 * _BYTES + 1), os.fstat(file.fileno()).st_mtime
        except OSError:
            return _NONE
        fresh = abs(self._now() - written) <= LONGEST_AGE
        return (200, text + b"\n") if fresh and _TEXT.fullmatch(text) else _NONE

    @contextmanager
    def _published_by(self, documents: Documents, nonce: str) -> Iterator[None]:
        """Publish a nonce by every node, whichever a balancer asks."""
        with documents.changing(_FILE) as document:
            document.write(f"{self._now()} {nonce}")
        try:
            yield
        finally:
            with suppress(SetupError), documents.changing(_FILE) as document:
                document.remove()

    def _answer_of(self, documents: Documents) -> tuple[int, bytes]:
        try:
            moment, _, nonce = (documents.read(_FILE) or "").partition(" ")
            fresh = bool(moment) and abs(self._now() - float(moment)) <= LONGEST_AGE
        except (SetupError, ValueError):
            return _NONE
        return (200, f"{nonce}\n".encode()) if fresh and _TEXT.fullmatch(nonce.encode()) else _NONE

    def _write(self, path: Path, nonce: str) -> None:
        # Its time is set by the clock that judges its age: a network file system may have another one.
        moment = self._now()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(nonce.encode())
            file.flush()
            # Readable by all: the service may run under another user than the command that asks for the proof.
            os.fchmod(handle, 0o644)
            os.utime(handle, (moment, moment))
