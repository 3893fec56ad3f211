"""Follow every link of a network on https, and find each http:// of its own, however it is written."""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from support.network.https_network import HttpsNetwork, Page

_OURS = re.compile(r"(?:https?:)?//(?:127\.0\.0\.1|localhost):[0-9]+[^\s\"'<>\\]*")
_LINK = re.compile(r"""(?:href|src|action|formaction|poster|data)=["']([^"'#]+)""")
_SET = re.compile(r"""srcset=["']([^"']+)""")
_TARGET = re.compile(r"<([^<>\s]+)>\s*;")
"""The target of a link in a header, in `application/linkset` and in `application/link-format`."""
_IN_SHEET = re.compile(r"""url\(["']?([^"')]+)""")
_IN_JSON = re.compile(r'"(/[^"\s{}<>]+)"')
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_URL = re.compile("[!-~]+")
_TOKEN = re.compile(r"<resumptionToken[^>]*>([^<]+)<")
FORMS = ("text/html", "application/json", "text/plain", "application/problem+json", "*/*")
"""What readers and programs accept; an answer that does not depend on it is asked for once."""
MOST_OF_A_KIND = 4
"""Pages that differ in their names and queries alone; more of them would tell nothing new."""


def spellings(text: str) -> str:
    """A text, and what it says once it is read as HTML, as JSON and as a URL, also as one inside another."""
    read = html.unescape(text).replace("\\/", "/")
    read = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), read)
    return "\n".join([text, read, unquote(read), unquote(unquote(read))])


def addresses(text: str) -> list[str]:
    """The addresses of ours in a text."""
    return [found[0].rstrip(".,;:)]}") for found in _OURS.finditer(text)]


def in_the_open(text: str) -> set[str]:
    """The addresses of ours in a text that are no https, however they are written."""
    return {each for each in addresses(spellings(text)) if each.startswith("http:")}


def _inside(page: Page) -> str:
    """What an answer says: headers and text; of a zip file, its names and what is in them."""
    if not page.body.startswith(b"PK"):
        return page.text
    with zipfile.ZipFile(io.BytesIO(page.body)) as archive:
        members = [archive.read(name).decode("utf-8", "replace") for name in archive.namelist()]
        return "\n".join([*page.headers.values(), *archive.namelist(), *members])


def _relative(page: Page, text: str) -> Iterator[str]:
    """The links of an answer that need not be whole URLs, by its kind."""
    kind = page.headers.get("content-type", "")
    yield from (found[1] for found in _TARGET.finditer(page.headers.get("link", "")))
    if "html" in kind or "xml" in kind or "svg" in kind:
        yield from (found[1] for found in _LINK.finditer(text))
        yield from (
            each.split()[0] for found in _SET.finditer(text) for each in found[1].split(",") if each.strip()
        )
    if kind.startswith(("application/linkset", "application/link-format")):
        yield from (found[1] for found in _TARGET.finditer(text))
    if "css" in kind:
        yield from (found[1] for found in _IN_SHEET.finditer(text) if not found[1].startswith("data:"))
    if "json" in kind:
        yield from (found[1] for found in _IN_JSON.finditer(text))


def _links(page: Page) -> Iterator[str]:
    """Where an answer leads: by its headers, by its text, relatively, and to the next page of a list."""
    text = html.unescape(_inside(page))
    yield from (urljoin(page.url, each) for each in _relative(page, text))
    yield from addresses(text)
    verb = re.search(r"/-/oai\?verb=[A-Za-z]+", page.url)
    for found in _TOKEN.finditer(text) if verb else ():
        yield urljoin(page.url, f"{verb[0] if verb else ''}&resumptionToken={quote(found[1])}")
    if "location" in page.headers:
        yield urljoin(page.url, page.headers["location"])


@dataclass
class Crawl:
    """What was seen. `headers`: sent with each request, as those of a browser in which an account has signed in."""

    network: HttpsNetwork
    headers: Mapping[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    wrong: set[tuple[str, str]] = field(default_factory=set)
    types: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How many answers had a status and a media type."""

    def follow(self, begin: Iterable[str], within: str = "") -> None:
        """Look at these pages, and at all to which they lead, if their paths begin so."""
        waiting = deque(begin)
        given = set(waiting)
        kinds: Counter[str] = Counter()
        roots = tuple(f"{root}/{within}" for root in (self.network.archive, self.network.resolver))
        while waiting:
            url = waiting.popleft()
            if url in self.seen or not url.startswith(roots) or not _URL.fullmatch(url):
                continue
            kind = _kind(url)
            if url not in given and kinds[kind] >= MOST_OF_A_KIND:
                continue
            for form in FORMS if url in given or not kinds[kind] else FORMS[:1]:
                page = self.network.get(url, accept=form, **self.headers)
                waiting.extend(self.look(page))
                if not re.search(r"\baccept\b(?!-)", page.headers.get("vary", ""), re.IGNORECASE):
                    break
            kinds[kind] += 1
            self.seen.add(url)

    def look(self, page: Page) -> Iterator[str]:
        """Record what is wrong with an answer; return where it leads."""
        assert page.headers["strict-transport-security"] == "max-age=31536000", page.url
        self.types[page.status, page.headers.get("content-type", "").partition(";")[0]] += 1
        self.wrong |= {(page.url, link) for link in in_the_open(_inside(page))}
        return _links(page)


def _kind(url: str) -> str:
    """What is the same of pages that differ in the item or in what is looked for alone."""
    parts = urlsplit(url)
    deep = 5 if parts.path.startswith("/-/admin/do/") else 4 if parts.path.startswith("/-/admin/") else 3
    way = "/".join(parts.path.split("/")[:deep])
    if not way.startswith("/-/"):
        way = "file" if way.startswith("/col/") else "persistent URL"
    word = "resumptionToken" if "resumptionToken=" in parts.query else parts.query.partition("=")[0]
    return f"{parts.netloc}{way}?{word}"
