"""CORS: which answers pages of other origins may read (the Fetch standard, 3.3; threat T45).

They are the answers to GET and HEAD that every client gets without a cookie or token, errors among them. Their paths
stand in two tables: ARCHIVE and RESOLVER; a new public route is added there. Such requests of browsers need no
preflight, so OPTIONS is refused like all other methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.http.response import common

if TYPE_CHECKING:
    from ibi.http.request import Request
    from ibi.http.response import Response

ALLOW: Final = ("access-control-allow-origin", "*")
EXPOSE: Final = (
    "access-control-expose-headers",
    "content-language, etag, ibi-incomplete, ibi-outcome, link, memento-datetime, ratelimit, retry-after",
)
"""The headers that programs of pages may read besides those that the Fetch standard names."""

_SHARED: Final = common(ALLOW, EXPOSE)
_FOUND: Final = frozenset({200, 304})
_FOR_ONE: Final = ("cache-control", "private, no-cache")
_NO_PERSISTENT_URLS: Final = ("/-/", "/.well-known/", "/col/")


class PublicPaths(NamedTuple):
    """The public paths of a program: whole ones, and the beginnings of others. All persistent URLs are public."""

    whole: frozenset[str]
    below: tuple[str, ...]

    def have(self, path: str) -> bool:
        """Return whether a path is public."""
        return path in self.whole or path.startswith(self.below) or not path.startswith(_NO_PERSISTENT_URLS)


ARCHIVE: Final = PublicPaths(
    frozenset({
        "/-/about", "/-/programs", "/-/search", "/-/browse", "/-/statistics", "/-/feed", "/-/oai", "/-/api/search",
        "/-/api/changes", "/-/api/openapi.json", "/.well-known/api-catalog", "/.well-known/resourcesync",
    }),
    (
        "/-/item/", "/-/metadata/", "/-/linkset/", "/-/qr/", "/-/timegate/", "/-/timemap/", "/-/sitemap/",
        "/-/resourcesync/", "/-/api/handles/",
    ),
)  # fmt: skip
"""Files are left out, as not all readers may have them, and items in the JSON interface, where tokens show more."""

RESOLVER: Final = PublicPaths(
    frozenset(
        {"/-/about", "/-/programs", "/-/status", "/-/find", "/-/api/openapi.json", "/.well-known/api-catalog"}
    ),
    ("/-/explain/", "/-/api/handles/", "/-/timegate/", "/-/timemap/"),
)


def shared(request: Request, response: Response, paths: PublicPaths) -> Response:
    """Return a response with the headers for other origins if its path is public; else as it is."""
    if (
        not request.reads
        or b"authorization" in request.headers
        or request.has_subject  # a message, which may have a key in it
        or not paths.have(request.path)
        # A page that is not the same for every reader.
        or (response.status in _FOUND and _FOR_ONE in response.headers)
    ):
        return response
    return response.having(*_SHARED)
