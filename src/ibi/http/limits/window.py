"""Sliding windows of failures: how often something may be tried (T16: guessed keys).

Failures are counted before the next attempt costs any work. All worker processes count together, in an LMDB
file beside the registry. The file is not flushed to the disk, because a power cut loses only a minute's worth
of failures. A damaged file is moved aside, with one line in the log, so that the service can start.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import lmdb

from ibi.errors import SetupError
from ibi.runtime.durable_files import locked_file, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")

MOST_NAMES: Final = 20_000
"""Names whose failures are counted; beyond this, those that failed longest ago are dropped."""

_KEPT: Final = MOST_NAMES * 3 // 4  # dropping a quarter costs one scan of all names in 5,000 failures
_MAP_BYTES: Final = 32 << 20  # enough for twice MOST_NAMES names with twenty failures each
_TIME_BYTES: Final = struct.calcsize("d")  # of one moment
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.MemoryError,  # the head of a damaged file may give a size that exceeds any memory
)
SHORT_WAIT: Final = 1.0
"""Seconds to wait until one of the attempts in flight has ended."""

_log = logging.getLogger(__name__)


class FailureLimit(NamedTuple):
    """At most `most` failures of one name in `seconds`. Each `kind` counts its names separately."""

    kind: str
    most: int
    seconds: float


class Failures(Protocol):
    """Failures of names, whatever holds them."""

    is_remote: bool
    """Whether its methods wait for a server, so that an event loop may not call them."""

    def wait(self, limit: FailureLimit, name: str, in_flight: int = 0) -> float:
        """Return how many seconds this name has to wait before its next attempt; 0 if it may try now."""

    def record_failure(self, limit: FailureLimit, name: str) -> None:
        """Count a failure."""

    def close(self) -> None:
        """Release what holds them."""


async def unblocked(failures: Failures, call: Callable[..., _T], *values: Any) -> _T:
    """Call a function that asks for failures, in a thread if they are with a server."""
    return await asyncio.to_thread(call, *values) if failures.is_remote else call(*values)


class FailureWindows:
    """The failures of names, shared by all processes that open `path`.

    `now` gives seconds. Raises SetupError where the file cannot be used.
    """

    is_remote = False

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        try:
            # If several processes find the file damaged, only one of them moves it.
            with locked_file(path.with_name(f"{path.name}.door")):
                self._env = _open_or_restart(path)
        except (lmdb.Error, OSError) as error:
            raise SetupError("{path} cannot be used: {reason}", path=path, reason=error) from None
        self._now = now

    def wait(self, limit: FailureLimit, name: str, in_flight: int = 0) -> float:
        """Return how many seconds this name has to wait before its next attempt; 0 if it may try now.

        `in_flight`: attempts of this process that have not ended; they count as failures, as they may fail.
        """
        try:
            with self._env.begin() as transaction:
                times = self._recent(transaction.get(name_digest(limit, name)), limit)
        except lmdb.Error:  # a faulty disk must not lock every Archive out
            return 0.0
        too_many = len(times) + in_flight - limit.most
        if too_many < 0:
            return 0.0
        if too_many >= len(times):
            return SHORT_WAIT  # until one of the attempts in flight has ended
        return max(0.0, times[too_many] + limit.seconds - self._now())

    def record_failure(self, limit: FailureLimit, name: str) -> None:
        """Count a failure."""
        key = name_digest(limit, name)
        try:
            with self._env.begin(write=True) as transaction:
                known = transaction.get(key)
                if known is None and transaction.stat()["entries"] >= MOST_NAMES:
                    _drop_oldest(transaction)
                times = [*self._recent(known, limit), self._now()][-limit.most :]
                transaction.put(key, struct.pack(f"{len(times)}d", *times))
        except lmdb.Error as error:
            _log.error("a failed attempt was not counted: %s", error)

    def close(self) -> None:
        """Close the file."""
        self._env.close()

    def _recent(self, packed: bytes | memoryview | None, limit: FailureLimit) -> list[float]:
        now = self._now()
        whole = len(packed) // _TIME_BYTES if packed else 0
        times = struct.unpack_from(f"{whole}d", packed) if packed else ()
        # A time in the future was written before the clock was set back; it is dropped.
        return [time for time in times if now - limit.seconds < time <= now]


def _open_or_restart(path: Path) -> lmdb.Environment:
    """Open the file; one that is damaged is moved aside first. Raises lmdb.Error, OSError."""
    try:
        return _open(path)
    except _DAMAGE as error:
        damaged = path.with_name(f"{path.name}.damaged")
        shutil.rmtree(damaged, ignore_errors=True)  # only the last damaged file is kept, to save disk space
        path.rename(damaged)
        _log.warning(
            "%s is damaged (%s): moved to %s, and failures are counted from zero", path, error, damaged.name
        )
        return _open(path)


def _open(path: Path) -> lmdb.Environment:
    # lmdb would make the folder with the mode of its files, without the right to enter it.
    make_folder(path)
    env = lmdb.open(str(path), map_size=_MAP_BYTES, sync=False, metasync=False, max_readers=1024, mode=0o600)
    # lmdb does not check the length of its file, and reading beyond the end kills the process.
    if (env.info()["last_pgno"] + 1) * env.stat()["psize"] > (path / "data.mdb").stat().st_size:
        env.close()
        raise lmdb.CorruptedError("the file is too short")
    return env


def name_digest(limit: FailureLimit, name: str) -> bytes:
    """Return the name as it is stored: in 16 bytes, and without the address of a person."""
    return blake2b(f"{limit.kind} {name}".encode("utf-8", "replace"), digest_size=16).digest()


def _drop_oldest(transaction: lmdb.Transaction) -> None:
    found = [(struct.unpack("d", value[-_TIME_BYTES:]), key) for key, value in transaction.cursor()]
    for _, key in sorted(found)[: len(found) - _KEPT]:
        transaction.delete(key)
