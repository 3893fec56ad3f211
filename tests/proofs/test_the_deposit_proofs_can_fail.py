"""A proof that cannot fail is worth nothing: the judges of deposit are shown what they must not let pass."""

from __future__ import annotations

import random
import re
import sqlite3
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest

from proofs.common.report import Report, Scale
from proofs.common.tracing import why_not
from proofs.deposit import archives, calls, flushes, full_disk, kills, looking, replay, scenes
from proofs.deposit.boundaries import Stage
from proofs.deposit.looking import Item
from proofs.deposit.nursery import Nursery
from proofs.deposit.replay import Change
from proofs.deposit.together import Together

traced = pytest.mark.skipif(bool(why_not()), reason="processes may not be traced here")

_HEAD = """
import fcntl, os
from dataclasses import replace
from ibi.archive.store import file_store as store_of_files, files, item_changes
from ibi.archive.store.item_store import UnitOfWork
from ibi.archive.store.file_store import relative_path
from ibi.archive.store.files import FolderFiles
from ibi.runtime import durable_files
storing = FolderFiles.__init__
def remember(self, data, *given):
    storing(self, data, *given)
    remember.last = self, data
FolderFiles.__init__ = remember
"""
BROKEN = {
    "files are moved before they are listed": """
        add = UnitOfWork.add
        def early(self, holding, staged=(), *what, **more):
            file_store, data = remember.last
            moved = []
            for file in staged:
                path = data / "col" / os.fsdecode(relative_path(holding.forms, file.name))
                path.parent.mkdir(parents=True, exist_ok=True)
                os.rename(data / "staging" / file.staged, path)
                moved.append(replace(file, staged=""))
            return add(self, holding, moved, *what, **more)
        UnitOfWork.add = early
        """,
    "it speaks before it is durable": """
        deposited = item_changes.deposit
        def hasty(item_store, draft, staged, who, place, *_):
            holding = draft.holding(next(item_store.mint(1)), item_store.moment)
            print(*holding.names, flush=True)
            return deposited(item_store, replace(draft, forms=holding.forms), staged, who, place)
        item_changes.deposit = hasty
        """,
    "old bytes go before the new ones are listed": """
        change = UnitOfWork.change
        def eager(self, old, new, *what, **more):
            for file in old.files:
                if file not in new.files:
                    os.unlink(remember.last[0].path_of(old.forms, file))
            return change(self, old, new, *what, **more)
        UnitOfWork.change = eager
        """,
    "the link to a new edition is a change of its own": """
        def later(work, held, **links):
            later.owed = (held.forms.main, links)
        link, item_changes.change_links = item_changes.change_links, later
        deposited = item_changes.deposit
        def twice(item_store, *what, **more):
            added = deposited(item_store, *what, **more)
            with item_store.unit_of_work("second") as work:
                link(work, work.get(later.owed[0]), **later.owed[1])
            return added
        item_changes.deposit = twice
        """,
    "files are not flushed": """
        flush = os.fsync
        os.fsync = lambda handle: None if "/staging/" in os.readlink(f"/proc/self/fd/{handle}") else flush(handle)
        """,
    "nobody waits for anybody": """
        fcntl.flock = lambda *what: None
        """,
    "it is not said clearly": """
        class Unclear(RuntimeError):
            def __init__(self, problem, **details):
                super().__init__("what is this?")
        store_of_files.SetupError = files.SetupError = durable_files.SetupError = Unclear
        """,
}


def program(folder: Path, harm: str) -> Path:
    path = folder / "broken.py"
    path.write_text(_HEAD + textwrap.dedent(BROKEN[harm]))
    return path


@contextmanager
def stage(tmp_path: Path, scene: str, harm: str) -> Iterator[tuple[Report, Stage]]:
    report = Report("trial", "")
    scenes.give(tmp_path)
    found = next(each for each in scenes.SCENES if each.name == scene)
    with Nursery(program(tmp_path, harm)) as nursery:
        yield report, Stage(report, nursery, found, tmp_path / "stage")


