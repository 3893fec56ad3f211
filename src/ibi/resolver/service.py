"""The resolver service: persistent URLs in, redirects and alerts out (R15 chapter 8); a bare ASGI application.

    /J8LNKB5R7W/3FUQHC5?servicesubject=...    Archives switch on and off: `membership`
    /-/...  /  /robots.txt  /favicon.ico      pages of its own: `site` (note 13)
    anything else                             a persistent URL: `rounds`

It works on the raw path and the raw query; what they mean is decided by `PersistentURL` alone (threat T27).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

from ibi.errors import ForbiddenAddress, ParseError
from ibi.exchange import NO_STORE, PLAIN, Response, hosts_of, link, pairs, redirect
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import ExclusionRequest, InclusionRequest, read_request
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.relation import Step
from ibi.protocol.replies import RequestError
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.explanation import Explanation
from ibi.resolver.membership import REFUSED, Membership, Outcome
from ibi.resolver.rounds import Reader, Rounds
from ibi.resolver.selection import Policy
from ibi.resolver.site import Pages, Site
from ibi.resolver.visitor import Visitor
from ibi.transport import LOOP_NAME, HostPort

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.exchange import Form
    from ibi.nonce import Nonce
    from ibi.resolver.fanout import Thanks
    from ibi.resolver.registry import IncludedArchive, Registry
    from ibi.resolver.resolution import Redirect
    from ibi.settings import ResolverSettings
    from ibi.transport import AddressPolicy, Client

LONGEST_URL: Final = 8192
"""Characters of path and query that are read."""

_EXPLAIN: Final = "/-/explain/"
_NONCE: Final = "/-/nonce"
_BARE_TRANSLATION: Final = Step(StepKind.TRANSLATION)

_log = logging.getLogger("ibi.resolver.service")


class ResolverService:
    """The ASGI application of one resolver. It takes over `registry`, `client` and `thanks`, and closes them.

    `trusted`: networks of proxies whose word about the reader's address is taken. `listening`: further addresses at
    which this process is reached, which no Archive may have. `pages`: without them, all answers are plain. `nonce`:
    without it, nobody can prove that a name leads here.
    """

    def __init__(  # noqa: PLR0913 - a resolver is made of so many parts, all of them given
        self,
        settings: ResolverSettings,
        registry: Registry,
        client: Client,
        thanks: Thanks,
        policy: AddressPolicy,
        *,
        trusted: Sequence[IPv4Network | IPv6Network] = (),
        listening: Sequence[str] = (),
        pages: Pages | None = None,
        nonce: Nonce | None = None,
    ) -> None:
        self._settings = settings
        self._nonce = nonce
        self._registry = registry
        self._client = client
        self._thanks = thanks
        self._trusted = trusted
        own = [settings.address, *settings.aliases, *listening]
        self._hosts = hosts_of(own)
        self._membership = Membership(registry, client, policy, _host_ports(own))
        self._site = Site(settings, registry, pages)
        self._rounds = Rounds(
            client,
            registry.archives,
            Policy(strict=settings.policy == "strict", private_urls=settings.allow_private_archives),
            settings.archive_seconds,
            settings.overall_seconds,
        )

    async def __call__(
        self,
        scope: dict[str, Any],
        _receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer one HTTP request; other kinds of connection are none of ours."""
        if scope["type"] != "http":
            return
        visitor = Visitor.of(scope, self._trusted)
        try:
            response = await self._answer(visitor)
        except Exception:  # noqa: BLE001 - a fault of ours must neither look like an answer nor show its insides
            _log.exception("a request could not be answered")
            response = self._site.alert(visitor, Alert(Kind.BUSY))
        await response.send(send, head_only=visitor.method == "HEAD")

    async def close(self) -> None:
        """Deliver the thanks that wait, then end every connection to the outside."""
        await self._thanks.close()
        await self._client.close()
        self._registry.close()

    async def _answer(self, visitor: Visitor) -> Response:
        if visitor.path == _NONCE and visitor.reads and self._nonce is not None:  # under any host name
            return Response(*self._nonce.answer(), PLAIN, NO_STORE)
        refused = self._refuse(visitor)
        if refused is not None:
            return self._site.alert(visitor, Alert(refused))
        if visitor.path.startswith(_EXPLAIN):
            return await self._explain(visitor)
        if self._site.owns(visitor.path):
            return self._site.page(visitor)
        looping = LOOP_NAME.lower() in visitor.header(b"cdn-loop").lower()
        if visitor.has_subject:
            outcome = await self._service(visitor, looping=looping)
            later = () if outcome.retry_after is None else (("retry-after", str(outcome.retry_after)),)
            return pairs(outcome.body, outcome.status, *later)
        return self._site.alert(visitor, Alert(Kind.LOOP)) if looping else await self._persistent(visitor)

    def _refuse(self, visitor: Visitor) -> Kind | None:
        """Why a request is not even looked at, or None."""
        if len(visitor.path) + len(visitor.query) > LONGEST_URL:
            return Kind.TOO_LONG
        if not visitor.reads:
            return Kind.WRONG_METHOD
        return None if visitor.names(self._hosts) else Kind.WRONG_HOST

    # Archives

    async def _service(self, visitor: Visitor, *, looping: bool) -> Outcome:
        """A service request (note 15): inclusion and exclusion at our own service IBI, nothing else anywhere.

        What a resolver asks an Archive is answered so that it knows whom it has reached (threat T03).
        """
        try:
            request = read_request(visitor.query)
        except ParseError as error:
            return _error(f"{error.what}: {error}")
        if not isinstance(request, InclusionRequest | ExclusionRequest) or not self._is_own_service(
            visitor.path
        ):
            return _error("this is a resolver, and it has no such service", 508 if looping else 400)
        if visitor.method == "HEAD":
            return Outcome(200, b"")  # looking changes nothing (threat T38)
        if visitor.only_prefetched:
            return REFUSED
        return await self._membership.answer(request, visitor.source)

    def _is_own_service(self, path: str) -> bool:
        try:
            url = PersistentURL.parse(path)
        except ParseError:
            return False
        bare = not (url.modifier or url.file_path or url.peeled)
        return bare and self._settings.service.names(url.ibi)

    # Readers

    async def _persistent(self, visitor: Visitor) -> Response:
        try:
            url = PersistentURL.parse(visitor.path, visitor.query)
        except ParseError as error:
            return self._site.bad_url(visitor, error, visitor.path)
        if url.inflection is not None:
            return await self._tell(visitor, url, "json" if url.inflection == "json" else visitor.form)
        story = self._story(url)
        outcome = await self._resolve(visitor, url, story)
        if isinstance(outcome, Alert):
            return self._site.alert(visitor, outcome)
        by_language = _BARE_TRANSLATION in url.relation.steps
        return redirect(
            outcome.url,
            link(story.url, "cite-as"),
            *([("vary", "Accept-Language")] if by_language else []),
            afterwards=self._gratitude(visitor, outcome),
        )

    def _gratitude(self, visitor: Visitor, outcome: Redirect) -> Callable[[], None] | None:
        """The thanks for an answer, to be sent when the reader is on the way (RES-11, RES-12).

        Every GET that is redirected is counted, also where nobody can or should be thanked (note 2).
        """
        if visitor.method != "GET":
            return None
        message = outcome.acknowledgment
        archive = cast("IncludedArchive", outcome.archive)  # what the machine was given, it gives back
        if visitor.only_prefetched:
            return lambda: self._thanks.skip("only prefetched")
        if message is None:
            return lambda: self._thanks.skip("no key to thank with")
        return lambda: self._thanks.acknowledge(archive, message)

    async def _explain(self, visitor: Visitor) -> Response:
        path = visitor.path[len(_EXPLAIN) - 1 :]
        try:
            url = PersistentURL.parse(path, visitor.query)
        except ParseError as error:
            return self._site.bad_url(visitor, error, path)
        return await self._tell(visitor, url, visitor.form)

    async def _tell(self, visitor: Visitor, url: PersistentURL, form: Form) -> Response:
        """Resolve without redirecting and without thanking, and tell all."""
        story = self._story(url)
        await self._resolve(visitor, url, story)
        return self._site.explanation(visitor, story, form)

    def _story(self, url: PersistentURL) -> Explanation:
        """Nothing told yet; its URL is the configured authority, then path and query as received (note 16)."""
        return Explanation(
            f"http://{self._settings.address}{url.text}", self._settings.policy, url.original_required
        )

    async def _resolve(self, visitor: Visitor, url: PersistentURL, story: Explanation) -> Redirect | Alert:
        preference = LanguagePreference.parse(visitor.header(b"accept-language"))
        return await self._rounds.resolve(url, story.url, Reader(visitor.addresses, preference), story)


def _host_ports(addresses: Sequence[str]) -> frozenset[HostPort]:
    found = []
    for address in addresses:
        try:
            found.append(HostPort.parse(address))
        except ForbiddenAddress:
            continue  # what can never be contacted needs no second refusal
    return frozenset(found)


def _error(problem: str, status: int = 400) -> Outcome:
    return Outcome(status, RequestError(problem).body())
