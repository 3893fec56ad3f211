"""Pages of a list of records, and the resumption tokens that lead from one to the next (OAI-PMH 2.0, 3.5).

A list is sorted by (stamp, number) of the index. Each change gets a stamp that no page has passed yet, so
every record that a harvester has not seen comes later, and no unchanged record comes twice. There is one
exception: a record that enters the list with the stamp of the last record of a page, and a lower number, is
left out. It is in the harvester's next list, which begins at the responseDate of this one.

    base64url of a signature (16 bytes) and "ListRecords|oai_dc|openaire|1000||1700000000|42|100|2345|1700259200"

A token is not stored: it names the last record of its page by stamp and number, and the signature proves that this
Archive made it.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.oai.envelope import resumption
from ibi.archive.oai.request import RESUMED, OaiError, index_key, no_format

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from ibi.archive.oai.request import OaiRequest
    from ibi.archive.search.index import IndexEntry, SearchIndex


LIFETIME: Final = 3 * 24 * 3600
"""Seconds for which a token is valid."""

_SIGNATURE: Final = 16
_DOMAIN: Final = b"resumptionToken\0"


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Where a list continues.

    `verb` to `last`: the request; `stamp`, `number`: the last record of the page; `cursor`: how many records
    came before; `size`: how many records there were when the list began; `expires` in POSIX seconds.
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


class ResumptionTokens:
    """Writes and reads the tokens of one Archive, which are signed with `secret`; `now`: POSIX seconds."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now

    def expiry(self) -> int:
        """Return until when a token made now is valid, in POSIX seconds."""
        return int(self._now()) + LIFETIME

    def write(self, position: ListPosition) -> str:
        """Write the token of a position."""
        body = "|".join("" if value is None else str(value) for value in astuple(position)).encode("ascii")
        return urlsafe_b64encode(self._sign(body) + body).decode("ascii").rstrip("=")

    def read(self, token: str, verb: str) -> ListPosition | None:
        """Read a token; None if this Archive did not make it for this verb, or it is too old."""
        try:
            decoded = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        signature, body = decoded[:_SIGNATURE], decoded[_SIGNATURE:]
        # The token is also compared as text, because base64 has several spellings of the same bytes.
        if not hmac.compare_digest(signature, self._sign(body)) or self.write(_position(body)) != token:
            return None
        position = _position(body)
        return position if position.verb == verb and self._now() <= position.expires else None

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, _DOMAIN + body, "sha256")[:_SIGNATURE]


def _position(body: bytes) -> ListPosition:
    """Read the body of a token whose signature has been checked."""
    texts = body.decode("ascii").split("|")
    words, numbers = texts[:3], texts[3:]
    return ListPosition(*words, *(int(number) if number else None for number in numbers))  # type: ignore[arg-type]  # only `first` and `last` are ever empty


RECORDS: Final = 100
"""Records on one page."""

HEADERS: Final = 500
"""Headers on one page of ListIdentifiers, which has no metadata."""

_MOST_SIZES: Final = 64  # lists whose size is cached
_NOT_OURS: Final = "this is no resumptionToken of this repository, or it has expired"


class RecordLists:
    """The lists of one index. `service`: the number of the Archive's service item, which is never listed."""

    def __init__(self, index: SearchIndex, tokens: ResumptionTokens, service: int) -> None:
        self._index = index
        self._tokens = tokens
        self._service = service
        self._sizes: dict[tuple[int | None, str, int | None, int | None], int] = {}

    def page(self, request: OaiRequest, prefixes: Container[str]) -> tuple[list[IndexEntry], str, str]:
        """Return the requested page: its entries, the prefix of their format, and its resumptionToken as XML.

        The resumptionToken is "" if the page is the whole list. Raises OaiError.
        """
        position = self._position(request, prefixes)
        first, last, part = position.first, position.last, index_key(position.part)
        most = RECORDS if request.verb == "ListRecords" else HEADERS
        # Two entries more than a page: one may be the service item, and one shows that the list continues.
        after = (position.stamp, position.number)
        changed = self._index.changed(after, first, last, part, most + 2) if part is not None else []
        listed = [entry for entry in changed if entry.number != self._service]
        entries, more = listed[:most], len(listed) > most
        if not entries:
            raise OaiError("noRecordsMatch", "there are no records that were changed then, or in this set")
        if not more and not position.cursor:
            return entries, position.prefix, ""
        size = position.size or max(self._size(position, part or ""), len(entries))
        token, expires = "", 0
        if more:
            end, expires, cursor = entries[-1], self._tokens.expiry(), position.cursor + len(entries)
            following = replace(
                position, stamp=end.stamp, number=end.number, cursor=cursor, size=size, expires=expires
            )
            token = self._tokens.write(following)
        return entries, position.prefix, resumption(token, position.cursor, size, expires)

    def _position(self, request: OaiRequest, prefixes: Container[str]) -> ListPosition:
        """Return where the page begins: at the position of the token, or at the beginning of a new list."""
        if RESUMED in request.arguments:
            position = self._tokens.read(request[RESUMED], request.verb)
            if position is None or position.prefix not in prefixes:
                raise OaiError("badResumptionToken", _NOT_OURS)
            return position
        prefix = request["metadataPrefix"]
        if prefix not in prefixes:
            raise no_format(prefix)
        return ListPosition(request.verb, prefix, request["set"], request.first, request.last, 0, 0, 0, 0)

    def _size(self, position: ListPosition, part: str) -> int:
        """Return how many records a list has that begins now."""
        # Counted again only after a change of the index, because many harvesters begin the same list.
        key = (self._index.newest(), part, position.first, position.last)
        size = self._sizes.get(key)
        if size is None:
            service = self._index.entry_of(self._service)
            is_in = service is not None and _matches(service, position, part)
            size = self._index.size(position.first, position.last, part) - is_in
            # All sizes are dropped at once, because every change of the index makes them void anyway.
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = size
        return size


def _matches(entry: IndexEntry, position: ListPosition, part: str) -> bool:
    """Return whether the entry of an open item is in the list of a position."""
    first, last = position.first, position.last
    timely = (first is None or first <= entry.stamp) and (last is None or entry.stamp <= last)
    return timely and part in {"data", "access:open", f"kind:{entry.kind}", f"language:{entry.language}"}
