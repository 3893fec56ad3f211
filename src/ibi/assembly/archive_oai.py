"""The OAI-PMH repository of an Archive, put together: its list of changes, its records, and the formats of these."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.archive.finding.index import Index
from ibi.archive.oai.door import OaiDoor
from ibi.archive.oai.provider import Provider
from ibi.web.formats.oai import RECORD_FORMATS

if TYPE_CHECKING:
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.settings import ArchiveSettings


def oai_door(directory: ArchiveDirectory, settings: ArchiveSettings, catalogue: Catalogue) -> OaiDoor:
    """What answers harvesters; to be closed."""
    index = Index(directory.path)
    return OaiDoor(Provider(settings, catalogue, index, RECORD_FORMATS, time.time), index.close)