def kills_after(trace: str, pattern: str) -> Iterator[str]:
    """The faults that kill at the first calls after one that matches."""
    numbers, passed = Counter[str](), False
    for line in trace.splitlines():
        name = line.split(maxsplit=1)[1].partition("(")[0]
        numbers[name] += 1
        if passed and name in calls.CALLS:
            yield f"{name}:signal=SIGKILL:when={numbers[name]}"
        passed = passed or bool(re.search(pattern, line))


@traced
@pytest.mark.long
@pytest.mark.parametrize(
    ("scene", "harm", "after", "complaint"),
    [
        ("deposit", "files are moved before they are listed", r"rename\(.*/staging/", "listed by nobody"),
        (
            "deposit",
            "it speaks before it is durable",
            r"write\(1<.*/out>",
            "said to be done, and is not",
        ),
        ("edit", "old bytes go before the new ones are listed", r'unlink\(".*/col/', "but not there"),
        ("new edition", "the link to a new edition is a change of its own", r"renameat\(", "by halves"),
        ("deposit", "files are not flushed", r"renameat\(", "listed before it was flushed"),
    ],
)
def test_a_broken_deposit_is_found_out(
    tmp_path: Path, scene: str, harm: str, after: str, complaint: str
) -> None:
    with stage(tmp_path, scene, harm) as (report, trials):
        list(trials.boundaries())
        for fault in islice(kills_after(trials.trial(), after), 24):
            if complaint not in " ".join(report.broken):
                trials.trial(fault)
    assert complaint in " ".join(report.broken)


@traced
@pytest.mark.long
def test_a_command_that_does_not_say_clearly_what_is_wrong_is_found_out(tmp_path: Path) -> None:
    with stage(tmp_path, "deposit", "it is not said clearly") as (report, trials):
        trials.trial("fsync:error=ENOSPC:when=1")
    assert "no clear sentence" in " ".join(report.broken)


@pytest.mark.long
def test_writers_that_collide_are_found_out(tmp_path: Path) -> None:
    assert not kills.prove(Scale.SHORT, 1, program(tmp_path, "nobody waits for anybody")).held


@pytest.mark.long
def test_a_start_that_clears_away_what_others_have_staged_is_found_out(tmp_path: Path) -> None:
    report = Report("trial", "")
    with Nursery(program(tmp_path, "nobody waits for anybody")) as nursery:
        Together(report, nursery, tmp_path, random.Random(1)).stopped_with_staged_files(killed=False)
    assert "was cleared away" in " ".join(report.broken)


@pytest.mark.long
def test_a_command_that_does_not_say_that_the_disk_is_full_is_found_out(tmp_path: Path) -> None:
    report = full_disk.prove_trials(1, 1, program(tmp_path, "it is not said clearly"))
    assert "no clear sentence" in " ".join(report.broken)


