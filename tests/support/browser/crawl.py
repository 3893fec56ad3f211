"""Follow every link from some pages, to find every kind of page there is without a list of them."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urljoin, urlsplit

from support.network.up import Answer, get

MOST_PAGES = 400
"""How many are fetched to find the kinds of pages there are."""
MOST_WAITS = 20
"""How often a page is asked for again when too much was asked for."""

_LINK = re.compile(r'<(?:a|link)\s[^>]*?href="([^"]*)"')
_HTML = re.compile(r"text/html|application/xhtml")
_OWN = re.compile(r"/(-/[^/]+)")


def kinds_of_pages(start_urls: Iterable[str]) -> dict[str, list[str]]:
    """The URLs of pages of ours on this machine by kind: the port, what they are, and their status."""
    waiting = list(start_urls)
    found: dict[str, list[str]] = {}
    seen = set(waiting)
    for _ in range(MOST_PAGES):
        if not waiting:
            break
        url = waiting.pop(0)
        answer = _seen(url)
        if answer.location:
            _add(urljoin(url, answer.location), seen, waiting)
        if not _HTML.match(answer.headers.get("content-type", "")) or "/col/" in url:
            continue
        found.setdefault(_kind(url, answer.status), []).append(url)
        for link in _LINK.findall(answer.body.decode()):
            _add(urljoin(url, html.unescape(link)), seen, waiting)
    return found


def _seen(url: str) -> Answer:
    """Fetch a page, and wait as long as the server says whenever it refuses because of the rate."""
    answer = get(url, accept="text/html")
    for _ in range(MOST_WAITS):
        if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
            break
        time.sleep(int(answer.headers["retry-after"]))
        answer = get(url, accept="text/html")
    return answer


def _add(url: str, seen: set[str], waiting: list[str]) -> None:
    url = url.partition("#")[0]
    if url.startswith("http://127.0.0.1:") and url not in seen:
        seen.add(url)
        waiting.append(url)


def _kind(url: str, status: int) -> str:
    parts = urlsplit(url)
    own = _OWN.match(parts.path)
    what = own[1] if own else "front" if parts.path in {"", "/"} else "persistent URL"
    return f"{parts.port} {what}{'?' if parts.query else ''} {status}"
