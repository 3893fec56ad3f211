"""Resources that are at the same address of every service, at Archive and resolver alike.

/.well-known/security.txt    where to report a weakness (RFC 9116); absent without an administrator's mail
/.well-known/api-catalog     where the interfaces for programs are (RFC 9727), as a link set (RFC 9264)
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from ibi.http.response import PLAIN, Response, link

if TYPE_CHECKING:
    from collections.abc import Sequence


SECURITY: Final = "/.well-known/security.txt"
CATALOG: Final = "/.well-known/api-catalog"

A_DAY: Final = 86_400
VALID_DAYS: Final = 180
"""Days for which a security.txt is valid, from the start of the day it is read (RFC 9116: under a year)."""

LINKSET: Final = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'

_FOR_A_DAY: Final = (("cache-control", f"public, max-age={A_DAY}"),)
_FOR_AN_HOUR: Final = (("cache-control", "public, max-age=3600"),)
_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
_SAFE: Final = "@.-_~+"


class Interface(NamedTuple):
    """One interface of a service: its URL, and its links, as relation, URL and media type."""

    anchor: str
    links: Sequence[tuple[str, str, str]]


def mail_url(address: str) -> str:
    """Return the `mailto:` URL of a mail address; "" for any other text."""
    return f"mailto:{quote(address, safe=_SAFE)}" if _MAIL.fullmatch(address) else ""


def security(admin: str, now: float) -> Response | None:
    """Return security.txt with the administrator's mail address; None without one. `now`: POSIX seconds."""
    contact = mail_url(admin)
    if not contact:
        return None
    expires = datetime.fromtimestamp((now // A_DAY + VALID_DAYS) * A_DAY, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = (f"Contact: {contact}", f"Expires: {expires}", "Preferred-Languages: en, pt")
    return Response(200, ("\n".join(lines) + "\n").encode(), PLAIN, _FOR_A_DAY)


def catalog(base: str, interfaces: Sequence[Interface]) -> Response:
    """Return the link set of a service's interfaces. `base`: its root URL, without a slash at its end."""
    items = [{"href": each.anchor} for each in interfaces]
    contexts: list[dict[str, object]] = [{"anchor": f"{base}{CATALOG}", "item": items}]
    for each in interfaces:
        links: dict[str, list[dict[str, str]]] = {}
        for relation, url, kind in each.links:
            links.setdefault(relation, []).append({"href": url, "type": kind})
        contexts.append({"anchor": each.anchor, **links})
    body = json.dumps({"linkset": contexts}, indent=1).encode()
    return Response(200, body, LINKSET, (*_FOR_AN_HOUR, link(f"{base}{CATALOG}", "api-catalog")))
