"""Settings reload: a running service follows what is written into its data directory, within a second.

Each process looks at the files itself, so that the processes need not exchange messages. It looks when a
request comes: until then, no answer depends on the settings. A request in flight when the settings change is
finished by the application that started it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ibi.errors import IbiError
from ibi.runtime.shared.documents import documents_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path


LOOK_EVERY = 0.5
"""Seconds between two looks at the files."""

_S = TypeVar("_S")
_A = TypeVar("_A", bound="ReloadableApp")

_log = logging.getLogger(__name__)


class WatchedSettings(Generic[_S]):
    """The settings in some files, which are read again when they have changed.

    `read` reads them all, and `refuse(before, found)` raises SetupError for a change that is never allowed.
    If new settings cannot be used, this is logged once, and the former ones stay in force. Raises SetupError
    if the settings cannot be used at the start.
    """

    def __init__(
        self, files: Sequence[Path], read: Callable[[], _S], refuse: Callable[[_S, _S], None]
    ) -> None:
        self._files = files
        self._documents = documents_of(files[0].parent)
        self._read = read
        self._refuse = refuse
        self._problem = ""
        self._last_fingerprints = self._fingerprints()
        self._settings = read()

    def current(self) -> _S:
        """Return the settings as they are now."""
        fingerprints = self._fingerprints()
        if fingerprints != self._last_fingerprints:
            self._last_fingerprints = fingerprints
            try:
                found = self._read()
                self._refuse(self._settings, found)
            except IbiError as error:
                if str(error) != self._problem:
                    _log.warning("the settings were changed and cannot be used: %s", error)
                if self._documents is not None:  # the store may be away: read them again with the next look
                    self._problem, self._last_fingerprints = str(error), ()
            else:
                self._settings, self._problem = found, ""
                _log.info("the settings were changed")
        return self._settings

    def _fingerprints(self) -> tuple[object, ...]:
        if self._documents is not None:
            return tuple(self._documents.version(each.name) for each in self._files)
        return tuple(map(_fingerprint, self._files))


def _fingerprint(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class ReloadableApp(Protocol):
    """An ASGI application that was made from one state of the settings, and can be closed."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None:
        """Answer one request."""

    async def close(self) -> None:
        """Release what it holds; no request is in flight."""


class _Running(Generic[_A]):
    """One application, and how many requests are in flight in it."""

    def __init__(self, app: _A) -> None:
        self.app = app
        self.in_flight = 0
        self.replaced = False
        self.unused = asyncio.Event()
        """Set when no request is in flight any more, or none is waited for."""

    def replace(self) -> None:
        """Begin no further request."""
        self.replaced = True
        if not self.in_flight:
            self.unused.set()

    async def close_when_unused(self) -> None:
        """Close the application when the last of its requests is answered."""
        await self.unused.wait()
        await self.app.close()


class ReloadingApp(Generic[_S, _A]):
    """An ASGI application that is made anew when `current_settings()` has changed.

    Requests in flight are finished by the application that started them; then that one is closed.
    """

    def __init__(self, current_settings: Callable[[], _S], make: Callable[[_S], _A]) -> None:
        self._current_settings = current_settings
        self._make = make
        self._settings = current_settings()
        self._running = _Running(make(self._settings))
        self._checked_at = 0.0
        self._closing = False
        self._old: dict[asyncio.Task[None], _Running[_A]] = {}

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request by the current settings."""
        self.current()
        running = self._running
        running.in_flight += 1
        try:
            await running.app(scope, receive, send)
        finally:
            running.in_flight -= 1
            if running.replaced and not running.in_flight:
                running.unused.set()

    def current(self) -> _A:
        """Return the application for the current settings; to be used before the event loop goes on."""
        # A look at the files for each request would cost system calls; twice a second is enough for users.
        now = asyncio.get_running_loop().time()
        if now - self._checked_at >= LOOK_EVERY:
            self._checked_at = now
            self.reload()
        return self._running.app

    async def close(self) -> None:
        """Close the application, and those before it that still finish requests; follow no further settings."""
        self._closing = True
        for running in self._old.values():
            running.unused.set()
        # To cancel them would leave files open: the task of one that is being closed ends in the middle of it.
        await asyncio.gather(*self._old)
        await self._running.app.close()

    def reload(self) -> None:
        """Follow the settings at once; to be called while the event loop is running."""
        if self._closing or (settings := self._current_settings()) == self._settings:
            return
        self._settings = settings
        try:
            made = _Running(self._make(settings))
        except IbiError as error:
            _log.warning("the settings were changed and cannot be used: %s", error)
            return
        before, self._running = self._running, made
        before.replace()
        task = asyncio.create_task(before.close_when_unused())
        self._old[task] = before
        task.add_done_callback(self._old.pop)
