"""The resolver service (R15 chapter 8): an ASGI application without a framework. These modules answer the paths.

    /J8LNKB5R7W/3FUQHC5?servicesubject=...    Archives switch on and off (`members.inclusion`), and send notices of
                                              change (`members.notices`)
    /-/register  /-/api/keys                  Archives apply, and get new keys: `pages.registration`, `api.keys`
    /-/explain/...                            explains a resolution: `handlers`
    /-/in/<language>/...                      the same, and persistent URLs, read in a language: `pages.page_language`
    /-/api/handles/...  /-/timemap/...        explains it in the formats of other systems: `pages.programs`
    /-/...  /  /robots.txt  /favicon.ico  /.well-known/...
                                              pages of the resolver: `pages.site` (note 13)
    anything else                             a persistent URL: `handlers`

The service passes on the raw path and the raw query; only `PersistentURL` decides what they mean (T27: two readings).
It is made from `Stores` (its data directory) and `Outgoing` (its clients of other servers).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ForbiddenAddress, ParseError
from ibi.http import cors
from ibi.http.client import HostPort
from ibi.http.cors import ALLOW
from ibi.http.proxy_faults import ProxyFaults
from ibi.http.public_url import PublicURL
from ibi.http.request import ClientGone, Request, hosts_of, read_body
from ibi.http.response import JSON, NO_STORE, PLAIN, Response, pairs
from ibi.protocol.messages import (
    ArchiveTitles,
    ChangeNotification,
    ExclusionRequest,
    InclusionRequest,
    read_request,
    read_title,
)
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.replies import RequestError
from ibi.protocol.vocabulary import ARCHIVE_TITLE, ARCHIVE_TITLE_PT
from ibi.resolver.api import keys
from ibi.resolver.api.keys import KeyRecoveryHandler
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.cache_policy import CachePolicy
from ibi.resolver.handlers import Handlers
from ibi.resolver.members.confirmation import ConfirmationClient
from ibi.resolver.members.inclusion import REFUSED, InclusionService, MemberReply
from ibi.resolver.members.notices import NoticeReceiver
from ibi.resolver.members.status import NetworkMonitor
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.hops import NO_HOPS, Hops
from ibi.resolver.pages import registration
from ibi.resolver.pages.page_language import read_request_in_language
from ibi.resolver.pages.programs import EXPLAIN, METADATA, ProgramRequest
from ibi.resolver.pages.registration import LARGEST_BODY, RegistrationHandler
from ibi.resolver.pages.site import Pages, Site
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.queries import Queries
from ibi.resolver.resolve.resolver import Resolver
from ibi.resolver.resolve.round import Times
from ibi.resolver.resolve.selection import places_of
from ibi.resolver.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.accounts.tokens import Tokens
    from ibi.http.client import AddressPolicy, Client
    from ibi.http.client.address_policy import HostLookup
    from ibi.http.limits.window import Failures
    from ibi.http.proxy_faults import UndeclaredProxies
    from ibi.http.response import Receive, Send
    from ibi.identifier.forms import IBIForms
    from ibi.resolver.acknowledgments.counter import ReaderCounter
    from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
    from ibi.resolver.cache.filters import HoldingsFilters
    from ibi.resolver.cache.redirects import RedirectCache
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.members.notices import TellNodes
    from ibi.resolver.members.status import Readiness
    from ibi.resolver.metrics.metrics import ResolverMetrics
    from ibi.resolver.registry.published_list import Publisher
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.runtime.nonce import Nonce
    from ibi.runtime.settings import ResolverSettings


@dataclass(frozen=True, slots=True)
class Stores:
    """What a resolver keeps in its data directory; not replaced when the settings change.

    `undeclared`: the list of proxies that are not trusted. `tell` tells other nodes of a notice of change, if there
    are any.
    """

    registry: Registry
    readiness: Readiness
    knowledge: Knowledge
    metrics: ResolverMetrics
    throttle: Failures
    filters: HoldingsFilters
    host_lookup: HostLookup
    redirects: RedirectCache
    undeclared: UndeclaredProxies | None = None
    tell: TellNodes | None = None

    def close(self) -> None:
        """Write what waits to be written. Blocks, so do not call it in an event loop."""
        self.knowledge.close()
        self.metrics.close()
        self.throttle.close()
        self.registry.close()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The clients of other servers, made for one version of the settings; the service closes them.

    `addresses` decides at which addresses Archives may be. `client` asks Archives. `upstream` asks the
    upstream resolver, which may be at any address because the administrator chose it.
    """

    addresses: AddressPolicy
    client: Client
    upstream: Client
    acknowledgments: AcknowledgmentQueue
    mail: MailSender


