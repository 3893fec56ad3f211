"""The upstream resolver: asked for items that no Archive of this resolver holds (note 43: an upstream resolver).

We ask it as a reader would, with the same persistent URL, and send the reader to the URL of its redirect. It sends
its own acknowledgments. It learns the languages that the reader prefers, because it chooses among translations in our
place, and nothing else: no address, no cookie, no referrer (T28: privacy of readers). A request names the resolvers
through which it came (`hops`), so that two do not ask each other for ever (T03: loops of resolvers).

For the upstream, this resolver is one client, however many readers it has, unless it sends a token that the upstream
gave it. When the upstream asks for a pause, we make one, and tell readers how long it lasts. Only probes decide
whether it answers at all, since readers can provoke that a request fails (T10: slow or huge answers).
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, IbiError, PeerBusy, PeerError, PeerGarbled, QueryNotSent, SetupError
from ibi.http.client import HostPort
from ibi.protocol.query_string import split_query
from ibi.protocol.vocabulary import INCOMPLETE
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.model.hops import Hops
from ibi.resolver.resolve.answer_reader import asks_for_pause, failure_of_status
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.resolver.resolve.resolution import UpstreamRedirect
from ibi.resolver.resolve.selection import one_spelling, places_of, safe_place

if TYPE_CHECKING:
    from collections.abc import Collection

    from ibi.http.client import Client, Reply
    from ibi.http.request import Request
    from ibi.identifier.forms import IBIForms
    from ibi.protocol.persistent_url import PersistentURL

SECONDS: Final = 3.0
"""Seconds that the upstream resolver may take to answer."""

LONGEST_TITLE: Final = 160
"""Characters of the title of the upstream's alert that are passed on to a reader."""

ALERT_STATUSES: Final = frozenset({404, 409, 410, 503})
"""Statuses of alerts that are passed on (note 6: silence is no absence)."""

_ELSEWHERE: Final[dict[int, AlertKind]] = {
    404: AlertKind.NOT_FOUND,
    409: AlertKind.SUSPECT_ORIGINALS,
    410: AlertKind.DELETED,
}
"""The kind of alert that a status becomes here; any other status of an alert becomes INCOMPLETE."""
_LONGEST_PREFERENCE = 512  # characters of Accept-Language that are passed on
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOOP = 508
_NOT_FOUND: Final = 404
_BAD_GATEWAY = 502
_FAULTS = 500  # from this status on, the upstream itself is at fault
_OWN_QUESTION = "/robots.txt"  # the path of a probe: short, and every resolver has it; even 404 is an answer
_INCOMPLETE = re.compile(rb"([0-9]{1,6}) of ([0-9]{1,6})").fullmatch
_MARKED = re.compile(r"[!-~]{1,256}", re.ASCII).fullmatch
_ROOT = re.compile(r"http://([^/?#@\s]+)/?", re.ASCII | re.IGNORECASE).fullmatch
_VISIBLE = re.compile(r"[\x20-\x7e]+", re.ASCII).fullmatch


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """An alert: a status of `ALERT_STATUSES`, and its title in one line, "" where none could be read.

    `known`: whether it says that the item is known, though not what was asked of it.
    """

    status: int
    title: str = ""
    known: bool = False


Answer = UpstreamRedirect | UpstreamAnswer | IbiError | None
"""An error proves nothing: the upstream was not asked, was silent, or gave no usable answer. None: the
request has already passed through that resolver, so only the Archives of this one decide."""


