"""The messages that an Archive service answers (R15 Algorithm 1): a request in, a pair list out.

The Archive's own service and the adapter for other platforms both answer through `MessageService`, so that both
answer alike.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.model import access
from ibi.archive.model.answer import url_list
from ibi.archive.model.url_key import LONGEST_REUSE, AcknowledgmentRefusal
from ibi.errors import AnswerTooLong, Unsettled
from ibi.http.client_address import in_networks
from ibi.http.response import pairs
from ibi.protocol import vocabulary as words
from ibi.protocol.messages import Acknowledgment, ConfirmationRequest, UrlRequest, read_request
from ibi.protocol.pair_list import MAX_BODY, MAX_PAIRS, write_pairs
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
    from ibi.protocol.pair_list import PairList
    from ibi.runtime.settings import ArchiveSettings


_CONFIRMATION: Final = pairs(Confirmation().body())
_EMPTY: Final = pairs(b"")
_NOTICE: Final = pairs(Notice().body())
_REFUSED: Final = {
    # The body is the standard's own, whatever became of the acknowledgment (MSG-28).
    reason: pairs(Notice().body(), 200, (words.ACKNOWLEDGMENT_REFUSED, reason.value))
    for reason in AcknowledgmentRefusal
}
_NO_SUBJECT: Final = pairs(RequestError("this is an Archive, not a resolver").body(), 400)
_TOO_LONG: Final = pairs(RequestError("the answer to this would be longer than a resolver reads").body(), 400)
NO_SERVICE: Final = pairs(RequestError("there is no Archive service at this path").body(), 400)


TRUSTED: Final = ""
"""In place of the address of a client that a setting trusts."""
_MOST_USED_UP: Final = (
    10_000  # keys that are remembered as used up; further ones count nothing, and are not told so
)
_LOG_SECONDS: Final = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """What decides about the answers of an adapter; each as in the settings of an Archive."""

    networks: tuple[str, ...]
    trusted_resolvers: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    filter_answers: bool
    reuse_seconds: int


class AcknowledgmentRecord:
    """What is known of acknowledgments that do not count: keys that are used up, and how many were refused, and why.

    `refused` counts by reason. If it `logs`, a line of the log has the sums, once a minute at most: a forger cannot
    fill the disk.
    """

    def __init__(self, now: Callable[[], float], *, logs: bool = True) -> None:
        self._now = now
        self._logs = logs
        self._used_up: dict[tuple[str, str | None], int] = {}
        self._logged = -_LOG_SECONDS
        self.refused: Counter[str] = Counter()
        self.is_busy = False
        """Whether so many wait to be counted that no more can."""

    def is_used_up(self, acknowledgment: AcknowledgmentCount, client: str | None) -> bool:
        """Whether the key of an acknowledgment has counted for as many readers as it may, of this client."""
        return (acknowledgment.key, client) in self._used_up

    def use_up(self, acknowledgment: AcknowledgmentCount, client: str | None) -> None:
        """Note that a key counts no more of this client's."""
        if len(self._used_up) >= _MOST_USED_UP:
            now = self._now()
            self._used_up = {each: expires for each, expires in self._used_up.items() if expires >= now}
        if len(self._used_up) < _MOST_USED_UP:
            self._used_up[acknowledgment.key, client] = acknowledgment.expires

    def refuse(self, reason: AcknowledgmentRefusal) -> None:
        """Count a refused acknowledgment."""
        self.refused[reason.value] += 1
        if self._logs and self._now() - self._logged >= _LOG_SECONDS:
            self._logged = self._now()
            self.log()

    def log(self) -> None:
        """Write the sums into the log."""
        if self.refused:
            sums = ", ".join(f"{reason} {count}" for reason, count in sorted(self.refused.items()))
            _log.warning("acknowledgments were refused, since the start: %s", sums)