LONGEST_URL: Final = 8192
"""Characters of path and query that are read (T10: slow or huge answers)."""

_NONCE: Final = "/-/nonce"
_OK: Final = 200

_log = logging.getLogger("ibi.resolver.service")


class ResolverService:
    """The ASGI application of one resolver.

    `trusted`: networks of the proxies that are believed about the reader's address. `listening`: further
    addresses at which this process is reached; no Archive may have one of them. `pages`: without them, all
    answers are plain text or JSON. `nonce`: without it, no host name can be proved to lead here. `publisher`:
    without it, the registry cannot be mirrored. `tokens`: without them, other resolvers count as readers.

    Raises SetupError for an upstream resolver that cannot be one.
    """

    def __init__(  # noqa: PLR0913 - the parts of a service, all but three by name
        self,
        settings: ResolverSettings,
        stores: Stores,
        outgoing: Outgoing,
        *,
        trusted: Sequence[IPv4Network | IPv6Network] = (),
        listening: Sequence[str] = (),
        pages: Pages | None = None,
        nonce: Nonce | None = None,
        tokens: Tokens | None = None,
        publisher: Publisher | None = None,
        own_pages: Callable[..., Awaitable[None]] | None = None,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._outgoing = outgoing
        self._nonce = nonce
        self._publisher = publisher
        self._own_pages = own_pages
        self._proxy_faults = ProxyFaults(tuple(trusted), stores.undeclared)
        addresses = [*settings.addresses, *listening]
        own = host_ports(addresses)
        self._hosts = hosts_of(addresses)
        public = self._public = PublicURL(settings, tuple(trusted))
        self._names, self._own_paths = settings.service.canonicals, _paths_of(settings.service)
        self._breakers, self._open_circuits = CircuitBreakers(self._suspend), set[str]()
        knows, archives, metrics = stores.knowledge, stores.registry.archives, stores.metrics
        self.network = NetworkMonitor(stores.registry, self._breakers, knows.now)
        self._site = _site(settings, public, stores, pages, publisher, self.network)
        self.mail, sender = outgoing.mail, outgoing.acknowledgments
        self.inclusion, self._forms = _members(settings, stores, outgoing, own, self._site)
        self.changes = _change_requests(settings, stores, outgoing)
        resolver = _resolver(settings, stores, outgoing, self._breakers, own, self.changes)
        self._notices = NoticeReceiver(archives, knows, stores.host_lookup, self.changes, stores.tell)
        upstream = _upstream(settings, outgoing, own) if settings.upstream else None
        self._handlers = Handlers(settings, resolver, sender, self._site, metrics, public, upstream, tokens)
        self.cache_policy = self._handlers.cache_policy = self._make_cache_policy()
        """Decides which redirects the fast path may return, and to which clients."""
        metrics.follow(sender, lambda: len(archives()), self._count_suspended)

    def _count_suspended(self) -> int:
        """Return how many of the included Archives are not asked for now."""
        # The breakers forget an Archive that was excluded only with the next click.
        suspended = self._breakers.suspended_until(asyncio.get_running_loop().time())
        return sum(each.service in suspended for each in self._stores.registry.archives()) if suspended else 0

    def take_over(self, before: ResolverService | None) -> None:
        """Suspend cached redirects from now on, in place of the service `before`."""
        if before is not None:
            before.hand_over()
        self._suspend()

    def hand_over(self) -> None:
        """Stop suspending cached redirects, although requests of this service may still be under way."""
        self._breakers.on_change = lambda: None

    def _suspend(self) -> None:
        """Suspend cached redirects to Archives that may have died: another may hold a copy. Log changes."""
        self._stores.redirects.suspend(self._breakers.unreliable())
        open_now = self._breakers.open_circuits()
        for name in open_now.keys() - self._open_circuits:
            _log.warning("%s is left out for a while: %s", name, open_now[name])
        for name in self._open_circuits - open_now.keys():
            _log.warning("%s is left out no longer", name)
        self._open_circuits = set(open_now)

    def use_counter(self, counter: ReaderCounter) -> None:
        """Connect the counter of the fast path to our queue; it takes our readers, too, if the queue lacks capacity."""
        counter.use_queue(self._outgoing.acknowledgments, self._stores.registry.archives)
        self._handlers.counter = counter

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request; ignore other kinds of connection."""
        if scope["type"] != "http":
            return
        if self._own_pages is not None and scope["raw_path"].startswith(b"/-/"):
            await self._own_pages(scope, receive, send)  # assets and administration; else it calls `respond`
        else:
            await self.respond(scope, receive, send)

    async def respond(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request that is neither for an asset nor for the administration."""
        request = Request.of(scope, self._proxy_faults.trusted)
        if b"x-forwarded-for" in request.headers:
            self._proxy_faults.look(request)
        try:
            response = await self._answer(request, receive)
        except ClientGone:
            return
        except Exception:  # noqa: BLE001 - its reader gets an alert, without a stack trace
            _log.exception("a request could not be answered")
            response = self._site.alert(request, Alert(AlertKind.BUSY))
        if ALLOW not in response.headers:  # redirects have it, because the fast path keeps them whole
            response = cors.shared(request, response, cors.RESOLVER)
        await response.send(send, head_only=request.method == "HEAD")

    async def close(self) -> None:
        """Deliver the acknowledgments that wait, then close outgoing connections; the stores stay open."""
        await self._outgoing.acknowledgments.close()
        self._stores.metrics.leave(self._outgoing.acknowledgments)
        await self.inclusion.probation.close()
        await asyncio.to_thread(self.mail.close)
        await self._outgoing.client.close()
        await self._outgoing.upstream.close()

    async def _answer(  # noqa: C901, PLR0911 - one branch for each kind of request
        self, request: Request, receive: Receive
    ) -> Response:
        if request.path == _NONCE and request.reads and self._nonce is not None:  # under any host name
            return Response(*self._nonce.answer(), PLAIN, NO_STORE)
        if len(request.path) + bool(request.query) + len(request.query) > LONGEST_URL:  # with the "?"
            return self._site.alert(request, Alert(AlertKind.TOO_LONG))
        if not request.reads and request.path not in self._forms:
            return self._site.alert(request, Alert(AlertKind.WRONG_METHOD))
        if not request.names(self._hosts):
            return self._site.alert(request, Alert(AlertKind.WRONG_HOST))
        if request.path in self._forms:
            return await self._answer_form(request, receive)
        if request.path.startswith(EXPLAIN):
            return await self._handlers.explain(request)
        if request.path.startswith(("/-/", "/.well-known/")) or request.path in self._site.paths:
            inner = read_request_in_language(request, self._site.paths)
            if inner is None:
                return await self._for_machines(request) or await self._site.page(request)
            if inner.path.startswith(EXPLAIN):
                return await self._handlers.explain(inner)
            request = inner
        loop = request.headers.get(b"cdn-loop")
        hops = Hops.read(loop.decode("latin-1")) if loop else NO_HOPS
        if request.query and request.has_subject:
            outcome = await self._service(request, looping=hops is None)
            later = () if outcome.retry_after is None else (("retry-after", str(outcome.retry_after)),)
            return pairs(outcome.body, outcome.status, *later, *outcome.headers)
        own = self._own_paths.get(request.path.lower())
        if own is not None:
            # The resolver itself is an item, too: it has a page for people, facts for programs, and metadata.
            where = own or ("/" if request.form == "html" else "/-/about")
            return Response(302, headers=(("location", where), ("vary", "accept"), *NO_STORE))
        if hops is None or (hops is not NO_HOPS and hops.loops(self._names)):
            return self._site.alert(request, Alert(AlertKind.LOOP))
        return await self._handlers.click(request)

    async def _answer_form(self, request: Request, receive: Receive) -> Response:
        # The body is read here for all forms. Every client may send one: the limit is low.
        body = b"" if request.reads else await read_body(receive, LARGEST_BODY)
        if body is None:
            return Response(413, b"the body of the request is too large\n", PLAIN, NO_STORE)
        return await self._forms[request.path].answer(request, body)

    async def _for_machines(self, request: Request) -> Response | None:
        if request.path == "/-/metrics":
            return self._stores.metrics.answer(request, self._settings.metrics_networks)
        if request.path == "/-/registry" and self._publisher is not None:
            text = await asyncio.to_thread(self._publisher.text)
            return Response(200, text, JSON, (("cache-control", "max-age=60"),))
        caller = self._site.program_request(request)
        return await self._handlers.explain(caller) if isinstance(caller, ProgramRequest) else caller

    def _make_cache_policy(self) -> CachePolicy | None:
        """Make the cache policy of the fast path; None where the fast path is switched off."""
        registry = self._stores.registry
        if not self._settings.express or registry.generation is None:
            return None
        return CachePolicy(
            self._settings,
            registry,
            registry.generation,
            self._stores.knowledge,
            self._stores.redirects,
            hosts=self._hosts,
            public_url=self._public,
            trusted=self._proxy_faults.trusted,
            refuses=self._handlers.refuses,
        )

    # Archives

    async def _service(self, request: Request, *, looping: bool) -> MemberReply:
        """Answer inclusion, exclusion and notices of change, at our own service IBI only (note 15: service requests).

        A message that is meant for Archives is refused with the words that this is a resolver (T03: loops of
        resolvers).
        """
        try:
            message = read_request(request.query)
        except ParseError as error:
            return _error(f"{error.what}: {error}")
        ours = InclusionRequest | ExclusionRequest | ChangeNotification
        if not isinstance(message, ours) or not self._is_own_service(request.path):
            return _error("this is a resolver, and it has no such service", 508 if looping else 400)
        if request.method == "HEAD":
            return MemberReply(200, b"")  # looking changes nothing (T38: prefetching)
        if request.only_prefetched:
            return REFUSED
        if isinstance(message, ChangeNotification):
            return await self._notices.answer(message, request)
        return await self._member(message, request)

    async def _member(self, message: InclusionRequest | ExclusionRequest, request: Request) -> MemberReply:
        names = (ARCHIVE_TITLE, ARCHIVE_TITLE_PT)
        titles = ArchiveTitles(*(read_title(request.header(name.encode())) for name in names))
        outcome = await self.inclusion.answer(message, request.client_address, titles)
        service = message.service_ibi.canonical
        if outcome.status == _OK and isinstance(message, InclusionRequest):
            self._breakers.recovered(service, asyncio.get_running_loop().time())
        if outcome.forgets:
            await asyncio.to_thread(self._stores.knowledge.cache.forget, service, None)
        included = [each for each in self._stores.registry.archives() if each.service == service]
        for archive in included if isinstance(message, InclusionRequest) else ():
            self.changes.refresh(archive, anew=True)
        return outcome

    def _is_own_service(self, path: str) -> bool:
        try:
            url = PersistentURL.parse(path)
        except ParseError:
            return False
        bare = not (url.modifier or url.file_path or url.wrappers)
        return bare and self._settings.service.names(url.ibi)


def _site(
    settings: ResolverSettings,
    public_url: PublicURL,
    stores: Stores,
    pages: Pages | None,
    publisher: Publisher | None,
    network: NetworkMonitor,
) -> Site:
    now, readiness = stores.knowledge.now, stores.readiness
    return Site(settings, stores.registry, public_url, pages, readiness, publisher, now=now, network=network)


def _members(
    settings: ResolverSettings, stores: Stores, outgoing: Outgoing, own: frozenset[HostPort], site: Site
) -> tuple[InclusionService, dict[str, RegistrationHandler | KeyRecoveryHandler]]:
    """Make the `InclusionService`, and the handlers of the paths that take a body."""
    registry, throttle, client, mail = stores.registry, stores.throttle, outgoing.client, outgoing.mail
    evidence, now = stores.knowledge.evidence, stores.knowledge.now
    addresses = settings.addresses
    confirmation = ConfirmationClient(client, outgoing.addresses, stores.host_lookup, own, settings.service)
    # By the standard, the key alone moves an Archive; the strict policy keeps to that (T17: replayed inclusions).
    guarded = settings.policy != "strict"
    inclusion = InclusionService(registry, confirmation, throttle, evidence, mail, now, guarded=guarded)
    return inclusion, {
        registration.PATH: RegistrationHandler(
            settings, registry, confirmation, throttle, evidence, mail, site
        ),
        keys.PATH: KeyRecoveryHandler(addresses, registry, client, throttle, now, evidence, mail),
    }


def _resolver(
    settings: ResolverSettings,
    stores: Stores,
    outgoing: Outgoing,
    breakers: CircuitBreakers,
    own: frozenset[HostPort],
    changes: ChangesRequester,
) -> Resolver:
    private = settings.allow_private_archives
    policy = Policy(settings.policy == "strict", private, places_of((each.host, each.port) for each in own))
    registry, knowledge = stores.registry, stores.knowledge
    generation = None if registry.generation is None else registry.generation.numbers
    seconds = settings.archive_seconds
    queries = Queries(outgoing.client, breakers, knowledge.cache, stores.metrics, changes, seconds)
    outgoing.acknowledgments.on_silence = queries.note_silence
    return Resolver(
        queries,
        registry.archives,
        policy,
        _times(settings),
        knowledge,
        stores.filters,
        generation=generation,
        away=partial(registry.away, settings.original_days * 86_400),
    )


def _change_requests(settings: ResolverSettings, stores: Stores, outgoing: Outgoing) -> ChangesRequester:
    # In the strict policy nothing is reused, so nothing is asked that the standard does not know.
    most = 0 if settings.policy == "strict" else settings.lease_seconds_at_most
    knows, archives = stores.knowledge, stores.registry.archives
    return ChangesRequester(outgoing.client, knows.cache, archives, most, on_names=knows.note_changed)


def _upstream(settings: ResolverSettings, outgoing: Outgoing, own: frozenset[HostPort]) -> Upstream:
    return Upstream(
        settings.upstream,
        outgoing.upstream,
        settings.service,
        own,
        private_urls=settings.allow_private_archives,
        token=settings.upstream_token,
    )


def _times(settings: ResolverSettings) -> Times:
    return Times(
        per_archive=settings.archive_seconds,
        overall=settings.overall_seconds,
        hedge=settings.hedge_seconds,
        grace=settings.grace_seconds,
        stale_after=settings.stale_after_seconds,
        negative=settings.negative_seconds,
    )


def host_ports(addresses: Iterable[str]) -> frozenset[HostPort]:
    """Return the hosts and ports of these addresses, without those that can never be contacted."""
    found = []
    for address in addresses:
        try:
            found.append(HostPort.parse(address))
        except ForbiddenAddress:
            continue
    return frozenset(found)


def _error(problem: str, status: int = 400) -> MemberReply:
    return MemberReply(status, RequestError(problem).body())


def _paths_of(service: IBIForms) -> dict[str, str]:
    """Map the paths of a service item and its metadata, in lower case, to targets; "" is the item itself."""
    leads = {"": "", ":": METADATA, ":(oai_dc)": METADATA, ":%28oai_dc%29": METADATA}
    return {f"/{each}{end}".lower(): where for each in service.canonicals for end, where in leads.items()}
