"""Prepare the values for the template that shows a new item before it is deposited."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ibi.archive.model.formats import DescribedItem
from ibi.web import item_values
from ibi.web.administration import deposit_form
from ibi.web.formats.citation import STYLES
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from ibi.archive.admin.item_pages import ReviewPage
    from ibi.web.branding import Branding

_COMING = "…"
"""What stands in the place of the name that the item gets."""


def values(page: ReviewPage, language: str, branding: Branding) -> dict[str, Any]:
    """Return the values for the template of the page."""
    holding, day = page.holding, page.moment[:10]
    metadata = holding.metadata or {}
    publisher = branding.institution.as_publisher
    item = DescribedItem(holding, metadata, page.root, page.root, page.archive, day, publisher)
    # Its titles are empty for an item without one, and not its name, which is not known yet.
    known = replace(record(item), url=f"{page.root}/{_COMING if page.is_new else holding.forms.main}")
    named = "title" in metadata
    return {
        "record": known,
        "access_names": deposit_form.ACCESS_NAMES,
        "kind_name": deposit_form.type_name(known.type),
        "heading": known.title if named else "",
        "abstract": item_values.best(metadata, "description", language),
        "citations": [(name.upper(), write(known, language, day)) for name, write in STYLES.items()] if named else [],
        "address": known.url,
    }  # fmt: skip
