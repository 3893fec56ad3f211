"""Jobs: what takes long, seen and stopped from anywhere, and known to be interrupted where its process was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ibi.api.jobs import KEPT_SECONDS, Job, Jobs, job_facts
from ibi.errors import BadField, HoldingError, NotHeld
from ibi.runtime.logging import request_id
from support.concurrency.threads import together


def jobs_in(folder: Path, now: Callable[[], float] = time.time) -> Jobs:
    return Jobs(folder, now, time.monotonic)


def ended(jobs: Jobs, job: Job, pause: float = 0.01) -> Job:
    end = time.monotonic() + 20
    while jobs.find(job.id).state == "running" and time.monotonic() < end:
        time.sleep(pause)
    return jobs.find(job.id)


def facts(job: Job) -> dict[str, Any]:
    return job_facts(job, str)


def test_a_job_that_is_done_has_its_result(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)

    def audit(progress: Any) -> Any:
        progress(2, 3)
        return {"files": 2}

    job = ended(jobs, jobs.start("audit", "ada", audit))
    assert (job.state, job.result, job.done, job.total) == ("done", {"files": 2}, 2, 3)
    assert facts(job)["result"] == {"files": 2}
    assert [each.id for each in jobs_in(tmp_path).all()] == [job.id]


def test_what_a_job_logs_belongs_to_the_request_that_started_it(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    token = request_id.set("one")
    job = jobs.start("audit", "ada", lambda _: {"request": request_id.get()})
    request_id.reset(token)
    assert ended(jobs, job).result == {"request": "one"}


def test_a_job_that_fails_says_why_and_a_fault_of_ours_does_not_show_itself(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)

    def refused(_progress: Any) -> Any:
        raise BadField("there is no field {name}", name="x")

    def broken(_progress: Any) -> Any:
        raise KeyError("a secret")

    assert facts(ended(jobs, jobs.start("a", "ada", refused)))["problem"] == "there is no field x"
    failed = facts(ended(jobs, jobs.start("b", "ada", broken)))
    assert failed["state"] == "failed"
    assert "secret" not in json.dumps(failed)


def test_one_of_a_kind_is_done_at_a_time_and_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    jobs, begun = jobs_in(tmp_path), Event()

    def endless(progress: Any) -> Any:
        while True:
            progress(1, None)
            begun.set()
            time.sleep(0.02)

    job = jobs.start("audit", "ada", endless)
    assert begun.wait(10)
    other = jobs_in(tmp_path)  # as in another process
    with pytest.raises(HoldingError, match="under way"):
        other.start("audit", "bob", lambda _progress: {})
    assert ended(other, other.start("check", "bob", lambda _progress: {})).state == "done"
    other.stop(job.id)
    assert ended(other, job).state == "stopped"
    with pytest.raises(HoldingError, match="ended"):
        other.stop(job.id)
    assert not list((tmp_path / "jobs").glob("*.stop"))


def test_of_many_that_are_started_at_the_same_moment_one_is_done(tmp_path: Path) -> None:
    go_on = Event()

    def start(_number: int) -> Job | None:
        try:
            return jobs_in(tmp_path).start("audit", "ada", lambda _progress: {"ended": go_on.wait(20)})
        except HoldingError:
            return None

    started = list(filter(None, together(6, start)))
    go_on.set()
    assert len(started) == 1
    assert ended(jobs_in(tmp_path), started[0]).state == "done"


def test_a_server_that_stops_stops_its_jobs(tmp_path: Path) -> None:
    jobs, begun = jobs_in(tmp_path), Event()

    def endless(progress: Any) -> Any:
        while True:
            progress(1, None)
            begun.set()
            time.sleep(0.01)

    job = jobs.start("audit", "ada", endless)
    assert begun.wait(10)
    jobs.close()
    assert jobs.find(job.id).state == "stopped"


def test_a_job_whose_process_was_killed_is_interrupted(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from ibi.api.jobs import Jobs;"
        "Jobs(Path(sys.argv[1]), time.time, time.monotonic).start('audit', 'ada', lambda progress: time.sleep(60));"
        "os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], check=False, env=environment)
    assert killed.returncode == -9
    jobs = jobs_in(tmp_path)
    (job,) = jobs.all()
    assert job.state == "interrupted"
    assert ended(jobs, jobs.start("audit", "bob", lambda _progress: {})).state == "done"


def test_a_job_is_seen_whole_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.api.jobs.WRITE_EVERY", 0.0)
    jobs = jobs_in(tmp_path)

    def growing(progress: Any) -> Any:
        for length in range(300):
            progress(10**length)  # a longer text each time

    job = jobs.start("audit", "ada", growing)
    assert ended(jobs_in(tmp_path), job, pause=0.0).state == "done"


@pytest.mark.parametrize("name", ["", "0" * 31, "0" * 32, "../lock", "x" * 32])
def test_there_is_no_other_job(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotHeld):
        jobs_in(tmp_path).find(name)


def test_what_ended_long_ago_is_forgotten(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    first = ended(jobs, jobs.start("audit", "ada", lambda _progress: {}))
    later = jobs_in(tmp_path, lambda: time.time() + KEPT_SECONDS + 60)
    second = later.start("audit", "ada", lambda _progress: {})
    assert [each.id for each in later.all()] == [second.id]
    with pytest.raises(NotHeld):
        later.find(first.id)


def test_what_was_begun_is_told_as_begun_however_soon_it_ends(tmp_path: Path) -> None:
    """It has ended when others can see that: else the next one of its kind would be refused as under way."""
    jobs = jobs_in(tmp_path)
    begun = jobs.start("audit", "ada", lambda _progress: {"files": 1})
    jobs.close()
    assert (begun.state, begun.result, begun.ended) == ("running", {}, 0.0)
    assert jobs.find(begun.id).state == "done"
