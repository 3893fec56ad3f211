"""The holdings filter of an Archive: rebuilt after new names, stored in a file, served as a page.

A filter may lack new names for a while; a resolver then queries the Archive in the ordinary order. A filter never
denies a name that was held when the filter was built. See note 45: filters of holdings.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rbloom import Bloom

from ibi.archive.store.tables import listings
from ibi.errors import SetupError
from ibi.http.conditional import unchanged
from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.protocol.extensions.holdings import HoldingsFilter, number_of
from ibi.runtime.durable_files import replace_file
from ibi.runtime.tasks import DoneBy, PeriodicTask

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request

FILE: Final = "holdings.filter"

EVERY: Final = 600.0
"""Seconds between two checks for new names."""

FALSE_POSITIVES: Final = 0.001
"""The share of names that are not held but seem held by the filter."""

MOST_NAMES: Final = 18_000_000
"""Names of an Archive that publishes a filter; resolvers would not read a longer filter."""

_PORTION: Final = 10_000
_MAX_AGE: Final = ("cache-control", "max-age=300")

_log = logging.getLogger(__name__)


class HoldingsFilterFile:
    """Keeps the filter of one Archive in a file of its data directory `folder`."""

    def __init__(self, catalogue: Catalogue, folder: Path) -> None:
        self._catalogue = catalogue
        self._path = folder / FILE
        # Names in the file; -1 at first, because after a restore the file may be that of another catalogue.
        self._names = -1

    def task(self) -> PeriodicTask:
        """Return the periodic task for the first process of each node."""
        return PeriodicTask("holdings filter", EVERY, self.look, done_by=DoneBy.EACH_NODE)

    async def look(self) -> None:
        """Rebuild the filter if there are new names. Raises SetupError and OSError."""
        count = await asyncio.to_thread(self._count)
        if count == self._names:
            return
        if count > MOST_NAMES:
            self._path.unlink(missing_ok=True)
            raise SetupError(
                "an Archive of more than {most} names publishes no holdings filter", most=MOST_NAMES
            )
        # Page by page, so that no reading transaction stays open while millions of names are read.
        bloom, names, after = Bloom(max(count, 1), FALSE_POSITIVES, int), 0, ""
        while page := await asyncio.to_thread(self._put, bloom, after):
            names, after = names + len(page), page[-1]
        await asyncio.to_thread(self._write, names, bloom)
        self._names = names

    def _count(self) -> int:
        with self._catalogue.reading() as run:
            return listings.count_names(run)

    def _put(self, bloom: Bloom, after: str) -> list[str]:
        """Put the next names after `after` into the filter; returns them."""
        with self._catalogue.reading() as run:
            page = listings.names_page(run, after, _PORTION)
        bloom.update(map(number_of, page))
        return page

    def _write(self, names: int, bloom: Bloom) -> None:
        saved = bloom.save_bytes()
        text = HoldingsFilter(names, int.from_bytes(saved[:8], "little"), saved[8:]).text()
        # Not written again if unchanged: its ETag would change, and every resolver would fetch it once more.
        with suppress(FileNotFoundError):
            if self._path.read_bytes() == text:
                return
        replace_file(self._path, text, 0o666)  # readable for all, also for a server in front
        _log.info("the holdings filter tells of %d names now", names)


def filter_response(folder: Path, request: Request) -> Response:
    """Return the response with the filter of a data directory; 503 while it is built for the first time."""
    try:
        file = (folder / FILE).open("rb")
    except OSError:
        body = b"the filter is being made\n"
        return Response(503, body, PLAIN, (("retry-after", "60"), *NO_STORE))
    found = os.fstat(file.fileno())
    tag = f'"{found.st_mtime_ns:x}-{found.st_ino:x}-{found.st_size:x}"'
    headers = (("etag", tag), _MAX_AGE)
    if unchanged(request, tag, ""):
        file.close()
        return Response(304, headers=headers)
    return Response(200, b"", "application/octet-stream", headers, file, found.st_size)
