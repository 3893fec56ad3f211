"""When a worker that has ended is started again, what stops all workers, and what a stop does, moment by moment."""

from __future__ import annotations

import signal

import pytest

from ibi.errors import SetupError
from ibi.http.server.workers import serve
from support.servers.false_system import End, FalseSystem, Signal

KILLED, FAILED = signal.SIGKILL, 1 << 8
STOP: Signal = (60.0, signal.SIGTERM)
STARTED = ["0 timer (1.0, 1.0)", "0 start 1001", "0 start 1002", "0 start 1003"]
STOPPED = ["stopping", *["listen no more"] * 2]


def ended(script: list[End | Signal], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str]:
    """What happened after the start of three workers, and the error in the end."""
    system = FalseSystem(script)
    with monkeypatch.context() as patch:
        system.put_in_place(patch)
        try:
            serve(list, ["a:1", "b:2"], lambda _: None, 3)
        except SetupError as error:
            problem = str(error)
        else:
            problem = ""
    assert system.events[:4] == STARTED
    assert system.events[-1].endswith(" timer (0,)") or problem
    return system.events[4:-1], problem


def stopped(at: float, *workers: int) -> list[str]:
    words = [*STOPPED, *(f"SIGTERM to {each}" for each in workers)]
    return [f"{at:g} {each}" for each in words]


def test_a_signal_goes_to_all_workers_and_one_to_stop_ends_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events, problem = ended([(2.0, signal.SIGHUP), (3.0, signal.SIGINT)], monkeypatch)
    assert events == [*(f"2 SIGHUP to {each}" for each in (1001, 1002, 1003)), *stopped(3, 1001, 1002, 1003)]
    assert (problem, caplog.messages) == ("", [])


def test_a_worker_that_has_lived_long_is_started_at_once_and_a_stranger_never(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[End | Signal] = [(5.0, 1002, FAILED), (6.0, 77, FAILED), (10.0, 1004, 0), (15.0, 1005, KILLED)]
    events, problem = ended([*ends, STOP], monkeypatch)
    restarts = ["5 start 1004", "10 start 1005", "15 start 1006"]
    assert (events, problem) == ([*restarts, *stopped(60, 1001, 1006, 1003)], "")
    assert caplog.messages == [
        f"worker process {each} ended ({how}): another one is started"
        for each, how in ((1002, "status 1"), (1004, "status 0"), (1005, "signal 9"))
    ]


def test_a_worker_that_ends_at_once_is_started_later_each_time_and_the_sixth_time_ends_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A look every 0.05 seconds finds the moment; `+ 4.9` is just quick, since five seconds count as steady."""
    ends: list[End | Signal] = [(10.0, 1001, KILLED)]
    restarts, at = ["10 start 1004"], 10.0
    for number, pause in enumerate((0.1, 0.2, 0.4, 0.8, 1.6), start=1004):
        ends.append((at + 4.9, number, KILLED))
        at = round(at + 4.9 + pause, 2)
        restarts.append(f"{at:g} start {number + 1}")
    events, problem = ended([*ends, (at + 4.9, 1009, KILLED)], monkeypatch)
    assert events == [*restarts, *stopped(at + 4.9, 1002, 1003)]
    assert problem == "a worker process ended unexpectedly"
    assert len(caplog.messages) == 6


def test_a_steady_worker_between_them_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [(1.0, 1002), (3.0, 1004), (20.0, 1005), (21.0, 1006)]
    events, problem = ended([*((at, number, KILLED) for at, number in ends), STOP], monkeypatch)
    restarts = ["1.1 start 1004", "3.2 start 1005", "20 start 1006", "21.1 start 1007"]
    assert (events, problem) == ([*restarts, *stopped(60, 1001, 1007, 1003)], "")


@pytest.mark.parametrize(
    ("at", "status", "fails"),
    [(0.0, FAILED, True), (4.9, FAILED, True), (5.0, FAILED, False), (0.5, 0, False), (0.5, KILLED, False)],
)
def test_a_worker_that_fails_at_the_start_ends_all(
    at: float, status: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, problem = ended([(at, 1002, status), STOP], monkeypatch)
    if fails:
        assert (events, problem) == (stopped(at, 1001, 1003), "a worker process ended unexpectedly")
    else:
        pause = 0 if at == 5 else 0.1
        assert (events, problem) == ([f"{at + pause:g} start 1004", *stopped(60, 1001, 1004, 1003)], "")


def test_a_worker_that_fails_while_all_stop_is_told_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, problem in ((0, ""), (FAILED, "a worker process ended unexpectedly")):
        events, found = ended([STOP, (60.2, 1002, status)], monkeypatch)
        assert (events, found) == (stopped(60, 1001, 1002, 1003), problem)


def test_a_worker_that_waits_for_its_start_is_not_started_after_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[End | Signal] = [(1.0, 1001, KILLED), (2.0, 1004, KILLED), (3.0, 1005, KILLED)]
    events, problem = ended([*ends, (3.2, signal.SIGTERM)], monkeypatch)
    assert events == ["1.1 start 1004", "2.2 start 1005", *stopped(3.2, 1002, 1003)]
    assert problem == ""
