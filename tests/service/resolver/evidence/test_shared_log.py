"""The log of evidence while it is written to, and the hints that are made of it on a slow disk."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.resolver.cache import store
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.evidence.chain import CHAIN_START, Entry, LogHead
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.evidence.reading import rebuild_hints
from ibi.resolver.evidence.table import EvidenceTable
from ibi.resolver.shared.tables import make_tables
from ibi.runtime.database import open_engine
from ibi.runtime.durable_files import locked_file
from ibi.runtime.shared.store import SharedStore
from support.concurrency.threads import until_waiting, waits_for
from support.resolver.shared_files import HOLDS_THE_LOCK, process, read_line, tell, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.engines.postgresql import PostgreSQL

MOMENT = 1_800_000_000.0
SERVICE = "archive.example/w/2020/01.01.00.00"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / EVIDENCE_FILE


@pytest.fixture
def evidence(path: Path) -> Iterator[Evidence]:
    evidence = Evidence(path, lambda: MOMENT)
    yield evidence
    evidence.close()


def test_the_log_is_looked_at_when_no_process_is_writing(path: Path, evidence: Evidence) -> None:
    evidence.write("registered", ibi=SERVICE)
    assert waits_for(path.with_suffix(".head"), evidence.verify).fault is None


def test_a_writer_that_waits_while_both_files_are_put_aside_begins_a_new_log(
    path: Path, evidence: Evidence
) -> None:
    evidence.write("registered", ibi=SERVICE)
    moved = path.parent / "moved"
    moved.mkdir()
    head = path.with_suffix(".head")
    with ThreadPoolExecutor(1) as threads:
        with locked_file(head):
            writing = threads.submit(evidence.write, "unregistered", ibi=SERVICE)
            until_waiting(head, writing.done)
            for file in (path, head):
                file.rename(moved / file.name)
        writing.result(20)
    old = Evidence(moved / EVIDENCE_FILE, lambda: MOMENT)
    assert [each.what for each in evidence.entries()] == ["unregistered"]
    assert [each.what for each in old.entries()] == ["registered"]
    assert (evidence.verify().fault, old.verify().fault) == (None, None)


def test_a_new_log_in_a_database_is_empty_and_whole(path: Path, postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    engine = open_engine(url)
    make_tables(engine)
    engine.dispose()
    with closing(SharedStore(url)) as database:
        table = EvidenceTable(path, database)
        assert (table.head(), list(table.lines())) == (LogHead(CHAIN_START, 0), [])
        assert table.verify().fault is None


def test_however_slow_the_disk_no_holder_is_lost_on_the_way_into_new_hints(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was seen first with an original must not be forgotten (threat T04)."""
    monkeypatch.setattr(store, "MOST_WAITING", 4_000)  # further changes are dropped
    folder, number, given = path.parent / "hints", 8_000, list[str]()

    def entries() -> Iterator[Entry]:
        for each in range(number):
            given.append(f"example.org/made/2020/01.01.{each // 3600:02}.{each // 60 % 60:02}.{each % 60:02}")
            yield Entry(0, "", "original", {"ibi": f"rep {given[-1]}", "archive": SERVICE}, "", "")

    hints = HintCache(folder)
    with process(HOLDS_THE_LOCK, folder) as disk, ThreadPoolExecutor(1) as threads:
        assert read_line(disk) == "begun"
        rebuilding = threads.submit(rebuild_hints, hints, entries())
        until(lambda: len(given) >= 4_000)
        time.sleep(0.5)
        tell(disk, "go on")
        assert rebuilding.result(60) == number
    known = {hints.of(name).original for name in given}
    hints.close()
    assert known == {parse_ibi(SERVICE).canonical}
