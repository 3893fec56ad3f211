"""How often something may be tried (threat T16): failures are counted before the next one costs any work.

All worker processes count together, in an LMDB file beside the registry. It is not flushed to the disk: what a power
cut takes is a minute's worth of failures.
"""

from __future__ import annotations

import logging
import struct
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from ibi.durable import make_folder
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_NAMES: Final = 20_000
"""Names that are remembered at once; beyond this those that failed longest ago are forgotten."""

_KEPT: Final = MOST_NAMES * 3 // 4  # so that forgetting is rare
_MAP_BYTES: Final = 32 << 20  # for twice as many names, each with twenty moments
_MOMENT: Final = struct.calcsize("d")
_A_MOMENT: Final = 1.0  # seconds

_log = logging.getLogger(__name__)


class Limit(NamedTuple):
    """At most `most` failures of one name in `seconds`. Names of another `kind` are others."""

    kind: str
    most: int
    seconds: float


class Throttle:
    """The failures of names, shared by all processes that open `path`.

    `now` gives seconds. Raises SetupError where the file cannot be used.
    """

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        try:
            make_folder(path)  # lmdb would give it the mode of its files, and nobody but root could enter
            self._env = lmdb.open(
                str(path), map_size=_MAP_BYTES, sync=False, metasync=False, max_readers=1024, mode=0o600
            )
        except (lmdb.Error, OSError) as error:
            raise SetupError("{path} cannot be used: {reason}", path=path, reason=error) from None
        self._now = now

    def wait(self, limit: Limit, name: str, under_way: int = 0) -> float:
        """How many seconds this name has to wait before its next attempt; 0 if it may try now.

        So many attempts of this process are `under_way` and may fail; they count as failures here.
        """
        try:
            with self._env.begin() as transaction:
                moments = self._recent(transaction.get(_key(limit, name)), limit)
        except lmdb.Error:  # who cannot be counted waits for nobody's disk
            return 0.0
        too_many = len(moments) + under_way - limit.most
        if too_many < 0:
            return 0.0
        if too_many >= len(moments):
            return _A_MOMENT  # until one of those under way has ended
        return max(0.0, moments[too_many] + limit.seconds - self._now())

    def failed(self, limit: Limit, name: str) -> None:
        """Count a failure."""
        with self._writing() as transaction:
            key = _key(limit, name)
            known = transaction.get(key)
            if known is None and transaction.stat()["entries"] >= MOST_NAMES:
                _forget_the_oldest(transaction)
            moments = [*self._recent(known, limit), self._now()]
            transaction.put(key, _packed(moments[-limit.most :]))

    def close(self) -> None:
        """Close the file."""
        self._env.close()

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        try:
            with self._env.begin(write=True) as transaction:
                yield transaction
        except lmdb.Error as error:
            _log.error("a failed attempt was not counted: %s", error)

    def _recent(self, packed: bytes | memoryview | None, limit: Limit) -> list[float]:
        """The failures that still count; moments to come are those of a clock that was set back."""
        now = self._now()
        moments = struct.unpack(f"{len(packed) // _MOMENT}d", packed) if packed else ()
        return [moment for moment in moments if now - limit.seconds < moment <= now]


def _key(limit: Limit, name: str) -> bytes:
    return blake2b(f"{limit.kind} {name}".encode("utf-8", "replace"), digest_size=16).digest()


def _packed(moments: list[float]) -> bytes:
    return struct.pack(f"{len(moments)}d", *moments)


def _forget_the_oldest(transaction: lmdb.Transaction) -> None:
    found = sorted((value[-_MOMENT:], key) for key, value in transaction.cursor())
    found.sort(key=lambda pair: struct.unpack("d", pair[0]))
    for _, key in found[: len(found) - _KEPT]:
        transaction.delete(key)
