"""The holdings filter of an Archive: made when names have come, kept in a file, published as a page (note 45).

A filter is never too small: who was told in time is asked in time, and who was not is asked like everybody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rbloom import Bloom

from ibi.archive.ledgers import holdings as ledger
from ibi.archive.networking.duties import Duty
from ibi.archive.website.conditions import unchanged
from ibi.durable import flush_folder
from ibi.errors import SetupError
from ibi.exchange import NO_STORE, PLAIN, Response
from ibi.protocol.holdings import HoldingsFilter, number_of

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.exchange import Asked

FILE: Final = "holdings.filter"

EVERY: Final = 600.0
"""Seconds between two looks at whether names have come."""

FALSE_POSITIVES: Final = 0.001
"""Of the names that are not held, the share that the filter takes for held."""

MOST_NAMES: Final = 18_000_000
"""Names of an Archive that publishes a filter; one of more would be longer than anybody reads."""

_PORTION: Final = 10_000
_MAX_AGE: Final = ("cache-control", "max-age=300")

_log = logging.getLogger(__name__)


class Holdings:
    """Keeps the filter of one Archive in a file of its data directory `folder`."""

    def __init__(self, catalogue: Catalogue, folder: Path) -> None:
        self._catalogue = catalogue
        self._path = folder / FILE
        self._names = -1  # in the file; not known at first, for it may be that of another catalogue

    def duty(self) -> Duty:
        """What the first process does."""
        return Duty("holdings filter", EVERY, self.look)

    async def look(self) -> None:
        """Make the filter anew if names have come. Raises SetupError and OSError."""
        count = await asyncio.to_thread(self._count)
        if count == self._names:
            return
        if count > MOST_NAMES:
            self._path.unlink(missing_ok=True)
            raise SetupError(
                "an Archive of more than {most} names publishes no holdings filter", most=MOST_NAMES
            )
        bloom, names, after = Bloom(max(count, 1), FALSE_POSITIVES, int), 0, ""
        while page := await asyncio.to_thread(self._put, bloom, after):
            names, after = names + len(page), page[-1]
        await asyncio.to_thread(self._write, names, bloom)
        self._names = names

    def _count(self) -> int:
        with self._catalogue.reading() as run:
            return ledger.count(run)

    def _put(self, bloom: Bloom, after: str) -> list[str]:
        """Put some names into the filter; returns them."""
        with self._catalogue.reading() as run:
            page = ledger.page(run, after, _PORTION)
        bloom.update(map(number_of, page))
        return page

    def _write(self, names: int, bloom: Bloom) -> None:
        """Keep the filter, unless it is the one that is kept already: that has its tag."""
        saved = bloom.save_bytes()
        text = HoldingsFilter(names, int.from_bytes(saved[:8], "little"), saved[8:]).text()
        with suppress(FileNotFoundError):
            if self._path.read_bytes() == text:
                return
        aside = self._path.with_name(f"{FILE}.{os.getpid()}.new")
        try:
            with aside.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self._path)
        finally:
            aside.unlink(missing_ok=True)
        flush_folder(self._path.parent)
        _log.info("the holdings filter tells of %d names now", names)


def page(folder: Path, asked: Asked) -> Response:
    """The filter that is kept in a data directory, as it is published."""
    try:
        file = (folder / FILE).open("rb")
    except OSError:
        body = b"the filter is being made\n"
        return Response(503, body, PLAIN, (("retry-after", "60"), *NO_STORE))
    found = os.fstat(file.fileno())
    tag = f'"{found.st_mtime_ns:x}-{found.st_ino:x}-{found.st_size:x}"'
    headers = (("etag", tag), _MAX_AGE)
    if unchanged(asked, tag, ""):
        file.close()
        return Response(304, headers=headers)
    return Response(200, b"", "application/octet-stream", headers, file, found.st_size)
