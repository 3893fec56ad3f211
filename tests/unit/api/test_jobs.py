"""How often a job writes its progress, by a clock that is set by hand."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ibi.api.jobs import KEPT_SECONDS, WRITE_EVERY, Job, Jobs
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
