"""Which resolvers a request has come by, as the header CDN-Loop tells (RFC 8586, threat T03); pure.

    CDN-Loop: ibi-resolver                                        a question that is meant for an Archive
    CDN-Loop: ibi-resolver; id="J8LNKB5R7W/3FUQHC5"               a persistent URL that a resolver passes on
    CDN-Loop: ibi-resolver; id="…", ibi-resolver; id="…"          the same, passed on by another one in its turn

No resolver answers the first. The others it answers unless it stands among the names itself, or there are too many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection


MOST_HOPS: Final = 4
"""How often a request may be passed on from one resolver to another, in all."""

NAME: Final = "ibi-resolver"
"""What all resolvers are called there (`ibi.http.client.LOOP_NAME`)."""

_PRODUCT = re.compile(
    rf'\s*{NAME}\s*;\s*id="([A-Za-z0-9][A-Za-z0-9./@:_+-]{{0,600}})"\s*', re.ASCII
).fullmatch


@dataclass(frozen=True, slots=True)
class Hops:
    """The canonical service IBIs of the resolvers that have passed a request on, the first one first."""

    through: tuple[str, ...] = ()

    @classmethod
    def read(cls, header: str) -> Hops | None:
        """Read the header, "" if there was none; None for a question that is meant for an Archive.

        What content networks have written into it is passed over; a mark of ours that cannot be read is none of a
        resolver that passes something on.
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
        """Whether the request must not be answered by a resolver of these names: it was here, or goes on for ever."""
        return len(self.through) > MOST_HOPS or any(name in own for name in self.through)

    def onward(self, own: str) -> str | None:
        """The header under which the resolver of this name may pass the request on; None if it may not."""
        if len(self.through) >= MOST_HOPS:
            return None
        return ", ".join(f'{NAME}; id="{name}"' for name in (*self.through, own))


NO_HOPS: Final = Hops()
"""Of a request that no resolver has passed on, as nearly all are."""
