"""Serve the files that pages fetch: the style sheet, the logo, the scripts; draw QR codes (ISO/IEC 18004).

/-/static/<first digits of its SHA-256>/style.css
"""

from __future__ import annotations

import hashlib
import io
import re
from base64 import b64encode
from functools import cache
from mimetypes import add_type, guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import segno

from ibi.http.response import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.http.response import Headers

    Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


STATIC: Final = "/-/static/"
"""The beginning of the paths of all assets."""

_COMMENT: Final = re.compile(rb"/\*.*?\*/", re.DOTALL)
_QUOTED: Final = re.compile(rb"(\"[^\"]*\")")
_ZERO: Final = re.compile(rb"(?<![0-9.])0(?=\.[0-9])")
_BLANKS: Final = re.compile(rb"\s+")
# Before a colon and around other signs a blank may have a meaning: "a :is(b)", "1px + 2px".
_AROUND: Final = re.compile(rb" ?([{};,>]) ?|(?<=:) ")
_RAW: Final = STATIC.encode()
_HERE: Final = Path(__file__).parent / "static"
_SUFFIXES: Final = frozenset({".css", ".js", ".svg", ".woff2"})
# A page fetches `style.css` and one of these, which has all that the page needs and little more (PAGES: 30 KB).
_JOINED: Final = {
    "archive.css": ("content.css", "repository.css", "archive.css"),
    "item.css": ("content.css", "repository.css", "item.css"),
    "resolver.css": ("content.css", "resolver.css"),
    "admin.css": ("content.css", "frame.css", "forms.css", "lists.css", "admin.css"),
    "items.css": ("content.css", "frame.css", "lists.css"),
    "deposit.css": ("frame.css", "forms.css", "deposit.css"),
}
_NAMED: Final = re.compile(rb"url\(([a-z0-9.]+)\)")
# The path of an asset changes with its content, so browsers may cache it for a year. While two versions run,
# a page of one may fetch from the other: it gets the content of that version, which must not be cached long.
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_FOR_A_MINUTE: Final = "public, max-age=60"
# A picture that is opened as a page runs and loads nothing; its own styles are part of it.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_NO_SNIFFING: Final = ("x-content-type-options", "nosniff")
# 48 bits distinguish all versions of a file that will ever exist.
_DIGITS: Final = 12


class Asset(NamedTuple):
    """A file that pages fetch. `integrity`: its digest, by which browsers refuse any other content (T14)."""

    body: bytes
    content_type: str
    address: str
    integrity: str


add_type("font/woff2", ".woff2")  # not every system knows it


@cache
def assets() -> dict[str, Asset]:
    """Read all assets, by their names."""
    found: dict[str, Asset] = {}
    files = {each.name for each in _HERE.iterdir() if each.suffix in _SUFFIXES}
    parts = {part for joined in _JOINED.values() for part in joined}
    names = (files - parts) | set(_JOINED)
    # Sheets come last: they name other assets. The order is that of every process, since the policy lists the scripts.
    for name in sorted(names, key=lambda each: (each.endswith(".css"), each)):
        kind = guess_type(name)[0] or ""
        content_type = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
        body = b"".join(_HERE.joinpath(part).read_bytes() for part in _JOINED.get(name, (name,)))
        if name.endswith(".css"):
            body = _compact(body)
            body = _NAMED.sub(
                lambda found_name: f"url({found[found_name[1].decode()].address})".encode(), body
            )
        found[name] = asset(name, body, content_type)
    return found


def _compact(sheet: bytes) -> bytes:
    """Return a style sheet of ours without comments and blanks that mean nothing; texts in quotes stay as they are."""
    parts = _QUOTED.split(_COMMENT.sub(b"", sheet))
    parts[::2] = [
        _AROUND.sub(lambda found: found[1] or b"", _BLANKS.sub(b" ", _ZERO.sub(b"", part)))
        for part in parts[::2]
    ]
    return b"".join(parts).replace(b";}", b"}").strip()


def asset(name: str, body: bytes, content_type: str) -> Asset:
    """Make an asset, at a path that changes with its content."""
    digest = hashlib.sha256(body)
    address = f"{STATIC}{digest.hexdigest()[:_DIGITS]}/{name}"
    return Asset(body, content_type, address, f"sha256-{b64encode(digest.digest()).decode()}")


class WithAssets:
    """Answers requests for assets itself, and passes all others to an application.

    `more` returns the assets of the institution, which change with its settings.
    """

    def __init__(self, app: Application, more: Callable[[], Mapping[str, Asset]] = dict) -> None:
        self._app = app
        self._more = more

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        response = _asset_response(scope, self._more) if scope["type"] == "http" else None
        if response is None:
            await self._app(scope, receive, send)
        else:
            await response.send(send, head_only=scope["method"] == "HEAD")


def _asset_response(scope: Mapping[str, Any], more: Callable[[], Mapping[str, Asset]]) -> Response | None:
    if not scope["raw_path"].startswith(_RAW) or scope["method"] not in {"GET", "HEAD"}:
        return None
    path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    name = path.rpartition("/")[2]
    found = assets().get(name) or more().get(name)
    if found is None:
        return None
    kept = _FOR_EVER if path == found.address else _FOR_A_MINUTE
    headers: Headers = (("cache-control", kept), ("content-security-policy", _POLICY), _NO_SNIFFING)
    return Response(200, found.body, found.content_type, headers)


def svg(url: str) -> bytes:
    """Draw a URL as a QR code in SVG."""
    # Always dark on light, also on dark pages, because many cameras do not read inverted codes.
    picture = io.BytesIO()
    segno.make(url, micro=False, error="m").save(
        picture, kind="svg", scale=4, border=4, dark="#000", light="#fff", xmldecl=False, omitsize=True
    )
    return picture.getvalue()
