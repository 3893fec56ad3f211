"""A pytest plugin that runs no tests itself: it tries the mutants of a `survey.Plan`, each in a fork of this process.

The folder that the variable `survey.FOLDER` names has the plan in `plan`; here are written `results`, one `trial.Tried`
a line, and `left-out`, the tests that do not pass without a mutant either. `recording` tells how the tests of a fork
ended, and which one is at work in a fork that hangs.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import pytest

from mutation.loaded import caches_of, changed_codes, live_functions, replaced
from mutation.operators import mutant
from mutation.processes import end_with_parent, in_fork
from mutation.reach import RECORD, Ended, in_order, read_record
from mutation.survey import (
    AT_IMPORT,
    FAILS_ANYWAY,
    FOLDER,
    NOT_LOADED,
    OUTSIDE,
    TOO_SLOW,
    Plan,
    Planned,
    read_plan,
    within,
)
from mutation.tree import Tree
from mutation.trial import Outcome, Tried

_NEW_SECONDS: Final = 600.0
"""How long all new tests together may take, once."""


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Name a file whose tests cannot be collected."""
    if report.failed:
        _leave_out(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try the mutants instead of running the tests."""
    end_with_parent()
    survey = _Survey(session, read_plan((_folder() / "plan").read_text(encoding="utf-8")))
    survey.measure_new()
    with (_folder() / "results").open("a", encoding="utf-8") as results:
        for each in survey.plan.planned:
            results.write(json.dumps(asdict(survey.tried(each)), ensure_ascii=False) + "\n")
            results.flush()
    return True


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def _leave_out(test: str) -> None:
    with (_folder() / "left-out").open("a", encoding="utf-8") as left_out:
        left_out.write(f"{test}\n")


@dataclass(frozen=True)
class _Attempt:
    """How tests ended in a fork."""

    passed: bool
    """Whether all were run, and none failed."""
    by: str
    """The test that failed, or was at work when the fork ended or was ended; "" if none."""
    hung: bool
    ended: Sequence[Ended]


class _Survey:
    """The tests that are collected, the functions that are loaded, and what was seen of them so far."""

    def __init__(self, session: pytest.Session, plan: Plan) -> None:
        self.plan = plan
        self._session = session
        self._root = session.config.rootpath
        self._tree = Tree(self._root, Path(sys.executable))
        self._items = {item.nodeid: item for item in session.items}
        for file in {each.file for each in plan.planned}:
            with suppress(Exception):  # none of its functions is loaded then
                import_module(_module(file))
        self._live = live_functions()
        self._caches = caches_of(self._root / "src")
        gc.freeze()  # so that forks share all of it
        self._new = dict[str, Ended]()  # tests that are newer than what was recorded, and pass
        self._seconds = dict(plan.recorded)  # of each test
        self._sound = set[str]()  # tests that were seen to pass without a mutant
        self._left_out = set[str]()

    def measure_new(self) -> None:
        """Run the tests once, without a mutant, that are near one and were never recorded."""
        near = set[str]().union(*self.plan.near.values())
        unknown = (item for name, item in self._items.items() if name not in self.plan.recorded)
        new = [item for item in unknown if item.nodeid.partition("::")[0] in near]
        ended = self._attempt(new, _NEW_SECONDS, whole=True).ended if new else ()
        self._new = {each.test: each for each in ended if each.passed}
        self._seconds.update({each.test: each.seconds for each in ended})
        for item in new:
            if item.nodeid not in self._new:
                self._leave_out(item.nodeid)

    def tried(self, planned: Planned) -> Tried:
        """What became of a mutant."""
        plan, point = self.plan, planned.point
        source = (self._root / "src" / planned.file).read_text(encoding="utf-8")
        changed = mutant(source, point.index)
        began = time.monotonic()
        outcome, by = self._outcome(planned, source, changed.source)
        return Tried(
            plan.date, plan.commit, plan.seed, planned.area, planned.file, point.line, point.kind, changed.before,
            changed.after, outcome, by, planned.reaching, round(time.monotonic() - began, 1),
        )  # fmt: skip

    def _new_near(self, file: str) -> list[str]:
        """The new tests that are near a source file, as many as there is time for; they may reach a mutant or not."""
        near = set(self.plan.near.get(file, ()))
        tests = [test for test in self._new if test.partition("::")[0] in near]
        return within(in_order(tests, self._new.values(), file), self._seconds, self.plan.seconds)

    def _outcome(self, planned: Planned, source: str, changed: str) -> tuple[Outcome, str]:
        """What became of a mutant, and the test that failed or why it was not tried."""
        if planned.point.at_import:
            return "untried", AT_IMPORT
        names = (self.plan.names[number] for number in planned.tests)
        reaching = [self._items[test] for test in names if test in self._items]
        items = [*(self._items[test] for test in self._new_near(planned.file)), *reaching]
        outcome: tuple[Outcome, str] = "survived", ""
        if not reaching:
            outcome = ("untried", TOO_SLOW) if planned.reaching else ("unreached", "")
        if not items:
            return outcome
        loaded = getattr(sys.modules.get(_module(planned.file)), "__file__", None)
        functions = replaced(changed_codes(source, changed, loaded or planned.file), self._live)
        if not functions:
            return "untried", NOT_LOADED

        def with_change(items: Sequence[pytest.Item], seconds: float) -> _Attempt:
            with self._written(planned.file, source, changed):
                return self._attempt(items, seconds, lambda: self._change(functions))

        judged = self._judged(items, with_change)
        # That new tests pass tells nothing; that one fails does.
        return outcome if judged[0] == "survived" else judged

    def _judged(
        self, items: Sequence[pytest.Item], with_change: Callable[[Sequence[pytest.Item], float], _Attempt]
    ) -> tuple[Outcome, str]:
        """What tests say of a change, without those that fail anyway."""
        limit = self.plan.spare_seconds + 3 * sum(self._seconds[item.nodeid] for item in items)
        while items := [item for item in items if item.nodeid not in self._left_out]:
            attempt = with_change(items, limit)
            if attempt.passed:
                return "survived", ""
            if not attempt.by:
                return "unsure", OUTSIDE
            if self._passes(attempt, items, limit):
                return "killed", attempt.by
        return "unsure", FAILS_ANYWAY

    def _change(self, functions: Iterable[tuple[FunctionType, CodeType]]) -> None:
        for function, code in functions:
            function.__code__ = code
        for cache in self._caches:
            cache.cache_clear()

    def _passes(self, failed: _Attempt, items: Sequence[pytest.Item], limit: float) -> bool:
        """Whether what failed passes without the mutant, in the same time; otherwise it is left out from now on.

        What hung is run with all that came before it, as it may only have been late.
        """
        if failed.by in self._sound and not failed.hung:
            return True
        names = [item.nodeid for item in items]
        last = names.index(failed.by)
        again = self._attempt(items[0 if failed.hung else last : last + 1], limit)
        if again.passed:
            self._sound.add(failed.by)
        else:
            self._leave_out(again.by or failed.by)
        return again.passed

    def _leave_out(self, test: str) -> None:
        self._left_out.add(test)
        _leave_out(test)

    @contextmanager
    def _written(self, file: str, source: str, changed: str) -> Iterator[None]:
        """Have the change in the file, too, where processes that tests start read it."""
        self._tree.write(f"src/{file}", changed)
        try:
            yield
        finally:
            self._tree.write(f"src/{file}", source)

    def _attempt(
        self,
        items: Sequence[pytest.Item],
        seconds: float,
        change: Callable[[], None] = lambda: None,
        *,
        whole: bool = False,
    ) -> _Attempt:
        """Run tests in a fork after a change, until one fails, or the whole of them."""
        record, temporary = _folder() / "ended", _folder() / "t"
        for folder in (record, temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o711)

        def run() -> int:
            os.environ.update({RECORD: str(record), "TMPDIR": str(temporary)})
            tempfile.tempdir = None  # so that it is read anew
            change()
            return _run(self._session, items, whole=whole)

        status = in_fork(run, seconds)
        shutil.rmtree(temporary, ignore_errors=True)
        ended = [each for file in record.glob("*.jsonl") for each in read_record(file)]
        at_work = [file.read_text(encoding="utf-8") for file in record.glob("*.running")]
        failed = at_work or [each.test for each in ended[-1:] if not each.passed]
        passed = status == 0 and len(ended) == len(items)
        return _Attempt(passed, "" if passed else "".join(failed[-1:]), status is None, ended)


def _module(file: str) -> str:
    """The name of the module in a file, which is named as below `src`."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _run(session: pytest.Session, items: Sequence[pytest.Item], *, whole: bool) -> int:
    """Run tests in this process; 1 if one failed."""
    session.testsfailed = 0
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed and not whole:
            return 1
    return int(session.testsfailed > 0)
