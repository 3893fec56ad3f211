"""Membership without the rest of a resolver: a real registry, scripted Archives, a clock to set."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from argon2 import PasswordHasher

from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client, HostPort
from ibi.http.limits.window import Failures, FailureWindows
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.resolver.evidence.log import Evidence
from ibi.resolver.members.confirmation import ConfirmationClient
from ibi.resolver.members.inclusion import InclusionService, MemberReply
from ibi.resolver.members.mail import MailSender
from ibi.resolver.members.shared_failures import SharedFailures
from ibi.resolver.registry.registry import Registry
from ibi.runtime.shared.store import store_of
from support.engines.shared_store import in_wanted_store, opened_registry
from support.resolver.clock import Clock
from support.resolver.running_resolver import LOOPBACK
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedArchives

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from support.scripted_archive import ReceivedRequest

KEY = "12345678901234567890"
ARCHIVE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
STRANGER = "127.0.0.77"


def use_cheap_keys(patch: pytest.MonkeyPatch) -> None:
    """Hash keys and passwords with the least that argon2 can do: what it costs to guess one is no test's subject."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    for module in ("ibi.accounts.people", "ibi.resolver.registry.keys"):
        patch.setattr(f"{module}._hasher", lambda: hasher)


class RecordedEvidence(Evidence):
    """Evidence in memory that a test can read; when it is `full`, nothing can be written into it."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, dict[str, str | int]]] = []
        self.full = False

    def write(self, what: str, **facts: str | int) -> None:
        if self.full:
            raise SetupError("{path} cannot be written: {reason}", path="evidence", reason="full")
        self.recorded.append((what, facts))

    def note(self, what: str, **facts: str | int) -> bool:
        self.write(what, **facts)
        return True

    def of(self, what: str) -> list[dict[str, str | int]]:
        return [facts for kind, facts in self.recorded if kind == what]


@dataclass
class Member:
    """A resolver's membership, and one Archive that has to do with it."""

    registry: Registry
    confirmation: ConfirmationClient
    membership: InclusionService
    clock: Clock
    evidence: RecordedEvidence
    client: Client
    policy: AddressPolicy
    throttle: Failures

    async def include(self, address: str, source: str = STRANGER, key: str = KEY) -> MemberReply:
        return await self.membership.answer(switch(InclusionRequest, address, key), source)

    async def exclude(self, address: str, source: str = STRANGER, end: str = "") -> MemberReply:
        request = replace(switch(ExclusionRequest, address, KEY), end=end)
        return await self.membership.answer(request, source)

    @property
    def addresses(self) -> list[str]:
        return [archive.address for archive in self.registry.archives()]


def switch(kind: Any, address: str, key: str = KEY) -> Any:
    return kind(address, parse_ibi(ARCHIVE), "192.0.2.1", "1", "admin@archive.example", key)


class Switchable(ScriptedArchive):
    """An Archive that can fall silent and come back."""

    silent = False

    def behaviour_for(self, received: ReceivedRequest) -> Behaviour:
        return Behaviour(lie="reset") if self.silent else super().behaviour_for(received)


def archive(name: str, ip: str) -> ScriptedArchive:
    return ScriptedArchive(name, f"{name}.example", ARCHIVE, ip=ip)


@asynccontextmanager
async def member(
    data: Path,
    archives: Sequence[ScriptedArchive],
    *,
    absent: frozenset[str] = frozenset(),
    registered: bool = True,
    mail: MailSender | None = None,
    own: Sequence[str] = ("urlib.net",),
    guarded: bool = True,
) -> AsyncIterator[Member]:
    clock, evidence, store = Clock(1_400_000_000.0), RecordedEvidence(), store_of(in_wanted_store(data))
    registry = opened_registry(data, clock)
    if registered:
        registry.register(parse_ibi(ARCHIVE), KEY)
    async with ScriptedArchives(tuple(archives), absent) as neighbourhood:
        policy = AddressPolicy(public=[LOOPBACK])
        client = Client(policy, neighbourhood.names)
        throttle: Failures = (
            SharedFailures(store, clock) if store else FailureWindows(data / "attempts", clock)
        )
        confirmation = ConfirmationClient(
            client, policy, neighbourhood.names, frozenset(map(HostPort.parse, own)), SERVICE
        )
        sender = mail or MailSender("", "", "")
        membership = InclusionService(
            registry, confirmation, throttle, evidence, sender, clock, guarded=guarded
        )
        try:
            yield Member(registry, confirmation, membership, clock, evidence, client, policy, throttle)
        finally:
            await membership.probation.close()
            throttle.close()
            await client.close()
            registry.close()
