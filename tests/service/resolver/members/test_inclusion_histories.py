"""Inclusion, exclusion, keys and moves in any order, compared with a model of who is included after every step."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ibi.errors import NotHeld, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.protocol.vocabulary import NEVER
from ibi.resolver.members.inclusion import HELD, OVERTAKEN, REFUSED
from ibi.resolver.members.takeover import SILENT_CHECKS, SILENT_SECONDS
from ibi.resolver.model.archive import moment_text
from ibi.resolver.registry.registry import REPORT_SECONDS
from ibi.runtime.shared.store import close_store
from support.engines.shared_store import new_store, opened_registry, share
from support.oracles.state_machines import folder_in_memory, try_histories
from support.resolver.membership_fixture import STRANGER, Member, Switchable, member
from support.resolver.running_resolver import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from ibi.resolver.members.inclusion import MemberReply

FIRST, SECOND = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "sid.inpe.br/mtc-m22/2013/06.05.15.34.39"
ARCHIVES = [
    Switchable("old", "old.example", FIRST, ip="127.0.0.2"),
    Switchable("new", "new.example", FIRST, ip="127.0.0.3"),
    Switchable("other", "other.example", SECOND, ip="127.0.0.4"),
]
MINUTE = 61.0  # seconds after which a wrong key is forgotten
archives = st.sampled_from(range(len(ARCHIVES)))
services = st.sampled_from([FIRST, SECOND])


@dataclass
class Expected:
    """A service as everything that was acknowledged has made it; without a key it is not registered."""

    key: str = ""
    earlier_keys: list[str] = field(default_factory=list)
    included_at: str = ""
    """Its address, "" while it is not included."""
    last_address: str = ""
    confirmed: bool = False
    confirmed_address: str = ""
    source: str = ""
    gone: bool = False
    back_at: float | None = None
    move_allowed: bool = False
    held: str = ""
    """Where it wants to move."""
    reported_at: float = 0.0
    silent_since: float | None = None
    checks: int = 0

    @property
    def away(self) -> bool:
        return bool(self.key and self.last_address) and not self.included_at and not self.gone


class MembershipHistories(RuleBasedStateMachine):
    """One resolver, with a database that a second process reads, and Archives on real sockets."""

    def __init__(self, data: Path, runner: asyncio.Runner, at: Member) -> None:
        super().__init__()
        self.at = at
        self.run = runner.run
        self.model = {FIRST: Expected(), SECOND: Expected()}
        self.second_process = opened_registry(data, at.clock)
        for each in ARCHIVES:
            each.silent = False

    # What may happen

    @rule(service=services)
    def register(self, service: str) -> None:
        known, key = self.model[service], new_key()
        if known.key:
            with pytest.raises(SetupError):
                self.at.registry.register(parse_ibi(service), key)
            self.at.registry.register(parse_ibi(service), known.key)
        else:
            assert self.at.registry.register(parse_ibi(service), key) == key
            self.model[service] = Expected(key, earlier_keys=known.earlier_keys)

    @rule(service=services)
    def unregister(self, service: str) -> None:
        if self.model[service].key:
            self.forget(service)
        else:
            with pytest.raises(NotHeld):
                self.at.registry.unregister(parse_ibi(service))

    @rule(service=services)
    def rotate(self, service: str) -> None:
        known = self.model[service]
        if known.key:
            known.earlier_keys.append(known.key)
            known.key = self.at.registry.rotate(parse_ibi(service))
        else:
            with pytest.raises(SetupError):
                self.at.registry.rotate(parse_ibi(service))

    @rule(service=services)
    def allow_move(self, service: str) -> None:
        if self.model[service].key:
            self.at.registry.allow_move(parse_ibi(service))
            self.model[service].move_allowed = True

    @rule(archive=archives, at_home=st.booleans())
    def include(self, archive: int, at_home: bool) -> None:
        asking = ARCHIVES[archive]
        known, source = self.model[asking.service], asking.ip if at_home else STRANGER
        reply = self.run(self.ask(InclusionRequest, asking, known.key or new_key(), source))
        if not known.key:
            assert reply is REFUSED
            self.at.clock.now += MINUTE
        elif self.is_held(known, asking, source):
            assert reply is HELD
        else:
            confirmed = b"unsuccessful" if asking.silent else b"successful"
            assert (reply.status, reply.body.split()) == (
                200,
                [b"status.archive", b"included", b"status.confirmation", confirmed],
            )
            self.is_included(known, asking, source)

    @rule(archive=archives, until_when=st.sampled_from(["", "an hour", NEVER]), at_home=st.booleans())
    def exclude(self, archive: int, until_when: str, at_home: bool) -> None:
        asking = ARCHIVES[archive]
        known, source = self.model[asking.service], asking.ip if at_home else STRANGER
        end = moment_text(self.at.clock.now + 3600) if until_when == "an hour" else until_when
        reply = self.run(self.ask(ExclusionRequest, asking, known.key or new_key(), source, end))
        if not known.key:
            assert reply is REFUSED
            self.at.clock.now += MINUTE
            return
        assert (reply.status, reply.body) == (200, b"status.archive excluded")
        known.included_at, known.confirmed, known.source = "", False, source
        known.gone = known.gone or end == NEVER
        known.back_at = float(int(self.at.clock.now + 3600)) if until_when == "an hour" else None

    @rule(
        archive=archives,
        kind=st.sampled_from([InclusionRequest, ExclusionRequest]),
        which=st.integers(0, 3),
    )
    def ask_with_an_earlier_key(self, archive: int, kind: Any, which: int) -> None:
        asking = ARCHIVES[archive]
        keys = [*self.model[asking.service].earlier_keys, new_key()]
        assert self.run(self.ask(kind, asking, keys[which % len(keys)], asking.ip)) is REFUSED
        self.at.clock.now += MINUTE

    @precondition(lambda self: any(known.key for known in self.model.values()))
    @rule(
        archive=archives,
        meanwhile=st.lists(
            st.sampled_from(["exclude", "rotate", "unregister", "register", "include"]),
            min_size=1,
            max_size=4,
        ),
    )
    def something_else_ends_before_a_slow_inclusion(self, archive: int, meanwhile: list[str]) -> None:
        asking = ARCHIVES[archive]
        known = self.model[asking.service]
        if not known.key or asking.silent or known.confirmed_address not in {"", asking.address}:
            return
        slow = self.run(self.begun(asking, known.key))
        overtaken = [self.comes_in_between(step, archive) for step in meanwhile]
        reply = self.run(self.ended(asking, slow))
        if any(overtaken):
            assert reply is OVERTAKEN
        else:
            assert reply.status == 200
            self.is_included(known, asking, asking.ip)

    @rule()
    def ask_again(self) -> None:
        """What is done every minute for those that have not confirmed."""
        self.run(self.at.membership.probation.ask_again())
        for known in self.model.values():
            if known.included_at and not known.confirmed and not self.is_silent(known.included_at):
                known.confirmed, known.confirmed_address = True, known.included_at
                self.ends_silence(known)

    @rule(archive=archives)
    def fall_silent_or_wake(self, archive: int) -> None:
        ARCHIVES[archive].silent = not ARCHIVES[archive].silent

    @rule(seconds=st.sampled_from([1.0, 30.0, MINUTE, REPORT_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.at.clock.now += seconds

    # What must hold

    @invariant()
    def those_are_included_that_were_accepted(self) -> None:
        expected = {
            (service, known.included_at, known.confirmed)
            for service, known in self.model.items()
            if known.included_at
        }
        away = {
            service.lower(): (known.last_address, known.back_at)
            for service, known in self.model.items()
            if known.away
        }
        for registry in (self.at.registry, self.second_process):
            found = [(str(each.service_ibi), each.address, each.confirmed) for each in registry.archives()]
            assert len(found) == len(expected)
            assert set(found) == expected
            assert away == {
                service: (each.archive.address, each.back_at) for service, each in registry.away().items()
            }

    @invariant()
    def the_registry_knows_what_was_acknowledged(self) -> None:
        for service, known in self.model.items():
            entry = self.at.registry.entry(parse_ibi(service))
            assert (entry is not None) == bool(known.key)
            if entry is not None:
                assert (entry.address, entry.confirmed_address or "") == (
                    known.last_address,
                    known.confirmed_address,
                )
                assert (entry.source, entry.move_allowed) == (known.source, known.move_allowed)
                move = entry.move
                assert (move.address if move else "") == known.held
                if move:
                    assert (move.silent_since, move.checks) == (known.silent_since, known.checks)
                    assert move.reported_at == known.reported_at

    def teardown(self) -> None:
        for service, known in self.model.items():
            if known.key:
                assert self.at.registry.check_key(parse_ibi(service), known.key)
                self.at.registry.unregister(parse_ibi(service))
        assert self.at.registry.archives() == ()
        self.second_process.close()

    # How it is done, and what the guard against takeovers must do

    async def ask(self, kind: Any, asking: Switchable, key: str, source: str, end: str = "") -> MemberReply:
        request = kind(
            asking.address, parse_ibi(asking.service), asking.ip, "1", "admin@archive.example", key
        )
        return await self.at.membership.answer(replace(request, end=end) if end else request, source)

    async def begun(self, asking: Switchable, key: str) -> asyncio.Task[MemberReply]:
        """Begin an inclusion, and return once its confirmation is being waited for."""
        asking.hold()
        heard = len(asking.received)
        slow = asyncio.create_task(self.ask(InclusionRequest, asking, key, asking.ip))
        await until(lambda: len(asking.received) > heard)
        return slow

    @staticmethod
    async def ended(asking: Switchable, slow: asyncio.Task[MemberReply]) -> MemberReply:
        asking.release()
        return await slow

    def comes_in_between(self, step: str, archive: int) -> bool:
        """Whether something changes the membership of this Archive, or its key."""
        service = ARCHIVES[archive].service
        known = self.model[service]
        if step == "exclude":
            self.exclude(archive, "", at_home=True)
        elif step == "include":
            return self.is_included_elsewhere(archive)
        elif step == "rotate":
            self.rotate(service)
        elif step == "unregister":
            self.unregister(service)
        else:
            self.register(service)
            return not known.key
        return bool(known.key)

    def is_included_elsewhere(self, archive: int) -> bool:
        """Ask for the other address of the same service: at this one, answers are being held back."""
        service = ARCHIVES[archive].service
        for at, other in enumerate(ARCHIVES):
            known = self.model[service]
            if other.service == service and at != archive and known.confirmed_address in {"", other.address}:
                before = known.included_at, known.source, known.confirmed
                self.include(at, at_home=True)
                return before != (known.included_at, known.source, known.confirmed)
        return False

    def forget(self, service: str) -> None:
        self.at.registry.unregister(parse_ibi(service))
        known = self.model[service]
        self.model[service] = Expected(earlier_keys=[*known.earlier_keys, known.key])

    def is_silent(self, address: str) -> bool:
        return next(each.silent for each in ARCHIVES if each.address == address)

    def is_held(self, known: Expected, asking: Switchable, source: str) -> bool:
        """Whether a request must wait, and what is known of the move then."""
        before = known.confirmed_address
        if not before or before == asking.address or known.move_allowed:
            return False
        old = next(each for each in ARCHIVES if each.address == before)
        has_left = not known.included_at and known.back_at is None and known.source == old.ip
        if source == old.ip or (old.silent and has_left):
            return False
        if not known.held or self.at.clock.now - known.reported_at >= REPORT_SECONDS:
            known.reported_at = self.at.clock.now
        if known.held != asking.address:
            known.held, known.silent_since, known.checks = asking.address, None, 0
        if not old.silent:
            known.silent_since, known.checks = None, 0
            return True
        since = self.at.clock.now if known.silent_since is None else known.silent_since
        checks = min(known.checks + 1, SILENT_CHECKS)
        if checks == SILENT_CHECKS and self.at.clock.now - since >= SILENT_SECONDS:
            return False
        known.silent_since, known.checks = since, checks
        return True

    def ends_silence(self, known: Expected) -> None:
        """The checks of a held move begin anew, and one that is not asked for any more is forgotten."""
        known.silent_since, known.checks = None, 0
        if self.at.clock.now - known.reported_at >= REPORT_SECONDS:
            known.held = ""

    def is_included(self, known: Expected, asking: Switchable, source: str) -> None:
        if known.last_address != asking.address:
            known.move_allowed = False
        known.included_at = known.last_address = asking.address
        known.confirmed, known.source = not asking.silent, source
        known.gone, known.back_at = False, None
        if known.confirmed:
            known.confirmed_address = asking.address
        if known.held == asking.address:
            known.held, known.silent_since, known.checks = "", None, 0
        if known.confirmed:
            self.ends_silence(known)


def new_key() -> str:
    return str(secrets.randbelow(10**20)).zfill(20)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for both stores, as the scripted Archives stay bound to the first that they meet."""
    with asyncio.Runner() as made:
        yield made


@pytest.mark.proves("REG-02", "REG-03", "REG-05", "REG-07")
@pytest.mark.long
@pytest.mark.parametrize("kind", ["files", "store"])
def test_whatever_archives_and_administrators_do_those_are_asked_that_were_accepted(
    kind: str, request: pytest.FixtureRequest, runner: asyncio.Runner
) -> None:
    with folder_in_memory() as folder:
        if kind == "store":
            share(folder, new_store(request.getfixturevalue("postgresql")))
        membership = member(folder, ARCHIVES, registered=False)
        at = runner.run(membership.__aenter__())
        try:
            try_histories(partial(MembershipHistories, folder, runner, at), one_in=5, steps=25)
        finally:
            runner.run(membership.__aexit__(None, None, None))
            close_store(folder)
