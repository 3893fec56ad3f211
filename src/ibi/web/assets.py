"""What our pages fetch from their own service: the style sheet, the mark, the scripts.

    /-/static/<first digits of its SHA-256>/style.css

An address changes with its content, so browsers keep what they have for a year. A page that was made by another
version of this program, as while several processes are renewed, gets what is there now, and keeps that for a minute.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.exchange import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.exchange import Headers

    Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

STATIC: Final = "/-/static/"
"""What the addresses of all assets begin with."""

_RAW: Final = STATIC.encode()
_HERE: Final = Path(__file__).parent / "static"
_SUFFIXES: Final = frozenset({".css", ".js", ".svg"})
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_FOR_A_MINUTE: Final = "public, max-age=60"
_DIGITS: Final = 12


class Asset(NamedTuple):
    """One file of ours. `integrity`: its digest as a page says it, so that nothing else can stand in for it."""

    body: bytes
    content_type: str
    address: str
    integrity: str


@cache
def assets() -> dict[str, Asset]:
    """All of them, by their names."""
    return {path.name: _asset(path) for path in sorted(_HERE.iterdir()) if path.suffix in _SUFFIXES}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    digest = hashlib.sha256(body)
    address = f"{STATIC}{digest.hexdigest()[:_DIGITS]}/{path.name}"
    kind = guess_type(path.name)[0] or ""
    content_type = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return Asset(body, content_type, address, f"sha256-{b64encode(digest.digest()).decode()}")


def address_of(name: str) -> str:
    """Where an asset is."""
    return assets()[name].address


def integrity_of(name: str) -> str:
    """The digest of an asset, as the attribute `integrity` of a script has it."""
    return assets()[name].integrity


class WithAssets:
    """An application, and before it what its pages fetch. Whatever else is asked goes to the application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        found = _asked_for(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
        else:
            await found.send(send, head_only=scope["method"] == "HEAD")


def _asked_for(scope: Mapping[str, Any]) -> Response | None:
    if not scope["raw_path"].startswith(_RAW):  # as nearly all that is asked
        return None
    path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    if scope["method"] not in {"GET", "HEAD"}:
        return None
    asset = assets().get(path.rpartition("/")[2])
    if asset is None:
        return None
    kept = _FOR_EVER if path == asset.address else _FOR_A_MINUTE
    headers: Headers = (("cache-control", kept), ("content-security-policy", "default-src 'none'"))
    return Response(200, asset.body, asset.content_type, headers)
