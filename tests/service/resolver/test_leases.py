"""The fast path gives redirects while the leases of their Archives run, and has leases renewed that end soon."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from time import CLOCK_BOOTTIME, clock_gettime, time
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import open_registry
from ibi.identifier.forms import parse_ibi
from ibi.resolver.cache.lease import LEASE_SECONDS, RENEW_AFTER, Moment
from ibi.resolver.cache.lease_table import LeaseTable
from ibi.resolver.registry.published_list import ListedArchive
from ibi.resolver.resolve.breaker import FAILURES
from proofs.resolver.lending import make_resolver
from support.network.leasing_archive import LeasingArchive
from support.resolver.fast_path_fixture import FastPathResolver, serve_fast_path, where
from support.resolver.shared_files import until
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE, TWO, THREE = (f"a.example/b/2010/01.01.00.0{number}" for number in range(3))


@contextmanager
def in_thread(archive: LeasingArchive) -> Iterator[None]:
    """Serve an Archive in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(archive.open(), loop).result(30)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(archive.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Leased:
    """A resolver with one Archive that gives leases, and the table of leases, which all processes share."""

    def __init__(self, resolver: FastPathResolver, archive: LeasingArchive, leases: LeaseTable) -> None:
        self.resolver, self.archive, self.leases = resolver, archive, leases
        self.slot = leases.slot(archive.service)

    def set_back(self, seconds: float) -> None:
        """Let the lease be older, as if so much time had passed."""
        self.leases.renew(self.slot, Moment(*(each - seconds for each in self.leases.began(self.slot))))
        self.leases.note_sent(self.slot, self.leases.sent(self.slot) - seconds)

    @property
    def requests(self) -> tuple[int, int]:
        """How many queries the Archive got, and how many requests for changes."""
        return len(self.archive.requests("urlRequest")), len(self.archive.requests("changesRequest"))


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[Leased]:
    archive = LeasingArchive()
    for number, name in enumerate((ONE, TWO)):
        archive.change(name, f"http://leasing.example/{number}")
    with in_thread(archive):
        make_resolver(tmp_path, [])
        registry = open_registry(tmp_path)
        listed = ListedArchive(
            parse_ibi(archive.service),
            f"127.0.0.1:{archive.port}",
            (),
            confirmed=True,
            since="2026-01-01T00:00:00Z",
        )
        registry.mirror("one Archive", [listed], "2026-01-02T00:00:00Z")
        registry.close()
        with serve_fast_path(tmp_path, []) as resolver:
            leases = LeaseTable(tmp_path / "memory.leases")
            resolver.warm(ONE, TWO)
            yield Leased(resolver, archive, leases)
            leases.close()


def test_redirects_are_given_without_a_request_while_the_lease_runs(leased: Leased) -> None:
    before = leased.requests
    leased.set_back(RENEW_AFTER - 10)
    assert [leased.resolver.given(name) for name in (ONE, TWO) * 3] == [
        f"http://leasing.example/{number}" for number in (0, 1) * 3
    ]
    assert leased.requests == before


def test_a_lease_that_ends_soon_is_renewed_by_a_reader_who_does_not_wait(leased: Leased) -> None:
    queries, changes = leased.requests
    leased.set_back(RENEW_AFTER + 5)
    old = leased.leases.began(leased.slot)
    assert leased.resolver.given(ONE) == "http://leasing.example/0"
    until(lambda: leased.leases.began(leased.slot).boot > old.boot + RENEW_AFTER)
    assert leased.requests == (queries, changes + 1)


def test_after_the_lease_one_request_brings_all_redirects_back(leased: Leased) -> None:
    queries, changes = leased.requests
    leased.set_back(LEASE_SECONDS)
    assert leased.resolver.given(ONE) is None  # the ordinary path asks what has changed
    assert [leased.resolver.given(name) for name in (ONE, TWO)] == [
        f"http://leasing.example/{number}" for number in (0, 1)
    ]
    assert leased.requests == (queries, changes + 1)


def test_a_change_takes_away_what_rests_on_it_and_nothing_else(leased: Leased) -> None:
    leased.archive.change(ONE, "http://leasing.example/new")
    leased.set_back(LEASE_SECONDS)
    assert where(leased.resolver.ask(ONE)) == "http://leasing.example/new"
    assert leased.resolver.given(TWO) == "http://leasing.example/1"
    leased.resolver.warm(ONE)
    assert leased.resolver.given(ONE) == "http://leasing.example/new"


def test_a_restart_ends_all_leases(leased: Leased) -> None:
    assert leased.resolver.given(ONE)
    leased.leases.end_all()
    assert leased.resolver.given(ONE) is None


def test_an_archive_that_replies_to_another_process_is_asked_again_at_once(leased: Leased) -> None:
    resolver, archive = leased.resolver, leased.archive
    archive.on_queries = archive.on_changes = Behaviour(status="500 Internal Server Error")
    for number in range(FAILURES):
        assert "503" in resolver.ask(f"a.example/b/2011/01.01.00.0{number}").split()
    until(lambda: resolver.metrics()["archives_asleep"] == 1)
    archive.on_queries = archive.on_changes = None
    archive.change(THREE, "http://leasing.example/2")
    queries, _ = leased.requests
    assert "503" in resolver.ask(THREE).split()
    assert leased.requests[0] == queries
    # Another process writes when it sent the request that was answered.
    leased.leases.renew(leased.slot, Moment(clock_gettime(CLOCK_BOOTTIME), time()))
    assert where(resolver.ask(THREE)) == "http://leasing.example/2"
