"""One trial of P-M2 over HTTP: a service, its customers, a fault, and what comes after it."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ibi.errors import LostState
from proofs.common.environment import environment
from proofs.common.report import Report
from proofs.minting import service, worker
from proofs.minting.calls import SENDS, Call, files_of, read_log, released_early, strace, struck
from proofs.minting.judge import Judge
from proofs.minting.service import Answer, Customer, Service, labels_in

Round = Sequence[tuple[int, int, bool]]

ROUNDS: Final = (
    ((0, 1, False),),
    ((1, 30, True),),
    ((0, 30, False), (1, 1, True)),
    ((0, 1, True), (1, 30, False)),
)
"""Which customer asks, for how many labels, and whether as text; those of one round ask before any listens."""

FULL_SOCKET: Final = "error=EAGAIN"

_CUSTOMERS: Final = 2
_GIVEN: Final = 200
_LATER: Final = 503
_SECONDS: Final = 30  # for strace to come or to go, and for a command
_DYING: Final = 5  # for a process that is killed


@dataclass(frozen=True)
class FaultPlace:
    """Where a fault strikes: in a start (round None) or in a round. `fault` for strace: "fsync:error=EIO:when=2"."""

    round: int | None
    fault: str | None
    used: bool = True

    def __str__(self) -> str:
        scene = (
            f"round {self.round}" if self.round is not None else f"start, {'used' if self.used else 'new'}"
        )
        return f"service, {scene}, {self.fault or 'no fault'}"

    @property
    def kills(self) -> bool:
        """Whether the process ends at it."""
        return self.fault is not None and "SIGKILL" in self.fault

    @property
    def breaks_connection(self) -> bool:
        """Whether an answer may be cut off in a process that lives on."""
        sends = self.fault is not None and self.fault.startswith(SENDS)
        return sends and not self.kills and FULL_SOCKET not in str(self.fault)


@contextmanager
def stage(report: Report, judge: Judge) -> Iterator[Trials]:
    """An empty place for trials, and its end."""
    with tempfile.TemporaryDirectory(prefix="proof-service-") as name:
        trials = Trials(report, judge, Path(name))
        try:
            yield trials
        finally:
            trials.close()


@dataclass
class Trials:
    """Trials one after the other: those in rounds, and those of starts in a used directory, share one directory."""

    report: Report
    judge: Judge
    folder: Path
    _data: Path = field(init=False)
    _token: str = ""
    _service: Service | None = None
    _place: FaultPlace = field(init=False)
    _directories: int = 0
    _requests_made: int = 0
    _out: Sequence[bytes] = ()  # labels that came while the fault was there

    def run(self, place: FaultPlace) -> list[Call]:
        """Let the service meet a fault, look, and see that all goes on; the calls that it made meanwhile."""
        self._place, self._out = place, ()
        if not self._token or not place.used:
            self._new_directory(used=place.used)
        log = self.folder / "log"
        log.write_text("")
        if place.round is None:
            self._meet_in_start(log)
        else:
            self._meet_in_round(place.round, log)
        calls = read_log(log)
        self._look(calls, log)
        if place.fault is not None:
            self._go_on()
        return calls

    def _new_directory(self, *, used: bool) -> None:
        self._directories += 1
        self._data = self.folder / str(self._directories) / "data"
        self._data.parent.mkdir()
        self._token = service.make_token(self._data)
        if used:
            self._mint_by_library()

    def close(self) -> None:
        """End what still runs."""
        if self._service is not None:
            self._service.kill()
            self._service = None

    def _meet_in_start(self, log: Path) -> None:
        """Start, and let one label be asked for. It is all over when the trial is."""
        self.close()
        running = Service(self._data, strace(log, files_of(self._data), self._place.fault))
        try:
            if running.port is not None:
                self._converse(running.port, ROUNDS[:1], in_fault=True)
            elif not self._place.kills:
                self.report.demand("ibi: " in running.complaints, f"{self._place}: it ended without a word")
            self._judge_life(running)
        finally:
            running.kill()

    def _meet_in_round(self, number: int, log: Path) -> None:
        """Up to this round, through it under strace, and on if the service still lives."""
        if self._service is None:
            self._go_on()  # so that each trial finds a service that has given labels since it was started
        running = self._service
        if running is None or running.port is None:
            return
        with self._customers(running.port) as customers:
            self._ask(customers, ROUNDS[:number])
            with self._traced(running, log):
                self._ask(customers, ROUNDS[number : number + 1], in_fault=True)
                self._judge_life(running)
        if not running.ended():
            self._converse(running.port, ROUNDS[number + 1 :])

    @contextmanager
    def _traced(self, running: Service, log: Path) -> Iterator[None]:
        places: list[Path | str] = [*files_of(self._data), *running.sockets()]
        command = [*strace(log, places, self._place.fault), "-p", str(running.process)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert tracer.stderr is not None  # noqa: S101 - it is a pipe
        try:
            come = select.select([tracer.stderr], [], [], _SECONDS)[0] and os.read(
                tracer.stderr.fileno(), 999
            )
            self.report.demand(come and b"attached" in come, f"{self._place}: strace does not come: {come!r}")
            yield
        finally:
            tracer.terminate()
            tracer.wait(_SECONDS)
            tracer.stderr.close()

    def _judge_life(self, running: Service) -> None:
        """A kill ends the service, nothing else does; before its first word it may end with a sentence."""
        if self._place.kills:
            running.ended(_DYING)
        elif running.port is not None:
            self.report.demand(not running.ended(), f"{self._place}: the service has ended by itself")
        if "Traceback" in running.complaints:
            self.report.violate(f"{self._place}: no clear sentence: {running.complaints[-500:]}")

    def _look(self, calls: Sequence[Call], log: Path) -> None:
        """What the calls tell."""
        if self._place.fault is not None:
            met = struck(log)
            self.report.count("faults of the service", met)
            self.report.count("faults not met", not met)
        out = Call("write", "", b"".join(self._out).decode().replace("\n", " "), 1)
        for moment in released_early([*calls, out]):
            self.report.violate(f"{self._place}: a label of {moment} was sent before it was durable")
        for number, call in enumerate(calls):
            if call.name in SENDS and call.failed and FULL_SOCKET not in str(self._place.fault):
                burned = labels_in(call.words.encode().decode("unicode_escape").encode("latin-1"))
                self.judge.hear(f"{self._place}, burned {number}", b"".join(burned))
                self.report.count("labels burned", len(burned))

    def _go_on(self) -> None:
        """Without faults: once more from the start, and in the same directory with the library."""
        if self._service is not None and not self._service.ended():
            status = self._service.stop()
            self.report.demand(status == 0, f"{self._place}: stopped with {status}")
        self.close()
        running = self._started()
        if running is not None and running.port is not None:
            self._converse(running.port, ROUNDS[:2])
            self._mint_by_library()

    def _started(self) -> Service | None:
        """The service, without faults; after a repair, where one is needed and may be."""
        self._service = Service(self._data)
        if self._service.port is None:
            refusal = f"it does not start: {self._service.complaints[-300:]}"
            self.close()
            self._repair(refusal)
            self._service = Service(self._data)
        self.report.demand(self._service.port, f"{self._place}: no start: {self._service.complaints[-300:]}")
        return self._service if self._service.port else None

    def _repair(self, refusal: str) -> None:
        """The service refuses without need, or the library says LostState, too; then the command repairs it."""
        try:
            self._mint_by_library()
        except LostState as lost:
            self.report.count("repairs needed")
            errs = self._place.fault is not None and not self._place.kills
            self.report.demand(errs, f"{self._place}: only a repair helps: {lost}")
            command = [*service.PROGRAM, "mint", "recover", "--data", str(self._data)]
            done = subprocess.run(
                command, env=environment(), check=False, capture_output=True, timeout=_SECONDS
            )
            self.report.demand(
                done.returncode == 0, f"{self._place}: no repair: {done.stderr.decode()[-300:]}"
            )
        else:
            self.report.violate(f"{self._place}: {refusal}, but the library mints")

    def _mint_by_library(self) -> None:
        later_than = self.judge.latest
        with worker.opened(self._data, service.GRANULARITY) as subsystem:
            lines = "".join(worker.lines(subsystem, 3))
        self.judge.hear(self._name(), lines.encode(), later_than)

    def _name(self) -> str:
        self._requests_made += 1
        return f"{self._place}, request {self._requests_made}"

    def _converse(self, port: int, rounds: Sequence[Round], *, in_fault: bool = False) -> None:
        with self._customers(port) as customers:
            self._ask(customers, rounds, in_fault=in_fault)

    @contextmanager
    def _customers(self, port: int) -> Iterator[list[Customer]]:
        with ExitStack() as stack:
            customers = [
                Customer(self.report, self.judge, self._data, self._token, port) for _ in range(_CUSTOMERS)
            ]
            for customer in customers:
                stack.enter_context(customer)
            yield customers

    def _ask(self, customers: Sequence[Customer], rounds: Sequence[Round], *, in_fault: bool = False) -> None:
        """Ask, listen, and judge what comes."""
        for each in rounds:
            answers = self._round(customers, each)
            if in_fault:
                self._out = [label for answer in answers for label in answer.labels]
            elif any(answer.status == _LATER for answer in answers):
                self._repair("it gives no label")
                answers = self._round(customers, each)
            for (_, count, _), answer in zip(each, answers, strict=True):
                self._judge_answer(answer, count, faulty=in_fault and self._place.fault is not None)
            lost = sum(not answer.whole for answer in answers)
            self.report.demand(lost <= 1 or self._place.kills, f"{self._place}: {lost} answers were cut off")

    def _round(self, customers: Sequence[Customer], each: Round) -> list[Answer]:
        for who, count, as_text in each:
            customers[who].ask(self._name(), count, as_text=as_text)
        return [customers[who].answer() for who, _, _ in each]

    def _judge_answer(self, answer: Answer, count: int, *, faulty: bool) -> None:
        outcome = f"{self._place}: {answer.status} {answer.kind} with {len(answer.labels)} of {count} labels"
        if answer.late:
            self.report.violate(f"{outcome}, and then nothing")
        elif not answer.whole:
            excused = faulty and (self._place.kills or self._place.breaks_connection)
            self.report.demand(excused, f"{outcome}, and then the end")
        elif answer.status == _LATER and faulty:
            self.report.count("refusals")
            self.report.demand(answer.kind == "application/problem+json", outcome)
        else:
            self.report.demand(answer.status == _GIVEN and len(answer.labels) == count, outcome)
