"""Which Archives are queried now: what opens a circuit breaker, pauses that grow, one probe at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ibi.errors import (
    ForbiddenAddress,
    IbiError,
    PeerBusy,
    PeerGarbled,
    PeerSilent,
    PeerUnreachable,
    QueryRefused,
    WrongArchive,
)
from ibi.resolver.model.alert import INCOMPLETE_RETRY
from ibi.resolver.resolve.breaker import (
    FAILURES,
    HOUR,
    LONGEST_OPEN_SECONDS,
    OPEN_SECONDS,
    SOON,
    Circuit,
    CircuitBreakers,
)

REFUSED = PeerUnreachable("no connection")
SILENT = PeerSilent("no whole answer")


def open_breaker(name: str = "a", now: float = 0.0) -> CircuitBreakers:
    health = CircuitBreakers()
    for _ in range(FAILURES):
        health.failed(name, now, REFUSED)
    return health


def probe(health: CircuitBreakers, name: str, now: float, why: IbiError | None = SILENT) -> None:
    """A question of our own was sent now, and failed."""
    health.probe_failed(name, now, now, why)


def is_open(breakers: CircuitBreakers, service: str) -> bool:
    """Whether a circuit is open or half open."""
    circuit = breakers.circuits.get(service)
    return circuit is not None and circuit.opened > 0


def test_an_archive_never_heard_of_is_asked() -> None:
    health = CircuitBreakers()
    assert health.begin("a", 0.0) == "ask"
    assert health.suspended_until(0.0) == {}
    assert health.circuits.get("a") is None


def test_the_fifth_failed_connection_in_a_row_puts_an_archive_to_sleep() -> None:
    health = CircuitBreakers()
    for _ in range(FAILURES - 1):
        health.failed("a", 100.0, REFUSED)
        assert health.begin("a", 100.0) == "ask"
    assert not health.failed("a", 100.0, REFUSED)
    assert health.begin("a", 100.0) == 100.0 + OPEN_SECONDS
    assert health.begin("b", 100.0) == "ask"
    assert health.suspended_until(99.9 + OPEN_SECONDS) == {"a": 100.0 + OPEN_SECONDS}
    assert health.suspended_until(100.0 + OPEN_SECONDS) == {}


def test_a_success_between_failures_begins_the_count_anew() -> None:
    health = CircuitBreakers()
    for _ in range(3):
        for _ in range(FAILURES - 1):
            health.failed("a", 0.0, REFUSED)
        health.heard("a", 0.0)
    health.failed("a", 0.0, REFUSED)
    assert health.begin("a", 0.0) == "ask"


def test_after_the_pause_one_caller_probes_and_the_others_wait() -> None:
    health = open_breaker()
    assert health.begin("a", OPEN_SECONDS - 0.1) == OPEN_SECONDS
    assert health.begin("a", OPEN_SECONDS) == "probe"
    assert health.begin("a", OPEN_SECONDS) == 2 * OPEN_SECONDS
    assert health.suspended_until(OPEN_SECONDS + 1) == {"a": 2 * OPEN_SECONDS}
    health.heard("a", OPEN_SECONDS + 1)
    assert health.begin("a", OPEN_SECONDS + 1) == "ask"
    assert health.begin("a", OPEN_SECONDS + 1) == "ask"
    assert health.suspended_until(OPEN_SECONDS + 1) == {}


def test_a_reply_to_another_request_brings_one_probe_at_once() -> None:
    health = open_breaker()
    assert health.begin("a", 2.0, 0.0) == OPEN_SECONDS  # it replied before its circuit opened, or as it did
    assert health.begin("a", 2.0, 0.1) == "probe"
    assert health.begin("a", 2.0, 0.1) == 2.0 + OPEN_SECONDS
    probe(health, "a", 3.0)
    assert health.begin("a", 4.0, 0.1) == 3.0 + 2 * OPEN_SECONDS
    assert health.begin("a", 4.0, 3.5) == "probe"
    health.recovered("a", 4.1)
    assert health.begin("a", 4.1, 3.5) == "ask"


def test_a_reply_to_another_request_does_not_shorten_a_pause_that_an_archive_asked_for() -> None:
    health = CircuitBreakers()
    health.failed("a", 0.0, PeerBusy("busy", 20))
    health.probe_failed("a", 0.0, 0.0, PeerBusy("busy", 20))
    assert health.begin("a", 2.0, 1.0) == 20.0


def test_an_archive_that_moved_is_asked_and_keeps_its_figures() -> None:
    changes: list[None] = []
    health = open_breaker(now=HOUR)
    health.on_change = lambda: changes.append(None)
    health.count("a", HOUR, answered=False)
    health.forget({"a"}, {"a"})
    assert health.begin("a", HOUR + 1) == "ask"
    assert health.last_day("a", HOUR + 1)[-1] == (0, 1)
    assert changes == [None]


def test_a_probe_that_never_reports_is_followed_by_another_one() -> None:
    health = open_breaker()
    assert health.begin("a", OPEN_SECONDS) == "probe"
    assert health.begin("a", 2 * OPEN_SECONDS - 0.1) == 2 * OPEN_SECONDS
    assert health.begin("a", 2 * OPEN_SECONDS) == "probe"
    assert health.begin("a", 2 * OPEN_SECONDS) == 3 * OPEN_SECONDS


def test_every_probe_that_fails_makes_the_pause_longer_up_to_five_minutes() -> None:
    health = open_breaker()
    now, pauses = 0.0, []
    for _ in range(14):
        until = health.begin("a", now)
        assert isinstance(until, float)
        pauses.append(until - now)
        now = until
        assert health.begin("a", now) == "probe"
        now += 3.0
        probe(health, "a", now)
    assert pauses[:4] == [OPEN_SECONDS, 2 * OPEN_SECONDS, 3 * OPEN_SECONDS, 4 * OPEN_SECONDS]
    assert pauses[9:] == [LONGEST_OPEN_SECONDS] * 5


def test_a_success_after_long_pauses_begins_with_the_shortest_again() -> None:
    health = open_breaker()
    assert health.begin("a", OPEN_SECONDS) == "probe"
    probe(health, "a", OPEN_SECONDS + 1)
    assert health.begin("a", 3 * OPEN_SECONDS + 1) == "probe"
    health.heard("a", 3 * OPEN_SECONDS + 2)
    for _ in range(FAILURES):
        assert health.begin("a", 4 * OPEN_SECONDS) == "ask"
        health.failed("a", 4 * OPEN_SECONDS, REFUSED)
    assert health.begin("a", 4 * OPEN_SECONDS) == 5 * OPEN_SECONDS


def test_readers_are_told_to_come_back_after_a_first_pause() -> None:
    assert INCOMPLETE_RETRY == OPEN_SECONDS


def test_requests_under_way_that_fail_later_do_not_lengthen_the_pause() -> None:
    health = CircuitBreakers()
    for _ in range(32):
        health.failed("a", 10.0, REFUSED)
    assert health.suspended_until(10.0) == {"a": 10.0 + OPEN_SECONDS}
    circuit = health.circuits.get("a")
    assert circuit is not None
    assert circuit.failures == 32


def test_an_answer_that_comes_late_closes_the_breaker() -> None:
    health = open_breaker()
    health.heard("a", 5.0)
    assert health.begin("a", 5.0) == "ask"


def test_the_last_reason_and_the_number_of_failures_are_remembered() -> None:
    health = CircuitBreakers()
    early, late = IbiError("no time was left to ask it"), IbiError("the answer is not text/plain")
    health.failed("a", 1.0, early)
    health.failed("a", 2.0, late)
    health.failed("a", 3.0)
    assert health.circuits["a"] == Circuit(3, late, 0.0)


def test_archives_that_are_no_longer_included_are_forgotten() -> None:
    health = open_breaker("a")
    for _ in range(FAILURES):
        health.failed("b", 0.0, REFUSED)
    health.forget({"b", "c"})
    assert health.begin("a", 1.0) == "ask"
    assert health.suspended_until(1.0) == {"b": OPEN_SECONDS}


@pytest.mark.parametrize("seconds_between", [0.1, 1.0, 7.0])
def test_a_hung_archive_costs_at_most_one_probe_in_half_a_minute(seconds_between: float) -> None:
    health, now, probes = open_breaker(), 0.0, []
    while now < 3600:
        if isinstance(health.begin("a", now), str):
            probes.append(now)
            probe(health, "a", now + 3)
        now += seconds_between
    assert all(later - earlier >= OPEN_SECONDS for earlier, later in pairwise(probes))
    assert 3600 / LONGEST_OPEN_SECONDS <= len(probes) <= 20


def outage(names: str, of: int = 10) -> CircuitBreakers:
    """Of ten Archives, or another number, these have failed five times."""
    health = CircuitBreakers()
    health.forget(set("abcdefghij"[:of]))
    for name in names:
        for _ in range(FAILURES):
            health.failed(name, 0.0, REFUSED)
    return health


def test_where_most_suspended_each_is_tried_again_every_second_by_one_caller() -> None:
    health, now = outage("abcdef"), 0.0
    assert health.begin("a", SOON - 0.1) == OPEN_SECONDS
    for _ in range(4):
        now += SOON
        for name in "abcdef":
            assert health.begin(name, now) == "probe"
            assert health.begin(name, now) is not None
            probe(health, name, now)
    assert set(health.suspended_until(now + OPEN_SECONDS - 0.1)) == set(
        "abcdef"
    )  # and no pause has grown meanwhile
    assert health.suspended_until(now + OPEN_SECONDS) == {}
    health.heard("a", now)
    assert health.begin("a", now) == "ask"
    assert health.begin("b", now + 2 * SOON) == now + OPEN_SECONDS  # half of ten are not most


def test_where_only_half_are_silent_their_breakers_stay_open() -> None:
    health = outage("abcde")
    assert [health.begin(name, 20.0) for name in "abcde"] == [OPEN_SECONDS] * 5
    assert health.begin("f", 20.0) == "ask"


def test_an_outage_of_all_ends_a_second_after_it_is_mended() -> None:
    health, now = outage("abcdefghij"), 0.0
    while now < 120.0:  # all of them are silent
        now += 0.25
        for name in "abcdefghij":
            if isinstance(health.begin(name, now), str):
                probe(health, name, now)
    for name in "abcdefghij":
        if isinstance(health.begin(name, now + SOON), str):
            health.heard(name, now + SOON)
    assert health.suspended_until(now + SOON) == {}


@pytest.mark.parametrize("why", [SILENT, PeerGarbled("no pair list"), IbiError("not an answer"), None])
def test_the_fifth_failure_that_a_reader_can_provoke_asks_for_a_question_of_our_own(
    why: IbiError | None,
) -> None:
    health = CircuitBreakers()
    assert [health.failed("a", 0.0, why) for _ in range(FAILURES + 3)] == [False] * 4 + [True] + [False] * 3
    assert health.begin("a", 0.0) == "ask"
    probe(health, "a", 3.0)
    assert health.begin("a", 3.0) == 3.0 + OPEN_SECONDS


def test_an_answer_to_our_own_question_closes_the_matter() -> None:
    health = CircuitBreakers()
    assert [health.failed("a", 0.0, SILENT) for _ in range(FAILURES)][-1]
    health.heard("a", 1.0)
    assert [health.failed("a", 2.0, SILENT) for _ in range(FAILURES)] == [False] * 4 + [True]


def test_a_question_of_our_own_that_was_not_sent_or_was_overtaken_by_an_answer_opens_nothing() -> None:
    health = CircuitBreakers()
    assert [health.failed("a", 0.0, SILENT) for _ in range(FAILURES)][-1]
    probe(health, "a", 1.0, None)
    assert health.failed("a", 2.0, SILENT)  # the next failure asks for another one
    health.heard("a", 3.0)
    health.failed("a", 3.5, SILENT)
    health.probe_failed("a", 2.0, 4.0, SILENT)
    assert health.begin("a", 4.0) == "ask"


def test_what_tells_of_the_question_does_not_count() -> None:
    health = CircuitBreakers()
    assert not any(health.failed("a", 0.0, QueryRefused("too long")) for _ in range(9))
    assert health.circuits == {}


def test_failures_of_both_kinds_do_not_add_up_to_failed_connections() -> None:
    health = CircuitBreakers()
    for _ in range(FAILURES - 1):
        health.failed("a", 0.0, SILENT)
    assert health.failed("a", 0.0, ForbiddenAddress("not there"))
    assert health.begin("a", 0.0) == "ask"


def test_a_plea_for_a_pause_is_checked_at_once_and_lasts_as_long_as_it_says() -> None:
    health = CircuitBreakers()
    assert health.failed("a", 0.0, PeerBusy("later", 7))
    assert health.begin("a", 0.0) == "ask"
    probe(health, "a", 1.0, PeerBusy("later", 7))
    assert health.begin("a", 7.9) == 8.0
    assert health.begin("a", 8.0) == "ask"
    assert not is_open(health, "a")


def test_a_probe_that_is_asked_for_a_pause_closes_the_circuit_and_keeps_the_pause_although_most_suspended() -> (
    None
):
    health, seen = open_breaker(), list[set[str]]()
    health.forget({"a"})
    health.on_change = lambda: seen.append(health.unreliable())
    assert health.begin("a", OPEN_SECONDS) == "probe"
    probe(health, "a", OPEN_SECONDS, PeerBusy("later", 20))
    assert (is_open(health, "a"), seen) == (False, [set()])
    assert health.begin("a", OPEN_SECONDS + 2 * SOON) == OPEN_SECONDS + 20
    assert health.begin("a", OPEN_SECONDS + 20) == "ask"


def test_another_archive_that_asks_for_a_pause_gets_it_and_is_still_another_one() -> None:
    health = CircuitBreakers()
    probe(health, "a", 0.0, WrongArchive("another one"))
    probe(health, "a", OPEN_SECONDS, PeerBusy("later", 50))
    assert is_open(health, "a")
    assert health.circuits["a"].is_disbelieved
    assert health.begin("a", OPEN_SECONDS + 49) == OPEN_SECONDS + 50


def test_an_acknowledgment_without_a_reply_is_followed_by_one_probe_that_decides() -> None:
    breakers = CircuitBreakers()
    assert breakers.note_silence("a", 0.0, failed=True)
    assert breakers.unreliable() == {"a"}
    assert not breakers.note_silence("a", 0.1, failed=True)  # one is under way
    probe(breakers, "a", 1.0, None)  # it could not be sent
    assert breakers.unreliable() == set()
    assert breakers.note_silence("a", 2.0, failed=True)
    probe(breakers, "a", 3.0)
    assert breakers.unreliable() == {"a"}
    assert not breakers.note_silence("a", 4.0, failed=True)


def test_an_archive_that_is_merely_slow_is_suspected_once_in_a_while() -> None:
    breakers = CircuitBreakers()
    assert breakers.note_silence("a", 0.0, failed=False)
    assert breakers.is_unreliable("a")
    assert not is_open(breakers, "a")
    breakers.recovered("a", 2.0)
    assert not breakers.is_unreliable("a")
    assert not breakers.note_silence("a", OPEN_SECONDS - 0.1, failed=False)
    breakers.heard("b", 10.0)
    assert not breakers.note_silence("b", 10.9, failed=False)
    assert breakers.note_silence("b", 11.0, failed=False)
    assert breakers.note_silence("a", OPEN_SECONDS, failed=False)
    breakers.heard("a", OPEN_SECONDS + 1)
    assert breakers.note_silence("a", OPEN_SECONDS + 2, failed=True)


def test_what_opens_or_closes_a_circuit_is_told_once() -> None:
    breakers, seen = CircuitBreakers(), list[set[str]]()
    breakers.on_change = lambda: seen.append(breakers.unreliable())
    for _ in range(FAILURES):
        breakers.failed("a", 0.0, REFUSED)
        breakers.failed("b", 0.0, SILENT)
    assert seen == [{"a"}]
    probe(breakers, "b", 1.0)
    probe(breakers, "b", 40.0)  # longer, but open as before
    assert seen == [{"a"}, {"a", "b"}]
    breakers.heard("a", 41.0)
    breakers.recovered("b", 42.0)
    breakers.recovered("c", 43.0)
    assert seen == [{"a"}, {"a", "b"}, {"b"}, set()]
    probe(breakers, "b", 44.0)
    breakers.note_silence("b", 45.0, failed=True)
    probe(breakers, "b", 45.0)
    breakers.forget(())
    assert seen[4:] == [{"b"}, {"b"}, set()]  # suspected, open


def test_that_another_archive_is_there_takes_the_place_of_an_earlier_reason() -> None:
    breakers = CircuitBreakers()
    breakers.failed("a", 0.0, PeerSilent("no answer"))
    assert breakers.doubt("a", 1.0)
    assert not breakers.doubt("a", 2.0)
    breakers.probe_failed("a", 1.0, 2.0, WrongArchive("another one"))
    assert isinstance(breakers.circuits["a"].why, WrongArchive)
    assert breakers.begin("a", 3.0) == 2.0 + OPEN_SECONDS


def test_at_the_last_moment_of_a_pause_it_has_ended() -> None:
    breakers = CircuitBreakers()
    probe(breakers, "a", 0.0, PeerBusy("later", 7))  # not known yet
    breakers.note_silence("a", 0.0, failed=True)
    probe(breakers, "a", 0.0, PeerBusy("later", 7))
    assert [breakers.begin("a", 7.0) for _ in range(3)] == ["ask"] * 3  # asked for, so no probe goes first
    assert breakers.doubt("a", 1.0)
    assert not breakers.doubt("a", 0.9 + OPEN_SECONDS)
    assert breakers.doubt("a", 1.0 + OPEN_SECONDS)


def test_an_answer_at_the_moment_of_the_probe_is_later_than_it() -> None:
    breakers = CircuitBreakers()
    breakers.heard("a", 5.0)
    breakers.note_silence("a", 5.0, failed=True)
    breakers.probe_failed("a", 5.0, 6.0, SILENT)
    assert not is_open(breakers, "a")
    breakers.note_silence("a", 6.0, failed=True)
    breakers.probe_failed("a", 5.1, 6.0, SILENT)
    assert is_open(breakers, "a")


def test_what_is_known_of_those_who_stay_included_stays() -> None:
    breakers = CircuitBreakers()
    breakers.heard("a", 5.0)
    assert breakers.doubt("a", 5.0)
    breakers.note_silence("a", 5.0, failed=True)
    breakers.forget({"a"})
    assert not breakers.doubt("a", 6.0)
    breakers.probe_failed("a", 5.0, 7.0, SILENT)  # it has been heard since
    assert not is_open(breakers, "a")
    breakers.forget({"b"})
    assert breakers.doubt("a", 8.0)
    breakers.note_silence("a", 8.0, failed=True)
    breakers.probe_failed("a", 5.0, 9.0, SILENT)  # not since it is included again
    assert is_open(breakers, "a")


def test_another_archive_stays_left_out_though_it_answers_and_fails() -> None:
    breakers = CircuitBreakers()
    breakers.probe_failed("a", 1.0, 2.0, WrongArchive("another one"))
    breakers.heard("a", 3.0)
    assert not breakers.failed("a", 4.0, SILENT)
    assert is_open(breakers, "a")
    assert not is_open(breakers, "b")
    breakers.recovered("a", 5.0)
    assert not is_open(breakers, "a")


def test_the_only_archive_is_tried_again_every_second() -> None:
    assert outage("a", of=1).begin("a", SOON) == "probe"
    assert outage("a", of=2).begin("a", SOON) == OPEN_SECONDS


def test_a_probe_that_is_asked_for_a_pause_brings_none_where_a_reader_got_an_answer_meanwhile() -> None:
    for heard, turn in (((1.0,), 60.0), ((), 60.0), ((2.0,), "ask"), ((2.5,), "ask")):
        breakers = CircuitBreakers()
        breakers.failed("a", 0.0, PeerBusy("later", 10))
        for when in heard:
            breakers.heard_at["a"] = when
        breakers.probe_failed("a", 2.0, 10.0, PeerBusy("later", 50))
        assert breakers.begin("a", 10.0) == turn


def test_an_archive_that_left_and_came_back_may_be_suspected_at_once() -> None:
    for included, suspected in (({"a"}, False), ((), True)):
        breakers = CircuitBreakers()
        assert breakers.note_silence("a", 0.0, failed=False)
        breakers.recovered("a", 1.0)
        breakers.forget(included)
        assert breakers.note_silence("a", 5.0, failed=False) == suspected
