"""The resolver service (R15 chapter 8): who answers what; a bare ASGI application.

    /J8LNKB5R7W/3FUQHC5?servicesubject=...    Archives switch on and off: `membership`
    /-/register  /-/api/keys                  Archives apply, and get new keys: `admission`
    /-/explain/...                            how a resolution comes about: `readers`
    /-/api/handles/...  /-/timemap/...        the same in the manner of other systems: `callers`
    /-/...  /  /robots.txt  /favicon.ico      pages of its own: `site` (note 13)
    anything else                             a persistent URL: `readers`

It works on the raw path and the raw query; what they mean is decided by `PersistentURL` alone (threat T27).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ForbiddenAddress, ParseError
from ibi.exchange import JSON, NO_STORE, PLAIN, Response, hosts_of, pairs
from ibi.protocol.messages import ExclusionRequest, InclusionRequest, read_request
from ibi.protocol.notification import ChangeNotification
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.replies import RequestError
from ibi.resolver.admission import PATHS, Admission
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.callers import Caller
from ibi.resolver.fanout import Times
from ibi.resolver.health import Health
from ibi.resolver.hops import Hops
from ibi.resolver.membership import REFUSED, Outcome
from ibi.resolver.notices import Notices
from ibi.resolver.policy import Policy
from ibi.resolver.questions import Questions
from ibi.resolver.readers import EXPLAIN, Readers
from ibi.resolver.rounds import Rounds
from ibi.resolver.site import Pages, Site
from ibi.resolver.status import Board
from ibi.resolver.stores import Doors, Stores
from ibi.resolver.upstream import Upstream
from ibi.resolver.visitor import Visitor
from ibi.resolver.warming import Rules
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.nonce import Nonce
    from ibi.resolver.gathering import Gathering
    from ibi.resolver.mirror import Publisher
    from ibi.settings import ResolverSettings

LONGEST_URL: Final = 8192
"""Characters of path and query that are read."""

_NONCE: Final = "/-/nonce"
_OK: Final = 200

_log = logging.getLogger("ibi.resolver.service")


class ResolverService:
    """The ASGI application of one resolver.

    `trusted`: networks of proxies whose word about the reader's address is taken. `listening`: further addresses at
    which this process is reached, which no Archive may have. `pages`: without them, all answers are plain. `nonce`:
    without it, nobody can prove that a name leads here; `publisher`: without it, nobody can mirror the registry.
    Raises SetupError for an upstream resolver that cannot be one.
    """

    def __init__(
        self,
        settings: ResolverSettings,
        stores: Stores,
        doors: Doors,
        *,
        trusted: Sequence[IPv4Network | IPv6Network] = (),
        listening: Sequence[str] = (),
        pages: Pages | None = None,
        nonce: Nonce | None = None,
        publisher: Publisher | None = None,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._doors = doors
        self._nonce = nonce
        self._publisher = publisher
        self._trusted = trusted
        addresses = [settings.address, *settings.aliases, *listening]
        own = host_ports(addresses)
        self._hosts = hosts_of(addresses)
        self._names = settings.service.canonicals
        self._health = Health()
        knows, archives, metrics = stores.knowledge, stores.registry.archives, stores.metrics
        self.board = board = Board(stores.registry, self._health, knows.now)
        self._site = Site(
            settings, stores.registry, pages, stores.readiness, publisher, now=knows.now, board=board
        )
        self.admission = _admission(settings, stores, doors, own, self._site)
        policy = Policy(strict=settings.policy == "strict", private_urls=settings.allow_private_archives)
        questions = Questions(doors.client, self._health, knows.memory, metrics, knows.now)
        rounds = Rounds(questions, archives, policy, _times(settings), knows, stores.filters)
        self._notices = Notices(archives, knows.memory, stores.names)
        upstream = _upstream(settings, doors, own) if settings.upstream else None
        self._readers = Readers(settings, rounds, policy, doors.thanks, self._site, metrics, upstream)
        self.rules = self._of_the_lane()
        """What holds for readers of the express lane."""
        asleep, loop = self._health.asleep, asyncio.get_running_loop
        metrics.follow(doors.thanks, lambda: len(archives()), lambda: len(asleep(loop().time())))

    def gather(self, gathering: Gathering) -> None:
        """Have what is gathered go on to our thanks from now on, and what finds no room there be gathered."""
        gathering.follow(self._doors.thanks, self._stores.registry.archives)
        self._readers.gathering = gathering

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer one HTTP request; other kinds of connection are none of ours."""
        if scope["type"] != "http":
            return
        visitor = Visitor.of(scope, self._trusted)
        try:
            response = await self._answer(visitor, receive)
        except Exception:  # noqa: BLE001 - a fault of ours must neither look like an answer nor show its insides
            _log.exception("a request could not be answered")
            response = self._site.alert(visitor, Alert(Kind.BUSY))
        await response.send(send, head_only=visitor.method == "HEAD")

    async def close(self) -> None:
        """Deliver the thanks that wait, then end every connection to the outside; the stores stay open."""
        await self._doors.thanks.close()
        self._stores.metrics.leave(self._doors.thanks)
        await self.admission.close()
        await self._doors.client.close()
        await self._doors.upstream.close()

    async def _answer(self, visitor: Visitor, receive: Callable[[], Awaitable[Any]]) -> Response:
        if visitor.path == _NONCE and visitor.reads and self._nonce is not None:  # under any host name
            return Response(*self._nonce.answer(), PLAIN, NO_STORE)
        refused = self._refuse(visitor)
        if refused is not None:
            return self._site.alert(visitor, Alert(refused))
        if visitor.path in PATHS:
            return await self.admission.answer(visitor, receive)
        if visitor.path.startswith(EXPLAIN):
            return await self._readers.explain(visitor)
        if self._site.owns(visitor.path):
            return await self._for_machines(visitor) or await self._site.page(visitor)
        return await self._of_the_standard(visitor)

    async def _for_machines(self, visitor: Visitor) -> Response | None:
        """What other programs read; None for any other page."""
        if visitor.path == "/-/metrics":
            return self._stores.metrics.answer(visitor, self._settings.metrics_networks)
        if visitor.path == "/-/registry" and self._publisher is not None:
            text = await asyncio.to_thread(self._publisher.text)
            return Response(200, text, JSON, (("cache-control", "max-age=60"),))
        caller = self._site.caller(visitor)
        return await self._readers.explain(caller) if isinstance(caller, Caller) else caller

    async def _of_the_standard(self, visitor: Visitor) -> Response:
        """Service requests and persistent URLs."""
        hops = Hops.read(visitor.header(b"cdn-loop"))
        if visitor.has_subject:
            outcome = await self._service(visitor, looping=hops is None)
            later = () if outcome.retry_after is None else (("retry-after", str(outcome.retry_after)),)
            return pairs(outcome.body, outcome.status, *later)
        if hops is None or hops.loops(self._names):
            return self._site.alert(visitor, Alert(Kind.LOOP))
        return await self._readers.redirect(visitor)

    def _refuse(self, visitor: Visitor) -> Kind | None:
        """Why a request is not even looked at, or None."""
        if len(visitor.path) + len(visitor.query) > LONGEST_URL:
            return Kind.TOO_LONG
        if not visitor.reads and visitor.path not in PATHS:
            return Kind.WRONG_METHOD
        return None if visitor.names(self._hosts) else Kind.WRONG_HOST

    def _of_the_lane(self) -> Rules:
        """What holds there; if it is open, redirects are made ready for it."""
        rules = Rules(
            self._settings,
            self._stores.registry,
            self._stores.knowledge,
            hosts=self._hosts,
            trusted=self._trusted,
            refuses=self._readers.refuses,
        )
        self._readers.rules = rules if rules.open else None
        return rules

    # Archives

    async def _service(self, visitor: Visitor, *, looping: bool) -> Outcome:
        """A service request (note 15): inclusion and exclusion at our own service IBI, nothing else anywhere.

        What a resolver asks an Archive is answered so that it knows whom it has reached (threat T03).
        """
        try:
            request = read_request(visitor.query)
        except ParseError as error:
            return _error(f"{error.what}: {error}")
        ours = InclusionRequest | ExclusionRequest | ChangeNotification
        if not isinstance(request, ours) or not self._is_own_service(visitor.path):
            return _error("this is a resolver, and it has no such service", 508 if looping else 400)
        if visitor.method == "HEAD":
            return Outcome(200, b"")  # looking changes nothing (threat T38)
        if visitor.only_prefetched:
            return REFUSED
        if isinstance(request, ChangeNotification):
            return await self._notices.answer(request, visitor)
        return await self._member(request, visitor.source)

    async def _member(self, request: InclusionRequest | ExclusionRequest, source: str) -> Outcome:
        outcome = await self.admission.membership.answer(request, source)
        service = request.service_ibi.canonical
        if outcome.status == _OK and isinstance(request, InclusionRequest):
            self._health.heard(service, asyncio.get_running_loop().time())
        elif outcome.status == _OK:
            await asyncio.to_thread(self._stores.knowledge.memory.forget, service, None)
        return outcome

    def _is_own_service(self, path: str) -> bool:
        try:
            url = PersistentURL.parse(path)
        except ParseError:
            return False
        bare = not (url.modifier or url.file_path or url.peeled)
        return bare and self._settings.service.names(url.ibi)


