"""The fast path for requests that differ in their target only: what is read each time, and what each half second."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ibi.resolver.cache.lease import RENEW_AFTER, Moment
from ibi.resolver.cache.lease_table import LeaseTable
from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
from ibi.resolver.fast_path import LOOK_EVERY, FastPath, FastPathClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ARCHIVE, NAME, ANOTHER, TARGET = "archive/a", "item/1", "item/2", b"/item/1"
NOW = Moment(5_000.0, 1_800_000_000.0)


class Scene:
    """A fast path with one cached redirect, which rests on the lease of one Archive; `moment` is the present one."""

    def __init__(self, leases: LeaseTable) -> None:
        self.moment, self.leases, self.slot = NOW, leases, leases.slot(ARCHIVE)
        leases.renew(self.slot, NOW)
        self.redirects = RedirectCache(leases, 1 << 20)
        versions = self.redirects.versions([NAME, ANOTHER], [(ARCHIVE, True)])
        assert versions is not None
        made = CachedRedirect(
            b"x", (b"",), 1, b"", 7, b"", NOW.real, NOW.real + 900, NOW.boot + 900, *versions
        )
        self.redirects.put(TARGET, made)
        policy = SimpleNamespace(
            redirect_seconds=0,
            generation=[1],
            generation_read=1,
            digest=b"",
            refuses=lambda _: False,
            limited=lambda response, _: response,
            refresh=lambda: None,
        )
        count = SimpleNamespace(checksum=7, readers=0, redirect=None)
        counter: Any = SimpleNamespace(counts={TARGET: count}, unreported_readers=0, outcomes=Counter())
        self.path = FastPath(self.redirects, counter, lambda: self.moment.real, lambda: self.moment.boot)
        client: Any = FastPathClient.__new__(FastPathClient)
        client.policy, client.admitted, client.client_key, client.language = policy, True, "192.0.2.1", b""
        self.client = client
        self.path.follow(client.policy)
        self.head = cast("Any", SimpleNamespace(parsed=client))
        assert self.path.at_once(b"GET", TARGET, self.head, "192.0.2.1") is not None

    def pass_by(self, boot: float, real: float) -> None:
        """Let so many seconds pass by each clock."""
        self.moment = Moment(self.moment.boot + boot, self.moment.real + real)

    def repeats(self) -> bool:
        return self.path.repeat(TARGET, self.head) is not None


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    table = LeaseTable(tmp_path / "leases")
    yield Scene(table)
    table.close()


def test_a_lease_that_has_been_read_counts_for_half_a_second(scene: Scene) -> None:
    assert scene.repeats()
    scene.leases.end(scene.slot)
    scene.pass_by(LOOK_EVERY - 0.01, LOOK_EVERY - 0.01)
    assert scene.repeats()


@pytest.mark.parametrize(("boot", "real"), [(LOOK_EVERY, 0.0), (0.0, LOOK_EVERY), (0.0, -0.01)])
def test_after_half_a_second_by_either_clock_it_is_read_again(scene: Scene, boot: float, real: float) -> None:
    assert scene.repeats()
    scene.leases.end(scene.slot)
    scene.pass_by(boot, real)
    assert not scene.repeats()
    scene.path.at_once(b"GET", TARGET, scene.head, "192.0.2.1")  # begins another half second
    assert not scene.repeats()


def test_a_lease_that_ends_soon_is_left_to_the_way_that_has_it_renewed(scene: Scene) -> None:
    renewed = list[int]()
    scene.path.renew = renewed.extend
    scene.pass_by(RENEW_AFTER, RENEW_AFTER)
    assert scene.path.at_once(b"GET", TARGET, scene.head, "192.0.2.1") is not None
    assert not scene.repeats()
    assert renewed == []  # just as many seconds are left as are enough
    scene.pass_by(0.1, 0.1)
    assert scene.path.at_once(b"GET", TARGET, scene.head, "192.0.2.1") is not None
    assert renewed == [scene.slot]


def _set(scene: Scene, what: str, value: object) -> None:
    setattr(scene.client if hasattr(scene.client, what) else scene.client.policy, what, value)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda scene: _set(scene, "admitted", False),
        lambda scene: _set(scene, "refuses", lambda _: True),
        lambda scene: _set(scene, "digest", b"other settings"),
        lambda scene: scene.path.follow(None),
        lambda scene: scene.pass_by(0, 901),
        lambda scene: scene.pass_by(901, 0),
        lambda scene: scene.pass_by(0, -1),
        lambda scene: (scene.leases.end(scene.slot), scene.pass_by(1, 1)),
        lambda scene: scene.leases.change_versions([NAME]),
        lambda scene: scene.leases.change_versions([ANOTHER]),
        lambda scene: scene.leases.change_archive_version(scene.slot),
        lambda scene: scene.redirects.suspend([ARCHIVE]),
        lambda scene: scene.redirects.resize(1 << 19),
    ],
)
def test_both_ways_decline_for_each_reason(scene: Scene, spoil: Callable[[Scene], object]) -> None:
    assert scene.repeats()
    spoil(scene)
    assert not scene.repeats()
    assert scene.path.at_once(b"GET", TARGET, scene.head, "192.0.2.1") is None


def test_a_reader_after_the_end_of_a_count_is_left_to_the_way_that_starts_another(scene: Scene) -> None:
    assert scene.repeats()
    [redirect] = scene.redirects.newer.values()
    redirect.reader_count = None  # as `ReaderCounter` does when it has queued the acknowledgment
    assert not scene.repeats()
    assert scene.path.at_once(b"GET", TARGET, scene.head, "192.0.2.1") is not None
    assert scene.repeats()


def test_a_change_counts_at_once(scene: Scene) -> None:
    assert scene.repeats()
    scene.leases.change_versions([NAME])
    assert not scene.repeats()


def test_a_change_of_all_names_of_an_archive_counts_at_once(scene: Scene) -> None:
    assert scene.repeats()
    scene.leases.change_archive_version(scene.slot)
    assert not scene.repeats()


def test_an_archive_that_is_unreliable_counts_at_once(scene: Scene) -> None:
    assert scene.repeats()
    scene.redirects.suspend([ARCHIVE])
    assert not scene.repeats()
    scene.redirects.suspend([])
    assert scene.repeats()
