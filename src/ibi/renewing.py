"""A running service follows its settings: what is written into its data directory counts within a second.

Each process looks by itself, so several that share the work need tell each other nothing. Requests that are under way
when the settings change are ended by the service that began them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path


LOOK_EVERY = 0.5
"""Seconds between two looks at the files."""

_S = TypeVar("_S")
_A = TypeVar("_A", bound="Answering")

_log = logging.getLogger(__name__)


class Watched(Generic[_S]):
    """Settings as they stand now in some files, which are read again when they have changed.

    `read` reads them all, and `refuse(before, found)` raises SetupError for a change that may never be made. What
    cannot be used is said once, and the settings from before count on. Raises SetupError where they cannot be used
    at the beginning.
    """

    def __init__(
        self, files: Sequence[Path], read: Callable[[], _S], refuse: Callable[[_S, _S], None]
    ) -> None:
        self._files = files
        self._read = read
        self._refuse = refuse
        self._seen = self._marks()
        self._settings = read()

    def look(self) -> _S:
        """The settings."""
        seen = self._marks()
        if seen != self._seen:
            self._seen = seen
            try:
                found = self._read()
                self._refuse(self._settings, found)
            except IbiError as error:
                _log.warning("the settings were changed and cannot be used: %s", error)
            else:
                self._settings = found
                _log.info("the settings were changed")
        return self._settings

    def _marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_mark, self._files))


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Answering(Protocol):
    """What answers as the settings are at one time: an ASGI application that can be closed."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None:
        """Answer one request."""

    async def close(self) -> None:
        """Give up what it holds; no request is under way."""


class _Running(Generic[_A]):
    """One service, and how many requests are under way in it."""

    def __init__(self, app: _A) -> None:
        self.app = app
        self.asked = 0
        self.idle = asyncio.Event()


class Renewing(Generic[_S, _A]):
    """An ASGI application that is made anew when its settings have changed; `look` gives those of now.

    Requests that are under way are ended by the one that began them; then it is closed.
    """

    def __init__(self, look: Callable[[], _S], make: Callable[[_S], _A]) -> None:
        self._settings_now = look
        self._make = make
        self._settings = look()
        self._running = _Running(make(self._settings))
        self._looked = 0.0
        self._old: set[asyncio.Task[None]] = set()

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request as the settings are now."""
        self._look_if_due()
        running = self._running
        running.asked += 1
        try:
            await running.app(scope, receive, send)
        finally:
            running.asked -= 1
            if not running.asked:
                running.idle.set()

    def current(self) -> _A:
        """What answers as the settings are now; good until the event loop goes on."""
        self._look_if_due()
        return self._running.app

    async def close(self) -> None:
        """Close what runs, and what still ends."""
        for task in self._old:
            task.cancel()
        await asyncio.gather(*self._old, return_exceptions=True)
        await self._running.app.close()

    def _look_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked >= LOOK_EVERY:
            self._looked = now
            self.look()

    def look(self) -> None:
        """Follow the settings at once; the event loop is running."""
        settings = self._settings_now()
        if settings == self._settings:
            return
        self._settings = settings
        try:
            made = _Running(self._make(settings))
        except IbiError as error:
            _log.warning("the settings were changed and cannot be used: %s", error)
            return
        before, self._running = self._running, made
        task = asyncio.create_task(_end(before))
        self._old.add(task)
        task.add_done_callback(self._old.discard)


async def _end(running: _Running[Any]) -> None:
    """Close a service when the last of its requests is answered, or at once when told to."""
    try:
        while running.asked:
            running.idle.clear()
            await running.idle.wait()
    finally:
        await running.app.close()
