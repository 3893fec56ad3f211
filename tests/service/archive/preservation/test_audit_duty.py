"""When a served Archive reads which file: all within nine tenths of its days, and never too much at once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ibi.archive.preservation import audit
from ibi.archive.preservation.audit import CHUNK, RATE, AuditDuty
from ibi.archive.store.tables import fixity
from ibi.archive.store.tables.fixity import AuditPosition, FileFault
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, flip, make_archive
from support.concurrency.open_files import open_files

NOW = 1_700_000_000.0
DAYS = 10
ROUND = DAYS * 86_400
EARLY = ROUND * 9 // 10
FILES = {"a.txt": b"aaaa", "b/c.txt": b"c" * 5000, "empty": b""}
COSTS = (4 + 4096, 5000 + 4096, 4096, 2 + 4096)
"""What each file counts: its bytes, and 4096 for opening it."""


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, FILES)
    kept.put(OTHER, {"z.txt": b"zz"})
    return kept


def positions(
    kept: ArchiveFolder, moments: list[float], days: int = DAYS, begun: float | None = None
) -> list[AuditPosition]:
    """Where the audit is after a portion at each of these moments, in seconds from NOW."""
    found, now, slept = list[AuditPosition](), [NOW], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> None:
        with kept.catalogue() as catalogue:
            if begun is not None:
                with catalogue.writing() as writer:
                    fixity.save_position(writer.run, "duty", AuditPosition(NOW + begun))
            duty = AuditDuty(catalogue, kept.file_store, lambda: now[0], days, sleep)
            for moment in moments:
                now[0] = NOW + moment
                await duty.portion()
                with catalogue.reading() as run:
                    place = fixity.position_of(run, "duty")
                assert place is not None
                found.append(place)

    asyncio.run(run())
    assert set(slept) <= {CHUNK / RATE}
    return found


def test_each_file_is_read_at_its_time_and_the_next_round_begins_at_its_own(kept: ArchiveFolder) -> None:
    done = [sum(COSTS[:number]) for number in range(5)]
    due = [EARLY * each / done[4] for each in done[:4]]
    moments: list[float] = [0]
    expected: list[tuple[str, int, bool]] = [("", 0, False)]
    for number, (moment, name) in enumerate(zip(due, (*FILES, "z.txt"), strict=True)):
        before = ["", *FILES][number]
        moments += [*([moment - 1] if number else []), moment + 1]
        expected += [*([(before, done[number], False)] if number else []), (name, done[number + 1], False)]
    moments += [EARLY - 1, EARLY, ROUND - 1, ROUND]
    expected += [("z.txt", done[4], False), *[("z.txt", done[4], True)] * 2, ("", 0, False)]
    found = positions(kept, moments)
    assert [(each.name, each.done, each.ended) for each in found] == expected
    assert [each.begun - NOW for each in found] == [0.0] * (len(moments) - 1) + [ROUND]


@pytest.mark.parametrize(("ahead", "begun"), [(0.0, 0.0), (-5.0, -5.0), (5.0, 0.0)])
def test_a_round_that_begins_in_the_future_begins_now(
    kept: ArchiveFolder, ahead: float, begun: float
) -> None:
    (place,) = positions(kept, [0.0], begun=ahead)
    assert place.begun == NOW + begun


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Portions of four pieces."""
    monkeypatch.setattr(audit, "PORTION", 4 * CHUNK)
    return 4 * CHUNK


def test_a_portion_ends_after_its_bytes_and_goes_on_in_the_same_file(tmp_path: Path, small: int) -> None:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a": bytes(small - 4096), "b": bytes(2), "c": bytes(small), "d": bytes(3), "e": bytes(4)})
    found = positions(kept, [0, *[EARLY] * 4])
    # A file has ended when nothing more comes; its last piece counts as a whole one.
    assert [(each.name, each.ended) for each in found] == [
        ("", False), ("", False), ("b", False), ("e", True), ("e", True)
    ]  # fmt: skip


def test_a_file_that_is_being_read_is_closed_at_the_end_and_read_anew(tmp_path: Path, small: int) -> None:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"long": bytes(small + 1)})
    folder, now = kept.path("long").parent, [NOW]

    async def sleep(_seconds: float) -> None:
        pass

    async def run() -> None:
        with kept.catalogue() as catalogue:
            duty = AuditDuty(catalogue, kept.file_store, lambda: now[0], DAYS, sleep)
            await duty.portion()
            now[0] += EARLY
            await duty.portion()
            assert len(open_files(folder)) == 1
            for _ in range(2):
                duty.close()
                assert open_files(folder) == []
            flip(kept.path("long"), 0)  # in what has been read already
            for _ in range(2):
                await duty.portion()
            with catalogue.reading() as run:
                assert [each.fault for each in fixity.faults(run)] == [FileFault.DIGEST]

    asyncio.run(run())


def test_each_fault_is_logged_with_its_sentence(
    kept: ArchiveFolder, caplog: pytest.LogCaptureFixture
) -> None:
    flip(kept.path("a.txt"), 0)
    kept.path("empty").unlink()
    positions(kept, [0, EARLY])
    assert [(each.levelno, each.getMessage()) for each in caplog.records if "audit" in each.name] == [
        (logging.ERROR, f"a.txt of {NAME} is damaged: its SHA-256 is not the one that was listed"),
        (logging.ERROR, f"empty of {NAME} is missing"),
    ]
