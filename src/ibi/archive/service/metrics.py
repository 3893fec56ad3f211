"""The metrics of an Archive at /-/metrics (docs/reference/operations.md).

Requests are counted as they are answered, by every process; what is in the catalogue is read when a program asks.
No number has a label for a reader, an item or a resolver. The names of metrics are promised to operators.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from ibi.api.jobs import STATES
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.service.changes import ChangesOutcome
from ibi.archive.store.tables import fixity, listings, memberships, transfers
from ibi.archive.store.tables.listings import count_unsettled
from ibi.archive.store.tables.memberships import MembershipStanding
from ibi.errors import PeerError, SetupError
from ibi.http.client import Client
from ibi.http.client_address import list_addresses, networks_of
from ibi.http.metrics.numbers import FOLDER, Families, Family, is_inside
from ibi.http.metrics.requests import RequestMetrics, families_of_requests
from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.protocol.vocabulary import SERVICE_SUBJECT, ItemState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.api.jobs import Jobs
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.client import Reply
    from ibi.http.client.address_policy import AddressPolicy, HostLookup
    from ibi.http.request import Request
    from ibi.http.response import Receive
    from ibi.runtime.settings import ArchiveSettings

REQUEST_KINDS: Final = (
    *("message", "page", "file", "search", "harvest", "deposit", "edit", "delete"),
    *("api", "administration", "health"),
)
"""The kinds of requests; the first: messages of the standard."""
SUBJECTS: Final = ("membership", "notice")
"""What the messages to resolvers are about."""
TASKS: Final = (
    "hand-overs",
    "settling",
    "refresh",
    "uploads",
    "holdings filter",
    "objects",
    "audit",
    "search index",
)
"""The names of all periodic tasks of an Archive."""

FAMILIES: Final = Families(
    "ibi_archive",
    (
        *families_of_requests(REQUEST_KINDS),
        Family("acknowledgments_waiting", "Acknowledgments that are not counted yet.", kind="gauge"),
        Family(
            "resolver_messages_total",
            "Messages to resolvers; refused: answered with another status than 2xx, failed: without an answer.",
            {"about": SUBJECTS, "outcome": ("answered", "refused", "failed")},
        ),
        Family(
            "change_requests_total",
            "Replies to requests for changes: names, that anything may have changed, or a refusal.",
            {"outcome": get_args(ChangesOutcome)},
        ),
        Family(
            "tasks_total", "Runs of periodic tasks.", {"task": TASKS, "outcome": ("done", "failed")}
        ),
    ),
    (
        Family("catalogue_readable", "1, or 0 if the catalogue could not be read just now."),
        Family("items", "Items, by state.", {"state": tuple(ItemState)}),
        Family("files", "Stored files."),
        Family("files_bytes", "Bytes of the stored files."),
        Family("files_damaged", "Stored files that an audit found damaged or missing, at most 1000."),
        Family("copies_lagging", "Copies that are not known to equal their originals."),
        Family("originals_unsettled", "Originals that came back from a backup and are not settled yet."),
        Family("transfers_open", "Hand-overs of originals that are not finished."),
        Family("transfers_in_trouble", "Those of them whose last step failed."),
        Family("resolvers", "Resolvers, by how the Archive stands there.", {"standing": tuple(MembershipStanding)}),
        Family("jobs", "Jobs of the last week, by state.", {"state": STATES}),
        Family("last_backup_timestamp_seconds", "When the newest backup in `backup_folder` was made."),
        Family("disk_free_bytes", "Bytes that the disk of the data directory can still take."),
    ),
)  # fmt: skip
"""What is counted; a file of another version, which counts other things, is replaced."""

_GOOD: Final = range(200, 300)
_ITEMS: Final = b"/-/api/items"
_SUBJECT: Final = SERVICE_SUBJECT.encode()
_BY_BEGINNING: Final = {
    b"/col/": "file",
    b"/-/files/": "file",
    b"/-/zip/": "file",
    b"/-/search": "search",
    b"/-/browse": "search",
    b"/-/feed": "search",
    b"/-/sitemap": "search",
    b"/sitemap.xml": "search",
    b"/-/oai": "harvest",
    b"/-/resourcesync": "harvest",
    b"/.well-known/resourcesync": "harvest",
    b"/-/api/": "api",
    b"/-/admin": "administration",
    b"/-/healthz": "health",
    b"/-/readyz": "health",
    b"/-/metrics": "health",
}
_BEGINNINGS: Final = tuple(_BY_BEGINNING)
_FORMS: Final = {
    b"/-/admin/deposit": "deposit",
    b"/-/admin/edit": "edit",
    b"/-/admin/files": "edit",
    b"/-/admin/delete": "delete",
}
_ACTS: Final = {"POST": "deposit", "PATCH": "edit", "PUT": "edit", "DELETE": "delete"}

_log = logging.getLogger(__name__)


def kind_of_request(method: str, target: bytes) -> str:
    """Return the kind of a request, one of REQUEST_KINDS."""
    if _SUBJECT in target:
        return "message"
    path = target.partition(b"?")[0]
    if method == "POST" and (form := _FORMS.get(b"/".join(path.split(b"/", 4)[:4]))):
        return form
    if path == _ITEMS or path.startswith(_ITEMS + b"/"):
        act = _ACTS.get(method, "api")
        return "edit" if act == "delete" and b"/files/" in path else act
    if not path.startswith(_BEGINNINGS):  # nearly always
        return "page"
    return next(kind for begin, kind in _BY_BEGINNING.items() if path.startswith(begin))


@dataclass(slots=True)
class AnswerCounts:
    """What an Archive's service counts for its metrics; `ArchiveMetrics.poll` takes it over. For one thread.

    `at_once`: messages that were answered without a task, by status. `changes`: replies to requests for changes, by
    outcome.
    """

    at_once: Counter[int] = field(default_factory=Counter)
    changes: Counter[ChangesOutcome] = field(default_factory=Counter)


class ArchiveMetrics(RequestMetrics):
    """The numbers of one process of an Archive. `catalogue` and `jobs` are read when a program asks.

    It takes over `catalogue`, and closes it.
    """

    def __init__(self, data: Path, catalogue: Catalogue, jobs: Jobs) -> None:
        super().__init__(data / FOLDER, FAMILIES, kind_of_request)
        self._data = data
        self._catalogue = catalogue
        self._jobs = jobs
        self._tasks = FAMILIES.indexes("tasks_total")
        self._change_requests = FAMILIES.indexes("change_requests_total")
        self._messages = FAMILIES.indexes("resolver_messages_total")
        self._facts: dict[str, dict[str, float]] = {}
        self.counts = AnswerCounts()
        """What the service has counted since the last `poll`."""
        self.waiting: Callable[[], int] = int
        """Returns how many acknowledgments wait in this process."""

    def poll(self) -> None:
        """Add what the service has counted. Messages that were answered at once count as ones that took no time."""
        for status, count in self.counts.at_once.items():
            self.answered("message", status, 0.0, count)
        self.counts.at_once.clear()
        for outcome, count in self.counts.changes.items():
            self.values[self._change_requests[outcome]] += count
        self.counts.changes.clear()
        self.values[FAMILIES.begin("acknowledgments_waiting")] = self.waiting()

    def close(self) -> None:
        """Add the last counts of others, and leave the file."""
        self.waiting = int  # the application has counted them, and to ask for it now could make another one
        super().close()
        self._catalogue.close()

    def task_ended(self, name: str, done: bool) -> None:  # noqa: FBT001 - a callback has no keywords
        """Count a run of a periodic task."""
        self.values[self._tasks[f"{name} {'done' if done else 'failed'}"]] += 1

    def message_ended(self, about: str, outcome: str) -> None:
        """Count a message to a resolver."""
        self.values[self._messages[f"{about} {outcome}"]] += 1

    async def respond(self, settings: ArchiveSettings, request: Request, _receive: Receive) -> Response:
        """Answer GET /-/metrics, for clients inside alone."""
        forwarded, proxies = request.header(b"x-forwarded-for"), networks_of(settings.trusted_proxies)
        request.addresses = list_addresses(request.peer or "127.0.0.1", forwarded, proxies)
        if request.reads and is_inside(request, settings.metrics_networks):
            # In a thread, since the catalogue may be large; the numbers are written on the event loop.
            self._facts = await asyncio.to_thread(self._read, settings)
        response = self.answer(request, settings.metrics_networks) if request.reads else None
        return response or Response(404, b"there is no such page here\n", PLAIN, NO_STORE)

    def present(self) -> dict[str, dict[str, float]]:
        """Return what `respond` has read last."""
        return self._facts

    def _read(self, settings: ArchiveSettings) -> dict[str, dict[str, float]]:
        try:
            facts = self._read_catalogue()
        except SetupError as error:
            _log.warning("the catalogue could not be read for the metrics: %s", error)
            facts = {"catalogue_readable": {"": 0}}
        try:
            facts["jobs"] = _counts(STATES, (each.state for each in self._jobs.all()))
            disk = os.statvfs(self._data)
            facts["disk_free_bytes"] = {"": disk.f_bavail * disk.f_frsize}
            if settings.backup_folder and (made := BackupStore(Path(settings.backup_folder)).backups()):
                moment = datetime.strptime(made[-1][:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
                facts["last_backup_timestamp_seconds"] = {"": moment.timestamp()}
        except (OSError, SetupError) as error:
            _log.warning("the metrics are incomplete: %s", error)
        return facts

    def _read_catalogue(self) -> dict[str, dict[str, float]]:
        with self._catalogue.reading() as run:
            files, size = fixity.total(run)
            handing = transfers.open_outgoing(run)
            numbers = {
                "catalogue_readable": 1,
                "files": files,
                "files_bytes": size,
                "files_damaged": len(fixity.faults(run)),
                "copies_lagging": listings.lagging(run)[0],
                "originals_unsettled": count_unsettled(run),
                "transfers_open": len(handing),
                "transfers_in_trouble": sum(each.problem is not None for each in handing),
            }
            members = (each.standing.value for each in memberships.all_memberships(run).values())
            return {
                **{name: {"": float(number)} for name, number in numbers.items()},
                "items": {state.value: count for state, count in listings.count_states(run).items()},
                "resolvers": _counts(tuple(MembershipStanding), members),
            }


def _counts(values: tuple[str, ...], found: Any) -> dict[str, float]:
    """Return how often each value was found."""
    counts = Counter(found)
    return {str(value): counts[str(value)] for value in values}


class CountedClient(Client):
    """A client that tells `ended` what came of each request: "answered", "refused" or "failed"."""

    def __init__(
        self, policy: AddressPolicy, host_lookup: HostLookup | None, ended: Callable[[str], None]
    ) -> None:
        super().__init__(policy, host_lookup)
        self._ended = ended

    async def get(self, *args: Any, **options: Any) -> Reply:
        """Ask, as `Client.get` does."""
        try:
            reply = await super().get(*args, **options)
        except PeerError:
            self._ended("failed")
            raise
        self._ended("answered" if reply.status in _GOOD else "refused")
        return reply
