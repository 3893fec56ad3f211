"""The throttle for wrong keys, with a clock of its own."""

from __future__ import annotations

from ibi.resolver.throttle import WINDOW, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_failures_are_forgotten_after_a_minute_and_not_before() -> None:
    clock = Clock()
    throttle = Throttle(2, clock)
    throttle.failed("a")
    clock.now = 10.0
    throttle.failed("a")
    assert throttle.wait("a") == WINDOW - 10.0
    clock.now = WINDOW - 0.1
    assert throttle.wait("a") > 0
    clock.now = WINDOW
    assert throttle.wait("a") == 0.0
    throttle.failed("a")
    assert throttle.wait("a") == 10.0


def test_names_are_counted_apart_and_successes_not_at_all() -> None:
    throttle = Throttle(1, Clock())
    throttle.failed("a")
    assert throttle.wait("a") > 0
    assert throttle.wait("b") == 0.0
    throttle.succeeded("a")
    assert throttle.wait("a") == 0.0
    throttle.succeeded("never seen")
    assert throttle.wait("never seen") == 0.0


def test_its_memory_has_an_end() -> None:
    throttle = Throttle(1, Clock())
    for number in range(30_000):
        throttle.failed(str(number))
    assert len(throttle._failures) == 20_000
    assert throttle.wait("29999") > 0
    assert throttle.wait("0") == 0.0
