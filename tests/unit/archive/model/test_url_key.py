"""urlkeys: only ours, only fresh, and never twice the same."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.model.url_key import LIFETIME, AcknowledgmentCount, AcknowledgmentRefusal, UrlKeys
from ibi.protocol.messages import Acknowledgment, is_key
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import NOW, Clock

SECRET = b"s" * 32


def keys(clock: Clock, secret: bytes = SECRET) -> UrlKeys:
    return UrlKeys(secret, clock.seconds)


def acknowledgment(key: str, readers: int = 1, event: str = "") -> Acknowledgment:
    url = "http://far.example/"
    return Acknowledgment(
        ("192.0.2.1",), ContentType.DATA, ItemState.ORIGINAL, url, url, key, count=readers, event=event
    )


def read(
    maker: UrlKeys, key: str, readers: int = 1, event: str = "", *, many: bool = True
) -> AcknowledgmentCount | None:
    """What an acknowledgment with this key comes to."""
    found = maker.read(acknowledgment(key, readers, event))
    return found if many or found is None else found.of_stranger


@pytest.mark.proves("MSG-21", "SVC-21", "AMB-57")
@given(st.integers(0, 2**63))
def test_a_key_has_the_standards_form_and_tells_its_item(number: int) -> None:
    made = keys(Clock()).make(number)
    assert is_key(made)
    assert read(keys(Clock()), made) == AcknowledgmentCount(number, made, NOW + LIFETIME, 1)


def test_a_key_has_the_form_of_those_that_were_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are reused bear keys of the version before, so the form of a key stays."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(range(size)))
    made = keys(Clock()).make(7, 60)
    time, number = made.split("-")
    assert time == f"{NOW:010}"
    assert int(number).to_bytes(37, "big")[:21] == b"\x01" + bytes([*[0] * 7, 7, 0, 0, 0, 60, *range(8)])


@pytest.mark.proves("SVC-21")
def test_every_answer_gets_a_new_key() -> None:
    maker = keys(Clock())
    assert len({maker.make(7) for _ in range(1000)}) == 1000


def test_a_key_grows_old() -> None:
    clock = Clock()
    made = keys(clock).make(7)
    clock.now += LIFETIME
    assert read(keys(clock), made) is not None
    clock.now += 1
    assert read(keys(clock), made) is None


def test_why_a_key_does_not_count_is_told() -> None:
    clock = Clock()
    ours, others = keys(clock), keys(clock, b"t" * 32)
    made, foreign = ours.make(7), others.make(7)
    clock.now += LIFETIME + 1
    refusals = [ours.refusal(acknowledgment(key)) for key in (made, foreign)]
    assert refusals == [AcknowledgmentRefusal.TOO_OLD, AcknowledgmentRefusal.UNKNOWN_KEY]


@pytest.mark.proves("SVC-20")
def test_a_key_of_another_archive_is_none_of_ours() -> None:
    assert read(keys(Clock(), b"t" * 32), keys(Clock()).make(7)) is None


@given(st.integers(0, 88), st.sampled_from("0123456789"), st.sampled_from([0, 60]))
def test_a_key_with_one_digit_changed_is_none_of_ours(at: int, digit: str, reuse: int) -> None:
    made = keys(Clock()).make(7, reuse)
    time, _, digits = made.partition("-")
    assert len(digits) <= 89
    changed = digits[:at] + digit + digits[at + 1 :]
    assert (read(keys(Clock()), f"{time}-{changed}") is None) == (changed != digits)
    assert read(keys(Clock()), f"{int(time) + 1}-{digits}") is None
    assert read(keys(Clock()), f"0{made}") is None


# Keys of answers that may be reused


def test_the_key_of_a_reused_answer_is_good_for_ten_minutes_after_its_last_use() -> None:
    clock = Clock()
    made = keys(clock).make(7, 60)
    clock.now += 60 + LIFETIME
    assert read(keys(clock), made, 5, "1") == AcknowledgmentCount(7, f"{made} 1", NOW + 60 + LIFETIME, 5)
    clock.now += 1
    assert read(keys(clock), made, 5, "1") is None


def test_the_acknowledgments_of_a_reused_answer_are_told_apart_by_their_ids() -> None:
    maker = keys(Clock())
    made = maker.make(7, 60)
    heard = [read(maker, made, 1, event) for event in ("", "1", "2", "01")]
    assert len({count.once for count in heard if count}) == 4


def test_a_key_for_one_reader_stands_for_one_whatever_the_acknowledgment_says() -> None:
    maker = keys(Clock())
    made = maker.make(7)
    assert (
        read(maker, made, 100_000, "1")
        == read(maker, made, 3, "2")
        == AcknowledgmentCount(7, made, NOW + LIFETIME, 1)
    )


def test_who_is_not_believed_speaks_for_one_reader_with_any_key() -> None:
    maker = keys(Clock())
    made = maker.make(7, 60)
    first, second = (read(maker, made, 100_000, event, many=False) for event in ("1", "2"))
    assert first == second == AcknowledgmentCount(7, made, NOW + 60 + LIFETIME, 1)


@pytest.mark.parametrize("text", ["", "-", "1", "1700000000", "1700000000-", "1700000000-1234567890", "x" * 99,
                                  "1700000000-" + "9" * 5000, "1700000000-" + "9" * 240])  # fmt: skip
def test_what_is_no_key_is_no_error_either(text: str) -> None:
    assert read(keys(Clock()), text) is None
