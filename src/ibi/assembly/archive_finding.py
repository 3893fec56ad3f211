"""Finding what an Archive holds, put together: its index, what keeps that up to date, and what is read from it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.archive.finding.index import Index
from ibi.archive.finding.indexing import Indexer
from ibi.archive.finding.site import Finding
from ibi.archive.networking.duties import Duties
from ibi.archive.website.place import Place
from ibi.web.formats.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.website.pages import Renderer
    from ibi.settings import ArchiveSettings


def indexer(directory: ArchiveDirectory, catalogue: Catalogue) -> Indexer:
    """What keeps the index of an Archive up to date; to be closed."""
    return Indexer(catalogue, directory.path, time.time, _kind, str(directory.settings().service.main))


def index_duties(directory: ArchiveDirectory, catalogue: Catalogue) -> Duties:
    """The one duty of keeping it up to date, which waits for no other one."""
    listed = [indexer(directory, catalogue).duty()]
    return Duties(lambda: listed)


def finding(
    directory: ArchiveDirectory, settings: ArchiveSettings, catalogue: Catalogue, renderer: Renderer
) -> Finding:
    """What answers where items can be found; to be closed."""
    place = Place(f"http://{settings.address}", settings.resolver, settings.admin, search=True)
    return Finding(place, settings.address, catalogue, Index(directory.path), renderer)


def _kind(types: Iterable[str]) -> str:
    return kind_of(types).datacite
