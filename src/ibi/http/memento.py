"""What Archives and resolvers share of Memento (RFC 7089): links to gates, and what the path of a gate names.

/-/timegate/<ibi>    or, as clients with a gate of their own make it, with a whole persistent URL:
/-/timegate/http://resolver.example/<ibi>
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError
from ibi.http.request import host_of
from ibi.identifier.forms import parse_name
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import unescape

if TYPE_CHECKING:
    from collections.abc import Collection

    from ibi.identifier.forms import Name

LINK_FORMAT: Final = "application/link-format"
LINKS: Final = (
    '<{original}>; rel="original", <{base}/-/timegate/{name}>; rel="timegate",'
    f' <{{base}}/-/timemap/{{name}}>; rel="timemap"; type="{LINK_FORMAT}"'
)
"""The value of the header Link of an original resource, with the URLs of its gate and its map."""
LONGEST_NAME: Final = 256
"""Characters of the longest name in such links, which are in three of them: heads of answers stay short."""

# A proxy may have made one slash of two.
_WHOLE: Final = re.compile(r"https?:/{1,2}([^/?#]+)(/[^?#]*)", re.IGNORECASE)


def named_by(raw: str, hosts: Collection[str]) -> Name:
    """Return the item that the rest of a gate's path names: by an IBI, or a persistent URL of one of our hosts.

    `raw`: as received; `hosts`: as `http.request.hosts_of` returns them. Raises ParseError.
    """
    # Unescaped once: the path of a URL that was not escaped as a whole is read as it is (T27: two readings).
    text = raw if _WHOLE.match(raw) else unescape(raw)
    whole = _WHOLE.match(text)
    if whole is None:
        return parse_name(text)
    if whole[1].lower() not in hosts and host_of(whole[1]) not in hosts:
        raise ParseError("url", text[:200], "this is no persistent URL of this service")
    return PersistentURL.parse(whole[2], "").ibi
