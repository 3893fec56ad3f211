r"""Holdings filters: an Archive publishes which names it may hold, and is asked first for these.

The page is one line of ASCII, followed by the bits of a Bloom filter over the canonical names of all items
that the Archive answers for:

    ibi-holdings 1 names=<n> hashes=<k> bits=<m>\n        and m/8 bytes

A name has k bit positions. If all these bits are set, it may be held; otherwise it is not. The positions:

    x = the first 16 bytes of SHA-256(canonical name, in ASCII), as a big-endian number
    k times:   x = (x * 47026247687942121848144207491837418733 + 1) mod 2^128
               position = (floor(x / 2^32) mod 2^64) mod m

Position p is bit p mod 8 of byte floor(p / 8), where bit 0 is the least significant bit.

See note 45: filters of holdings.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final, NamedTuple

from ibi.errors import ParseError

PATH: Final = "/-/holdings"
"""Where an Archive publishes its filter."""

HOLDERS_PATH: Final = "/-/api/holders"
"""Where our resolver tells known holders of originals: `?ibi=` with names separated by blanks (note 45: filters of
holdings)."""

MOST_HOLDERS: Final = 50
"""Names in one request for known holders."""

LONGEST_FILTER: Final = 32 * 1024 * 1024
"""Bytes of the longest filter that is published or read, including its first line."""

MOST_HASHES: Final = 32
"""Bit positions of one name."""

_WHAT: Final = "holdings filter"
_HEAD = re.compile(rb"ibi-holdings 1 names=([0-9]{1,10}) hashes=([0-9]{1,2}) bits=([0-9]{1,10})\n")


class HoldingsFilter(NamedTuple):
    """A filter: the number of names in it, the number of bit positions of each name, and the bits."""

    names: int
    hashes: int
    bits: bytes

    def text(self) -> bytes:
        """Return the whole page."""
        head = f"ibi-holdings 1 names={self.names} hashes={self.hashes} bits={8 * len(self.bits)}\n"
        return head.encode("ascii") + self.bits

    @classmethod
    def read(cls, text: bytes) -> HoldingsFilter:
        """Read a page. Raises ParseError if it is too large or not of the form above."""
        if len(text) > LONGEST_FILTER:
            raise ParseError(_WHAT, "", "it is longer than {limit} bytes", limit=LONGEST_FILTER)
        match = _HEAD.match(text)
        if match is None:
            raise ParseError(_WHAT, "", "it does not begin with the line of a holdings filter")
        names, hashes, bits = map(int, match.groups())
        if not 0 < hashes <= MOST_HASHES or not bits or bits != 8 * (len(text) - match.end()):
            raise ParseError(_WHAT, "", "its line and its bits do not fit together")
        return cls(names, hashes, text[match.end() :])


def number_of(canonical: str) -> int:
    """Return x of a canonical name as a signed 128-bit number."""
    # Signed, because the Bloom filter of the library `rbloom` needs that; the positions are the same.
    return int.from_bytes(sha256(canonical.encode()).digest()[:16], "big", signed=True)
