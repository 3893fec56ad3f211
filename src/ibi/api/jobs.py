"""Jobs: operations that take long. A request starts one and is answered at once; later ones ask how far it is.

    DIR/jobs/<id>.json    {"id", "operation", "who", "started", "ended", "done", "total", "state", "result", "problem"}

The process that does a job holds a lock on its file: so a job whose process was killed is known to be interrupted. One
job of each operation is done at a time. What has ended stays for a week.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import COUNT, MOMENT, TEXT, record
from ibi.errors import HoldingError, IbiError, NotHeld
from ibi.runtime.durable_files import locked_file, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[int, int | None], None]

KEPT_SECONDS: Final = 7 * 24 * 3600
"""How long an ended job can be looked at."""
WRITE_EVERY: Final = 1.0
"""Seconds between two notes of how far a job is."""

RUNNING, DONE, FAILED, STOPPED, INTERRUPTED = "running", "done", "failed", "stopped", "interrupted"
STATES: Final = (RUNNING, DONE, FAILED, STOPPED, INTERRUPTED)

_FOLDER: Final = "jobs"
_ID = re.compile(r"[0-9a-f]{32}")
_STOP_SECONDS: Final = 2.0  # seconds that all jobs together may take to stop
_log = logging.getLogger(__name__)


class JobStopped(Exception):
    """Raised in a job that shall stop."""


@dataclass(slots=True)
class Job:
    """One job. Times in POSIX seconds, 0.0 for not yet; `done` of `total`, in whatever unit.

    `problem`: why it failed, as a sentence and its details.
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
    problem: tuple[str, dict[str, Any]] | None = None

    @property
    def why(self) -> IbiError | None:
        """Why it failed."""
        return IbiError(self.problem[0], **self.problem[1]) if self.problem else None


class Jobs:
    """The jobs of one data directory. `now` gives POSIX seconds, `clock` those of a clock that never leaps."""

    def __init__(self, data: Path, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self._folder = data / _FOLDER
        self._now = now
        self._clock = clock
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, operation: str, who: str, run: Callable[[Progress], dict[str, Any] | None]) -> Job:
        """Start a job in a thread of its own. Raises HoldingError where one of this operation is under way."""
        make_folder(self._folder)
        with locked_file(self._folder / "lock"):
            self._forget_old()
            if any(each.operation == operation and each.state == RUNNING for each in self.all()):
                raise HoldingError(
                    "{operation} is under way already; wait until it has ended", operation=operation
                )
            job = Job(secrets.token_hex(16), operation, who, self._now())
            handle = os.open(self._path(job.id), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                _write(handle, job)
            except BaseException:
                os.close(handle)
                raise
        thread = threading.Thread(
            target=self._do, args=(job, handle, run), name=f"job {operation}", daemon=True
        )
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()
        return job

    def find(self, job: str) -> Job:
        """Find a job. Raises NotHeld."""
        found = self._read(self._path(job)) if _ID.fullmatch(job) else None
        if found is None:
            raise NotHeld("there is no such job")
        return found

    def all(self) -> list[Job]:
        """Every job, the latest first."""
        found = filter(None, map(self._read, self._paths()))
        return sorted(found, key=lambda each: each.started, reverse=True)

    def stop(self, job: str) -> Job:
        """Ask a job to stop, in whichever process it is done. Raises NotHeld, HoldingError."""
        found = self.find(job)
        if found.state != RUNNING:
            raise HoldingError("this job has ended already")
        self._stop_path(found.id).touch(mode=0o600)
        return found

    def close(self) -> None:
        """Stop what is under way, and wait for it a while."""
        self._stopping.set()
        end = self._clock() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock()))

    def _do(self, job: Job, handle: int, run: Callable[[Progress], dict[str, Any] | None]) -> None:
        written = self._clock()

        def progress(done: int, total: int | None = None) -> None:
            nonlocal written
            job.done, job.total = done, total
            if self._stopping.is_set():
                raise JobStopped
            if self._clock() - written >= WRITE_EVERY:
                if self._stop_path(job.id).exists():
                    raise JobStopped
                _write(handle, job)
                written = self._clock()

        try:
            job.result = run(progress) or {}
            job.state = DONE
        except JobStopped:
            job.state = STOPPED
        except IbiError as error:
            details = {name: str(each) for name, each in error.details.items()}
            job.state, job.problem = FAILED, (error.problem, details)
        except Exception:  # noqa: BLE001 - a fault of ours must end the job, not the thread alone
            _log.exception("the job %s failed", job.operation)
            job.state, job.problem = FAILED, ("this server could not do it; its log has the reason", {})
        job.ended = self._now()
        try:
            self._stop_path(job.id).unlink(missing_ok=True)
            _write(handle, job)
        finally:
            os.close(handle)

    def _read(self, path: Path) -> Job | None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # The lock first: a job that ends in between is then read as ended.
            alive = not _lockable(handle)
            job = Job(**json.loads(os.pread(handle, os.fstat(handle).st_size, 0)))
        except (ValueError, TypeError):  # a kill came between
            return None
        finally:
            os.close(handle)
        if job.state == RUNNING and not alive:
            job.state = INTERRUPTED
        return job

    def _forget_old(self) -> None:
        for path in self._paths():
            job = self._read(path)
            ended = path.stat().st_mtime if job is None or job.state != RUNNING else self._now()
            if ended < self._now() - KEPT_SECONDS:
                path.unlink(missing_ok=True)
                path.with_suffix(".stop").unlink(missing_ok=True)

    def _paths(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from self._folder.glob("*.json")

    def _path(self, job: str) -> Path:
        return self._folder / f"{job}.json"

    def _stop_path(self, job: str) -> Path:
        return self._folder / f"{job}.stop"


JOB: Final = record(
    "result", "problem",
    id=TEXT, operation=TEXT, who=TEXT, started=MOMENT, ended=TEXT, done=COUNT, total={"type": ["integer", "null"]},
    state={"enum": list(STATES)}, result={"type": "object"}, problem=TEXT,
)  # fmt: skip
"""JSON Schema of a job."""


def job_facts(job: Job, say: Callable[[IbiError], str]) -> dict[str, Any]:
    """A job as JSON has it."""
    facts = {
        "id": job.id, "operation": job.operation, "who": job.who, "started": _moment(job.started),
        "ended": _moment(job.ended) if job.ended else "", "done": job.done, "total": job.total, "state": job.state,
    }  # fmt: skip
    result = {"result": job.result} if job.state == DONE else {}
    return {**facts, **result, **({"problem": say(job.why)} if job.why else {})}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lockable(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(handle: int, job: Job) -> None:
    """Write a job into its file, whose lock stays with the open handle."""
    # In its place, and padded: a shorter text leaves nothing of a longer one, and a reader never sees an empty file.
    text = json.dumps(asdict(job)).encode()
    os.pwrite(handle, text.ljust(os.fstat(handle).st_size), 0)
    os.fsync(handle)
