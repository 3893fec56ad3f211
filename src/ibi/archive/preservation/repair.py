"""Puts the bytes of a damaged file back: the very bytes that the catalogue lists, from wherever they still are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.archive.store.tables import fixity
from ibi.archive.store.tables.fixity import AuditResult
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import BadItem, HoldingError, NotHeld

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.model.item import StoredFile
    from ibi.archive.store.item_store import ItemStore
    from ibi.identifier.forms import Name


def put_back(item_store: ItemStore, name: Name, path: str, source: Path, who: str) -> StoredFile:
    """Replace the bytes of a damaged file with the listed bytes from elsewhere; other bytes are refused.

    `path` is the file's name in the item. Needs a staging session. Raises NotHeld if the item or the file is not
    held, HoldingError if the item has changed meanwhile, BadItem, SetupError.
    """
    held = item_store.catalogue.holding(name)
    if held is None:
        raise NotHeld("{name} is not held here", name=name)
    listed = held.file(path)
    if listed is None:
        raise NotHeld("{name} has no file {file}", name=name, file=path)
    staged = item_store.file_store.stage(listed.name, source)
    if staged.sha256 != listed.sha256:
        item_store.file_store.discard(staged)
        # `source` is not named: over HTTP it is a path of the server.
        raise BadItem("these are not the bytes of {file} that were listed: their SHA-256 differs", file=path)
    staged = replace(staged, media_type=listed.media_type)
    with item_store.unit_of_work(who) as work:
        held = work.get(name)
        if held.file(path) != listed:
            raise HoldingError("{name} has changed meanwhile", name=name)
        work.change(held, held, [staged], "repaired", file=listed.name)
        good = AuditResult(ListedFile(held.number, held.forms, listed), None, work.moment)
        fixity.record_results(work.writer.run, [good])
    return listed
