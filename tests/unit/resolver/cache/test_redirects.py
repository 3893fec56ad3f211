"""The redirects of one process: how long they may be used, what ends that, and how much memory they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache import redirects
from ibi.resolver.cache.lease import LEASE_SECONDS, NEVER, Moment
from ibi.resolver.cache.lease_table import NO_SLOT, LeaseTable, name_slot
from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
from ibi.resolver.cache.rows import name_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = "archive/a", "archive/b"
NOW = Moment(5_000.0, 1_800_000_000.0)


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[LeaseTable]:
    table = LeaseTable(tmp_path / "leases")
    yield table
    table.close()


@pytest.fixture
def cache(leases: LeaseTable) -> RedirectCache:
    return RedirectCache(leases, 1 << 20)


def later(seconds: float, real: float | None = None) -> Moment:
    return Moment(NOW.boot + seconds, NOW.real + (seconds if real is None else real))


def redirect(
    cache: RedirectCache,
    *,
    names: tuple[str, ...] = ("item/1",),
    archives: tuple[tuple[str, bool], ...] = ((A, True),),
    response: bytes = b"x",
    seconds: float = 86_400.0,
) -> CachedRedirect:
    versions = cache.versions(names, archives)
    assert versions is not None
    until = later(seconds)
    return CachedRedirect(response, (b"",), 1, b"", 0, b"", NOW.real, until.real, until.boot, *versions)


def test_it_may_be_used_while_the_lease_of_its_archive_runs(cache: RedirectCache, leases: LeaseTable) -> None:
    made = redirect(cache)
    assert cache.seconds_left(made, NOW) == 0
    leases.renew(leases.slot(A), NOW)
    assert cache.seconds_left(made, later(10)) == LEASE_SECONDS - 10
    assert cache.seconds_left(made, later(59.5)) == 0.5
    assert cache.seconds_left(made, later(60)) == 0
    leases.renew(leases.slot(A), later(50))
    assert cache.seconds_left(made, later(60)) == LEASE_SECONDS - 10
    leases.end(leases.slot(A))
    assert cache.seconds_left(made, later(60)) == 0


@pytest.mark.parametrize(("boot", "real"), [(61, 10), (10, 61), (-1, 10), (10, -1)])
def test_both_clocks_must_agree(cache: RedirectCache, leases: LeaseTable, boot: float, real: float) -> None:
    leases.renew(leases.slot(A), NOW)
    assert cache.seconds_left(redirect(cache), later(boot, real)) == 0


def test_it_may_be_used_as_long_as_the_first_of_its_leases_runs(
    cache: RedirectCache, leases: LeaseTable
) -> None:
    made = redirect(cache, archives=((A, True), (B, True)))
    leases.renew(leases.slot(A), NOW)
    assert cache.seconds_left(made, later(10)) == 0
    leases.renew(leases.slot(B), later(5))
    assert cache.seconds_left(made, later(10)) == LEASE_SECONDS - 10


@pytest.mark.parametrize(("boot", "real"), [(100, 99), (99, 100)])
def test_it_ends_with_its_answers_by_both_clocks(cache: RedirectCache, boot: float, real: float) -> None:
    made = redirect(cache, archives=((A, False),), seconds=100)
    assert cache.seconds_left(made, later(99)) == 1
    assert cache.seconds_left(made, later(boot, real)) == 0
    assert cache.seconds_left(made, later(10, -0.1)) == 0  # the clock was set back


def test_a_change_of_any_name_that_it_rests_on_ends_it(cache: RedirectCache, leases: LeaseTable) -> None:
    for name in ("item/1", "item/2"):
        made = redirect(cache, names=("item/1", "item/2"), archives=((A, False),))
        assert cache.seconds_left(made, NOW) > 0
        leases.change_versions(["item/3"])
        assert cache.seconds_left(made, NOW) > 0
        leases.change_versions([name])
        assert cache.seconds_left(made, NOW) == 0


def test_a_new_version_of_its_archive_ends_it_and_of_no_other(
    cache: RedirectCache, leases: LeaseTable
) -> None:
    made = redirect(cache, archives=((A, False),))
    leases.change_archive_version(leases.slot(B))
    assert cache.seconds_left(made, NOW) > 0
    leases.change_archive_version(leases.slot(A))
    assert cache.seconds_left(made, NOW) == 0


def test_it_is_suspended_while_one_of_its_archives_is(cache: RedirectCache) -> None:
    of_both, of_one = (
        redirect(cache, archives=((A, False), (B, False))),
        redirect(cache, archives=((A, False),)),
    )
    cache.suspend([B])
    assert (cache.seconds_left(of_both, NOW), cache.seconds_left(of_one, NOW) > 0) == (0, True)
    assert (cache.suspends(A), cache.suspends(B)) == (False, True)
    cache.suspend(())
    assert cache.seconds_left(of_both, NOW) > 0


def test_what_rests_on_too_much_is_not_cached(cache: RedirectCache) -> None:
    names = [f"item/{number}" for number in range(redirects.MOST_NAMES + 1)]
    archives = [(f"archive/{number}", True) for number in range(redirects.MOST_NAMES + 1)]
    assert cache.versions(names[1:], archives[1:]) is not None
    assert cache.versions(names, archives[1:]) is None
    assert cache.versions((), archives[1:]) is None
    assert cache.versions(names[1:], archives) is None


def test_its_memory_is_bounded_also_where_responses_grow(leases: LeaseTable) -> None:
    cache = RedirectCache(leases, 1_000_000)
    made = {size: redirect(cache, response=bytes(size)) for size in (100, 8_000)}
    for size in (100, 8_000):
        for number in range(3_000):
            cache.put(b"/%d" % number, made[size])
            if number % 400 == 0:
                entries = (*cache.newer.values(), *cache.older.values())
                assert sum(len(entry.first) for entry in entries) <= 1_000_000
    assert 50 < len(cache) < 120


def test_a_half_is_filled_to_its_last_byte(leases: LeaseTable) -> None:
    def least(entries: int) -> int:
        """The smallest bound under which so many entries of one size share a half."""
        for most in range(200 * entries, 2_000 * entries):
            cache = RedirectCache(leases, most)
            for number in range(entries):
                cache.put(b"/%d" % number, redirect(cache))
            if not cache.older:
                return most
        raise AssertionError

    assert [least(entries) for entries in (2, 3)] == [least(4) // 2, least(4) * 3 // 4]


@pytest.mark.parametrize("resized", [False, True])
def test_each_half_takes_the_bytes_of_its_entries_at_first_after_a_turn_and_after_another_size(
    leases: LeaseTable, *, resized: bool
) -> None:
    size = 2 + 1 + 470  # the key, the first part of the response, all else; a further name takes 150 more
    for spare, full in ((0, 3), (-2, 2)):  # of both halves together
        cache = RedirectCache(leases, 10**6 if resized else 6 * size + spare)
        cache.resize(6 * size + spare)
        halves = []
        for number in range(9):
            cache.put(b"/%d" % number, redirect(cache))
            cache.put(b"/%d" % number, redirect(cache))  # in its own place
            halves.append((len(cache.newer), len(cache.older)))
        assert halves == [(number % full + 1, full if number >= full else 0) for number in range(9)]
    one = RedirectCache(leases, 2 * (size + 150))
    names = ("item/1", "item/2")
    for number, halves_now in ((0, (1, 0)), (1, (1, 1))):
        one.put(b"/%d" % number, redirect(one, names=names))
        assert (len(one.newer), len(one.older)) == halves_now


def test_an_acknowledgment_takes_little_beside_the_response_that_it_repeats() -> None:
    response = b"location: http://far.example/items/0123456789/%d.pdf\r\n\r\n" % 10**20
    message = f"service contenttype=Data&url={response[10:-4].decode()}&urlkey=1234567890"
    assert len(redirects.packed(message, response)) < len(message) // 3


def test_another_size_drops_all_and_the_same_none(cache: RedirectCache) -> None:
    cache.put(b"/one", redirect(cache))
    cache.resize(1 << 20)
    assert len(cache) == 1
    cache.resize(2 << 20)
    assert len(cache) == 0


@pytest.mark.parametrize("response", [b"", b"location: http://far.example/x\r\n\r\n", bytes(range(256)) * 40])
@pytest.mark.parametrize("message", ["service " + "ibi=x&url=http://far.example/x" * 300, "service url=%00"])
def test_an_acknowledgment_is_read_as_it_was(cache: RedirectCache, response: bytes, message: str) -> None:
    made = redirect(cache, response=response)
    assert made.message(b"/1") == ""
    made.acknowledgment = redirects.packed(message, response)
    assert made.message(b"/1") == message


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"location: http://far.example/item/1\r\n\r\n",
        b"\r\nlink: </item/1>, </-/timegate/item/1>\r\n\r\n",
        b'location: /item/1\r\nlink: <http://here.example/item/1>; rel="cite-as"\r\nvary: Accept\r\n\r\n',
        b"location: x\r\nlink: /item/1/item/1",
        b"location: x\r\nlink: nothing of it",
    ],
)
def test_a_response_is_put_together_as_it_was(cache: RedirectCache, response: bytes) -> None:
    made = redirect(cache)
    made.first, made.rest = redirects.split_response(response, b"/item/1")
    assert made.response(b"/item/1") == response
    assert b"link" not in made.first


def test_what_responses_have_in_common_is_kept_once(cache: RedirectCache) -> None:
    form = "location: http://far.example/{0}.pdf\r\nlink: </item/{0}>, </-/timegate/item/{0}>\r\n\r\n"
    parts = [redirects.split_response(form.format(each).encode(), b"/item/%d" % each) for each in range(3)]
    assert len({id(cache.shared(rest)) for _, rest in parts}) == 1


def test_what_is_used_stays_and_what_is_not_used_goes(leases: LeaseTable) -> None:
    cache = RedirectCache(leases, 100_000)
    made = redirect(cache)
    cache.put(b"/used", made)
    cache.put(b"/unused", made)
    for number in range(2_000):
        cache.put(b"/%d" % number, made)
        assert cache.get(b"/used") is made
    assert cache.get(b"/unused") is None


def test_each_archive_has_a_slot_of_its_own_in_all_processes(tmp_path: Path) -> None:
    first, second = LeaseTable(tmp_path / "leases"), LeaseTable(tmp_path / "leases")
    services = [f"archive{number}.example/w/2020/01.01.00.00" for number in range(500)]
    slots = [first.slot(each) for each in services]
    assert len(set(slots)) == len(services)
    assert 0 not in slots
    assert [second.slot(each) for each in services] == slots
    first.renew(slots[3], NOW)
    assert (second.began(slots[3]), second.began(slots[4])) == (NOW, NEVER)
    second.end_all()
    assert first.began(slots[3]) == NEVER
    first.close()
    second.close()


def test_an_archive_for_which_no_slot_is_free_has_none_and_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.resolver.cache.lease_table.MOST_SLOTS", 4)
    table = LeaseTable(tmp_path / "leases")
    slots = [table.slot(f"archive{number}.example/w/2020/01.01.00.00") for number in range(5)]
    assert sorted(slots) == [NO_SLOT, NO_SLOT, 1, 2, 3]
    table.renew(NO_SLOT, NOW)
    assert table.began(NO_SLOT) == NEVER
    table.close()


def test_the_lock_of_an_archive_is_held_once(tmp_path: Path) -> None:
    table = LeaseTable(tmp_path / "leases")
    assert table.lock(7)
    assert not table.lock(7)
    assert table.lock(8)
    table.unlock(7)
    assert table.lock(7)
    table.close()


def test_slots_of_names_are_spread_over_all_their_numbers() -> None:
    numbers = {name_slot(name_digest(f"item/{number}")) for number in range(20_000)}
    assert len(numbers) > 15_000
    assert max(numbers) < 1 << 16


def test_redirects_share_what_they_have_in_common_and_no_more_than_so_much(
    cache: RedirectCache, leases: LeaseTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redirects, "MOST_SHARED", 2)
    one, another = redirect(cache), redirect(cache, names=("item/2",))
    assert one.archives is another.archives
    leases.change_archive_version(leases.slot(A))
    changed = redirect(cache)
    assert changed.archives != one.archives
    leases.change_archive_version(leases.slot(A))
    redirect(cache)
    assert redirect(cache, names=("item/3",)).archives != changed.archives
    assert cache.is_unchanged(redirect(cache))
