"""The stores of a resolver: files of its data directory, and a shared store if its settings name one."""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.app.resolver_nodes import keep_position
from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client
from ibi.http.limits.window import FailureWindows
from ibi.http.proxy_faults import UndeclaredProxies
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.filters import LIMITS, HoldingsFilters
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.cache.lease_table import LeaseTable
from ibi.resolver.cache.redirects import RedirectCache
from ibi.resolver.evidence.claims import ClaimTimes
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.evidence.reading import rebuild_hints
from ibi.resolver.members.shared_failures import SharedFailures
from ibi.resolver.members.status import Readiness
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.resolve.learning import Knowledge
from ibi.resolver.service import Stores
from ibi.resolver.shared.tables import check_tables
from ibi.runtime.database import check_version, migrate, open_engine, upgrade
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.documents import follow_documents
from ibi.runtime.shared.store import LONGEST_NOTICE, close_store, node_name, store_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.http.client.address_policy import HostLookup
    from ibi.runtime.shared.store import SharedStore

REGISTRY: Final = "registry.sqlite"
"""The name of the file that a registry is in, without a shared store."""
_DOCUMENTS: Final = (
    *(ResolverSettings.FILE, Institution.FILE),
    *("accounts.json", "tokens.json", "attestation.key", "nonce"),
)


def open_registry(data: Path, *, new: bool = False) -> Registry:
    """Open the registry of a resolver; with `new`, make it. Raises SetupError if it cannot be used."""
    path, store = data / REGISTRY, store_of(data)
    if store is not None:
        # Its tables were made by `init`, and are checked once, before any process is started.
        return Registry(store.engine, time.time, store, generation_file=data / f"{REGISTRY}-sign")
    if not new and data.exists() and not path.exists():
        raise SetupError("the registry {path} is missing: put back a backup of it", path=path)
    engine = open_engine(path)
    if new:
        migrate(engine, MIGRATIONS)
    else:
        upgrade(engine, MIGRATIONS)
        check_version(engine, MIGRATIONS)
    return Registry(engine, time.time)


def check_resolver(data: Path) -> None:
    """Raise SetupError if a resolver could not be served; call it before any process is started."""
    store = store_of(data)
    if store is not None:
        check_tables(store.engine)
    ResolverSettings.read(data)
    open_registry(data).close()
    leases = LeaseTable(data / "memory.leases")
    leases.end_all()  # before this start, answers may have been used without asking
    leases.close()
    hints, evidence = HintCache(data / "hints"), Evidence(data / EVIDENCE_FILE, time.time)
    with closing(hints), closing(evidence):
        # Hints are a cache and may be lost. But the first Archive that showed an original is protected as its
        # holder (T04), and the evidence still has it. Hints are incomplete in a new file, after a rebuild that was
        # interrupted, and where clicks have filled the file that replaced a damaged one while a resolver ran.
        if not hints.is_complete():
            last = evidence.head().number if store is not None else 0
            rebuild_hints(hints, evidence.entries())
            if store is not None:  # from here on, `NodeTasks` goes on
                keep_position(data, last)
    close_store(data)  # no connection goes along into the processes that are started next


def follow_store(data: Path) -> None:
    """Follow the changes of the shared store from now on, if there is one. Raises SetupError if it is away."""
    follow_documents(data, _DOCUMENTS)


def open_stores(data: Path, settings: ResolverSettings, host_lookup: HostLookup) -> Stores:
    """Open the stores of a resolver in its data directory; all processes of the resolver share the files."""
    known, store = open_registry(data), store_of(data)
    evidence = Evidence(data / EVIDENCE_FILE, time.time)
    addresses = AddressPolicy(allow_private=settings.allow_private_archives)
    client = partial(Client, addresses, host_lookup, LIMITS)
    boot = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    cache = AnswerCache(data / "memory", time.time, stale_seconds=settings.stale_seconds, boot=boot)
    if store is not None:
        store.follow("registry", partial(_follow_registry, known, cache))
    return Stores(
        known,
        Readiness(known),
        Knowledge(
            HintCache(data / "hints", recorded=evidence.flush),
            cache,
            evidence,
            time.time,
            ClaimTimes(data / EVIDENCE_FILE, time.monotonic),
        ),
        ResolverMetrics(data),
        FailureWindows(data / "attempts", time.time) if store is None else SharedFailures(store, time.time),
        HoldingsFilters(data / "filters", known.archives, client, time.time, known.away),
        host_lookup,
        RedirectCache(cache.leases, settings.redirect_mebibytes << 20),
        UndeclaredProxies(data, time.time),
        None if store is None else partial(_tell, store, node_name(data)),
    )


def _tell(
    store: SharedStore, node: str, service: str, names: Sequence[str] | None, *, accepted: bool
) -> None:
    """Tell the other nodes of a notice of change."""
    notice = {"node": node, "service": service, "names": names, "accepted": accepted}
    text = json.dumps(notice)
    # Without its names, a notice is about all of the Archive's items.
    store.tell(text if len(text) < LONGEST_NOTICE else json.dumps(notice | {"names": None}))


def _follow_registry(registry: Registry, cache: AnswerCache) -> None:
    """Read the registry again; forget the answers of Archives that went, or moved, at another node."""
    before = {each.service: (each.address, each.included_at) for each in registry.archives()}
    registry.refresh()
    now = {each.service: (each.address, each.included_at) for each in registry.archives()}
    for service in [service for service, where in before.items() if now.get(service) != where]:
        cache.forget(service, None)
