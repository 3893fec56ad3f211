"""Answers the messages to an Archive service with pair lists (R15 Algorithm 1).

Both the Archive's own service and the adapter for other platforms use `MessageService`: their answers agree.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.model import access
from ibi.archive.model.answer import url_list
from ibi.archive.model.url_key import LONGEST_REUSE, AcknowledgmentRefusal
from ibi.errors import AnswerTooLong, ParseError, Unsettled
from ibi.http.client_address import in_networks
from ibi.http.response import pairs
from ibi.protocol import vocabulary as words
from ibi.protocol.extensions.changes import LONGEST_VALIDITY, MOST_RESTS, ChangesRequest, Validity
from ibi.protocol.messages import (
    Acknowledgment,
    ChangeNotification,
    ConfirmationRequest,
    UrlRequest,
    read_request,
)
from ibi.protocol.pair_list import MAX_BODY, MAX_PAIRS, write_pairs
from ibi.protocol.replies import AcknowledgmentReceived, ChangeReceived, Confirmation, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.archive.model.url_key import AcknowledgmentCount, UrlKeys
    from ibi.archive.service.changes import AnsweredChanges
    from ibi.archive.store.postgresql.item_reader import ReadItems
    from ibi.archive.store.tables.catalogue import Snapshot
    from ibi.http.request import Request
    from ibi.http.response import Response
    from ibi.identifier.forms import IBI, Name
    from ibi.protocol.pair_list import PairList
    from ibi.runtime.settings import ArchiveSettings


_CONFIRMATION: Final = pairs(Confirmation().body())
_EMPTY: Final = pairs(b"")
_CHANGE_RECEIVED: Final = pairs(ChangeReceived().body())
_NOTICE: Final = pairs(AcknowledgmentReceived().body())
_REFUSED: Final = {
    # The body is that of the standard, also for an acknowledgment that does not count (MSG-28: the reply to an
    # acknowledgment).
    reason: pairs(AcknowledgmentReceived().body(), 200, (words.ACKNOWLEDGMENT_REFUSED, reason.value))
    for reason in AcknowledgmentRefusal
}
_NO_SUBJECT: Final = pairs(RequestError("this is an Archive, not a resolver").body(), 400)
_TOO_LONG: Final = pairs(RequestError("the answer to this would be longer than a resolver reads").body(), 400)
NO_SERVICE: Final = pairs(RequestError("there is no Archive service at this path").body(), 400)


TRUSTED: Final = ""
"""Stands for the address of a client that a setting trusts."""
# Keys that are recorded as used up. An acknowledgment with a further used-up key counts nothing either, but its reply
# does not say so.
_MOST_USED_UP: Final = 10_000
_LOG_SECONDS: Final = 60.0  # between two lines about refused messages
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """The settings that determine the answers of an adapter; each as in the settings of an Archive."""

    networks: tuple[str, ...]
    trusted_resolvers: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    filter_answers: bool
    reuse_seconds: int


class AcknowledgmentRecord:
    """A record of acknowledgments that do not count: the keys that are used up, and the refusals by reason.

    `refused` counts refusals by reason. If `logs`, the sums are logged, at most once a minute, so that a
    forger cannot fill the disk.
    """

    def __init__(self, now: Callable[[], float], *, logs: bool = True) -> None:
        self._now = now
        self._logs = logs
        self._used_up: dict[tuple[str, str | None], int] = {}
        self._logged = -_LOG_SECONDS
        self.refused: Counter[str] = Counter()
        self.is_busy = False
        """Whether so many acknowledgments wait to be counted that further ones are refused."""

    def is_used_up(self, acknowledgment: AcknowledgmentCount, client: str | None) -> bool:
        """Return whether the key of an acknowledgment counts no more readers if this client sends it."""
        return (acknowledgment.key, client) in self._used_up

    def use_up(self, acknowledgment: AcknowledgmentCount, client: str | None) -> None:
        """Record that the key of an acknowledgment counts no more readers if this client sends it."""
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
        """Log the number of refusals by reason."""
        if self.refused:
            sums = ", ".join(f"{reason} {count}" for reason, count in sorted(self.refused.items()))
            _log.warning("acknowledgments were refused, since the start: %s", sums)


class MessageService:
    """Answers the messages to one Archive service, by its settings. `now` returns POSIX seconds.

    `acknowledge` receives every acknowledgment with a valid key of this Archive, also repeated ones. If
    `acknowledge_of` is given, it receives instead those of clients that no setting trusts, with the client's address,
    because such a client may be a joined resolver. `record`: the acknowledgments that do not count, shared with their
    counter. `confirms`: whether the Archive takes part now. An Archive that is switched off answers a confirmation
    request with an empty body (REG-04: the resolver calls back), so that no one else can have it included. `changes`:
    the log of changes of the store that `lookup` reads; None if there is none, as for an adapter. `noticed`: called
    with the service of another Archive that is said to have changed; returns whether copies come from there.
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
        changes: AnsweredChanges | None = None,
        noticed: Callable[[IBI], bool] = lambda _: False,
    ) -> None:
        self._lookup = lookup
        self._changes, self._noticed = changes, noticed
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
        """Answer one message. Raises ParseError for a query that is no message (AMB-32: bad requests)."""
        message = read_request(request.query)
        if isinstance(message, UrlRequest):
            return self._answer_url_request(message, request)
        if isinstance(message, ConfirmationRequest):
            return _CONFIRMATION if self._confirms else _EMPTY
        if isinstance(message, ChangesRequest) and self._changes is not None:
            return self._changes.reply(message, request, self.client_of(request))
        if isinstance(message, Acknowledgment):
            return self._answer_acknowledgment(message, request)
        return self._heed(message) if request.method == "GET" else _NO_SUBJECT

    def _answer_acknowledgment(self, message: Acknowledgment, request: Request) -> Response:
        # HEAD and prefetching by a browser lead no reader to the item, so they are not counted (T38: prefetching).
        if request.method == "GET" and not request.only_prefetched:
            refused = self._count(message, request)
            if refused is not None:
                self._record.refuse(refused)
                return _REFUSED[refused]
        return _NOTICE

    def _heed(self, message: object) -> Response:
        """Take a notice of change from another Archive, or refuse a message that is not for Archives.

        Who has sent the notice does not matter: it only makes this Archive ask the other one what has changed.
        """
        heeded = isinstance(message, ChangeNotification) and self._noticed(message.service_ibi)
        return _CHANGE_RECEIVED if heeded else _NO_SUBJECT

    def _count(self, message: Acknowledgment, request: Request) -> AcknowledgmentRefusal | None:
        """Count an acknowledgment as far as its sender is trusted; return a reason if it is refused.

        Its URL key must be one that this Archive has signed (T19: forged acknowledgments). A trusted or
        joined resolver may count many readers with it, any other client one.
        """
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

    def url_request(self, request: Request) -> UrlRequest | None:
        """Return the URL request that a request is; None if it is another message, or none."""
        try:
            message = read_request(request.query)
        except ParseError:
            return None
        return message if isinstance(message, UrlRequest) else None

    def _answer_url_request(self, message: UrlRequest, request: Request) -> Response:
        """Answer a URL request, if there is a log of changes from one snapshot, with its position."""
        if self._changes is None:
            return self._answer_by_lookup(self._lookup, "", message, request)
        with self._changes.snapshot() as snapshot:
            return self.answer_from_snapshot(snapshot, message, request)

    def answer_from_snapshot(
        self, snapshot: Snapshot | ReadItems, message: UrlRequest, request: Request
    ) -> Response:
        """Answer a URL request by the items of one snapshot, with its position."""
        # The log also has changes of the settings. A process that reads the settings half a second later than another
        # one still answers by the old ones: a position from after that change would be wrong for its answer. Both are
        # read from one snapshot, so that they belong together.
        position, changes = snapshot.position, self._changes
        if changes is not None and snapshot.rules != changes.rules:
            position = ""
            changes.note_other_rules()
        return self._answer_by_lookup(snapshot.holding, position, message, request)

    def _answer_by_lookup(
        self, find: Lookup, position: str, message: UrlRequest, request: Request
    ) -> Response:
        """Answer with the URL list of the item, a URL key, and for how long the answer may be reused.

        `find` looks up items, as they were at `position`; "" if the answer must not name a position.
        """
        looked_up: dict[str, Holding | None] = {}

        def lookup(name: Name) -> Holding | None:
            # Each item is looked up once for an answer, although several relations may lead to it.
            if name.canonical not in looked_up:
                looked_up[name.canonical] = find(name)
            return looked_up[name.canonical]

        def reader() -> str | None:
            client, resolvers = self.client_of(request), self._settings.trusted_resolvers
            return access.reader_address(client, message.client_addresses, resolvers)

        now = self._now()  # once, so that no embargo ends between the answer and its seconds
        withheld = access.withheld_from(self._settings.networks, reader, lambda: now)
        filtered = self._settings.filter_answers
        try:
            found = url_list(lookup, self._identity, message, "", filtered=filtered, withheld=withheld)
        except AnswerTooLong:
            return _TOO_LONG
        except Unsettled as error:
            # No Retry-After: resolvers would take it for a pause of the whole Archive, not only of this item.
            return pairs(RequestError(str(error)).body(), 503)
        answer = dict(found.pairs)
        item = looked_up.pop(message.ibi.canonical)
        if item is None or words.URL_KEY not in answer:  # the item is not held, or the answer has no URL
            return _answer(answer)
        seconds = 0
        # If the settings name trusted resolvers, only these may reuse answers; else all may (note 1: reuse of
        # answers).
        if self._longest_reuse and (not self._settings.trusted_resolvers or self._is_trusted(request)):
            # The answer depends on every item that was looked up, so each of them limits the reuse.
            seconds = access.reuse_seconds((item, *looked_up.values()), LONGEST_VALIDITY, now)
        if not seconds:
            answer[words.URL_KEY] = self._keys.make(item.number)
            return _answer(answer)
        return self._reusable(answer, item.number, seconds, position, tuple(looked_up))

    def _reusable(
        self, answer: PairList, number: int, seconds: int, position: str, rests: tuple[str, ...]
    ) -> Response:
        """Return an answer that is right for `seconds`, or until one of the items changes on which it rests."""
        answer[words.ACKNOWLEDGMENT_BATCH] = "yes"
        max_age = min(seconds, self._longest_reuse)
        # For resolvers that ask what has changed: the position. For all others: some seconds (`max-age`).
        if position and len(rests) <= MOST_RESTS:
            answer[words.URL_KEY] = self._keys.make(number, seconds)
            answer[words.CHANGES_AS_OF] = position  # nearly always no more than this
            if rests or seconds != LONGEST_VALIDITY:
                answer |= Validity(position, rests, seconds).pairs()
            # `s-maxage=0`: no cache between a resolver and us may keep such an answer.
            response = _answer(answer, f"max-age={max_age}, s-maxage=0")
            if response is not _TOO_LONG:
                return response
            answer = {name: value for name, value in answer.items() if not name.startswith("changes.")}
        # Without the position; also where its pairs make the answer too long.
        answer[words.URL_KEY] = self._keys.make(number, max_age)
        return _answer(answer, f"max-age={max_age}")

    def client_of(self, request: Request) -> str | None:
        """Return the vouched address of the client; None if trusted proxies name none."""
        return request.trusted_address(self._settings.trusted_proxies)

    def _is_trusted(self, request: Request) -> bool:
        """Return whether the settings trust the client as a resolver."""
        return in_networks(self.client_of(request), self._settings.trusted_resolvers)


def _answer(answer: PairList, cached: str = "") -> Response:
    """Return the response with an answer; if it is too long for resolvers, refuse this request with 400."""
    body = write_pairs(answer)
    if len(body) > MAX_BODY or len(answer) > MAX_PAIRS:
        return _TOO_LONG
    return pairs(body, cached=cached)


def refusal(error: ParseError) -> Response:
    """Return the response to a query that is no message, with the reason."""
    return pairs(RequestError(f"{error.what}: {error}").body(), 400)
