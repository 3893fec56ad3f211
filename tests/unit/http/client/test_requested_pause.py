"""For how long a peer asks not to be asked (Retry-After), and what is no such plea."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ibi.http.client import Reply

DATE = b"Thu, 26 Nov 2026 11:00:00 GMT"


def pause(value: bytes, status: int = 503, date: bytes | None = DATE) -> int | None:
    headers = {b"retry-after": value} | ({} if date is None else {b"date": date})
    return Reply(status, headers, b"", "192.0.2.1").requested_pause


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0), (b" 7 ", 7), (b"3600", 60), (b"9" * 400, 60),
        (b"Thu, 26 Nov 2026 11:00:09 GMT", 9), (b"Fri, 27 Nov 2026 11:00:00 GMT", 60),
        (b"Thu, 26 Nov 2026 10:00:00 GMT", 0),
        (b"", None), (b"-1", None), (b"1.5", None), (b"3, 4", None), (b"soon", None), (b"\xb2", None),
        (b"Thu, 26 Nov 2026 11:00:09 +" + b"9" * 30, None), (b"Thu, 99 Nov 2026 11:00:09 GMT", None),
    ],
)  # fmt: skip
def test_a_pause_is_a_number_or_a_date_and_bounded(value: bytes, seconds: int | None) -> None:
    assert pause(value) == seconds


def test_only_two_statuses_ask_for_a_pause() -> None:
    assert [status for status in range(200, 600) if pause(b"5", status) is not None] == [429, 503]
    assert pause(DATE, date=None) is None


@given(some.binary(max_size=60), some.binary(max_size=60))
def test_whatever_a_peer_writes_is_a_bounded_pause_or_none(value: bytes, date: bytes) -> None:
    seconds = pause(value, 429, date)
    assert seconds is None or 0 <= seconds <= 60
