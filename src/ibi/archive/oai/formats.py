"""Formats of records: what a harvester may ask for by its prefix; the writers are given from above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.website.formats import Described


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """One format of records.

    `prefix`: the metadataPrefix; `schema`: where its XML Schema is; `namespace`: that of its root element; `write`: an
    item -> one XML element, which declares its namespaces and its schema itself. Every item can be written in it.
    """

    prefix: str
    schema: str
    namespace: str
    write: Callable[[Described], str]
