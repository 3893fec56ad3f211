"""What is noted in the background: every word of it, where it goes when it cannot be written, and what is counted."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.resolver.evidence.claims import MOST_ITEMS, READ_EVERY, ClaimTimes
from ibi.resolver.evidence.log import LONGEST_FACT, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ITEM = IBIForms.parse("rep dpi.inpe.br/banon-pc@80/2008/04.28.18.07 ibip 8JMKD3MGP8W/35MMLL8")
WORDS = "rep dpi.inpe.br/banon-pc@80/2008/04.28.18.07 ibip 8JMKD3MGP8W/35MMLL8"
ONE, TWO = "one.example/w/2020/01.01.00.00", "two.example/w/2020/01.01.00.00"
MOMENT = 1_790_000_000.25


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def written(evidence: Evidence) -> list[tuple[str, dict[str, str | int]]]:
    return [(each.what, dict(each.facts)) for each in evidence.entries()]


def test_each_kind_of_note_is_written_whole_by_one_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Evidence(tmp_path / "evidence.jsonl", lambda: MOMENT)) as evidence:
        assert evidence.original(ITEM, ONE) is True
        assert evidence.migrated(ITEM, ONE, TWO) is True
        assert evidence.deleted(ITEM, TWO) is True
        evidence.alert("suspect-originals", "x", [TWO, ONE], ["b", "a"])
        evidence.alert("not-found", "x", ["y" * LONGEST_FACT, "z"], ())
        assert [(each.name, each.daemon) for each in threading.enumerate() if each.name == "evidence"] == [
            ("evidence", True)
        ]
        assert evidence.flush() is True
        assert written(evidence) == [
            ("original", {"ibi": WORDS, "archive": ONE}),
            ("migrated", {"ibi": str(ITEM), "from": ONE, "to": TWO}),
            ("deleted", {"ibi": str(ITEM), "archive": TWO}),
            (
                "alert",
                {"kind": "suspect-originals", "ibi": "x", "archives": f"{ONE} {TWO}", "disputed": "b a"},
            ),
            ("alert", {"kind": "not-found", "ibi": "x", "archives": "y" * LONGEST_FACT, "disputed": ""}),
        ]
        assert {each.moment for each in evidence.entries()} == {"2026-09-21T14:13:20.250Z"}
        assert evidence.flush() is True
    assert [each for each in threading.enumerate() if each.name == "evidence"] == []
    assert caplog.records == []


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        (1_790_000_000.0, "2026-09-21T14:13:20.000Z"),
        (1_790_000_001.75, "2026-09-21T14:13:21.750Z"),
        (1_790_000_001.9995, "2026-09-21T14:13:21.999Z"),
    ],
)
def test_an_entry_has_its_moment_to_the_millisecond_and_its_facts_in_plain_text(
    tmp_path: Path, now: float, moment: str
) -> None:
    with closing(Evidence(tmp_path / "evidence.jsonl", lambda: now)) as evidence:
        evidence.write("setting", name=" a~ b", before="a\x7f \x1f~é~", after="a\nb?secret", by=7)
        (entry,) = evidence.entries()
        assert (entry.moment, entry.facts) == (
            moment,
            {"name": " a~ b", "before": "a. .~.~", "after": "a.b", "by": 7},
        )


def test_what_has_no_place_is_counted_unless_readers_bring_it_again(tmp_path: Path) -> None:
    full = Evidence(tmp_path / "evidence.jsonl", lambda: MOMENT, most=0)
    assert full.overflow == 0
    notes = [full.original(ITEM, ONE), full.migrated(ITEM, ONE, TWO), full.deleted(ITEM, TWO)]
    assert (notes, full.overflow) == ([False] * 3, 1)
    full.close()
    notes = [full.original(ITEM, ONE), full.migrated(ITEM, ONE, TWO), full.deleted(ITEM, TWO)]
    assert (notes, full.overflow) == ([False] * 3, 4)
    assert full.flush() is True  # nothing waits


def test_while_the_log_cannot_be_written_it_is_said_once_and_what_waits_is_written_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    path = folder / "evidence.jsonl"
    with closing(Evidence(path, lambda: MOMENT)) as evidence:
        evidence.note("unregistered", ibi=ONE)
        evidence.note("unregistered", ibi=TWO)
        assert evidence.flush() is False
        time.sleep(0.5)  # it is tried again and again
        assert [each.getMessage() for each in caplog.records] == [
            f"{path} cannot be written: No such file or directory"
        ]
        folder.mkdir()
        until(evidence.flush)
        evidence.note("unregistered", ibi=ITEM.main.canonical)
        assert evidence.flush() is True
        assert [facts["ibi"] for _, facts in written(evidence)] == [ONE, TWO, ITEM.main.canonical]
        assert evidence.overflow == 0


def test_what_cannot_be_written_at_the_end_is_counted_and_said_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data/evidence.jsonl"
    evidence = Evidence(path, lambda: MOMENT)
    evidence.note("unregistered", ibi=ONE)
    evidence.note("unregistered", ibi=TWO)
    evidence.close()
    assert (evidence.overflow, evidence.flush()) == (2, False)
    assert {each.getMessage() for each in caplog.records} == {
        f"{path} cannot be written: No such file or directory"
    }


def test_a_log_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    path.mkdir()
    evidence = Evidence(path, lambda: MOMENT)
    acts: list[Callable[[], object]] = [
        evidence.verify,
        lambda: list(evidence.lines()),
        lambda: list(evidence.entries()),
    ]
    for act in acts:
        with pytest.raises(SetupError) as refused:
            act()
        assert str(refused.value) == f"{path} cannot be read: Is a directory"
    with pytest.raises(SetupError) as refused:
        evidence.write("unregistered", ibi=ONE)
    assert str(refused.value) == f"{path} cannot be written: Is a directory"
    head = tmp_path / "evidence.head"
    with pytest.raises(SetupError) as refused:
        evidence.head()
    problem = "is missing or damaged, so it is not certain that the last entries are there"
    assert str(refused.value) == f"{head} {problem}"
    head.unlink()
    head.mkdir()
    with pytest.raises(SetupError) as refused:
        evidence.head()
    assert str(refused.value) == f"{path} cannot be read: Is a directory"


def claim(log: Path, item: str, archive: str) -> None:
    with closing(Evidence(log, lambda: MOMENT)) as evidence:
        evidence.write("original", ibi=f"rep {item}", archive=archive)


def test_claims_are_read_once_by_one_thread_and_kept_while_the_log_cannot_be_read(tmp_path: Path) -> None:
    log, item, calls = tmp_path / "evidence.jsonl", ITEM.main.canonical, list[float]()
    entered, may_go = threading.Event(), threading.Event()
    now = 100.0

    def clock() -> float:
        calls.append(now)
        entered.set()
        may_go.wait(30)
        return now

    claims = ClaimTimes(log, clock)
    claim(log, item, ONE)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(claims.of(item))) for _ in range(2)]
    for each in threads:
        each.start()
    assert entered.wait(30)
    time.sleep(0.05)
    assert calls == [now]  # the second one waits for the first
    may_go.set()
    for each in threads:
        each.join()
    known = {ONE: "2026-09-21T14:13:20.250Z"}
    assert found == [known, known]
    claim(log, item, TWO)
    now += READ_EVERY - 0.1
    assert claims.of(item) == known
    now += 0.1
    both = {**known, TWO: known[ONE]}
    assert claims.of(item) == both
    log.unlink()
    log.mkdir()
    now += READ_EVERY
    assert claims.of(item) == both


def test_of_more_items_than_are_kept_the_claims_that_were_read_longest_ago_are_dropped(
    tmp_path: Path,
) -> None:
    log, now = tmp_path / "evidence.jsonl", 0.0
    claims, names = (
        ClaimTimes(log, lambda: now),
        [f"a.example/x/2020/01.02.{n // 60:02}.{n % 60:02}" for n in range(MOST_ITEMS + 1)],
    )
    log.touch()
    for name in [*names[:-1], names[0], names[-1]]:
        now += READ_EVERY
        assert claims.of(name) == {}
    assert [claims.of(name) for name in (names[0], names[1], names[2])] == [{}, None, {}]
