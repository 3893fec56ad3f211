"""urlkeys: the tokens by which thanks are recognised (SVC-20, SVC-21, MSG-21, threat T19).

    1426203276-<one number: the item, something random, and a seal over both and the time>

A key is made without being written down: it carries the number of its item, and the seal shows that this Archive
made it. It is good for ten minutes, and the catalogue lets it count once.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.protocol.messages import is_key

if TYPE_CHECKING:
    from collections.abc import Callable

LIFETIME: Final = 600
"""Seconds during which a key is good."""

_ITEM, _RANDOM, _SEAL = 8, 8, 16  # bytes
_FIRST = b"\x01"  # keeps leading zeros when the bytes are read as a number
_SIZE: Final = len(_FIRST) + _ITEM + _RANDOM + _SEAL


class Thanked(NamedTuple):
    """What a key says: the catalogue's number of the item, and until when the key is good (POSIX seconds)."""

    number: int
    expires: int


class UrlKeys:
    """Makes and reads the keys of one Archive. `secret` is its own; `now` gives POSIX seconds."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now

    def make(self, number: int) -> str:
        """A new key for an answer about an item."""
        time = f"{int(self._now()):010d}"
        body = number.to_bytes(_ITEM, "big") + secrets.token_bytes(_RANDOM)
        return f"{time}-{int.from_bytes(_FIRST + body + self._seal(time, body), 'big')}"

    def read(self, key: str) -> Thanked | None:
        """What a key says; None if this Archive did not make it, or it is too old."""
        time, _, digits = key.partition("-")
        if not is_key(key) or not digits:
            return None
        number = int(digits)
        if (number.bit_length() + 7) // 8 != _SIZE:
            return None
        content = number.to_bytes(_SIZE, "big")
        body, seal = content[1:-_SEAL], content[-_SEAL:]
        if not hmac.compare_digest(seal, self._seal(time, body)) or content[:1] != _FIRST:
            return None
        expires = int(time) + LIFETIME
        return Thanked(int.from_bytes(body[:_ITEM], "big"), expires) if self._now() <= expires else None

    def _seal(self, time: str, body: bytes) -> bytes:
        return hmac.digest(self._secret, time.encode() + body, "sha256")[:_SEAL]
