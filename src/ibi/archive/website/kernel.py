"""The few facts of an item that programs want before all others: the RDA's PID kernel information (pure).

GET /-/api/handles/<ibi> tells them in the shape of the Handle System, `?json` at a persistent URL by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.exchange.handles import PROFILE, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.holding import Holding
    from ibi.archive.related import Walk
    from ibi.archive.website.mementos import Line


def values(holding: Holding, walk: Walk, line: Line, root: str, service: str) -> Iterator[Value]:
    """What is told of an item; of a removed one, little.

    `walk` for a reader of whom nothing is known; `root` begins persistent URLs, `service` is the Archive's IBI.
    """
    forms = holding.forms
    url = None if holding.deleted else walk.url(walk.item)
    yield Value("URL", url or "")
    for name in (forms.rep, forms.ibip):
        yield Value("IBI", str(name) if name else "")
    yield Value("IBI_STATE", holding.state.value)
    yield Value("IBI_ARCHIVE", service)
    yield Value("KernelInformationProfile", PROFILE)
    yield Value("digitalObjectType", holding.content_type.value)
    yield Value("digitalObjectLocation", url or "")
    yield Value("digitalObjectPolicy", holding.licence or holding.rights)
    yield Value("dateModified", holding.timestamp)
    yield Value("dateCreated", forms.main.date.text or "")
    if holding.deleted:
        return
    target = holding.target_file
    yield Value("etag", target.sha256 if target and not walk.is_withheld(walk.item) else "")
    yield from _of_editions(holding, line, root)
    for other in holding.translations.values():
        if not other.shares(forms):
            yield Value("alternateOf", f"{root}/{other.main}")


def _of_editions(holding: Holding, line: Line, root: str) -> Iterator[Value]:
    """Of what it is an edition, and after which."""
    if len(line.mementos) == 1 and line.beyond is None:
        return
    yield Value("specializationOf", f"{root}/{line.first.main}!")
    for each in line.mementos:
        following = each.holding.next_edition
        if following is not None and following.shares(holding.forms):
            yield Value("wasRevisionOf", f"{root}/{each.holding.forms.main}")
