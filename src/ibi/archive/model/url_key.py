"""URL keys: the tokens by which acknowledgments are recognised.

    1426203276-<one number: the item, the seconds of reuse, random bytes, and a signature (HMAC) of these and the time>

A key is not stored: it carries the number of its item, and the signature proves that this Archive made it. A key is
valid for ten minutes and counts for one reader. If its answer may be reused, the key is valid for the time of reuse
longer, and for many numbered acknowledgments of a trusted resolver (note 1: reuse of answers): each of them counts
once, and all of one key together count at most as many readers as their sender is trusted with.

See SVC-20: acknowledgments by URL key; SVC-21: unguessable URL keys; MSG-21: the form of a key; T19: forged
acknowledgments.
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
"""Seconds for which a key stays valid after the time of reuse of its answer."""

LONGEST_REUSE: Final = 24 * 3600
"""The longest time for which an answer may be reused, in seconds."""

MOST_READERS: Final = 1_000_000
"""Readers for whom one key counts at most in each ten minutes of reuse, for resolvers that are joined or trusted.

For other senders a key counts for one reader."""

_ITEM, _REUSE, _RANDOM, _SIGNATURE = 8, 4, 8, 16  # bytes
# Keeps leading zeros when the bytes are read as a number.
_FIRST = b"\x01"
_SIZE: Final = len(_FIRST) + _ITEM + _REUSE + _RANDOM + _SIGNATURE


class AcknowledgmentRefusal(StrEnum):
    """The reasons in replies why an acknowledgment does not count."""

    UNKNOWN_KEY = "unknown-key"
    TOO_OLD = "too-old"
    USED_UP = "used-up"
    BUSY = "busy"


class AcknowledgmentCount(NamedTuple):
    """The readers that an acknowledgment with a valid key counts for an item.

    `number`: the number of the item in the catalogue. `once`: the identity of the acknowledgment, which
    counts once; after `expires` (POSIX seconds) its key is refused anyway. `readers`: for how many readers it
    stands. `most`: the readers that all acknowledgments of its key may count together.
    """

    number: int
    once: str
    expires: int
    readers: int
    most: int = MOST_READERS

    @property
    def key(self) -> str:
        """The URL key, which all acknowledgments of one answer share."""
        return self.once.partition(" ")[0]

    @property
    def of_stranger(self) -> AcknowledgmentCount:
        """The count if the sender is not trusted with numbers of readers: the key counts one reader, once."""
        return self._replace(once=self.key, readers=1)


class UrlKeys:
    """Makes and reads the URL keys of one Archive, signed with its `secret`; `now` returns POSIX seconds."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._keyed = hmac.new(secret, digestmod="sha256")
        self._now = now

    def make(self, number: int, reuse: int = 0) -> str:
        """Make a key for an answer about the item of this number, reusable for `reuse` seconds."""
        time = f"{int(self._now()):010d}"
        body = number.to_bytes(_ITEM, "big") + reuse.to_bytes(_REUSE, "big") + secrets.token_bytes(_RANDOM)
        return f"{time}-{int.from_bytes(_FIRST + body + self._sign(time, body), 'big')}"

    def read(self, message: Acknowledgment) -> AcknowledgmentCount | None:
        """Return the count of an acknowledgment of a trusted sender, as far as its key allows.

        None if this Archive did not make the key, or the key is too old: `refusal` returns which.
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
        most = MOST_READERS * (1 + reuse // LIFETIME)
        return AcknowledgmentCount(item, once, expires, message.count, most)

    def refusal(self, message: Acknowledgment) -> AcknowledgmentRefusal:
        """Return why `read` returns None for an acknowledgment."""
        opened = self._opened(message.url_key)
        return AcknowledgmentRefusal.UNKNOWN_KEY if opened is None else AcknowledgmentRefusal.TOO_OLD

    def _opened(self, key: str) -> tuple[int, int, int] | None:
        """Return (item number, seconds of reuse, expiry in POSIX seconds) of a key; None if not made here."""
        time, _, digits = key.partition("-")
        if not is_key(key) or not digits:
            return None
        number = int(digits)
        if (number.bit_length() + 7) // 8 != _SIZE:
            return None
        content = number.to_bytes(_SIZE, "big")
        body, signature = content[1:-_SIGNATURE], content[-_SIGNATURE:]
        # In constant time, so that a forger cannot derive a signature from how long comparisons take (T19: forged
        # acknowledgments).
        if not hmac.compare_digest(signature, self._sign(time, body)) or content[:1] != _FIRST:
            return None
        item, reuse = int.from_bytes(body[:_ITEM], "big"), int.from_bytes(body[_ITEM:-_RANDOM], "big")
        return item, reuse, int(time) + reuse + LIFETIME

    def _sign(self, time: str, body: bytes) -> bytes:
        # Each call copies the keyed state, so that the secret is hashed only once.
        signature = self._keyed.copy()
        signature.update(time.encode() + body)
        return signature.digest()[:_SIGNATURE]
