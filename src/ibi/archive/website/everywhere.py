"""What is found at an Archive at addresses that are the same everywhere: robots.txt, security.txt, api-catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.exchange import JSON, PLAIN, Response
from ibi.exchange.well_known import CATALOG, SECURITY, Interface, catalog, security

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.settings import ArchiveSettings

_DEAR: Final = ("files/", "zip/", "qr/", "linkset/", "timegate/", "timemap/", "oai", "api/", "admin")
"""What robots need not read: it costs much, or stands on the pages of items already."""
_FIXED: Final = frozenset({"/robots.txt", "/favicon.ico", "/sitemap.xml"})

_XML: Final = "text/xml"
_FOR_A_DAY: Final = (("cache-control", "public, max-age=86400"),)


class Everywhere:
    """These answers of one Archive. `base` begins its URLs; `now` gives POSIX seconds.

    `search`: whether items can be looked for; then there is a sitemap, too.
    """

    def __init__(
        self, settings: ArchiveSettings, base: str, now: Callable[[], float], *, search: bool = False
    ) -> None:
        self._search = search
        self._settings = settings
        self._base = base
        self._now = now

    def answer(self, path: str) -> Response | None:
        """What is there; None where nothing is."""
        match path:
            case "/robots.txt":
                return Response(200, robots(self._base if self._search else ""), PLAIN, _FOR_A_DAY)
            case _ if path == SECURITY:
                return security(self._settings.admin, self._now())
            case _ if path == CATALOG:
                return self._catalog()
            case _:
                return None

    def _catalog(self) -> Response:
        base = self._base
        api = (
            ("service-desc", f"{base}/-/api/openapi.json", JSON),
            ("service-meta", f"{base}/-/about", JSON),
            ("status", f"{base}/-/readyz", PLAIN),
        )
        harvest = (("service-desc", f"{base}/-/oai?verb=Identify", _XML),)
        return catalog(base, [Interface(f"{base}/-/api/", api), Interface(f"{base}/-/oai", harvest)])


def is_everywhere(path: str) -> bool:
    """Whether a path is one of these, and no persistent URL."""
    return path.startswith("/.well-known/") or path in _FIXED


def robots(base: str) -> bytes:
    """Pages of items, files and the sitemap may be read by all; what costs much is left alone.

    `base` begins the URL of the sitemap; "" where there is none.
    """
    rules = [f"Disallow: /-/{word}" for word in _DEAR]
    found = ["Disallow: /-/search?*text=", "", f"Sitemap: {base}/sitemap.xml"] if base else []
    return "\n".join(["User-agent: *", *rules, *found, ""]).encode()
