"""URL keys: the tokens by which acknowledgments are recognised (SVC-20, SVC-21, MSG-21, threat T19).

    1426203276-<one number: the item, something random, and a seal over both and the time>

A key is not stored: it carries the number of its item, and the seal proves that this Archive made it. It is valid for
ten minutes and stands for one reader; the key of an answer that may be reused is valid for that much longer, and for
many numbered acknowledgments of a trusted resolver (note 1). Each counts once, and all of one key together for at most
as many readers as their sender is trusted with.
"""

from __future__ import annotations

import hmac
import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.protocol.messages import is_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.protocol.messages import Acknowledgment

LIFETIME: Final = 600
"""Seconds for which a key is valid, after those for which its answer may be reused."""

LONGEST_REUSE: Final = 24 * 3600
"""The longest time for which an answer may be reused, in seconds."""

MOST_READERS: Final = 1_000_000
"""Readers for whom one key counts at most, in the acknowledgments of resolvers that the Archive has joined or trusts.

In those of all others a key counts for one."""

_ITEM, _REUSE, _RANDOM, _SEAL = 8, 4, 8, 16  # bytes
# Keeps leading zeros when the bytes are read as a number.
_FIRST = b"\x01"
_SIZE: Final = len(_FIRST) + _ITEM + _REUSE + _RANDOM + _SEAL


class AcknowledgmentRefusal(StrEnum):
    """Why an acknowledgment does not count, as the reply tells it."""

    UNKNOWN_KEY = "unknown-key"
    TOO_OLD = "too-old"
    USED_UP = "used-up"
    BUSY = "busy"


class AcknowledgmentCount(NamedTuple):
    """What an acknowledgment with a valid key counts.

    `number`: the catalogue's number of the item; `once`: what must not count a second time before `expires` (POSIX
    seconds), after which it is refused anyway; `readers`: how many it stands for; `most`: readers for whom its key may
    count in all, together with the earlier acknowledgments; the rest does not count.
    """

    number: int
    once: str
    expires: int
    readers: int
    most: int = MOST_READERS

    @property
    def key(self) -> str:
        """The key itself: what all acknowledgments of one answer share."""
        return self.once.partition(" ")[0]

    @property
    def of_stranger(self) -> AcknowledgmentCount:
        """What counts if the sender is trusted with no numbers: one reader, once."""
        return self._replace(once=self.key, readers=1)


class UrlKeys:
    """Makes and reads the keys of one Archive, with its `secret`; `now` returns POSIX seconds."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._keyed = hmac.new(secret, digestmod="sha256")
        self._now = now

    def make(self, number: int, reuse: int = 0) -> str:
        """Make a key for an answer about an item, which may be reused for so many seconds."""
        time = f"{int(self._now()):010d}"
        body = number.to_bytes(_ITEM, "big") + reuse.to_bytes(_REUSE, "big") + secrets.token_bytes(_RANDOM)
        return f"{time}-{int.from_bytes(_FIRST + body + self._seal(time, body), 'big')}"

    def read(self, message: Acknowledgment) -> AcknowledgmentCount | None:
        """Return what an acknowledgment of a trusted sender counts, as far as its key allows.

        None if this Archive did not make the key, or the key is too old: `refusal` tells which.
        """
        key = message.url_key
        opened = self._opened(key)
        if opened is None:
            return None
        item, reuse, expires = opened
        if self._now() > expires:
            return None
        if not reuse:
            return AcknowledgmentCount(item, key, expires, 1)
        once = f"{key} {message.event}" if message.event else key
        return AcknowledgmentCount(item, once, expires, message.count)

    def refusal(self, message: Acknowledgment) -> AcknowledgmentRefusal:
        """Return why `read` returns None for an acknowledgment."""
        opened = self._opened(message.url_key)
        return AcknowledgmentRefusal.UNKNOWN_KEY if opened is None else AcknowledgmentRefusal.TOO_OLD

    def _opened(self, key: str) -> tuple[int, int, int] | None:
        """Return the item, the seconds of reuse and the end (POSIX seconds) of a key that this Archive has made."""
        time, _, digits = key.partition("-")
        if not is_key(key) or not digits:
            return None
        number = int(digits)
        if (number.bit_length() + 7) // 8 != _SIZE:
            return None
        content = number.to_bytes(_SIZE, "big")
        body, seal = content[1:-_SEAL], content[-_SEAL:]
        # In constant time: how long a comparison takes must not lead to a seal (threat T19).
        if not hmac.compare_digest(seal, self._seal(time, body)) or content[:1] != _FIRST:
            return None
        item, reuse = int.from_bytes(body[:_ITEM], "big"), int.from_bytes(body[_ITEM:-_RANDOM], "big")
        return item, reuse, int(time) + reuse + LIFETIME

    def _seal(self, time: str, body: bytes) -> bytes:
        # A copy for each seal: the secret is hashed once, not for each answer.
        seal = self._keyed.copy()
        seal.update(time.encode() + body)
        return seal.digest()[:_SEAL]