# ---- the judges by themselves


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A whole Archive with one item."""
    archives.found(tmp_path / "data")
    with archives.at(tmp_path / "data").item_store() as item_store:
        archives.put(item_store, {"a": b"content", "b/c": b"more"}, "x", key="k")
    assert archives.all_faults(tmp_path / "data") == []
    return tmp_path / "data"


def test_the_judge_sees_what_is_wrong_on_the_disk(data: Path) -> None:
    file = next(path for path in (data / "col").rglob("a"))
    file.write_bytes(b"contenu")
    assert "other bytes than listed" in looking.faults(data)[0]
    file.rename(file.with_name("z"))
    assert [fault.partition(":")[0] for fault in looking.faults(data)] == [
        "listed by nobody",
        "listed, but not there",
    ]
    file.with_name("z").unlink()
    file.write_bytes(b"content")
    (data / "staging" / "left").touch()
    (data / "col" / "empty").mkdir()
    (file.parents[1] / "item.json").write_text("{")
    assert [fault.partition(":")[0] for fault in looking.faults(data)] == [
        "an empty folder",
        "left in staging",
        "an item.json is not whole",
    ]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE file SET staged = 'x' WHERE name = 'a'", "still in staging"),
        ("INSERT INTO leaving VALUES (x'61')", "still to be removed"),
        ("UPDATE item SET file_count = 1 WHERE key = 'k'", "miscounts"),
        ("INSERT INTO file VALUES (99, 'n', 0, 'h', 't', NULL)", "belongs to nothing"),
    ],
)
def test_the_judge_sees_what_is_wrong_in_the_database(data: Path, statement: str, complaint: str) -> None:
    with closing(sqlite3.connect(data / "catalogue.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)
    assert complaint in " ".join(looking.faults(data))


HASH = (1, sha256(b"1").hexdigest())
ITEM = Item(
    ("n",),
    {"state": "Original", "next_edition": None},
    {"a": HASH},
    (("1", "deposited", "", None), ("2", "edited", "", None)),
)
FIRST = Change("1", "deposit", "", {"b": HASH}, [], 10, 20, "n")
SECOND = Change("2", "edit", "n", {"a": HASH}, ["b"], 30, 40, "n")


def replayed(item: Item = ITEM, first: Change = FIRST, *more: Change) -> str:
    return " ".join(replay.judge({"n": item}, {change.number: change for change in (first, SECOND, *more)}))


def test_changes_that_are_all_there_are_let_pass() -> None:
    interrupted = Change("3", "edit", "n", {"z": HASH}, [], 50)
    refused = Change("4", "removal", "n", {}, [], 50, 60, "", "HoldingError")
    assert replayed(ITEM, FIRST, interrupted, refused) == ""


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        (lambda: replayed(replace(ITEM, files={})), "its files should be"),
        (lambda: replayed(replace(ITEM, events=ITEM.events[:1])), "was acknowledged, and is lost"),
        (lambda: replayed(replace(ITEM, events=(*ITEM.events, ITEM.events[1]))), "stands in 2 histories"),
        (
            lambda: replayed(replace(ITEM, events=(*ITEM.events, ("9", "edited", "", None)))),
            "nobody has begun 9",
        ),
        (lambda: replayed(replace(ITEM, facts={**ITEM.facts, "state": "Deleted"})), "it is Deleted"),
        (lambda: replayed(replace(ITEM, facts={**ITEM.facts, "next_edition": "x"})), "its next edition is x"),
        (lambda: replayed(ITEM, replace(FIRST, begun=50, ended=60)), "had ended before"),
        (lambda: replayed(ITEM, replace(FIRST, refused="BadItem")), "was refused, and is there"),
        (lambda: replayed(ITEM, replace(FIRST, refused="SetupError: locked")), "refused: SetupError: locked"),
        (lambda: replayed(ITEM, replace(FIRST, main="elsewhere")), "was said to be elsewhere"),
        (
            lambda: replayed(ITEM, FIRST, Change("3", "deposit", "", {}, [], 1, 2, "m")),
            "3: it was acknowledged",
        ),
    ],
)
def test_changes_that_are_lost_doubled_or_undone_are_found_out(
    report: Callable[[], str], complaint: str
) -> None:
    assert complaint in report()


def test_a_transaction_that_is_durable_before_its_files_is_found_in_the_order_of_calls() -> None:
    made = '7 openat(AT_FDCWD</>, "/d/staging/x", O_WRONLY|O_CREAT) = 3</d/staging/x>'
    filled = '7 write(3</d/staging/x>, "a b, c", 6) = 6'
    moved = '7 renameat(AT_FDCWD</>, "/d/staging/x", 4</d/col/i>, "x") = 0'
    file, folder, target = (f"7 fsync(3<{path}>) = 0" for path in ("/d/staging/x", "/d/staging", "/d/col/i"))
    failed = "7 fsync(3</d/staging/x>) = -1 EIO (Input/output error)"
    listed = "7 fdatasync(9</d/catalogue.sqlite-wal>) = 0"
    good = [made, filled, file, folder, listed, moved, target, listed]
    assert list(flushes.unflushed("\n".join(good))) == []
    for missing in (file, folder, target):
        assert len(list(flushes.unflushed("\n".join(line for line in good if line != missing)))) >= 1
    trace = f"{made}\n{filled}\n{failed}\n{folder}\n{listed}"
    assert list(flushes.unflushed(trace)) == ["bytes of write in /d/staging/x"]
