"""The holdings filters of the included Archives: fetched by one process, read by all of them.

    DIR/filters/<digest of the service IBI>.filter    "<service> <address> <ETag>", then the filter

A filter only decides which Archives are asked first. A filter that says yes to nearly every name would have
its Archive asked first for everything, so each filter is tried with random names before it is used.

See note 45: filters of holdings.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import threading
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from rbloom import Bloom

from ibi.errors import IbiError, PeerError, PeerGarbled, PeerSilent, SetupError
from ibi.http.client import ClientLimits
from ibi.protocol.extensions.holdings import LONGEST_FILTER, PATH, HoldingsFilter, number_of
from ibi.runtime.durable_files import make_folder
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from ibi.http.client import Client
    from ibi.resolver.model.archive import Archive

LIMITS: Final = ClientLimits(body=LONGEST_FILTER)
"""The limits of the client that fetches filters."""

EVERY: Final = 300.0
"""Seconds between two requests for the filter of an Archive."""

ALONE_SECONDS: Final = 3600.0
"""Seconds for which an Archive without a usable filter is not asked for one again."""

FETCH_SECONDS: Final = 60.0
"""Seconds that the fetching of a filter may take (T29: costly requests)."""
AT_ONCE: Final = 4
"""Filters that are fetched at once."""
MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all filters together, in each process."""

MOST_LIES: Final = 0.05
"""The largest share of random names to which a filter may say yes; with a larger one, it is not used."""

_TRIED: Final = 1_000  # random names with which a filter is tried
LOOK_EVERY: Final = 1.0
"""Seconds between two looks for filters that other processes have fetched, and for filters that are due."""

_YOUNG: Final = 2.0  # seconds in which a folder may change again without a new modification time
_OK, _NOT_MODIFIED, _UNAVAILABLE = 200, 304, 503
_TAG = re.compile(rb'(?:W/)?"[\x21\x23-\x7e]{0,100}"')

_log = logging.getLogger("ibi.resolver.cache.filters")


class _Kept(NamedTuple):
    """A filter in use, the address it came from, its ETag, its size in bytes, and the version of its file."""

    service: str
    address: str
    tag: str
    size: int
    bloom: Bloom
    file_version: tuple[int, int, int]


class _NoFilter(PeerError):
    """The Archive publishes no filter, as usual for Archives that run other software."""


