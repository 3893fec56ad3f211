"""A running Archive follows its settings: what is written into its data directory counts within a second.

Each process looks by itself, so several that share the work need tell each other nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from ibi.archive.networking.joining import Resolvers
from ibi.errors import IbiError, SetupError
from ibi.settings import ArchiveSettings, JoinedResolver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path


LOOK_EVERY = 0.5
"""Seconds between two looks at the files."""

_log = logging.getLogger(__name__)


class Watched:
    """The settings of a data directory as they stand now; the files are read again when they have changed.

    What cannot be used is said once, and the settings from before count on; so they do for an Archive whose service
    IBI was changed, which never may (ARC-10). Raises SetupError where they cannot be used at the beginning.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen = self._marks()
        self._resolvers = Resolvers.read(data)

    def look(self) -> Resolvers:
        """The settings, and the further resolvers."""
        seen = self._marks()
        if seen != self._seen:
            self._seen = seen
            try:
                found = Resolvers.read(self._data)
                if found.settings.service != self._resolvers.settings.service:
                    raise SetupError("the IBI of an Archive's service never changes")
            except IbiError as error:
                _log.warning("the settings were changed and cannot be used: %s", error)
            else:
                self._resolvers = found
                _log.info("the settings were changed")
        return self._resolvers

    def _marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(self._mark, (ArchiveSettings.FILE, JoinedResolver.FILE)))

    def _mark(self, name: str) -> tuple[int, int, int] | None:
        try:
            found = (self._data / name).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


class Answering(Protocol):
    """What answers as the settings are at one time: an ASGI application that can be closed."""

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""

    async def close(self) -> None:
        """Give up what it holds; no request is under way."""


class _Running:
    """One service, and how many requests are under way in it."""

    def __init__(self, app: Answering) -> None:
        self.app = app
        self.asked = 0
        self.idle = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.asked += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.asked -= 1
            if not self.asked:
                self.idle.set()


class Renewing:
    """The ASGI application of an Archive, made anew when its settings have changed.

    Requests that are under way are ended by the one that began them; then it is closed.
    """

    def __init__(self, watched: Watched, make: Callable[[ArchiveSettings], Answering]) -> None:
        self._watched = watched
        self._make = make
        self._settings = watched.look().settings
        self._running = _Running(make(self._settings))
        self._looked = 0.0
        self._old: set[asyncio.Task[None]] = set()

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request as the settings are now."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= LOOK_EVERY:
            self._looked = now
            self._look()
        await self._running(scope, receive, send)

    async def close(self) -> None:
        """Close what runs, and what still ends."""
        for task in self._old:
            task.cancel()
        await asyncio.gather(*self._old, return_exceptions=True)
        await self._running.app.close()

    def _look(self) -> None:
        settings = self._watched.look().settings
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


async def _end(running: _Running) -> None:
    """Close a service when the last of its requests is answered, or at once when told to."""
    try:
        while running.asked:
            running.idle.clear()
            await running.idle.wait()
    finally:
        await running.app.close()
