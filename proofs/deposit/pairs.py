"""P-D2, two by two: one process is stopped at every point of its settling, and another one changes the same item.

The Archive is as killed writers left it: a listed file lies in staging still, and one that is no longer listed has
still to be removed. The first process deposits an item and then settles all there is to settle. It is stopped
(SIGSTOP) at the beginning, or after one of its steps: a look at the catalogue, a transaction, a file moved or removed,
a folder made or removed. Then the second one changes the item whose file lies in staging: removes it, takes the file
out, replaces it, takes it out and puts it back, puts a folder where a file was. It is killed between its
commit and its own settling, or waits for the first one to settle after it. The first one goes on, or is killed.

Whatever happened, the next user of the directory finds it whole, in every way in which P-D2 looks at it, and what was
committed is there.

What it cannot show: points between two steps of SQLite (P-D2-boundaries goes through those of one process).
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_changes import edit, remove
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import IbiError
from ibi.identifier.forms import parse_name
from proofs.common.report import Report, Scale
from proofs.deposit import archives
from proofs.deposit.looking import items_of
from proofs.deposit.nursery import Child, Nursery, wait_until

NAME = "P-D2-pairs"
HOLDS = "two that meet at any step of settling, killed or not, leave what was committed, once and whole"

SETTLE = "proofs.deposit.pairs:settle"
CHANGE = "proofs.deposit.pairs:change"
CHANGES = ("removal", "out", "replaced", "out and back", "replaced and removed", "a folder")
"""What the second process does to the item."""

_FIRST, _BEFORE_LAST, _LAST = "first", "before the last", "last"
_STEPS = ("rename", "unlink", "rmdir", "mkdir")


class Pair(NamedTuple):
    """One trial. `point`: where the first one is stopped; `killed`: whether it is killed there; `dies`: the second."""

    point: int
    change: str
    dies: bool
    killed: bool


def prove(scale: Scale, seed: int, program: Path | None = None) -> Report:
    """All points with those changes that say most, and others by chance. `program`: see the nursery."""
    report = Report(NAME, HOLDS)
    with tempfile.TemporaryDirectory(prefix="proof-pairs-") as folder, Nursery(program) as nursery:
        stage = Stage(report, nursery, Path(folder))
        points = range(1, stage.points() + 1)
        every = list(
            itertools.starmap(Pair, itertools.product(points, CHANGES, (True, False), (True, False)))
        )
        surely = [pair for pair in every if pair.change == "removal" and pair.dies and not pair.killed]
        others = [pair for pair in every if pair not in surely]
        more = min(len(others), scale.pick(3, 150, len(others)))
        for pair in [*surely, *random.Random(seed).sample(others, more)]:
            stage.play(pair)
    return report


class Stage:
    """Each trial in a copy of the same Archive."""

    def __init__(self, report: Report, nursery: Nursery, folder: Path) -> None:
        self._report = report
        self._nursery = nursery
        self._folder = folder
        self._number = 0
        self._pattern = folder / "pattern"
        _leave_work(self._pattern)

    def points(self) -> int:
        """How many points the first one passes when it is not stopped."""
        data = self._new()
        with _company(data):
            child = self._child(SETTLE, data, 0)
            self._report.demand(child.wait() == 0, f"nobody stopped it: {child.err[-300:]}")
        count = int(child.out or b"0")
        self._report.top("points", count)
        return count

    def play(self, pair: Pair) -> None:
        """One trial."""
        data = self._new()
        with _company(data):
            first = self._child(SETTLE, data, pair.point)
            stopped = wait_until(lambda: _state(first) in "TZ") and _state(first) == "T"
            self._report.demand(stopped, f"{pair}: it was not stopped: {first.err[-300:]}")
            second = self._child(CHANGE, data, pair.change, pair.dies)
            if pair.dies:
                self._report.demand(second.wait() == -9, f"{pair}: {second.err[-300:]}")
            else:
                self._report.demand(
                    wait_until(lambda: _LAST in _doers(data)), f"{pair}: it did not change it"
                )
            if pair.killed:
                first.kill()
            else:
                first.signal(signal.SIGCONT)
                self._report.demand(first.wait() == 0, f"{pair}: it cannot go on: {first.err[-300:]}")
            if not pair.dies:
                self._report.demand(second.wait() == 0, f"{pair}: {second.err[-300:]}")
        self._report.count("pairs")
        try:
            with archives.at(data).item_store():
                pass
        except (IbiError, OSError) as error:
            self._report.violate(f"{pair}: nobody can go on: {error}")
            return
        for fault in archives.all_faults(data):
            self._report.violate(f"{pair}: {fault}")
        self._report.demand({_FIRST, _LAST} <= _doers(data), f"{pair}: what was committed is gone")

    def _new(self) -> Path:
        self._number += 1
        data = self._folder / f"data{self._number}"
        archives.copy(self._pattern, data)
        return data

    def _child(self, function: str, data: Path, *words: object) -> Child:
        self._number += 1
        place = self._folder / f"place{self._number}"
        child = self._nursery.child(place, [str(data), *map(str, words)], function)
        child.go()
        return child


def settle(words: Sequence[str]) -> None:
    """DIR POINT: deposit an item and settle; be stopped at this point, and tell at the end how many there were."""
    data, point = words
    passed = itertools.count(1)
    with archives.at(Path(data)).item_store() as item_store:
        settling = FolderFiles.place_files

        def pass_by() -> None:
            if next(passed) == int(point):
                os.kill(os.getpid(), signal.SIGSTOP)

        def watched(file_store: FolderFiles, catalogue: Catalogue) -> None:
            with _steps(pass_by):
                settling(file_store, catalogue)

        FolderFiles.place_files = watched  # type: ignore[method-assign, assignment]  # this process is there for nothing else
        archives.put(item_store, {"z": b"of the first"}, _FIRST)
        FolderFiles.place_files = settling  # type: ignore[method-assign]  # as it was
    os.write(1, b"%d\n" % (next(passed) - 1))


def change(words: Sequence[str]) -> None:
    """DIR CHANGE DIES: make a change; be killed between the last commit and settling, or settle."""
    data, kind, dies = words
    settling = FolderFiles.place_files
    with archives.at(Path(data)).item_store() as item_store:
        *before, last = _acts(item_store, kind)
        FolderFiles.place_files = lambda *_: None  # type: ignore[method-assign]  # as one who is killed before it
        for act in before:
            act(_BEFORE_LAST)
        FolderFiles.place_files = _die if dies == "True" else settling  # type: ignore[method-assign, assignment]  # likewise
        last(_LAST)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _acts(item_store: ItemStore, kind: str) -> list[Callable[[str], Any]]:
    held = item_store.catalogue.holding_by_key("met")
    assert held is not None  # noqa: S101 - the pattern has it
    name = parse_name(str(held.forms.main))

    def put(file: str, content: bytes, *without: str) -> Callable[[str], Any]:
        return lambda who: edit(
            item_store, name, {}, who, staged=archives.stage(item_store, {file: content}), without=without
        )

    def out(who: str) -> None:
        edit(item_store, name, {}, who, without=["g"])

    def removal(who: str) -> None:
        remove(item_store, name, "why", who)

    acts: dict[str, list[Callable[[str], Any]]] = {
        "removal": [removal],
        "out": [out],
        "replaced": [put("g", b"another g")],
        "out and back": [out, put("g", b"g again")],
        "replaced and removed": [put("g", b"another g"), removal],
        "a folder": [put("g/h", b"below g", "g")],
    }
    return acts[kind]


def _leave_work(data: Path) -> None:
    """An Archive as killed writers left it."""
    archives.found(data)
    with archives.at(data).item_store() as item_store:
        archives.put(item_store, {"a": b"placed"}, "before", key="met")
        archives.put(item_store, {"b/c": b"placed, too"}, "before", key="left")
    with archives.at(data).catalogue() as catalogue:
        item_store = archives.at(data).item_store_over(catalogue, archives.settings())
        item_store.file_store = _Unsettled(data)
        for key, files, gone in (("met", {"g": b"in staging"}, []), ("left", {}, ["b/c"])):
            held = catalogue.holding_by_key(key)
            assert held is not None  # noqa: S101 - it was put there
            edit(
                item_store,
                held.forms.main,
                {},
                "before",
                staged=archives.stage(item_store, files),
                without=gone,
            )


class _Unsettled(FolderFiles):
    def place_files(self, catalogue: Catalogue) -> None:
        """As if killed before it."""


@contextmanager
def _company(data: Path) -> Iterator[None]:
    """Hold the shared lock meanwhile, so that no process clears up at its start or end."""
    with (data / "ingest.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def _steps(pass_by: Callable[[], object]) -> Iterator[None]:
    """Pass by a point at the beginning of settling, and after each step of it."""

    def between(step: Callable[..., Any]) -> Callable[..., Any]:
        def taken(*what: Any, **more: Any) -> Any:
            came = step(*what, **more)
            pass_by()
            return came

        return taken

    @contextmanager
    def transaction(catalogue: Catalogue) -> Iterator[Any]:
        with writing(catalogue) as writer:
            yield writer
        pass_by()

    writing = Catalogue.writing
    places: list[tuple[Any, str]] = [
        *((os, name) for name in _STEPS),
        (Catalogue, "staged_files"),
        (Catalogue, "paths_to_remove"),
    ]
    were = [(place, name, getattr(place, name)) for place, name in places]
    for place, name, was in were:
        setattr(place, name, between(was))
    Catalogue.writing = transaction  # type: ignore[method-assign, assignment]  # this process is there for nothing else
    pass_by()
    try:
        yield
    finally:
        Catalogue.writing = writing  # type: ignore[method-assign]  # as it was
        for place, name, was in were:
            setattr(place, name, was)


def _state(child: Child) -> str:
    """T: stopped; Z: at its end."""
    return Path(f"/proc/{child.pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]


def _doers(data: Path) -> set[str]:
    """All who have changed an item."""
    return {who for item in items_of(data).values() for who, _ in item.history}
