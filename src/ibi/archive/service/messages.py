"""The messages that an Archive service answers (R15 Algorithm 1): a request in, a pair list out.

The Archive's own service and the adapter for other platforms both answer through `MessageService`, so that both
answer alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.model import access
from ibi.archive.model.answer import url_list
from ibi.archive.model.url_key import LONGEST_REUSE, MOST_READERS, MOST_READERS_OF_STRANGERS
from ibi.http.client_address import in_networks
from ibi.http.response import pairs
from ibi.protocol import vocabulary as words
from ibi.protocol.messages import Acknowledgment, ConfirmationRequest, UrlRequest, read_request
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.replies import Confirmation, Notice, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.archive.model.url_key import AcknowledgmentCount, UrlKeys
    from ibi.errors import ParseError
    from ibi.http.request import Request
    from ibi.http.response import Response
    from ibi.identifier.forms import Name
    from ibi.runtime.settings import ArchiveSettings


_CONFIRMATION: Final = pairs(Confirmation().body())
_EMPTY: Final = pairs(b"")
_NOTICE: Final = pairs(Notice().body())
_NO_SUBJECT: Final = pairs(RequestError("this is an Archive, not a resolver").body(), 400)
NO_SERVICE: Final = pairs(RequestError("there is no Archive service at this path").body(), 400)


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """What decides about the answers of an adapter; each as in the settings of an Archive."""

    networks: tuple[str, ...]
    trusted_resolvers: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    filter_answers: bool
    reuse_seconds: int


class MessageService:
    """Answers the messages to one Archive service, by its settings. `now` gives POSIX seconds.

    `acknowledge` receives every acknowledgment with a valid key of this Archive, repeated ones too.
    `confirms`: whether the Archive takes part now. One that is switched off answers a confirmation request with
    nothing (REG-04), so that it cannot be switched on in its name.
    """

    def __init__(
        self,
        lookup: Lookup,
        identity: ArchiveIdentity,
        settings: ArchiveSettings | AdapterSettings,
        keys: UrlKeys,
        now: Callable[[], float],
        acknowledge: Callable[[AcknowledgmentCount], None],
        *,
        confirms: bool = True,
    ) -> None:
        self._lookup = lookup
        self._identity = identity
        self._settings = settings
        self._keys = keys
        self._now = now
        self._acknowledge = acknowledge
        self._confirms = confirms
        self._longest_reuse = min(max(settings.reuse_seconds, 0), LONGEST_REUSE)

    def answer(self, request: Request) -> Response:
        """Answer one message. Raises ParseError for a query that is no message (AMB-32)."""
        message = read_request(request.query)
        if isinstance(message, UrlRequest):
            return self._answer_url_request(message, request)
        if isinstance(message, ConfirmationRequest):
            return _CONFIRMATION if self._confirms else _EMPTY
        if not isinstance(message, Acknowledgment):
            return _NO_SUBJECT
        # HEAD and what a browser prefetches send no reader anywhere, so they count as nothing (threat T38).
        if request.method == "GET" and not request.only_prefetched:
            valid = self._keys.read(message, most=self._most_readers(request))
            if valid is not None:
                self._acknowledge(valid)
        # The same reply in any case: a forger learns nothing about keys from it (threat T19).
        return _NOTICE

    def _answer_url_request(self, message: UrlRequest, request: Request) -> Response:
        """Answer where an item is: the URL list, its key, and for how long the answer may be reused."""
        looked_up: dict[str, Holding | None] = {}

        def lookup(name: Name) -> Holding | None:
            # An item is looked up once for an answer: relations lead to the same one in several ways.
            if name.canonical not in looked_up:
                looked_up[name.canonical] = self._lookup(name)
            return looked_up[name.canonical]

        def reader() -> str | None:
            client, resolvers = self.client_of(request), self._settings.trusted_resolvers
            return access.reader_address(client, message.client_addresses, resolvers)

        withheld = access.withheld_from(self._settings.networks, reader, self._now)
        filtered = self._settings.filter_answers
        answer = dict(
            url_list(lookup, self._identity, message, "", filtered=filtered, withheld=withheld).pairs
        )
        item = looked_up[message.ibi.canonical]
        if item is None or words.URL_KEY not in answer:
            return pairs(write_pairs(answer))
        seconds = 0
        if self._longest_reuse and self._most_readers(request) > 1:
            # The answer rests on every item that was looked up, so each of them bounds how long it stays right.
            seconds = access.reuse_seconds(looked_up.values(), self._longest_reuse, self._now())
        answer[words.URL_KEY] = self._keys.make(item.number, seconds)
        if not seconds:
            return pairs(write_pairs(answer))
        answer[words.ACKNOWLEDGMENT_BATCH] = "yes"
        return pairs(write_pairs(answer), 200, ("cache-control", f"max-age={seconds}"))

    def client_of(self, request: Request) -> str | None:
        """The client's address, None where a trusted proxy does not vouch for one."""
        return request.address(self._settings.trusted_proxies)

    def _most_readers(self, request: Request) -> int:
        """For how many readers the client's acknowledgments with one key may count (threat T19).

        Where `trusted_resolvers` names some, those may count for many and others for one; where it names none, any
        client may count for a few.
        """
        resolvers = self._settings.trusted_resolvers
        if not resolvers:
            return MOST_READERS_OF_STRANGERS
        return MOST_READERS if in_networks(self.client_of(request), resolvers) else 1


def refusal(error: ParseError) -> Response:
    """The answer to a query that is no message: why not."""
    return pairs(RequestError(f"{error.what}: {error}").body(), 400)
