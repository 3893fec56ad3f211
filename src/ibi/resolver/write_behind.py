"""Writing that nobody waits for: one thread takes what was put, in batches; what is too much is dropped and counted."""

from __future__ import annotations

import logging
import threading
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("ibi.resolver.write_behind")

BATCH: Final = 1_000
"""So many entries are written in one transaction at most."""

BETWEEN: Final = 0.2
"""Seconds from one batch to the next, unless a whole one is waiting."""

MOST_WAITING: Final = 20_000
"""So many entries wait at most; what comes then is dropped."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""So many bytes wait at most; what comes then is dropped."""

_TEND = 1.0  # seconds between two looks at what needs tending
_LAST_WORDS = 10.0  # seconds for what is waiting at the end

_Value = TypeVar("_Value")


class WriteBehind(Generic[_Value]):
    """Entries that wait to be written, by key.

    `write` gets a batch and returns how many of it were written; `tend` is called about once a second; both run in
    the thread, and no error of theirs ends it. `merge(old, new)` makes one entry of two with the same key.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[dict[bytes, _Value]], int],
        tend: Callable[[], None],
        merge: Callable[[_Value, _Value], _Value],
    ) -> None:
        self._write = write
        self._tend = tend
        self._merge = merge
        self._lock = threading.Lock()
        self._some = threading.Event()  # something waits, or the end has come
        self._many = threading.Event()  # a whole batch waits, or the end has come
        self._ended = False
        self._waiting: dict[bytes, tuple[_Value, int]] = {}
        self._writing: dict[bytes, _Value] = {}
        self._bytes = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, key: bytes, value: _Value, size: int = 0) -> None:
        """Have an entry written; `size` in bytes. Returns at once."""
        with self._lock:
            known = self._waiting.get(key)
            if known is not None:
                value = self._merge(known[0], value)
            more = size - (known[1] if known else 0)
            if (
                self._ended
                or self._bytes + more > MOST_WAITING_BYTES
                or (known is None and len(self._waiting) >= MOST_WAITING)
            ):
                self.dropped += 1
                return
            self._waiting[key] = value, size
            self._bytes += more
            if known is None:
                self._some.set()
                if len(self._waiting) >= BATCH:
                    self._many.set()

    def pending(self, key: bytes) -> _Value | None:
        """What was put and is not written yet. To be asked before the file: what is in neither was never put."""
        if not self._waiting and not self._writing:
            return None
        with self._lock:
            written = self._writing.get(key)
            waiting = self._waiting.get(key)
        if waiting is None:
            return written
        return waiting[0] if written is None else self._merge(written, waiting[0])

    def settle(self) -> None:
        """Return when nothing waits."""
        while self._waiting or self._writing:
            threading.Event().wait(BETWEEN)

    def close(self) -> None:
        """Write what waits, and end."""
        with self._lock:
            self._ended = True
        self._some.set()
        self._many.set()
        self._thread.join(_LAST_WORDS)

    def _run(self) -> None:
        since = 0.0  # seconds that were spent waiting since the last look at what needs tending
        while True:
            since += BETWEEN if self._some.wait(_TEND) else _TEND
            batch = self._take()
            if batch:
                self._written(batch)
            elif self._ended:
                return
            if since >= _TEND:
                since = 0.0
                self._guarded(self._tend)
            self._many.wait(BETWEEN if batch else 0)

    def _take(self) -> dict[bytes, _Value]:
        with self._lock:
            keys = list(islice(self._waiting, BATCH))
            self._writing = {
                key: self._waiting[key][0] for key in keys
            }  # first: whoever looks finds it in one
            self._bytes -= sum(self._waiting.pop(key)[1] for key in keys)
            if not self._ended:
                if not self._waiting:
                    self._some.clear()
                if len(self._waiting) < BATCH:
                    self._many.clear()
        return self._writing

    def _written(self, batch: dict[bytes, _Value]) -> None:
        written = 0

        def write() -> None:
            nonlocal written
            written = self._write(batch)

        self._guarded(write)
        with self._lock:
            self._writing = {}
            self.dropped += len(batch) - written

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 - a fault here must not end all remembering
            _log.exception("what was to be remembered could not be written")
