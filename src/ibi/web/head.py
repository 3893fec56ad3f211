"""What stands in the head of a page for programs: its links and named tags. Written here, for there are many."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

from ibi.web.wording import web_link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.website.signposting import Link


def link_elements(links: Iterable[Link]) -> Markup:
    """Links of ours and links to the Web, an element a line; others are left out."""
    lines = []
    for link in links:
        where = link.target if link.target.startswith("/") else web_link(link.target)
        if where:
            kind = f' type="{escape(link.type)}"' if link.type else ""
            lines.append(f'<link rel="{link.relation}" href="{escape(where)}"{kind}>')
    return Markup("\n".join(lines))  # noqa: S704 - every text in it is escaped


def tag_elements(tags: Iterable[tuple[str, str]]) -> Markup:
    """(name, content) of each tag, an element a line."""
    lines = (f'<meta name="{name}" content="{escape(content)}">' for name, content in tags)
    return Markup("\n".join(lines))  # noqa: S704 - the names are ours, and every content is escaped
