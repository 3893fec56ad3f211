"""Memberships of an Archive at resolvers: inclusion, heartbeat, exclusion.

Each membership has a task of its own, so that a resolver that is down does not delay the others. An Archive that is
switched off still serves files, pages and its own persistent URLs. See R15 chapter 7; REG-03: switching on and off;
ARC-15: switched on and off.

A resolver calls back while the inclusion request is still open (REG-04: the resolver calls back), so these tasks
start only once the Archive answers requests. If a resolver cannot be reached, or does not know the Archive yet,
inclusion is requested for ever, with growing pauses. The state is saved in a table, and logged when it changes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.store.tables import memberships
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import NO_TITLES, ArchiveTitles, ExclusionRequest, written_title
from ibi.protocol.replies import ExclusionStatus, InclusionStatus, Refusal
from ibi.protocol.vocabulary import ARCHIVE_TITLE, ARCHIVE_TITLE_PT, CHANGE_NOTICES, NEVER
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ibi.archive.store.tables.catalogue import Catalogue, SqlRunner
    from ibi.errors import IbiError
    from ibi.http.client import Client, Reply
    from ibi.protocol.messages import InclusionRequest


INCLUSION_SECONDS: Final = 10.0
"""Seconds that a resolver may take for its reply; it calls back meanwhile."""

EXCLUSION_SECONDS: Final = 1.5
"""Seconds that an exclusion request may take; short, because an Archive stops within ten seconds."""

FIRST_PAUSE: Final = 0.5
"""Seconds before the second try; each further pause is twice as long, minus up to half of it at random."""
LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries at most."""

HEARTBEAT = 60.0
"""Seconds after which an included Archive requests inclusion again. A replayed message can switch it off, or include
another machine in its place, for no longer than this (T17: replayed inclusions)."""

AWAY_SECONDS: Final = 60.0
"""Seconds after which a stopping Archive says that it will be back (`exclusion.end`); a restart takes less."""

LOOK_EVERY = 0.5
"""Seconds between two checks of the wanted memberships."""

_OK, _FORBIDDEN = 200, 403
_CHANGE_NOTICES: Final = CHANGE_NOTICES.encode()
_log = logging.getLogger(__name__)


class RefusedByResolver(Exception):
    """The resolver refuses this Archive or its key; or, if `address`, only the address of the Archive."""

    def __init__(self, *, address: bool) -> None:
        super().__init__()
        self.address = address


def resolver_address(root: str) -> str:
    """Return the "host[:port]" of a resolver's root URL. Raises SetupError for any other URL."""
    try:
        url = urlsplit(root)
        host = url.netloc
    except ValueError:
        url, host = None, ""
    known = url is not None and url.scheme in {"http", "https"}
    if url is None or not known or not host or "@" in host or url.path.strip("/") or url.query:
        raise SetupError(
            "a resolver is given by its root, such as http://resolver.example; this is not: {url}", url=root
        )
    return host


def destination_of(root: str) -> str:
    """Return where `Client` sends messages to a resolver: "host[:port]", or its root if that has https."""
    address = resolver_address(root)
    return f"https://{address}" if root.lower().startswith("https:") else address


