"""Answers readers of a resolver on the ordinary path: redirects, alerts and explanations (R15 chapter 8).

A click: parse the URL, refuse a client over its limit, resolve and count the outcome, make the response, and then
acknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import lru_cache, partial
from math import ceil
from typing import TYPE_CHECKING, Final, cast

from ibi.accounts.tokens import Scope
from ibi.errors import ParseError, SetupError
from ibi.http.accept import LONGEST_ACCEPT
from ibi.http.cors import ALLOW
from ibi.http.limits.token_bucket import TokenBuckets
from ibi.http.memento import LONGEST_NAME
from ibi.http.response import link, redirect
from ibi.protocol.messages import URL_LENGTH_SURE_TO_FIT, fit_into_message
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Step, StepKind
from ibi.protocol.vocabulary import INCOMPLETE
from ibi.resolver.metrics.metrics import REDIRECT
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.negotiation import negotiable, requested_format
from ibi.resolver.pages.programs import EXPLAIN, NAME, RESOLVER_LINKS
from ibi.resolver.resolve.resolution import Redirect, UpstreamRedirect
from ibi.runtime.tracing import current_span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.accounts.tokens import Tokens
    from ibi.http.public_url import PublicURL
    from ibi.http.request import Form, Request
    from ibi.http.response import Response
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.acknowledgments.counter import ReaderCounter
    from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
    from ibi.resolver.cache_policy import CachePolicy
    from ibi.resolver.metrics.metrics import ResolverMetrics
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.pages.site import Site
    from ibi.resolver.resolve.resolver import Outcome, Resolver
    from ibi.resolver.upstream import Upstream
    from ibi.runtime.settings import ResolverSettings
    from ibi.runtime.tracing import Span

MOST_RESOLUTIONS: Final = 2_000
"""Resolutions in flight in one process; further readers get the alert `busy` (T37: overload)."""

RESOLVER_SHARE: Final = 16
"""How many times a reader's limit another resolver gets that sends a token, because its readers are many (T29: costly
requests)."""

# Most clicks follow a few short links. Long ones are not cached: a client can make up any number.
_LONGEST_CACHED: Final = 256  # characters of path and query of a persistent URL whose parsed form is cached
_RESOLVER: Final = "resolver "  # before the digest of a token, so that it is never taken for an address
_BARE_TRANSLATION: Final = Step(StepKind.TRANSLATION)
_VARY: Final[dict[tuple[bool, bool], tuple[tuple[str, str], ...]]] = {
    (False, False): (),
    (False, True): (("vary", "Accept-Language"),),
    (True, False): (("vary", "Accept"),),
    (True, True): (("vary", "Accept, Accept-Language"),),
}
"""The header for redirects that depend on Accept or not, and on Accept-Language or not."""

_log = logging.getLogger(__name__)


class Handlers:
    """Answers readers of one process. Belongs to one event loop."""

    def __init__(
        self,
        settings: ResolverSettings,
        resolver: Resolver,
        acknowledgments: AcknowledgmentQueue,
        site: Site,
        metrics: ResolverMetrics,
        public_url: PublicURL,
        upstream: Upstream | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._settings = settings
        # The root of persistent URLs; path and query follow as received (note 16: the whole persistent URL).
        self._root, self._public = public_url.root, public_url if public_url.varies else None
        self._resolver = resolver
        self._acknowledgments = acknowledgments
        self._site = site
        self._metrics = metrics
        self._upstream = upstream
        self._tokens = tokens
        self._budget = TokenBuckets(settings.request_rate, settings.request_burst)
        self._in_flight = 0
        self.cache_policy: CachePolicy | None = None
        """Caches redirects for the fast path; None where there is no fast path."""
        self.counter: ReaderCounter | None = None
        """The counter of the fast path, which takes readers of this path, too, while the queue lacks capacity."""

    async def click(self, request: Request) -> Response:
        """Answer a request for a persistent URL: with a redirect, an alert, or (`?info`, `?json`) an explanation.

        If the header Accept asks for metadata, the URL of the metadata is tried first.
        """
        try:
            short = len(request.path) + len(request.query) <= _LONGEST_CACHED
            url = (_parse_cached if short else PersistentURL.parse)(request.path, request.query)
        except ParseError as error:
            return self._bad_url(request, error)
        if url.inflection is not None:
            return await self._explain(request, url, "json" if url.inflection == "json" else request.form)
        root = self._root if self._public is None else self._public.of(request)
        persistent, client = root + url.text, request.client_key
        if b"authorization" in request.headers:
            client = self._resolver_or(client, request)
        if (refusal := self._refusal(persistent, client)) is not None:
            return self._site.alert(request, refusal)
        wanted = requested_format(request.headers.get(b"accept", b"")[:LONGEST_ACCEPT])
        urls = (url,) if wanted is None else wanted.urls(url)
        looks_only = request.method != "GET" or request.only_prefetched
        outcome = await self._resolve(urls, root, request, client, looks_only=looks_only)
        decision = outcome.decision
        if isinstance(decision, Alert):
            return self._site.resolution_alert(request, decision, outcome.trace)
        links = link(_unwrapped(root, url) if url.wrappers else persistent, "cite-as")[1]
        if isinstance(decision, Redirect) and len(url.ibi.text) <= LONGEST_NAME:
            links += _timegate_links(root).replace(NAME, url.ibi.text)  # uvicorn checks each header
        by_language = _BARE_TRANSLATION in url.relation.steps or isinstance(decision, UpstreamRedirect)
        by_accept = not (url.verbs.verbs or url.file_path) or negotiable(url)  # most URLs need no call
        response = redirect(
            decision.url,
            ("link", links),
            ALLOW,
            *_VARY[by_accept, by_language],
            *(_incomplete(decision) if url.original_required else ()),
            status=302 if outcome.trace.url == persistent else 303,
            afterwards=self._acknowledge(decision, request),
        )
        # Only what rests on nothing but cached answers is cached: never a required original, for which all are asked.
        policy = self.cache_policy if wanted is None and not outcome.cost else None
        if policy is not None and isinstance(decision, Redirect) and decision.reused:
            response = policy.offer(request, outcome, decision, response, by_language=by_language)
        return response

    async def explain(self, request: Request) -> Response:
        """Answer a request for the explanation of a persistent URL."""
        path = request.path[len(EXPLAIN) - 1 :]
        try:
            url = PersistentURL.parse(path, request.query)
        except ParseError as error:
            return self._site.bad_url(request, error, path)
        return await self._explain(request, url, request.form)

    async def _explain(self, request: Request, url: PersistentURL, form: Form) -> Response:
        """Resolve without redirecting or acknowledging, and show every step."""
        root = self._root if self._public is None else self._public.of(request)
        persistent, client = root + url.text, request.client_key
        refusal = self._refusal(persistent, client)
        if refusal is not None:
            return self._site.alert(request, refusal)
        outcome = await self._resolve((url,), root, request, client, looks_only=True, in_full=True)
        return self._site.explanation(request, outcome.decision, outcome.trace, form)

    def _resolver_or(self, client: str, request: Request) -> str:
        """Return what limits count against: the token of a resolver (note 43), else the client."""
        try:
            token = self._tokens.bearer(request.header(b"authorization")) if self._tokens else None
        except SetupError:
            _log.exception("a resolver that asks this one counts as a reader")
            return client
        return f"{_RESOLVER}{token.sha256}" if token is not None and token.may(Scope.RESOLVE) else client

    def refuses(self, client: str) -> bool:
        """Whether this client would be refused now, whatever URL it asks for."""
        if self._in_flight >= MOST_RESOLUTIONS:
            return True
        return self._budget.knows(client) and self._budget.wait(client, asyncio.get_running_loop().time()) > 0

    def _refusal(self, persistent: str, client: str) -> Alert | None:
        """Return the alert where the URL is too long for Archives, the client over its limit, or all is busy.

        The refusal is counted, and costs no work beyond reading the URL.
        """
        wait = self._budget.wait(client, asyncio.get_running_loop().time())
        too_long = len(persistent) > URL_LENGTH_SURE_TO_FIT and not fit_into_message(persistent)
        if not (wait or too_long) and self._in_flight < MOST_RESOLUTIONS:
            return None
        if too_long:
            alert = Alert(AlertKind.TOO_LONG, url=persistent)
        elif wait:
            alert = Alert(AlertKind.TOO_MANY, url=persistent, wait=ceil(wait))
        else:
            alert = Alert(AlertKind.BUSY, url=persistent)
        self._count_refusal(alert.kind)
        return alert

    def _bad_url(self, request: Request, error: ParseError) -> Response:
        self._count_refusal(AlertKind.BAD_URL)
        return self._site.bad_url(request, error, request.path)

    def _count_refusal(self, kind: AlertKind) -> None:
        """Count a click that is answered with an alert although nothing was resolved."""
        self._metrics.started()
        self._metrics.ended(str(kind), 0.0, asyncio.get_running_loop().time())

    async def _resolve(
        self,
        urls: Sequence[PersistentURL],
        root: str,
        request: Request,
        client: str,
        *,
        looks_only: bool,
        in_full: bool = False,
    ) -> Outcome:
        """Resolve these URLs in order until one leads to a redirect; count and return the last outcome.

        Each is resolved here, then by the upstream resolver if no Archive here has the item, and is charged to the
        client. `root` is put before their texts. `looks_only`: no reader will follow the redirect.
        """
        clock = asyncio.get_running_loop().time
        arrived = clock()
        outcome: Outcome | None = None
        span = current_span.get()
        if span is not None:
            span = span.enter("resolution")
        self._in_flight += 1
        self._metrics.started()
        try:
            for url in urls:
                began, upstream_queried, outcome = clock(), False, None
                outcome = await self._resolver.resolve(url, root + url.text, request, client, in_full=in_full)
                decided = outcome.decision
                if isinstance(decided, Alert):
                    decided = outcome.decision = replace(decided, contact=self._settings.admin)
                    if self._upstream is not None:
                        left = began + self._settings.overall_seconds - clock()
                        outcome.decision, upstream_queried = await self._upstream.complete(
                            decided, url, request, looks_only=looks_only, seconds=left
                        )
                if outcome.cost or upstream_queried:
                    share = RESOLVER_SHARE if client.startswith(_RESOLVER) else 1
                    self._budget.spend(client, clock(), 1 / share)
                if not isinstance(outcome.decision, Alert):
                    break
        finally:
            self._in_flight -= 1
            self._count(outcome, arrived, clock(), span)
        return cast("Outcome", outcome)

    def _count(self, outcome: Outcome | None, began: float, now: float, span: Span | None) -> None:
        """Count a resolution that has ended; None if by an exception: its reader gets the alert `busy`."""
        decision = Alert(AlertKind.BUSY) if outcome is None else outcome.decision
        ended = str(decision.kind) if isinstance(decision, Alert) else REDIRECT
        if span is not None:
            span.end(ended)
        if outcome is None:
            self._metrics.ended(ended, now - began, now)
            return
        self._metrics.ended(
            ended,
            now - began,
            now,
            rounds=len(outcome.rounds),
            hint=outcome.guess if outcome.rounds else "",
            cached=outcome.cached,
        )

    def _acknowledge(
        self, decision: Redirect | UpstreamRedirect, request: Request
    ) -> Callable[[], None] | None:
        """Return a callable that queues the acknowledgment after the response was sent.

        The redirect of every GET is counted, even if no acknowledgment can or should be sent (note 2:
        acknowledgments). See RES-11: acknowledgments; RES-12: redirect at once.
        """
        if request.method != "GET":
            return None
        if request.only_prefetched:
            reason = "only prefetched"
        elif isinstance(decision, UpstreamRedirect):
            reason = "found by another resolver"
        elif decision.stale:
            reason = "an older answer"
        elif decision.acknowledgment is None:
            reason = "no key to thank with"
        else:
            send = self._acknowledge_cached if decision.reused else self._acknowledgments.acknowledge
            return partial(send, decision.archive, decision.acknowledgment)
        return partial(self._acknowledgments.skip, reason)

    def _acknowledge_cached(self, archive: Archive, message: Acknowledgment) -> None:
        """Count one more reader of a cached answer: in the queue or, if that lacks capacity, in the counter."""
        counter = None if self._acknowledgments.has_capacity(archive) else self.counter
        if counter is None or not counter.count_reader(archive, message):
            self._acknowledgments.acknowledge_cached(archive, message)


@lru_cache(maxsize=16)
def _timegate_links(root: str) -> str:
    """Return the links of a redirect to the TimeGates of an item, with NAME in place of the item (RFC 7089)."""
    return f", {RESOLVER_LINKS.format(root=root)}"


def _unwrapped(root: str, url: PersistentURL) -> str:
    """Return a persistent URL without what was removed around it, such as "ibi:" before and a full stop behind."""
    query = "".join(url.text.partition("?")[1:])
    return f"{root}/{url.ibi.text}{url.modifier}{url.file_path}{query}"


def _incomplete(decision: Redirect | UpstreamRedirect) -> list[tuple[str, str]]:
    """Return the header of a redirect to an original for which some Archives were silent (note 6)."""
    silent, queried = decision.incomplete
    return [(INCOMPLETE, f"{silent} of {queried}")] if silent else []


_parse_cached = lru_cache(maxsize=1024)(PersistentURL.parse)
