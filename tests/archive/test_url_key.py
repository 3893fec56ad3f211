"""urlkeys: only ours, only fresh, and never twice the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.world import NOW, Clock
from ibi.archive.url_key import LIFETIME, Thanked, UrlKeys
from ibi.protocol.messages import is_key

SECRET = b"s" * 32


def keys(clock: Clock, secret: bytes = SECRET) -> UrlKeys:
    return UrlKeys(secret, clock.seconds)


@pytest.mark.proves("MSG-21", "SVC-21", "AMB-57")
@given(st.integers(0, 2**63))
def test_a_key_has_the_standards_form_and_tells_its_item(number: int) -> None:
    made = keys(Clock()).make(number)
    assert is_key(made)
    assert keys(Clock()).read(made) == Thanked(number, NOW + LIFETIME)


@pytest.mark.proves("SVC-21")
def test_every_answer_gets_a_new_key() -> None:
    maker = keys(Clock())
    assert len({maker.make(7) for _ in range(1000)}) == 1000


def test_a_key_grows_old() -> None:
    clock = Clock()
    made = keys(clock).make(7)
    clock.now += LIFETIME
    assert keys(clock).read(made) is not None
    clock.now += 1
    assert keys(clock).read(made) is None


def test_a_key_of_another_archive_is_none_of_ours() -> None:
    assert keys(Clock(), b"t" * 32).read(keys(Clock()).make(7)) is None


@given(st.integers(0, 78), st.sampled_from("0123456789"))
def test_a_key_with_one_digit_changed_is_none_of_ours(at: int, digit: str) -> None:
    made = keys(Clock()).make(7)
    time, _, digits = made.partition("-")
    changed = digits[:at] + digit + digits[at + 1 :]
    assert (keys(Clock()).read(f"{time}-{changed}") is None) == (changed != digits)
    assert keys(Clock()).read(f"{int(time) + 1}-{digits}") is None


@pytest.mark.parametrize("text", ["", "-", "1", "1700000000", "1700000000-", "1700000000-1234567890", "x" * 99,
                                  "1700000000-" + "9" * 5000, "1700000000-" + "9" * 240])  # fmt: skip
def test_what_is_no_key_is_no_error_either(text: str) -> None:
    assert keys(Clock()).read(text) is None
