"""A pytest plugin: writes down how each test ended, and has coverage note which test was at work.

Processes that a test starts inherit the variable CONTEXT; `reach.coverage_settings` has them note it, too. What is
written goes into the folder RECORD, a file for each process, as there may be several; each line is a `reach.Ended`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coverage import Coverage

from mutation.reach import CONTEXT, RECORD, fixture_context

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@contextmanager
def _at_work(name: str) -> Iterator[None]:
    before = os.environ.get(CONTEXT, "")
    _note(name)
    try:
        yield
    finally:
        _note(before)


def _note(name: str) -> None:
    os.environ[CONTEXT] = name
    measured = Coverage.current()
    if measured is not None:
        measured.switch_context(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From the first fixture of a test to the last: the test is at work, and a file says which one."""
    running = Path(os.environ[RECORD]) / f"{os.getpid()}.running"
    running.write_text(item.nodeid, encoding="utf-8")
    with _at_work(item.nodeid):
        ended = yield
    _write(item)
    running.unlink()
    return ended


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What a fixture of wider scope reaches and starts is there for all the tests that use it."""
    if fixturedef.scope == "function":
        return (yield)
    with _at_work(fixture_context(fixturedef.baseid, request.fixturename or "")):
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the seconds of each phase, and whether it was anything but passed."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def _write(item: pytest.Item) -> None:
    known = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public tells the scope of a fixture
    wide = [each[-1] for each in known.values() if each[-1].scope != "function"]
    ended = {
        "test": item.nodeid,
        "seconds": round(_seconds.get(item.nodeid, 0.0), 4),
        "passed": item.nodeid not in _failed,
        "fixtures": [fixture_context(each.baseid, each.argname) for each in wide],
        "shares": any(each.scope != "session" for each in wide),
    }
    with (Path(os.environ[RECORD]) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as record:
        record.write(json.dumps(ended) + "\n")
