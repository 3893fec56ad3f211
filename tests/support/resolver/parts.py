"""The parts a resolver is put together from in a test: stores in real files, and clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.http.client import AddressPolicy, Client
from ibi.http.limits.window import Failures, FailureWindows
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.filters import LIMITS, HoldingsFilters
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.cache.redirects import RedirectCache
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.members.mail import MailSender
from ibi.resolver.members.shared_failures import SharedFailures
from ibi.resolver.members.status import Readiness
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.resolve.learning import Knowledge
from ibi.resolver.resolve.round import Times
from ibi.resolver.service import Outgoing, Stores
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.http.client.address_policy import HostLookup
    from ibi.resolver.registry.registry import Registry


TIMES = Times(per_archive=3.0, overall=5.0, hedge=0.1, grace=0.15, stale_after=1.6, negative=60)
"""How long is waited where the settings say nothing."""


def stores(
    registry: Registry, folder: Path, host_lookup: HostLookup, now: Callable[[], float] = time.time
) -> Stores:
    """What is kept in a folder, which may have been used before; its user closes it."""
    evidence = Evidence(folder / EVIDENCE_FILE, now)
    knowledge = Knowledge(
        HintCache(folder / "hints", recorded=evidence.flush),
        AnswerCache(folder / "memory", now),
        evidence,
        now,
    )
    store = store_of(folder)
    throttle: Failures = SharedFailures(store, now) if store else FailureWindows(folder / "attempts", now)
    filters = HoldingsFilters(
        folder / "filters", registry.archives, lambda: Client(AddressPolicy(), host_lookup, LIMITS), now
    )
    redirects = RedirectCache(knowledge.cache.leases, 96 << 20)
    return Stores(
        registry,
        Readiness(registry),
        knowledge,
        ResolverMetrics(folder),
        throttle,
        filters,
        host_lookup,
        redirects,
    )


def outgoing(addresses: AddressPolicy, host_lookup: HostLookup) -> Outgoing:
    """What sends requests to Archives, found by `host_lookup`."""
    client = Client(addresses, host_lookup)
    return Outgoing(
        addresses, client, Client(addresses, host_lookup), AcknowledgmentQueue(client), MailSender("", "", "")
    )
