"""The record of acknowledgments that do not count: by key and client, while the key is valid, and never too many."""

from __future__ import annotations

import pytest

from ibi.archive.model.url_key import AcknowledgmentCount, AcknowledgmentRefusal
from ibi.archive.service.messages import AcknowledgmentRecord

MOST = 10_000


def used(key: str, expires: int = 100) -> AcknowledgmentCount:
    return AcknowledgmentCount(1, f"{key} once", expires, 1)


def test_a_key_is_used_up_for_the_client_that_has_used_it() -> None:
    record = AcknowledgmentRecord(lambda: 0.0)
    record.use_up(used("a"), "192.0.2.1")
    record.use_up(used("b"), None)
    found = {
        (key, client): record.is_used_up(used(key), client)
        for key in "ab"
        for client in ("192.0.2.1", "192.0.2.2", None)
    }
    assert {each for each, is_used in found.items() if is_used} == {("a", "192.0.2.1"), ("b", None)}


@pytest.mark.parametrize(("now", "is_recorded"), [(100.0, False), (100.1, True)])
def test_ten_thousand_are_recorded_and_those_that_have_expired_give_way(
    now: float, is_recorded: bool
) -> None:
    clock = [0.0]
    record = AcknowledgmentRecord(lambda: clock[0])
    for number in range(MOST):
        record.use_up(used(str(number), 200 if number else 100), "")
    clock[0] = now
    record.use_up(used("one more", 300), "")
    assert record.is_used_up(used("one more"), "") == is_recorded
    assert record.is_used_up(used("0"), "") != is_recorded
    assert record.is_used_up(used(str(MOST - 1)), "")


def test_refusals_are_counted_by_reason_and_logged_in_order(caplog: pytest.LogCaptureFixture) -> None:
    record = AcknowledgmentRecord(lambda: 0.0, logs=False)
    record.log()
    for reason in (AcknowledgmentRefusal.USED_UP, AcknowledgmentRefusal.BUSY, AcknowledgmentRefusal.USED_UP):
        record.refuse(reason)
    assert caplog.messages == []
    assert record.refused == {"used-up": 2, "busy": 1}
    record.log()
    assert caplog.messages == ["acknowledgments were refused, since the start: busy 1, used-up 2"]


def test_refusals_are_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    record = AcknowledgmentRecord(lambda: clock[0])
    for clock[0] in (0.0, 59.9, 60.0, 119.9, 121.0):
        record.refuse(AcknowledgmentRefusal.TOO_OLD)
    counts = (1, 3, 5)
    assert caplog.messages == [
        f"acknowledgments were refused, since the start: too-old {count}" for count in counts
    ]