@dataclass(eq=False, slots=True)
class Membership:
    """The membership of one Archive at one resolver.

    `request`: the inclusion request, with the key for this resolver; `member`: the membership as it was last
    saved; `keep` saves a membership; `now` returns POSIX seconds; `service`: the IBI of the resolver's
    service, "" if it must be fetched from /-/about.
    """

    request: InclusionRequest
    member: MembershipRecord
    client: Client
    keep: Callable[[MembershipRecord], Awaitable[None]]
    now: Callable[[], float]
    service: str = ""
    titles: ArchiveTitles = NO_TITLES
    """What readers call the Archive, if its institution has a name."""
    _address: str = field(init=False)
    _found: str = ""
    """The IBI of the service that the last successful request used; "" after a failure."""
    _takes_notices: bool = False
    """Whether the resolver takes notices of change, by the last inclusion status."""
    inclusion_requested: bool = field(init=False)
    """Whether the resolver may have included the Archive."""

    def __post_init__(self) -> None:
        """Raise SetupError for a membership whose resolver has no address."""
        self._address = destination_of(self.member.resolver)
        self.inclusion_requested = self.member.standing.included

    async def stay(self) -> None:
        """Request inclusion until it is granted, and again every minute, for ever."""
        pause = FIRST_PAUSE
        while True:
            try:
                status = await self._include()
            except (PeerError, RefusedByResolver) as error:
                await self._record_failure(error)
                await asyncio.sleep(_about(pause))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                await self._record_standing(
                    MembershipStanding.INCLUDED if status.confirmed else MembershipStanding.UNCONFIRMED
                )
                pause = FIRST_PAUSE
                # Random, so that Archives that were included together do not always send heartbeats together.
                await asyncio.sleep(_about(HEARTBEAT, 0.9))

    async def leave(self, end: str = "") -> None:
        """Request exclusion until the resolver grants it, or refuses because it does not know the Archive.

        `end`: NEVER if the Archive will not come back; its originals may then be known to be elsewhere.
        """
        pause = FIRST_PAUSE
        while not await self.request_exclusion(end):
            await asyncio.sleep(_about(pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def request_exclusion(self, end: str = "") -> bool:
        """Request exclusion once, until `end`, if the Archive may be included; return whether it is settled.

        With `end` NEVER an Archive that is excluded already requests it again, to state that it is for good.
        """
        must_repeat = end == NEVER and self.member.standing is MembershipStanding.EXCLUDED
        if not (self.inclusion_requested or must_repeat):
            return True
        request = self.request
        goodbye = ExclusionRequest(
            request.address, request.service_ibi, request.ip, request.platform_version, request.admin_mail,
            request.key, end=end,
        )  # fmt: skip
        try:
            ExclusionStatus.read((await self._ask(goodbye.query(), EXCLUSION_SECONDS)).body)
        except ParseError:
            await self._record_failure(PeerGarbled("its reply is no exclusion status"))
            return False
        except (PeerError, RefusedByResolver) as error:
            await self._record_failure(error)
            # A resolver that refuses the Archive has not included it, so no further request is needed.
            return isinstance(error, RefusedByResolver)
        await self._record_standing(MembershipStanding.EXCLUDED)
        self.inclusion_requested = False
        return True

    async def _include(self) -> InclusionStatus:
        query = self.request.query()
        try:
            # A header: the message stays that of the standard, and other resolvers do not read it.
            titles = zip((ARCHIVE_TITLE, ARCHIVE_TITLE_PT), self.titles, strict=True)
            headers = [(name, written_title(title)) for name, title in titles if title]
            reply = await self._ask(query, INCLUSION_SECONDS, headers)
            status = InclusionStatus.read(reply.body)
        except ParseError:
            raise PeerGarbled("its reply is no inclusion status") from None
        self._takes_notices = reply.headers.get(_CHANGE_NOTICES) == b"yes"
        return status

    async def _ask(self, query: str, seconds: float, headers: Sequence[tuple[str, str]] = ()) -> Reply:
        """Send a message to the resolver's service; return the reply."""
        # Fetched again after every failure, because another resolver may be at this address now.
        service = self.service or self._found or await find_service(self.client, self._address, seconds)
        self._found = ""
        # Set before the request is sent, because the request may succeed although its reply is lost.
        self.inclusion_requested = True
        reply = await self.client.get(self._address, f"/{service}?{query}", seconds, headers)
        if reply.status == _FORBIDDEN and b"retry-after" in reply.headers:
            # The key is right: it is not known that the Archive is excluded, or will not be included.
            raise PeerGarbled(
                "it asks to try again later: another request came in between, or a move is on hold"
            )
        if reply.status == _FORBIDDEN:
            raise RefusedByResolver(address=Refusal.read(reply.body).address)
        if reply.status != _OK:
            raise PeerGarbled("it answered with status {status}", status=reply.status)
        self._found = service
        return reply

    async def _record_failure(self, error: PeerError | RefusedByResolver) -> None:
        """Record a failure. If the resolver did not reply, an included Archive is still deemed included."""
        if isinstance(error, RefusedByResolver):
            problem = PeerGarbled("it does not know this Archive, or not with this key")
            if error.address:
                sentence = (
                    "it contacts no Archive at {address}; at an address that is not public, its operator must allow "
                    "it: ibi resolver set allow_private_archives yes"
                )
                problem = PeerGarbled(sentence, address=self.request.address)
            await self._record_standing(MembershipStanding.REFUSED, problem, heard=True)
        else:
            standing = self.member.standing
            await self._record_standing(standing if standing.included else MembershipStanding.WAITING, error)

    async def _record_standing(
        self, standing: MembershipStanding, problem: IbiError | None = None, *, heard: bool = False
    ) -> None:
        """Save the state of the Archive at the resolver; log it if it has changed."""
        before, moment = self.member, timestamp_text(int(self.now()))
        heard = heard or problem is None
        since = before.since if standing is before.standing else moment
        heard_at = moment if heard else before.heard
        self.member = MembershipRecord(
            before.resolver, standing, since, heard_at, problem, self._takes_notices
        )
        # Only changes are logged, since a heartbeat each minute would fill the log.
        news = standing is not before.standing or str(problem) != str(before.problem)
        if news:
            level = logging.WARNING if problem else logging.INFO
            reason = f": {problem}" if problem else ""
            _log.log(level, "%s at %s: %s%s", self.request.service_ibi, before.resolver, standing, reason)
        if news or heard:
            try:
                await self.keep(self.member)
            except SetupError as error:
                _log.warning("%s at %s was not noted: %s", self.request.service_ibi, before.resolver, error)


async def find_service(client: Client, address: str, seconds: float) -> str:
    """Fetch the service IBI of the resolver at an address from its /-/about (note 24). Raises PeerError."""
    reply = await client.get(address, "/-/about", seconds)
    try:
        return str(parse_ibi(str(json.loads(reply.body)["service_ibi"])))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise PeerGarbled(
            "it does not tell the IBI of its service at /-/about; name that, too: "
            "ibi archive join --resolver http://HOST/IBI"
        ) from None


def _about(seconds: float, least: float = 0.5) -> float:
    """Return these seconds times a random factor from `least` to 1."""
    # So that Archives that lost their resolver at the same moment do not come back at the same moment.
    return seconds * random.uniform(least, 1.0)  # noqa: S311 - no secret depends on it


_TaskKind = Literal["stay", "pause", "retire", "leave", "move"]
"""What is done at a resolver; "move": it is reached by another scheme now, and its membership goes on there."""
_ENDS: Final = {"pause": "", "retire": NEVER, "leave": NEVER}


@dataclass(frozen=True, slots=True)
class WantedMemberships:
    """The memberships by the settings of an Archive. `requests`: the inclusion requests by root URL.

    `on`: whether the Archive is switched on; `retired`: whether it is off for good; `services`: the known
    IBIs of the resolvers' services; `left`: the requests for resolvers that it has left, for exclusion; `titles`:
    what readers call the Archive.
    """

    requests: dict[str, InclusionRequest]
    on: bool
    retired: bool = False
    services: dict[str, str] = field(default_factory=dict)
    left: dict[str, InclusionRequest] = field(default_factory=dict)
    titles: ArchiveTitles = NO_TITLES


@dataclass(eq=False, slots=True)
class MembershipStore:
    """The table of memberships, written in threads, so that the event loop does not wait for the disk."""

    catalogue: Catalogue
    _take_notices: set[str] = field(default_factory=set)
    """The root URLs of the resolvers that take notices of change, as stated since this process started."""

    def read(self) -> dict[str, MembershipRecord]:
        """Read all memberships, by the root URLs of the resolvers. Raises SetupError."""
        with self.catalogue.reading() as run:
            known = memberships.all_memberships(run)
        return {url: replace(member, notices=url in self._take_notices) for url, member in known.items()}

    async def keep(self, member: MembershipRecord) -> None:
        """Save the state of the Archive at a resolver. Raises SetupError."""
        if member.notices:
            self._take_notices.add(member.resolver)
        else:
            self._take_notices.discard(member.resolver)
        await asyncio.to_thread(self._write, memberships.save, member)

    async def forget(self, resolver: str) -> None:
        """Delete the membership at a resolver that was left for good. Raises SetupError."""
        await asyncio.to_thread(self._write, memberships.forget, resolver)

    def _write(self, write: Callable[[SqlRunner, Any], None], value: Any) -> None:
        with self.catalogue.writing() as writer:
            write(writer.run, value)


@dataclass(eq=False, slots=True)
class Memberships:
    """The memberships of one Archive. It takes over `client`, and closes it.

    `wanted` returns the memberships of the present settings. It is called twice a second, so that a change of
    the settings needs no restart.
    """

    wanted: Callable[[], WantedMemberships]
    client: Client
    kept: MembershipStore
    now: Callable[[], float]
    _memberships: dict[str, Membership] = field(default_factory=dict)
    _tasks: dict[str, tuple[_TaskKind, asyncio.Task[None]]] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow the wanted memberships, until cancelled."""
        try:
            known = await asyncio.to_thread(self.kept.read)
        except SetupError as error:
            _log.warning("how this Archive stood at its resolvers is not known: %s", error)
            known = {}
        wanted = self.wanted()
        # From these resolvers the server could not request exclusion before it ended.
        for url in known.keys() & wanted.left.keys():
            service = wanted.services.get(url, "")
            self._memberships[url] = self._make(url, wanted.left[url], service, None, known)
        try:
            while True:
                self._reconcile(self.wanted(), known)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            # Awaited, because the catalogue into which the tasks write is closed next.
            await cancel_tasks(task for _, task in self._tasks.values())

    async def stop(self) -> None:
        """Request exclusion once from all resolvers; say that it will be back soon, unless it was leaving."""
        away = timestamp_text(int(self.now() + AWAY_SECONDS))
        ends = {url: _ENDS.get(kind, away) for url, (kind, _) in self._tasks.items()}
        await asyncio.gather(
            *(
                each.request_exclusion(ends.get(url, away))
                for url, each in self._memberships.items()
                if each.inclusion_requested
            )
        )

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    def _reconcile(self, wanted: WantedMemberships, known: dict[str, MembershipRecord]) -> None:
        """Start the wanted tasks that are not running; stop the others; leave unwanted resolvers."""
        for url, request in wanted.requests.items():
            membership, service = self._memberships.get(url), wanted.services.get(url, "")
            if membership is None or (membership.request, membership.service) != (request, service):
                membership = self._memberships[url] = self._make(url, request, service, membership, known)
            # A new name alone restarts nothing: the next heartbeat has it.
            membership.titles = wanted.titles
            self._ensure_task(url, "stay" if wanted.on else "retire" if wanted.retired else "pause")
        for url in self._memberships.keys() - wanted.requests.keys():
            key = self._memberships[url].request.key  # each resolver has one of its own
            moved = any(each.key == key for each in wanted.requests.values())
            self._ensure_task(url, "move" if moved else "leave")
            if self._tasks[url][1].done():
                del self._tasks[url], self._memberships[url]

    def _make(
        self,
        url: str,
        request: InclusionRequest,
        service: str,
        before: Membership | None,
        known: dict[str, MembershipRecord],
    ) -> Membership:
        """Make the membership at a resolver, or make it again for a changed request."""
        self._cancel_task(url)
        member = before.member if before else known.pop(url, None)
        member = member or MembershipRecord(url, MembershipStanding.WAITING, timestamp_text(int(self.now())))
        membership = Membership(request, member, self.client, self.kept.keep, self.now, service)
        # The Archive may still be included by the former request.
        membership.inclusion_requested |= bool(before and before.inclusion_requested)
        return membership

    def _ensure_task(self, url: str, kind: _TaskKind) -> None:
        current = self._tasks.get(url)
        if current is not None and current[0] == kind:
            return
        self._cancel_task(url)
        membership = self._memberships[url]
        task = asyncio.create_task(membership.stay() if kind == "stay" else self._leave(membership, kind))
        task.add_done_callback(_log_fault)
        self._tasks[url] = (kind, task)

    async def _leave(self, membership: Membership, kind: _TaskKind) -> None:
        if kind != "move":
            await membership.leave(_ENDS[kind])
        if kind in {"leave", "move"}:
            await self.kept.forget(membership.member.resolver)

    def _cancel_task(self, url: str) -> None:
        current = self._tasks.pop(url, None)
        if current is not None:
            current[1].cancel()


async def request_exclusions(
    wanted: WantedMemberships,
    resolvers: Iterable[str],
    client: Client,
    kept: MembershipStore,
    now: Callable[[], float],
    *,
    for_good: bool,
) -> list[MembershipRecord]:
    """Request exclusion once from resolvers that may have included the Archive, while it is not served.

    `for_good`: the Archive will not come back. Returns the memberships afterwards. Raises SetupError.
    """
    known = await asyncio.to_thread(kept.read)
    memberships_there = [
        Membership(wanted.requests[url], known[url], client, kept.keep, now, wanted.services.get(url, ""))
        for url in resolvers
        if url in known and url in wanted.requests
    ]
    end = NEVER if for_good else ""
    await asyncio.gather(*(membership.request_exclusion(end) for membership in memberships_there))
    return [membership.member for membership in memberships_there]


def _log_fault(task: asyncio.Task[None]) -> None:
    """Log an unexpected error in a task whose result is not awaited."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("an Archive has stopped asking a resolver", exc_info=error)
