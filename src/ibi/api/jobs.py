"""Jobs: operations that take long. One request starts a job and is answered at once; others ask for progress.

    DIR/jobs/<id>.json    {"id", "operation", "who", "started", "ended", "done", "total", "state", "result", "problem"}
    DIR/jobs/<id>.lock    locked by the process that does the job; a running job without this lock was
                          interrupted by the end of its process
    DIR/jobs/<id>.stop    exists while the job is asked to stop

At most one job of each operation runs at a time. Ended jobs are kept for a week.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import threading
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import COUNT, MOMENT, TEXT, record
from ibi.errors import LONGEST_SHOWN, HoldingError, IbiError, NotHeld, ParseError
from ibi.runtime.durable_files import locked_file, make_folder, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Progress = Callable[[int, int | None], None]

KEPT_SECONDS: Final = 7 * 24 * 3600
"""Seconds for which an ended job can be read."""
WRITE_EVERY: Final = 1.0
"""Seconds after which a job writes its progress again."""

RUNNING, DONE, FAILED, STOPPED, INTERRUPTED = "running", "done", "failed", "stopped", "interrupted"
STATES: Final = (RUNNING, DONE, FAILED, STOPPED, INTERRUPTED)

_FOLDER: Final = "jobs"
_ID = re.compile(r"[0-9a-f]{32}")
_STOP_SECONDS: Final = 2.0  # seconds that all jobs together may take to stop
_log = logging.getLogger(__name__)


class JobStopped(Exception):
    """Raised inside a job that was asked to stop."""


@dataclass(slots=True)
class Job:
    """One job. Times in POSIX seconds, 0.0 for not yet; `done` of `total`, in a unit of the operation.

    `problem`: why it failed: a sentence, its details, and for a parse error the text that was parsed.
    """

    id: str
    operation: str
    who: str
    started: float
    ended: float = 0.0
    done: int = 0
    total: int | None = None
    state: str = RUNNING
    result: dict[str, Any] = field(default_factory=dict)
    problem: Sequence[Any] | None = None

    @property
    def why(self) -> IbiError | None:
        """The error for which the job failed."""
        if not self.problem:
            return None
        sentence, details, *text = self.problem  # a job of an earlier version has no text
        why = IbiError(sentence, **details)
        return IbiError("{text}: {reason}", text=text[0], reason=why) if text else why


class Jobs:
    """The jobs of one data directory. `now` returns POSIX seconds, `clock` seconds of a monotonic clock."""

    def __init__(self, data: Path, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self._folder = data / _FOLDER
        self._now = now
        self._clock = clock
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, operation: str, who: str, run: Callable[[Progress], dict[str, Any] | None]) -> Job:
        """Start a job in a new thread. Raises HoldingError if a job of this operation is running."""
        make_folder(self._folder)
        with locked_file(self._folder / "lock"):
            self._forget_old()
            if any(each.operation == operation and each.state == RUNNING for each in self.all()):
                raise HoldingError("this is under way already, as a job; wait until it has ended")
            job = Job(secrets.token_hex(16), operation, who, self._now())
            lock = os.open(self._path(job.id, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._write(job)
            except BaseException:
                os.close(lock)
                raise
        thread = threading.Thread(
            target=copy_context().run, args=(self._do, job, lock, run), name=f"job {operation}", daemon=True
        )
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        # A copy: the thread changes `job`, but a job has ended only when its file says so.
        begun = replace(job)
        thread.start()
        return begun

    def find(self, job: str) -> Job:
        """Find a job. Raises NotHeld."""
        found = self._read(job) if _ID.fullmatch(job) else None
        if found is None:
            raise NotHeld("there is no such job")
        return found

    def all(self) -> list[Job]:
        """Return every job, the latest first."""
        found = filter(None, map(self._read, self._ids()))
        return sorted(found, key=lambda each: each.started, reverse=True)

    def stop(self, job: str) -> Job:
        """Ask a job to stop, also one in another process. Raises NotHeld, HoldingError."""
        found = self.find(job)
        if found.state != RUNNING:
            raise HoldingError("this job has ended already")
        self._path(found.id, "stop").touch(mode=0o600)
        return found

    def close(self) -> None:
        """Stop the jobs of this process, and wait for them up to `_STOP_SECONDS`."""
        self._stopping.set()
        end = self._clock() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock()))

    def _do(self, job: Job, lock: int, run: Callable[[Progress], dict[str, Any] | None]) -> None:
        written = self._clock()

        def progress(done: int, total: int | None = None) -> None:
            nonlocal written
            job.done, job.total = done, total
            if self._stopping.is_set():
                raise JobStopped
            if self._clock() - written >= WRITE_EVERY:
                if self._path(job.id, "stop").exists():
                    raise JobStopped
                self._write(job)
                written = self._clock()

        try:
            job.result = run(progress) or {}
            job.state = DONE
        except JobStopped:
            job.state = STOPPED
        except IbiError as error:
            details = {name: str(each) for name, each in error.details.items()}
            text = [error.text[:LONGEST_SHOWN]] if isinstance(error, ParseError) and error.text else []
            job.state, job.problem = FAILED, (error.problem, details, *text)
        except Exception:  # noqa: BLE001 - a fault of ours must end the job, not only the thread
            _log.exception("the job %s failed", job.operation)
            job.state, job.problem = FAILED, ("this server could not do it; its log has the reason", {})
        job.ended = self._now()
        try:
            self._path(job.id, "stop").unlink(missing_ok=True)
            self._write(job)
        finally:
            os.close(lock)

    def _read(self, job_id: str) -> Job | None:
        try:
            job = self._load(job_id)
            if job.state == RUNNING and not self._is_alive(job_id):
                job = self._load(job_id)  # it may have ended in between
                job.state = INTERRUPTED if job.state == RUNNING else job.state
        except FileNotFoundError:
            return None
        return job

    def _load(self, job_id: str) -> Job:
        return Job(**json.loads(self._path(job_id).read_bytes()))

    def _is_alive(self, job_id: str) -> bool:
        try:
            with locked_file(self._path(job_id, "lock"), fcntl.LOCK_SH | fcntl.LOCK_NB):
                return False
        except BlockingIOError:
            return True

    def _write(self, job: Job) -> None:
        replace_file(self._path(job.id), json.dumps(asdict(job)).encode())

    def _forget_old(self) -> None:
        for job in self.all():
            if job.state != RUNNING and (job.ended or job.started) < self._now() - KEPT_SECONDS:
                for kind in ("json", "stop", "lock"):
                    self._path(job.id, kind).unlink(missing_ok=True)

    def _ids(self) -> list[str]:
        return [path.stem for path in self._folder.glob("*.json")]

    def _path(self, job_id: str, kind: str = "json") -> Path:
        return self._folder / f"{job_id}.{kind}"


JOB: Final = record(
    "result", "problem",
    id=TEXT, operation=TEXT, who=TEXT, started=MOMENT, ended=TEXT, done=COUNT, total={"type": ["integer", "null"]},
    state={"enum": list(STATES)}, result={"type": "object"}, problem=TEXT,
)  # fmt: skip
"""JSON Schema of a job."""


def job_facts(job: Job, say: Callable[[IbiError], str]) -> dict[str, Any]:
    """Return a job as a JSON object."""
    facts = {
        "id": job.id, "operation": job.operation, "who": job.who, "started": _moment(job.started),
        "ended": _moment(job.ended) if job.ended else "", "done": job.done, "total": job.total, "state": job.state,
    }  # fmt: skip
    result = {"result": job.result} if job.state == DONE else {}
    return {**facts, **result, **({"problem": say(job.why)} if job.why else {})}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
