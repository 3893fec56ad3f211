"""The answers of an Archive in the last day: counted by hours, in bounded memory."""

from __future__ import annotations

from ibi.resolver.resolve.breaker import HOUR, HOURS, CircuitBreakers
from ibi.web.resolver_pages import spark


def test_answers_are_counted_for_a_day_and_no_longer() -> None:
    breakers, begin = CircuitBreakers(), 500 * HOUR
    assert breakers.last_day("a", begin) == ()
    for hour in range(100):
        breakers.count("a", begin + hour * HOUR, answered=True)
        breakers.count("a", begin + hour * HOUR + 1, answered=hour % 2 == 0)
    day = breakers.last_day("a", begin + 99 * HOUR + 10)
    assert len(day) == HOURS
    assert day[-1] == (1, 1)
    assert day[-2] == (2, 0)
    assert len(breakers.hours["a"]) == 3 * HOURS
    assert breakers.last_day("a", begin + 105 * HOUR)[-6:] == ((0, 0),) * 6
    breakers.forget(["b"])
    assert breakers.last_day("a", begin + 99 * HOUR) == ()


def test_the_answers_of_the_first_hour_of_a_machine_are_counted_too() -> None:
    breakers = CircuitBreakers()
    breakers.count("a", 10.0, answered=True)
    breakers.count("a", 20.0, answered=False)
    assert breakers.last_day("a", 30.0) == (*[(0, 0)] * (HOURS - 1), (1, 1))
    breakers.count("a", 5 * HOUR, answered=True)
    assert breakers.last_day("a", 5 * HOUR)[-6:] == ((1, 1), *[(0, 0)] * 4, (1, 0))


def test_a_line_of_answers_marks_the_hours_with_failures() -> None:
    line = spark([(4, 0), (0, 3), (2, 0)])
    assert line.line == "0,2 48,22 96,12"
    assert line.failed == [(48, 22)]
