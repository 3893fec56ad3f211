"""Where the evidence of a resolver is kept: in two files of its data directory, or in its shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.resolver.evidence.files import EvidenceFiles
from ibi.resolver.evidence.table import EvidenceTable
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from pathlib import Path


def log_at(path: Path) -> EvidenceFiles | EvidenceTable:
    """Return the log that stands for a path: the file there, or the table of the store that its folder has.

    A log that was copied elsewhere is always a file. Raises SetupError for a URL that is none.
    """
    store = store_of(path.parent)
    return EvidenceFiles(path) if store is None else EvidenceTable(path, store)