def _admission(
    settings: ResolverSettings, stores: Stores, doors: Doors, own: frozenset[HostPort], site: Site
) -> Admission:
    return Admission(
        settings,
        stores.registry,
        doors.client,
        doors.addresses,
        own,
        site,
        names=stores.names,
        now=stores.knowledge.now,
        throttle=stores.throttle,
        witness=stores.knowledge.evidence,
        mail=doors.mail,
    )


def _upstream(settings: ResolverSettings, doors: Doors, own: frozenset[HostPort]) -> Upstream:
    private = settings.allow_private_archives
    return Upstream(settings.upstream, doors.upstream, settings.service, own, private_urls=private)


def _times(settings: ResolverSettings) -> Times:
    return Times(
        per_archive=settings.archive_seconds,
        overall=settings.overall_seconds,
        hedge=settings.hedge_seconds,
        grace=settings.grace_seconds,
        stale_after=settings.stale_after_seconds,
        negative=settings.negative_seconds,
    )


def host_ports(addresses: Sequence[str]) -> frozenset[HostPort]:
    """Where a resolver of these addresses answers; those that can never be contacted are left out."""
    found = []
    for address in addresses:
        try:
            found.append(HostPort.parse(address))
        except ForbiddenAddress:
            continue
    return frozenset(found)


def _error(problem: str, status: int = 400) -> Outcome:
    return Outcome(status, RequestError(problem).body())
