"""ResourceSync: what an Archive has, and each change of it, for programs that keep a copy (ANSI/NISO Z39.99-2017).

    /.well-known/resourcesync                   the source: which capability list there is
    /-/resourcesync/capabilitylist.xml          the capabilities: the resource list, and the change list
    /sitemap.xml  /-/sitemap/<n>.xml            the resource list: the sitemap, with the elements of ResourceSync
    /-/resourcesync/changelist.xml              the change list, or the index of several
    /-/resourcesync/changes/<n>.xml             one of several: the events 50,000 (n - 1) + 1 to 50,000 n of the feed

Resources are the pages of items. The number of an event determines its list for ever, so a list to which a later one
follows never changes, except for items that have been removed or are not settled.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.search.search import page_of
from ibi.archive.store.tables import history

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.store.tables.catalogue import SqlRunner

SOURCE: Final = "/.well-known/resourcesync"
"""The path of the description of the source (6.3.2)."""
CAPABILITIES: Final = "/-/resourcesync/capabilitylist.xml"
"""The path of the capability list."""
CHANGES: Final = "/-/resourcesync/changelist.xml"
"""The path of the change list, or of the index of several."""
SITEMAP: Final = "/sitemap.xml"
"""The path of the sitemap, which is the index of the resource lists."""

EVENTS: Final = 50_000
"""Events of the feed for each change list: as many as a document may have, since some programs cannot read an index."""
MOST_LISTS: Final = 50_000
"""Change lists that their index may name."""

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_SPACES: Final = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"'
)


def document(root: str, head: Iterable[str], lines: Iterable[str]) -> bytes:
    """Return a sitemap document with this root element: what its `head` says of it, and a line for each entry."""
    whole = [_HEAD, f"<{root} {_SPACES}>", *head, *lines, f"</{root}>", ""]
    return "\n".join(whole).encode("utf-8", "replace")


def link(relation: str, url: str) -> str:
    """Return an element that links from a document."""
    return f"<rs:ln rel={quoteattr(relation)} href={quoteattr(url)}/>"


def facts(**attributes: str) -> str:
    """Return an element with facts of a document or a resource; `from_` and the like lose their last character."""
    words = (f" {name.rstrip('_')}={quoteattr(value)}" for name, value in attributes.items() if value)
    return f"<rs:md{''.join(words)}/>"


def of_resource_list(base: str, at: float, index: str = "") -> tuple[str, ...]:
    """Return the head of a resource list (10.1), or of the index of all (10.2).

    `at`: POSIX seconds since which each change is in the list, or follows in the change list; `index`: the path
    of the index, for a list that is in it.
    """
    above = (link("index", base + index),) if index else ()
    return link("up", base + CAPABILITIES), *above, facts(capability="resourcelist", at=timestamp_text(at))


def write_source(base: str) -> bytes:
    """Return the description of the source (8)."""
    head = (link("describedby", f"{base}/-/about"), facts(capability="description"))
    return document("urlset", head, [_capability(base, CAPABILITIES, "capabilitylist")])


def write_capabilities(base: str) -> bytes:
    """Return the capability list (9)."""
    head = (link("up", base + SOURCE), facts(capability="capabilitylist"))
    listed = [_capability(base, SITEMAP, "resourcelist"), _capability(base, CHANGES, "changelist")]
    return document("urlset", head, listed)


def _capability(base: str, path: str, name: str) -> str:
    return f"<url><loc>{escape(base + path)}</loc>{facts(capability=name)}</url>"


def write_change_list(run: SqlRunner, base: str, service: str, now: float) -> bytes:
    """Return the change list (12.1), or the index of several (12.2).

    `service`: the name of the Archive's service item, which is not listed; `now`: POSIX seconds, where nothing has
    happened yet. One list has no index.
    """
    begins = _begins(run) or {1: timestamp_text(now)}
    if len(begins) == 1:
        [(number, begin)] = begins.items()
        return _changes(run, number, service, base, _of_changes(base, begin))
    times = [*begins.values()]
    lines = [
        f"<sitemap><loc>{escape(f'{base}/-/resourcesync/changes/{number}.xml')}</loc>"
        f"{facts(from_=begin, until=end)}</sitemap>"
        for (number, begin), end in zip(begins.items(), [*times[1:], ""], strict=True)
    ]
    head = _of_changes(base, times[0])
    return document("sitemapindex", head, lines)


def write_changes(run: SqlRunner, base: str, number: int, service: str) -> bytes | None:
    """Return one of several change lists, counted from 1; None if it does not exist."""
    begins = _begins(run)
    if number not in begins or len(begins) == 1:
        return None
    head = _of_changes(base, begins[number], begins.get(number + 1, ""), CHANGES)
    return _changes(run, number, service, base, head)


def _changes(run: SqlRunner, number: int, service: str, base: str, head: Iterable[str]) -> bytes:
    last = number * EVENTS
    changes = history.changes_between(run, last - EVENTS, last, service)
    # Clocks of several processes differ a little, and changes must be in the order of their times.
    return document("urlset", head, (_change(base, each) for each in sorted(changes, key=_moment)))


def _of_changes(base: str, begin: str, end: str = "", index: str = "") -> tuple[str, ...]:
    above = (link("index", base + index),) if index else ()
    return link("up", base + CAPABILITIES), *above, facts(capability="changelist", from_=begin, until=end)


def _begins(run: SqlRunner) -> dict[int, str]:
    """Return when each change list begins, by its number; times never go back."""
    first, last = history.feed_ends(run)
    if not last:
        return {}
    begins, latest = dict[int, str](), ""
    newest = (last - 1) // EVENTS + 1
    for number in range(max((first - 1) // EVENTS + 1, newest - MOST_LISTS + 1), newest + 1):
        moment = history.moment_after(run, (number - 1) * EVENTS)
        if moment is not None:
            latest = max(latest, timestamp_text(_seconds(moment)))
            begins[number] = latest
    return begins


def _change(base: str, change: history.ListedChange) -> str:
    modified = f"<lastmod>{timestamp_text(_seconds(change.modified))}</lastmod>" if change.modified else ""
    what = facts(change=change.what, datetime=timestamp_text(_moment(change)))
    return f"<url><loc>{escape(base + page_of(change.name))}</loc>{modified}{what}</url>"


def _moment(change: history.ListedChange) -> int:
    return _seconds(change.moment)


def _seconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp())