class HoldingsFilters:
    """The filters in `folder`; `now` returns POSIX seconds.

    `archives` returns the included Archives, `away` the services of the excluded ones that may be back.
    `client` makes one with `LIMITS`, closed after a request. Raises SetupError if the folder is unusable.
    """

    def __init__(
        self,
        folder: Path,
        archives: Callable[[], Sequence[Archive]],
        client: Callable[[], Client],
        now: Callable[[], float],
        away: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._folder = folder
        self._archives = archives
        self._client = client
        self._away = away
        self._now = now
        self._kept: dict[str, _Kept] = {}  # by the names of the files
        self.published: tuple[tuple[str, Bloom], ...] = ()
        """The filters that are known; empty where no Archive publishes one."""
        self._folder_changed_at: int | None = None
        self._refreshed_at = 0.0
        self._loading = threading.Lock()
        self._due: dict[str, float] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        try:
            make_folder(folder)
        except OSError as error:
            raise SetupError("{path} cannot be used: {reason}", path=folder, reason=error) from None
        self._look()

    def use(self, client: Callable[[], Client]) -> None:
        """Fetch with this client from now on, at once the filters that the previous one could not fetch."""
        self._client = client
        self._due = {name: due for name, due in self._due.items() if name in self._kept}

    # Called in all processes

    def refresh(self) -> None:
        """Read the filters again, in a thread, if the folder has changed; looks every LOOK_EVERY seconds."""
        if abs(self._now() - self._refreshed_at) >= LOOK_EVERY:
            self._refreshed_at = self._now()
            if self._changed() and not self._loading.locked():
                threading.Thread(target=self._look, name="filters", daemon=True).start()

    def may_hold(self, canonical: str) -> list[str]:
        """Return the canonical service IBIs of the Archives that may hold this item by their filters."""
        self.refresh()
        if not self.published:
            return []
        number = number_of(canonical)
        return [service for service, bloom in self.published if number in bloom]

    def _changed(self) -> bool:
        """Whether the folder may have changed since it was read; a recent change may hide a later one."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:
            return False
        before, self._folder_changed_at = self._folder_changed_at, changed
        if abs(self._now() - changed / 1e9) < _YOUNG:
            self._folder_changed_at = None
        return changed != before

    def _look(self) -> None:
        """Read the new filters. Blocks, so do not call it in an event loop; calls wait for each other."""
        with self._loading:
            try:
                kept = dict(filter(None, map(self._load, sorted(self._folder.glob("*.filter")))))
            except OSError as error:
                _log.warning("the holdings filters cannot be read: %s", error)
                return
            self._kept = kept
            self.published = tuple((each.service, each.bloom) for each in kept.values())

    def _load(self, path: Path) -> tuple[str, _Kept] | None:
        """Read a file of the folder; None for one that is gone or malformed, which is then fetched again."""
        try:
            found = path.stat()
            version = found.st_ino, found.st_mtime_ns, found.st_size
            before = self._kept.get(path.name)
            if before is not None and before.file_version == version:
                return path.name, before
            line, _, text = path.read_bytes().partition(b"\n")
            service, address, tag = line.decode("ascii").split(" ", 2)
            return path.name, _Kept(service, address, tag, len(text), _bloom(text), version)
        except (FileNotFoundError, ValueError):
            return None

    # Called in the first process

    async def run(self) -> None:
        """Fetch the filters that are due, again and again, until cancelled."""
        places = asyncio.Semaphore(AT_ONCE)
        try:
            while True:
                included = {_file_of(each.service_ibi.canonical): each for each in self._archives()}
                now = asyncio.get_running_loop().time()
                for name, archive in included.items():
                    if name not in self._busy and self._due.get(name, 0.0) <= now:
                        task = asyncio.create_task(self._refresh(name, archive, places))
                        self._busy[name] = task
                # The filter of an Archive that is switched off stays true, and is kept (T04: a rogue first answer).
                for name in self._kept.keys() - included.keys() - {_file_of(each) for each in self._away()}:
                    with suppress(OSError):
                        (self._folder / name).unlink()
                self._due = {name: due for name, due in self._due.items() if name in included}
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await cancel_tasks(self._busy.values())

    async def _refresh(self, name: str, archive: Archive, places: asyncio.Semaphore) -> None:
        seconds = EVERY
        try:
            async with places:
                await self._fetch(name, archive)
        except PeerSilent as error:
            _log.debug("no holdings filter of %s: %s", archive.service_ibi, error)
        except (IbiError, OSError) as error:
            level = logging.DEBUG if isinstance(error, _NoFilter) else logging.WARNING
            _log.log(level, "the holdings filter of %s is not used: %s", archive.service_ibi, error)
            with suppress(OSError):
                (self._folder / name).unlink()
            seconds = ALONE_SECONDS
        finally:
            self._due[name] = asyncio.get_running_loop().time() + seconds
            del self._busy[name]

    async def _fetch(self, name: str, archive: Archive) -> None:
        """Fetch and keep a filter. Raises PeerSilent, another IbiError for a filter that is not usable."""
        kept = self._kept.get(name)
        known = kept is not None and kept.tag and kept.address == archive.address
        headers = [("If-None-Match", kept.tag)] if kept is not None and known else []
        clock = asyncio.get_running_loop().time
        client, begun = self._client(), clock()
        try:
            reply = await client.get(archive.address, PATH, FETCH_SECONDS, headers)
        except PeerSilent as error:
            if clock() - begun >= FETCH_SECONDS:
                raise PeerGarbled("it comes too slowly") from error
            raise
        finally:
            await client.close()
        if reply.status == _UNAVAILABLE:
            raise PeerSilent("it answered with status {status}", status=reply.status)
        if reply.status == _OK:
            tag = reply.headers.get(b"etag", b"")
            about = f"{archive.service_ibi.canonical} {archive.address} "
            line = about.encode("ascii") + (tag if _TAG.fullmatch(tag) else b"")
            await asyncio.to_thread(self._keep, name, line, reply.body)
        elif reply.status != _NOT_MODIFIED or not known:
            raise _NoFilter("it answered with status {status}", status=reply.status)

    def _keep(self, name: str, line: bytes, text: bytes) -> None:
        """Try a filter and write it into the folder. Raises ParseError, PeerGarbled, OSError."""
        bloom = _bloom(text)
        lies = sum(secrets.randbits(127) in bloom for _ in range(_TRIED))
        if lies > MOST_LIES * _TRIED:
            raise PeerGarbled("it wrongly matches {lies} of {tried} random names", lies=lies, tried=_TRIED)
        others = sum(each.size for other, each in self._kept.items() if other != name)
        if others + len(text) > MOST_BYTES:
            raise PeerGarbled("all filters together would have more than {most} bytes", most=MOST_BYTES)
        temporary = self._folder / f"{name}.{os.getpid()}.new"
        try:
            temporary.write_bytes(line + b"\n" + text)
            temporary.replace(self._folder / name)
        finally:
            temporary.unlink(missing_ok=True)
        self._look()


def _bloom(text: bytes) -> Bloom:
    """Read a filter, which can then be asked for the numbers of names. Raises ParseError."""
    read = HoldingsFilter.read(text)
    return Bloom.load_bytes(read.hashes.to_bytes(8, "little") + read.bits, int)


def _file_of(service: str) -> str:
    return f"{sha256(service.encode()).hexdigest()[:32]}.filter"