class MessageService:
    """Answers the messages to one Archive service, by its settings. `now` gives POSIX seconds.

    `acknowledge` receives every acknowledgment with a valid key of this Archive, repeated ones too; `acknowledge_of`,
    where it is given, those of clients that no setting trusts, with their address: they may be joined resolvers.
    `record`: what is known of acknowledgments that do not count; shared with what counts them.
    `confirms`: whether the Archive takes part now. One that is switched off answers a confirmation request with
    nothing (REG-04), so that it cannot be switched on in its name.
    """

    def __init__(  # noqa: PLR0913 - what it needs of an Archive or an adapter
        self,
        lookup: Lookup,
        identity: ArchiveIdentity,
        settings: ArchiveSettings | AdapterSettings,
        keys: UrlKeys,
        now: Callable[[], float],
        acknowledge: Callable[[AcknowledgmentCount], None],
        *,
        acknowledge_of: Callable[[AcknowledgmentCount, str | None], None] | None = None,
        record: AcknowledgmentRecord | None = None,
        confirms: bool = True,
    ) -> None:
        self._lookup = lookup
        self._identity = identity
        self._settings = settings
        self._keys = keys
        self._now = now
        self._acknowledge = acknowledge
        self._acknowledge_of = acknowledge_of
        self._record = record or AcknowledgmentRecord(now, logs=False)
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
            refused = self._count(message, request)
            if refused is not None:
                self._record.refuse(refused)
                return _REFUSED[refused]
        return _NOTICE

    def _count(self, message: Acknowledgment, request: Request) -> AcknowledgmentRefusal | None:
        """Count an acknowledgment, for as many readers as its sender is trusted with (threat T19), or say why not."""
        valid = self._keys.read(message)
        if valid is None:
            return self._keys.refusal(message)
        client = TRUSTED if self._is_trusted(request) else self.client_of(request)
        if self._record.is_used_up(valid, client):
            return AcknowledgmentRefusal.USED_UP
        if self._record.is_busy:
            return AcknowledgmentRefusal.BUSY
        if client == TRUSTED:
            self._acknowledge(valid)
        elif self._acknowledge_of is not None:
            self._acknowledge_of(valid, client)
        else:
            self._acknowledge(valid.of_stranger)
        return None

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
        try:
            found = url_list(lookup, self._identity, message, "", filtered=filtered, withheld=withheld)
        except AnswerTooLong:
            return _TOO_LONG
        except Unsettled as error:
            # No Retry-After: resolvers would take it for a pause of the whole Archive, and not of this item.
            return pairs(RequestError(str(error)).body(), 503)
        answer = dict(found.pairs)
        item = looked_up[message.ibi.canonical]
        if item is None or words.URL_KEY not in answer:
            return _answer(answer)
        seconds = 0
        # Where resolvers are named, only they are offered reuse; elsewhere all are (note 1).
        if self._longest_reuse and (not self._settings.trusted_resolvers or self._is_trusted(request)):
            # The answer rests on every item that was looked up, so each of them bounds how long it stays right.
            seconds = access.reuse_seconds(looked_up.values(), self._longest_reuse, self._now())
        answer[words.URL_KEY] = self._keys.make(item.number, seconds)
        if not seconds:
            return _answer(answer)
        answer[words.ACKNOWLEDGMENT_BATCH] = "yes"
        return _answer(answer, ("cache-control", f"max-age={seconds}"))

    def client_of(self, request: Request) -> str | None:
        """The client's address, None where a trusted proxy does not vouch for one."""
        return request.address(self._settings.trusted_proxies)

    def _is_trusted(self, request: Request) -> bool:
        """Whether the settings trust the client as a resolver."""
        return in_networks(self.client_of(request), self._settings.trusted_resolvers)


def _answer(answer: PairList, *headers: tuple[str, str]) -> Response:
    """The response with an answer; of one that no resolver would read, the refusal of this one question."""
    body = write_pairs(answer)
    if len(body) > MAX_BODY or len(answer) > MAX_PAIRS:
        return _TOO_LONG
    return pairs(body, 200, *headers)


def refusal(error: ParseError) -> Response:
    """The answer to a query that is no message: why not."""
    return pairs(RequestError(f"{error.what}: {error}").body(), 400)
