"""The resolvers through which a request has come, in the header CDN-Loop (RFC 8586, threat T03); pure.

    CDN-Loop: ibi-resolver                                        a query for an Archive
    CDN-Loop: ibi-resolver; id="J8LNKB5R7W/3FUQHC5"               a persistent URL that a resolver passes on
    CDN-Loop: ibi-resolver; id="…", ibi-resolver; id="…"          the same, passed on by a second resolver

A resolver refuses the first. It answers the others unless the names include its own, or there are too many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection


MOST_HOPS: Final = 4
"""How many times a request may be passed on from one resolver to another."""

NAME: Final = "ibi-resolver"
"""The name of all resolvers in this header (`ibi.http.client.LOOP_NAME`)."""

_PRODUCT = re.compile(
    rf'\s*{NAME}\s*;\s*id="([A-Za-z0-9][A-Za-z0-9./@:_+-]{{0,600}})"\s*', re.ASCII
).fullmatch


@dataclass(frozen=True, slots=True)
class Hops:
    """The canonical service IBIs of the resolvers that have passed a request on, the first one first."""

    through: tuple[str, ...] = ()

    @classmethod
    def read(cls, header: str) -> Hops | None:
        """Read the header, "" if there was none; return None for a query for an Archive.

        Entries of content networks are ignored. NAME without a valid `id` means a query for an Archive.
        """
        through = []
        for part in header.split(","):
            if NAME not in part.lower():
                continue
            product = _PRODUCT(part)
            if product is None:
                return None
            through.append(product[1])
        return cls(tuple(through))

    def loops(self, own: Collection[str]) -> bool:
        """Whether a resolver of these names must refuse the request: it was here before, or has many hops."""
        return len(self.through) > MOST_HOPS or any(name in own for name in self.through)

    def onward(self, own: str) -> str | None:
        """Return the header with which the resolver of this name passes a request on; None if it may not."""
        if len(self.through) >= MOST_HOPS:
            return None
        return ", ".join(f'{NAME}; id="{name}"' for name in (*self.through, own))


NO_HOPS: Final = Hops()
"""The hops of a request that no resolver has passed on, as of nearly all requests."""
