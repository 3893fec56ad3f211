"""The table of leases and versions: two of one resolver see the same, whether in one process or in two."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from ibi.errors import SetupError
from ibi.resolver.cache import lease_table
from ibi.resolver.cache.lease import NEVER, Moment
from ibi.resolver.cache.lease_table import NO_SLOT, LeaseTable, name_slot
from ibi.resolver.cache.rows import name_digest
from support.resolver.shared_files import process, read_line, tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVICES = [f"example/{name}/2020/01.01.00.00" for name in "abcd"]

TAKES_LOCKS = """
import sys
from pathlib import Path
from ibi.resolver.cache.lease_table import LeaseTable
table = LeaseTable(Path(sys.argv[1]))
for line in sys.stdin:
    word, slot = line.split()
    print(getattr(table, word)(int(slot)), flush=True)
"""


@contextmanager
def tables(path: Path, number: int = 2) -> Iterator[list[LeaseTable]]:
    made = [LeaseTable(path) for _ in range(number)]
    yield made
    for each in made:
        each.close()


def test_what_one_writes_of_an_archive_the_other_reads(tmp_path: Path) -> None:
    def read(table: LeaseTable) -> list[tuple[Moment, float]]:
        return [(table.began(slot), table.sent(slot)) for slot in map(table.slot, SERVICES)]

    with tables(tmp_path / "leases") as (one, other):
        slots = [one.slot(each) for each in SERVICES]
        assert [other.slot(each) for each in reversed(SERVICES)] == slots[::-1]
        assert len({*slots, NO_SLOT}) == len(SERVICES) + 1
        assert read(other) == [(NEVER, 0.0)] * 4
        one.renew(slots[0], Moment(5.0, 7.0))
        one.note_sent(slots[1], 8.0)
        assert read(other) == [(Moment(5.0, 7.0), 0.0), (NEVER, 8.0), (NEVER, 0.0), (NEVER, 0.0)]
        assert (other.began_boot[slots[0]], other.began_real[slots[0]]) == (5.0, 7.0)
        one.renew(NO_SLOT, Moment(5.0, 7.0))
        assert other.began(NO_SLOT) == NEVER


def test_a_lease_that_ends_takes_the_request_under_way_with_it_and_leaves_others(tmp_path: Path) -> None:
    with tables(tmp_path / "leases") as (one, other):
        slots = [one.slot(each) for each in SERVICES[:2]]
        for slot in slots:
            one.renew(slot, Moment(5.0, 7.0))
        sessions, unused = [other.session(slot) for slot in slots], one.session(1 if 1 not in slots else 2)
        one.end(slots[0])
        assert [other.began(slot) for slot in slots] == [NEVER, Moment(5.0, 7.0)]
        assert [other.session(slot) == was for slot, was in zip(slots, sessions, strict=True)] == [
            False,
            True,
        ]
        sessions = [other.session(slot) for slot in slots]
        other.end_all()
        assert [one.began(slot) for slot in slots] == [NEVER, NEVER]
        assert all(one.session(slot) != was for slot, was in zip(slots, sessions, strict=True))
        assert one.session(1 if 1 not in slots else 2) == unused == 0


def test_a_change_of_a_name_or_an_archive_changes_its_version_and_no_other(tmp_path: Path) -> None:
    names, digests = ["a.example/x", "a.example/y", "a.example/z"], [name_digest("a.example/z")]
    with tables(tmp_path / "leases") as (one, other):
        archives = [one.slot(each) for each in SERVICES[:2]]
        places = [name_slot(name_digest(each)) for each in names]
        assert all(
            place == int.from_bytes(name_digest(name)[:2]) for place, name in zip(places, names, strict=True)
        )

        def versions() -> list[int]:
            return [
                *(other.name_versions[each] for each in places),
                *(other.archive_versions[each] for each in archives),
            ]

        seen = [versions()]
        one.change_versions(names[:2])
        seen.append(versions())
        one.change_version(digests[0])
        seen.append(versions())
        one.change_archive_version(archives[1])
        seen.append(versions())
        changed = [[was != now for was, now in zip(*two, strict=True)] for two in pairwise(seen)]
        assert changed == [
            [True, True, False, False, False],
            [False, False, True, False, False],
            [False, False, False, False, True],
        ]
        # So that hardly any number comes twice.
        assert max(seen[-1][:3]) >= 1 << 24
        assert seen[-1][4] >= 1 << 32


def test_the_lock_of_an_archive_is_held_once_in_all_processes_until_it_is_freed(tmp_path: Path) -> None:
    path = tmp_path / "leases"
    with tables(path, 1) as (table,), process(TAKES_LOCKS, path) as running:
        first, second = (table.slot(each) for each in SERVICES[:2])

        def elsewhere(word: str, slot: int) -> str:
            tell(running, f"{word} {slot}")
            return read_line(running)

        # Slots are given under a lock of their own, which is free again afterwards.
        assert elsewhere("lock", NO_SLOT) == "True"
        claim = Thread(target=table.slot, args=[SERVICES[2]])
        claim.start()
        claim.join(0.05)
        assert claim.is_alive()
        elsewhere("unlock", NO_SLOT)
        claim.join()
        assert [table.lock(first), table.lock(first)] == [True, False]
        assert [elsewhere("lock", first), elsewhere("lock", second)] == ["False", "True"]
        assert table.lock(second) is False
        table.unlock(first)
        assert [elsewhere("lock", first), elsewhere("lock", first)] == ["True", "False"]
        assert table.lock(first) is False
        elsewhere("unlock", first)
        assert table.lock(first) is True
        # The lock of one is not that of its neighbour.
        neighbour = first + 1
        assert [elsewhere("lock", neighbour), elsewhere("lock", first + 2)] == ["True", "True"]
        elsewhere("unlock", neighbour)
        assert [table.lock(neighbour), table.lock(first + 2)] == [True, False]
        running.kill()  # the kernel frees what a process held
        running.wait()
        assert table.lock(second) is True


def test_where_all_slots_are_taken_a_further_archive_has_none_and_its_lease_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_table, "MOST_SLOTS", 4)
    with tables(tmp_path / "leases") as (one, other):
        assert sorted(map(one.slot, SERVICES[:3])) == [1, 2, 3]
        assert [each.slot(SERVICES[3]) for each in (one, other)] == [NO_SLOT, NO_SLOT]
        assert list(map(other.slot, SERVICES[:3])) == list(map(one.slot, SERVICES[:3]))
        assert one.lock(1) is True  # that a slot was claimed holds no lock
        for slot in (1, 2, 3):
            one.renew(slot, Moment(5.0, 7.0))
        one.end_all()
        assert [one.began(slot) for slot in (1, 2, 3)] == [NEVER, NEVER, NEVER]


def test_a_table_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "leases").mkdir()
    with pytest.raises(SetupError) as refused:
        LeaseTable(tmp_path / "leases")
    assert (
        str(refused.value)
        == f"{tmp_path / 'leases'} cannot be used: [Errno 21] Is a directory: '{tmp_path / 'leases'}'"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["leases"]
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError):
        LeaseTable(tmp_path / "link")
    made = LeaseTable(tmp_path / "new")
    made.close()
    files = {each: (tmp_path / each).stat() for each in ("new", "new.locks")}
    assert {each: (found.st_mode & 0o777, found.st_size) for each, found in files.items()} == {
        "new": (0o600, (1 << 16) * 4 + 6 * (1 << 17) * 8),
        "new.locks": (0o600, 0),
    }
