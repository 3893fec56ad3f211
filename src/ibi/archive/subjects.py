"""The three subjects of an Archive service (R15 Algorithm 1): a request in, a pair list out.

Our own Archive and the library door answer through this room, so both say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ibi.archive import access
from ibi.archive.answer import url_list
from ibi.archive.url_key import LONGEST_REUSE, MOST_READERS, MOST_READERS_OF_STRANGERS
from ibi.exchange import pairs
from ibi.protocol import vocabulary as say
from ibi.protocol.messages import Acknowledgment, ConfirmationRequest, UrlRequest, read_request
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.replies import Confirmation, Notice, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.answer import ArchiveIdentity
    from ibi.archive.holding import Holding
    from ibi.archive.related import Lookup
    from ibi.archive.url_key import Thanks, UrlKeys
    from ibi.errors import ParseError
    from ibi.exchange import Response
    from ibi.identifier.forms import Name

    Asker = Callable[[], str | None]
    """Tells the address of who asks, as far as it is vouched for; only called where that matters."""

_CONFIRMATION: Final = pairs(Confirmation().body())
_NOTHING: Final = pairs(b"")
_NOTICE: Final = pairs(Notice().body())
_NO_SUBJECT: Final = pairs(RequestError("this is an Archive, not a resolver").body(), 400)
NO_SERVICE: Final = pairs(RequestError("there is no Archive service at this path").body(), 400)


class Manner(access.Licence, Protocol):
    """How an Archive answers; its settings say it."""

    @property
    def trusted_resolvers(self) -> tuple[str, ...]:
        """The networks of the resolvers that are believed."""

    @property
    def filter_answers(self) -> bool:
        """Whether answers hold only what the request needs."""

    @property
    def reuse_seconds(self) -> int:
        """How long an answer that depends on no reader may be reused."""


class Subjects:
    """Answers the requests to one Archive service. `now` gives POSIX seconds.

    `thank` is given every acknowledgment with a key of ours that is still good, also one that comes again.
    `confirms`: whether the Archive takes part now; where it is switched off it says nothing when a resolver asks
    for confirmation (REG-04), so that nobody else can switch it on.
    """

    def __init__(
        self,
        lookup: Lookup,
        identity: ArchiveIdentity,
        manner: Manner,
        keys: UrlKeys,
        now: Callable[[], float],
        thank: Callable[[Thanks], None],
        *,
        confirms: bool = True,
    ) -> None:
        self._lookup = lookup
        self._identity = identity
        self._manner = manner
        self._keys = keys
        self._now = now
        self._thank = thank
        self._confirms = confirms
        self._most = min(max(manner.reuse_seconds, 0), LONGEST_REUSE)

    def answer(self, query: str, asker: Asker, *, counts: bool) -> Response:
        """The answer to a raw query. `counts`: whether thanks are meant, and no mere look (HEAD, a prefetch).

        Raises ParseError for what is no request (AMB-32).
        """
        request = read_request(query)
        if isinstance(request, UrlRequest):
            return self._url_list(request, asker)
        if isinstance(request, ConfirmationRequest):
            return _CONFIRMATION if self._confirms else _NOTHING
        if not isinstance(request, Acknowledgment):
            return _NO_SUBJECT
        if counts:
            most = self._most_readers(asker)
            thanks = self._keys.read(request, many=most > 1, most=most)
            if thanks is not None:
                self._thank(thanks)
        return _NOTICE

    def _most_readers(self, asker: Asker) -> int:
        """For how many readers who asks may speak with one key (threat T19).

        Where resolvers are trusted by name, for many only they; where none is, anybody, but for few.
        """
        resolvers = self._manner.trusted_resolvers
        if not resolvers:
            return MOST_READERS_OF_STRANGERS
        return MOST_READERS if access.within(asker(), resolvers) else 1

    def _url_list(self, request: UrlRequest, asker: Asker) -> Response:
        held: dict[Name, Holding | None] = {}

        def lookup(name: Name) -> Holding | None:
            if name not in held:
                held[name] = self._lookup(name)
            return held[name]

        def reader() -> str | None:
            resolvers = self._manner.trusted_resolvers
            return access.reader_of(asker(), request.client_addresses, resolvers)

        said = dict(
            url_list(
                lookup,
                self._identity,
                request,
                "",
                filtered=self._manner.filter_answers,
                withheld=access.withheld(self._manner, reader, self._now),
            ).pairs
        )
        asked_for = held[request.ibi]
        if asked_for is None or say.URL_KEY not in said:
            return pairs(write_pairs(said))
        seconds = 0
        if self._most and self._most_readers(asker) > 1:
            seconds = access.reuse_seconds(held.values(), self._most, self._now())
        said[say.URL_KEY] = self._keys.make(asked_for.number, seconds)
        if not seconds:
            return pairs(write_pairs(said))
        said[say.ACKNOWLEDGMENT_BATCH] = "yes"
        return pairs(write_pairs(said), 200, ("cache-control", f"max-age={seconds}"))


def no_request(error: ParseError) -> Response:
    """The answer to what is no request."""
    return pairs(RequestError(f"{error.what}: {error}").body(), 400)
