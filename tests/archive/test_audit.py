"""Audits: every stored file is read again, every fault is found, remembered, and mended with the same bytes alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from archive.keeping_world import NAME, OTHER, WHO, Kept, flip, make_archive
from ibi.archive.care.audit import Audit, known_fault, repair
from ibi.archive.care.audit_duty import PORTION, AuditDuty
from ibi.archive.ledgers import fixity
from ibi.archive.ledgers.fixity import Fault, Found
from ibi.errors import BadItem, HoldingError
from ibi.identifier.forms import parse_ibi

NOW = 1_700_000_000.0


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa", "b/c.txt": b"c" * 5000, "empty": b""})
    kept.put(OTHER, {"z.txt": b"zz"})
    return kept


def audit(kept: Kept, **how: bool) -> list[Found]:
    with kept.catalogue() as catalogue:
        return list(Audit(catalogue, kept.storage, lambda: NOW).all(**how))


def faults(kept: Kept) -> dict[str, Fault]:
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        return {known.listed.file.name: known.fault for known in fixity.faults(run)}


def test_a_whole_archive_has_no_faults_and_remembers_when_each_file_was_good(kept: Kept) -> None:
    found = audit(kept)
    assert [(each.listed.file.name, each.fault) for each in found] == [
        ("a.txt", None), ("b/c.txt", None), ("empty", None), ("z.txt", None),
    ]  # fmt: skip
    held = kept.held()
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        assert {fixity.last_good(run, held.number, file) for file in held.files} == {"2023-11-14T22:13:20Z"}
        assert fixity.faults(run) == []


def test_each_kind_of_fault_is_found_and_named(kept: Kept) -> None:
    flip(kept.path("a.txt"), 3)
    kept.path("b/c.txt").write_bytes(b"c" * 4999)
    kept.path("empty").unlink()
    kept.path("z.txt", OTHER).unlink()
    kept.path("z.txt", OTHER).mkdir()
    assert {each.listed.file.name: each.fault for each in audit(kept)} == {
        "a.txt": Fault.DIGEST, "b/c.txt": Fault.SIZE, "empty": Fault.MISSING, "z.txt": Fault.UNREADABLE,
    }  # fmt: skip
    assert faults(kept).keys() == {"a.txt", "b/c.txt", "empty", "z.txt"}


@pytest.mark.parametrize("bit", [0, 39_999])
def test_a_single_bit_is_found(kept: Kept, bit: int) -> None:
    flip(kept.path("b/c.txt"), bit)
    assert [each.listed.file.name for each in audit(kept) if each.fault] == ["b/c.txt"]


def test_a_known_fault_stands_in_the_way_until_the_file_is_mended_or_replaced(kept: Kept) -> None:
    flip(kept.path("a.txt"), 0)
    audit(kept)
    held = kept.held()
    file = held.file("a.txt")
    assert file
    with kept.catalogue() as catalogue:
        assert "a.txt of " + NAME in str(known_fault(catalogue, held, file))
    flip(kept.path("a.txt"), 0)
    audit(kept)
    with kept.catalogue() as catalogue:
        assert known_fault(catalogue, held, file) is None


def test_when_a_file_was_last_good_is_known_of_a_damaged_one(kept: Kept) -> None:
    audit(kept)
    flip(kept.path("a.txt"), 0)
    with kept.catalogue() as catalogue:
        list(Audit(catalogue, kept.storage, lambda: NOW + 86_400).all())
        with catalogue.reading() as run:
            (known,) = fixity.faults(run)
    assert (known.good, known.read) == ("2023-11-14T22:13:20Z", "2023-11-15T22:13:20Z")


def test_the_same_bytes_from_elsewhere_mend_a_file(kept: Kept, tmp_path: Path) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    (tmp_path / "saved").write_bytes(b"aaaa")
    before = kept.held()
    with kept.keeper() as keeper:
        repair(keeper, parse_ibi(NAME), "a.txt", tmp_path / "saved", WHO)
    assert faults(kept) == {}
    assert kept.held() == before
    assert kept.path("a.txt").read_bytes() == b"aaaa"
    assert kept.everything()[0]["history"][-1]["what"] == "repaired"
    assert [each.fault for each in audit(kept)] == [None] * 4


def test_other_bytes_mend_nothing(kept: Kept, tmp_path: Path) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    (tmp_path / "other").write_bytes(b"aaab")
    with kept.keeper() as keeper, pytest.raises(BadItem, match="its SHA-256 is another"):
        repair(keeper, parse_ibi(NAME), "a.txt", tmp_path / "other", WHO)
    with kept.keeper() as keeper, pytest.raises(HoldingError, match="has no file"):
        repair(keeper, parse_ibi(NAME), "x.txt", tmp_path / "other", WHO)
    assert faults(kept) == {"a.txt": Fault.MISSING}
    assert kept.staging() == []


def test_an_interrupted_audit_goes_on_where_it_was(kept: Kept) -> None:
    with kept.catalogue() as catalogue:
        walk = Audit(catalogue, kept.storage, lambda: NOW).all()
        first = [next(walk).listed.file.name, next(walk).listed.file.name]
        walk.close()
    rest = [each.listed.file.name for each in audit(kept, go_on=True)]
    assert first == ["a.txt", "b/c.txt"]
    assert rest in (["b/c.txt", "empty", "z.txt"], ["empty", "z.txt"])
    assert len(audit(kept, go_on=True)) == 4  # the last one was ended, so this one begins anew


def test_a_file_that_is_listed_no_longer_is_no_fault(kept: Kept) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    with kept.keeper() as keeper, keeper.changing(WHO) as hand:
        hand.remove(hand.held(parse_ibi(NAME)), "gone")
    assert faults(kept) == {}
    assert [each.listed.file.name for each in audit(kept)] == ["z.txt"]


def test_a_file_that_was_replaced_is_not_blamed_for_the_old_one(kept: Kept) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    with kept.keeper() as keeper:
        staging = keeper.storage.stage_stream("a.txt")
        staging.write(b"new")
        staged = staging.finish()
        with keeper.changing(WHO) as hand:
            held = hand.held(parse_ibi(NAME))
            hand.change(held, held, [staged])
    assert faults(kept) == {}
    held = kept.held()
    file = held.file("a.txt")
    assert file
    with kept.catalogue() as catalogue:
        assert known_fault(catalogue, held, file) is None


class Days:
    """A clock for the duty, which sleeps by moving it on."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept = 0.0

    def seconds(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


def portions(kept: Kept, clock: Days, days: float, every: float = 3600.0) -> list[set[str]]:
    """What was read by each portion of a running Archive, over so many days."""
    read: list[set[str]] = []

    async def live() -> None:
        with kept.catalogue() as catalogue:
            duty = AuditDuty(catalogue, kept.storage, clock.seconds, 30, clock.sleep)
            end = clock.now + days * 86_400
            while clock.now < end:
                await duty.portion()
                with catalogue.reading() as run:
                    place = fixity.place_of(run, "duty")
                    assert place
                    files = fixity.next_files(run, fixity.Place(0.0), 100)
                    read.append(
                        {
                            each.file.name
                            for each in files
                            if (each.item, each.file.name) <= (place.item, place.name)
                        }
                    )
                clock.now += every

    asyncio.run(live())
    return read


def test_a_running_archive_reads_everything_within_its_days_and_not_at_once(kept: Kept) -> None:
    read = portions(kept, Days(), 27.5)
    assert read[-1] == {"a.txt", "b/c.txt", "empty", "z.txt"}
    assert len(read[24]) < 4
    half = next(number for number, files in enumerate(read) if len(files) >= 3)
    assert 24 * 5 < half < 24 * 27


def test_the_next_round_begins_when_the_days_are_over(kept: Kept) -> None:
    clock = Days()
    portions(kept, clock, 28)
    flip(kept.path("z.txt", OTHER), 0)
    portions(kept, clock, 1.9)
    assert faults(kept) == {}
    portions(kept, clock, 28)
    assert faults(kept) == {"z.txt": Fault.DIGEST}


def test_a_running_archive_finds_faults_and_sees_them_mended(kept: Kept) -> None:
    clock = Days()
    flip(kept.path("a.txt"), 0)
    kept.path("empty").unlink()
    portions(kept, clock, 28)
    assert faults(kept) == {"a.txt": Fault.DIGEST, "empty": Fault.MISSING}
    flip(kept.path("a.txt"), 0)
    portions(kept, clock, 31)
    assert faults(kept) == {"empty": Fault.MISSING}


def test_a_long_file_is_read_in_portions_and_slowly(tmp_path: Path) -> None:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"long": bytes(PORTION + (3 << 20))})
    clock = Days()

    async def live() -> list[bool]:
        with kept.catalogue() as catalogue:
            duty = AuditDuty(catalogue, kept.storage, clock.seconds, 30, clock.sleep)
            await duty.portion()
            clock.now += 28 * 86_400
            ended = []
            for _ in range(2):
                await duty.portion()
                with catalogue.reading() as run:
                    place = fixity.place_of(run, "duty")
                ended.append(bool(place and place.ended))
            return ended

    assert asyncio.run(live()) == [False, True]
    assert clock.slept >= (PORTION + (2 << 20)) / (8 << 20)


def test_a_clock_that_was_far_ahead_delays_no_audit(kept: Kept) -> None:
    with kept.catalogue() as catalogue, catalogue.writing() as writer:
        fixity.keep_place(writer.run, "duty", fixity.Place(NOW * 2))
    assert portions(kept, Days(), 28)[-1] == {"a.txt", "b/c.txt", "empty", "z.txt"}