class Upstream:
    """A client of one upstream resolver. Belongs to one event loop; does not close `client`.

    `root`: its root URL. `service`: our own service IBI. `own`: where we answer ourselves. `private_urls`:
    whether readers may be sent to addresses that are not public. `token`: from the upstream, or "". Raises
    SetupError for a URL that is no http root, or leads to ourselves, and for a token that no header can hold.
    """

    def __init__(
        self,
        root: str,
        client: Client,
        service: IBIForms,
        own: Collection[HostPort],
        *,
        private_urls: bool = False,
        token: str = "",
    ) -> None:
        match = _ROOT(root)
        try:
            where = HostPort.parse(match[1] if match else "")
        except ForbiddenAddress:
            problem = "the upstream resolver is given by its root URL, http://urlib.net/; not {url}"
            raise SetupError(problem, url=root) from None
        if where in own:
            raise SetupError("the upstream resolver {url} is this resolver itself", url=root)
        if token and not _MARKED(token):
            raise SetupError("upstream_token is a token as the upstream resolver printed it")
        self._always = [
            # In JSON, since its `kind` tells an alert about an item from a request for a pause: 503 may be both.
            ("Accept", "application/problem+json"),
            *([("Authorization", f"Bearer {token}")] if token else []),
        ]
        self._root = root
        self._address = str(where)
        self._client = client
        self._name = service.main.canonical
        self._own = places_of((each.host, each.port) for each in own)
        self._private_urls = private_urls
        self._breakers = CircuitBreakers()

    async def ask(
        self,
        url: PersistentURL,
        accept_language: str = "",
        hops: str = "",
        *,
        only_looking: bool = False,
        seconds: float = SECONDS,
    ) -> tuple[Answer, bool]:
        """Ask for a persistent URL; return the answer, and whether the request was sent.

        `hops` is the header CDN-Loop of the reader's request, "" if there is none. `only_looking`: no reader
        follows the redirect (HEAD, prefetching, explaining), so it must not be acknowledged. `seconds`: the
        rest of the resolution; SECONDS at most are used. After five failures it is not asked for a while.
        """
        # Whether it may be asked at all: not in a loop, in time, and not while its circuit is open.
        seen = Hops.read(hops)
        onward = seen.onward(self._name) if seen is not None else None
        if onward is None:
            return QueryNotSent("the request has passed through too many resolvers already"), False
        if seconds <= 0:
            return QueryNotSent("no time was left to ask it"), False
        loop, breakers, where = asyncio.get_running_loop(), self._breakers, self._address
        began = loop.time()
        turn = breakers.begin(where, began)
        if turn not in ("ask", "probe"):
            return self._reason_to_wait(began), False
        if turn == "probe":
            probe = self._start_probe()
            await asyncio.wait([probe], timeout=seconds / 2)
            if not probe.done() or probe.cancelled() or not probe.result():
                return self._reason_to_wait(loop.time()), False
        # Ask it, and tell the circuit breaker what came of it.
        left = min(seconds - (loop.time() - began), SECONDS)
        headers = [*self._always, *_headers(accept_language, only_looking=only_looking)]
        try:
            answer = self._read(await self._client.get(where, target_of(url), left, headers, cdn_loop=onward))
        except PeerError as error:
            if isinstance(error, PeerBusy):
                breakers.pause(where, loop.time(), error)
            elif not isinstance(error, QueryNotSent) and breakers.failed(where, loop.time(), error):
                self._start_probe()
            return error, not isinstance(error, QueryNotSent)
        breakers.heard(where, loop.time())
        return answer, True

    def _reason_to_wait(self, now: float) -> IbiError:
        """Return why it is not asked now: it asked for a pause, or did not answer."""
        circuit = self._breakers.circuits.get(self._address)
        if circuit is not None and isinstance(circuit.why, PeerBusy) and now < circuit.until:
            return asks_for_pause(ceil(circuit.until - now))
        return QueryNotSent("it did not respond lately, so it is not asked for a while")

    def _start_probe(self) -> asyncio.Task[bool]:
        probe = asyncio.create_task(self._probe())
        self._client.keep(probe)
        return probe

    async def _probe(self) -> bool:
        """Send a probe; return whether it is answered."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            reply = await self._client.get(self._address, _OWN_QUESTION, SECONDS, self._always)
            if reply.status >= _FAULTS or reply.requested_pause is not None:
                raise _failure(reply)
        except PeerError as error:
            why = None if isinstance(error, QueryNotSent) else error
            self._breakers.probe_failed(self._address, began, clock(), why)
            return False
        self._breakers.heard(self._address, clock())
        return True

    async def complete(
        self, alert: Alert, url: PersistentURL, request: Request, *, looks_only: bool, seconds: float
    ) -> tuple[UpstreamRedirect | Alert, bool]:
        """Ask about an item that no Archive here has. Return the decision, and whether the request was sent.

        `looks_only` and `seconds` as for `ask`.
        """
        if alert.known or alert.kind not in {AlertKind.NOT_FOUND, AlertKind.INCOMPLETE}:
            return alert, False
        answer, was_sent = await self.ask(
            url,
            request.header(b"accept-language"),
            request.header(b"cdn-loop"),
            only_looking=looks_only,
            seconds=seconds,
        )
        return alert if answer is None else self._completed(alert, answer), was_sent

    def _completed(
        self, alert: Alert, answer: UpstreamRedirect | UpstreamAnswer | IbiError
    ) -> UpstreamRedirect | Alert:
        """Return the decision that follows from our own alert and an answer of the upstream resolver."""
        coverage = alert.coverage or Coverage(0)
        if isinstance(answer, UpstreamRedirect):  # the Archives of both resolvers are counted together
            silent, queried = answer.incomplete
            queried = max(queried, 1)  # at least the upstream itself
            return answer._replace(incomplete=(silent + len(coverage.silent), queried + coverage.total))
        if isinstance(answer, IbiError):  # the upstream counts as one more Archive that was silent
            found = Coverage(coverage.total + 1, (*coverage.silent, (self._root, answer)))
            wait = max(1, answer.seconds) if isinstance(answer, PeerBusy) else alert.wait
            return replace(alert, kind=AlertKind.INCOMPLETE, coverage=found, wait=wait)
        kind = _ELSEWHERE.get(answer.status, AlertKind.INCOMPLETE)
        # The upstream's "not found" is final unless an Archive of our own was silent.
        unsure = kind is AlertKind.NOT_FOUND and bool(coverage.silent)
        kind = AlertKind.INCOMPLETE if unsure else kind
        return replace(alert, kind=kind, elsewhere=answer.title, known=answer.known)

    def _read(self, reply: Reply) -> Answer:
        """Read a reply. Raises PeerBusy if it asks for a pause, PeerGarbled if its status is no answer."""
        if reply.status in _REDIRECTS:
            location = reply.headers.get(b"location", b"").decode("latin-1")
            where = safe_place(location, allow_private=self._private_urls)
            if where is None:
                return PeerGarbled("it gave an address that is not safe to follow")
            host, port = where
            if (one_spelling(host), port) in self._own:
                return PeerGarbled("it leads back to this resolver")
            return UpstreamRedirect(location, _incomplete(reply))
        if reply.status == _LOOP:
            return None
        problem = _problem(reply)
        # A 503 with Retry-After may be the alert that an Archive there was silent, which is an answer; or a pause.
        pauses = reply.requested_pause is not None and problem.get("kind") != AlertKind.INCOMPLETE
        if pauses or reply.status not in ALERT_STATUSES:
            raise _failure(reply)
        known = reply.status == _NOT_FOUND and problem.get("known") is True
        return UpstreamAnswer(reply.status, _title(reply, problem), known)


def target_of(url: PersistentURL) -> str:
    """Return the target of the request to the upstream: item, verbs, path and query of the persistent URL.

    Left out are wrappers, `?info`, `?json` and unknown words, which concern us alone (note 14: words in the query;
    note 21: what may stand before a name).
    """
    path = f"/{url.ibi}{url.modifier}{url.file_path}"
    raw = url.text.partition("?")[2]
    if not raw.strip("?") or url.inflection is not None:
        return path  # "??" has become a modifier already
    query = "&".join(each for each in split_query(raw) if each not in url.ignored)
    return f"{path}?{query}" if query else path


def _headers(accept_language: str, *, only_looking: bool) -> list[tuple[str, str]]:
    headers = []
    if len(accept_language) <= _LONGEST_PREFERENCE and _VISIBLE(accept_language):
        headers.append(("Accept-Language", accept_language))
    if only_looking:
        headers.append(("Sec-Purpose", "prefetch"))
    return headers


def _incomplete(reply: Reply) -> tuple[int, int]:
    """Return how many Archives were silent there, of how many; zeros without a header that can be read."""
    match = _INCOMPLETE(reply.headers.get(INCOMPLETE.encode(), b""))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _failure(reply: Reply) -> PeerGarbled:
    """Return the error for a status that is no answer; 4xx blames the request, 502 an Archive there."""
    return failure_of_status(reply, refused=reply.status < _FAULTS or reply.status == _BAD_GATEWAY)


def _problem(reply: Reply) -> dict[str, object]:
    """Return the members of an alert in JSON (RFC 9457); none for other bodies."""
    with suppress(ValueError, RecursionError):
        value = json.loads(reply.body.decode("utf-8", "replace"))
        return value if isinstance(value, dict) else {}
    return {}


def _title(reply: Reply, problem: dict[str, object]) -> str:
    """Return the first line of a plain alert, or the title of one in JSON, printable and cut."""
    title: object = ""
    if reply.media_type == b"text/plain":
        title = reply.body.decode("utf-8", "replace").partition("\n")[0]
    elif reply.media_type == b"application/problem+json":
        title = problem.get("title")
    if not isinstance(title, str):
        return ""
    line = "".join(char if char.isprintable() else " " for char in title[: 2 * LONGEST_TITLE])
    return " ".join(line.split())[:LONGEST_TITLE]
