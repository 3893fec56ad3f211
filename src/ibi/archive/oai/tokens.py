"""Resumption tokens: where a list goes on, sealed, so that nobody but this Archive makes one (OAI-PMH 2.0, 3.5).

    base64url of a seal (16 bytes) and "ListRecords|oai_dc|openaire|1000||1700000000|42|100|2345|1700259200"

Nothing is kept for a token. It names the last line that was told, by its stamp and its number; what changes meanwhile
gets a later place in the list, so no line is passed over and none that stayed as it is comes twice.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LIFETIME: Final = 3 * 24 * 3600
"""Seconds for which a token is good."""

_SEAL: Final = 16
_DOMAIN: Final = b"resumptionToken\0"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a list goes on: what was asked (`verb` to `last`), the place of the last line told, and how far that is.

    `size`: how many lines there were when the list began; `expires` in POSIX seconds.
    """

    verb: str
    prefix: str
    part: str
    first: int | None
    last: int | None
    stamp: int
    number: int
    cursor: int
    size: int
    expires: int = 0


class Tokens:
    """Makes and reads the tokens of one Archive. `secret` is its own; `now` gives POSIX seconds."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now

    def expiry(self) -> int:
        """Until when a token that is made now is good, in POSIX seconds."""
        return int(self._now()) + LIFETIME

    def write(self, place: Place) -> str:
        """The token of a place."""
        body = "|".join("" if value is None else str(value) for value in astuple(place)).encode("ascii")
        return urlsafe_b64encode(self._seal(body) + body).decode("ascii").rstrip("=")

    def read(self, token: str, verb: str) -> Place | None:
        """The place of a token; None if this Archive did not make it for this verb, or it is too old."""
        try:
            sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        seal, body = sealed[:_SEAL], sealed[_SEAL:]
        if not hmac.compare_digest(seal, self._seal(body)) or self.write(_place(body)) != token:
            return None
        place = _place(body)
        return place if place.verb == verb and self._now() <= place.expires else None

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, _DOMAIN + body, "sha256")[:_SEAL]


def _place(body: bytes) -> Place:
    """The place that we wrote ourselves: its seal has been looked at."""
    texts = body.decode("ascii").split("|")
    words, numbers = texts[:3], texts[3:]
    return Place(*words, *(int(number) if number else None for number in numbers))  # type: ignore[arg-type]  # only `first` and `last` are ever empty
