"""How often a job writes its progress, by a clock that is set by hand."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ibi.api.jobs import KEPT_SECONDS, WRITE_EVERY, Job, Jobs, JobStopped, job_facts
from ibi.errors import HoldingError, IbiError, NotHeld, ParseError
from support.concurrency.open_files import open_files

LONG = 20.0
"""Seconds in which a thread has its turn."""


def _until_ended(folder: Path, jobs: Jobs, job: Job) -> None:
    """Wait until a job has ended, and its lock is free."""
    end = time.monotonic() + LONG
    while jobs.find(job.id).state == "running" or any(job.id in name for name in open_files(folder)):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_progress_is_written_once_a_second_and_then_a_stop_is_heard(tmp_path: Path) -> None:
    moment = [0.0]
    jobs, has_come, go_on = Jobs(tmp_path, lambda: 1000.0, lambda: moment[0]), Event(), Event()
    stopped = []

    def work(progress: Any) -> Any:
        try:
            for done in range(100):
                progress(done, 100)
                has_come.set()
                assert go_on.wait(LONG)
                go_on.clear()
        except BaseException as error:
            stopped.append(type(error).__name__)
            raise

    def step(seconds: float) -> int:
        """The progress that others see after one more step, so many seconds later."""
        has_come.clear()
        moment[0] += seconds
        go_on.set()
        assert has_come.wait(LONG)
        return jobs.find(job.id).done

    job = jobs.start("audit", "ada", work)
    assert has_come.wait(LONG)
    assert jobs.find(job.id).done == 0
    assert [step(WRITE_EVERY / 2), step(WRITE_EVERY / 4), step(WRITE_EVERY / 4)] == [0, 0, 3]
    assert [step(WRITE_EVERY / 2), step(WRITE_EVERY / 2)] == [3, 5]
    jobs.stop(job.id)
    assert step(WRITE_EVERY / 2) == 5
    moment[0] += WRITE_EVERY
    go_on.set()
    _until_ended(tmp_path, jobs, job)
    assert (jobs.find(job.id).state, stopped) == ("stopped", ["JobStopped"])
    assert not open_files(tmp_path)
    assert not list(tmp_path.rglob("*.stop"))


@pytest.mark.parametrize(("age", "is_kept"), [(KEPT_SECONDS, True), (KEPT_SECONDS + 1, False)])
def test_an_ended_job_is_kept_for_a_week(tmp_path: Path, age: int, *, is_kept: bool) -> None:
    now = [1000.0]
    jobs = Jobs(tmp_path, lambda: now[0], lambda: 0.0)
    first = jobs.start("audit", "ada", lambda _: {})
    _until_ended(tmp_path, jobs, first)
    now[0] += age
    _until_ended(tmp_path, jobs, jobs.start("index", "ada", lambda _: {}))
    left = {path.name for path in (tmp_path / "jobs").glob(f"{first.id}.*")}
    assert left == ({f"{first.id}.json", f"{first.id}.lock"} if is_kept else set())


def _fail(_progress: Any) -> Any:
    raise ZeroDivisionError


def _refuse(_progress: Any) -> Any:
    raise IbiError("{name} is not there", name=("a", 1))


def _misread(_progress: Any) -> Any:
    raise ParseError("year", "2O11", "a year has {digits} digits", digits=4)


def _stop(_progress: Any) -> Any:
    raise JobStopped


@pytest.mark.parametrize(
    ("work", "facts"),
    [
        (lambda progress: progress(3, 4), {"done": 3, "total": 4, "state": "done", "result": {}}),
        (lambda progress: progress(3) or {"count": 3}, {"done": 3, "state": "done", "result": {"count": 3}}),
        (_fail, {"state": "failed", "problem": "this server could not do it; its log has the reason"}),
        (_refuse, {"state": "failed", "problem": "('a', 1) is not there"}),
        (_misread, {"state": "failed", "problem": "2O11: a year has 4 digits"}),
        (_stop, {"state": "stopped"}),
    ],
)
def test_how_a_job_ended_is_told_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, work: Any, facts: dict[str, Any]
) -> None:
    jobs = Jobs(tmp_path, lambda: 86_400.0, lambda: 0.0)
    begun = jobs.start("audit", "ada", work)
    common = {
        "id": begun.id, "operation": "audit", "who": "ada", "started": "1970-01-02T00:00:00Z", "ended": "", "done": 0,
        "total": None, "state": "running",
    }  # fmt: skip
    assert job_facts(begun, str) == common
    _until_ended(tmp_path, jobs, begun)
    ended = jobs.find(begun.id)
    assert job_facts(ended, str) == {**common, "ended": "1970-01-02T00:00:00Z", **facts}
    logged = [(each.getMessage(), each.exc_info is not None) for each in caplog.records]
    assert logged == ([("the job audit failed", True)] if work is _fail else [])
    with pytest.raises(HoldingError, match="this job has ended already"):
        jobs.stop(begun.id)
    for unknown in ("0" * 32, "../lock", begun.id.upper() + "x"):
        with pytest.raises(NotHeld, match="there is no such job"):
            jobs.find(unknown)


def test_one_job_of_each_operation_is_under_way_and_the_end_of_the_process_stops_them(tmp_path: Path) -> None:
    jobs, begun, go_on = Jobs(tmp_path, lambda: 0.0, time.monotonic), Event(), Event()

    def wait(progress: Any) -> Any:
        begun.set()
        assert go_on.wait(LONG)
        progress(1)

    job = jobs.start("audit", "ada", wait)
    assert begun.wait(LONG)
    with pytest.raises(HoldingError, match="this is under way already, as a job; wait until it has ended"):
        jobs.start("audit", "bob", wait)
    other = jobs.start("index", "ada", lambda _: {})
    _until_ended(tmp_path / "none", jobs, other)
    assert {each.id: each.state for each in jobs.all()} == {job.id: "running", other.id: "done"}
    go_on.set()
    jobs.close()
    assert jobs.find(job.id).state == "stopped"
