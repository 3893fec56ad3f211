"""The nonce by which a name or address is proven to lead to the service of a data directory (AMB-10, threat T31).

    `ibi doctor` writes a random number into DIR/nonce, asks for http://HOST:PORT/-/nonce, and removes the file again

Whoever answers with that number serves DIR, or passes requests on to the one who does. The number is no secret: it
opens nothing, and means nothing once the visit is over. It is read anew for each request, and never kept.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_AGE: Final = 60.0
"""Seconds for which a nonce is told: one that was left behind proves nothing."""

_FILE: Final = "nonce"
_BYTES: Final = 16
_TEXT = re.compile(rb"[0-9a-f]{32}")
_NONE: Final = (404, b"nobody is proving now that this address leads here\n")


class Nonce:
    """The nonce of one data directory. `now` gives POSIX seconds."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self._directory = directory
        self._path = directory / _FILE
        self._now = now

    @contextmanager
    def laid_out(self, nonce: str = "") -> Iterator[str]:
        """A nonce (32 hexadecimal digits), a new one if none is given, told to everybody until the end of the block.

        Raises SetupError where it cannot be written.

        It is readable by all: the service may run under another user than whoever asks for the proof.
        """
        nonce = nonce or secrets.token_hex(_BYTES)
        aside = self._directory / f"{_FILE}.{os.getpid()}.new"
        try:
            self._write(aside, nonce)
            aside.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise SetupError(
                "{path} cannot be written: {reason}", path=self._path, reason=error.strerror
            ) from None
        try:
            yield nonce
        finally:
            with suppress(OSError):  # it grows too old to be told
                self._path.unlink(missing_ok=True)

    def answer(self) -> tuple[int, bytes]:
        """Status and plain text for GET /-/nonce: 200 and the nonce, or 404 where there is none or an old one."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return _NONE
        try:
            text, written = os.read(handle, 2 * _BYTES + 1), os.fstat(handle).st_mtime
        except OSError:
            return _NONE
        finally:
            os.close(handle)
        fresh = abs(self._now() - written) <= LONGEST_AGE
        return (200, text + b"\n") if fresh and _TEXT.fullmatch(text) else _NONE

    def _write(self, path: Path, nonce: str) -> None:
        # Its age is told by the clock that judges it: a file system over a network may have another one.
        moment = self._now()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(nonce.encode())
            file.flush()
            os.fchmod(handle, 0o644)
            os.utime(handle, (moment, moment))
