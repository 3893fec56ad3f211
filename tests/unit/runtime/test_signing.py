"""Keys under which any client could sign are none; canonical JSON up to its limits."""

from __future__ import annotations

import pytest

from ibi.errors import BadItem
from ibi.runtime.signing import canonical, is_key

PRIME = 2**255 - 19
ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
WEAK = (0, 1, PRIME - 1, ORDER_8, PRIME - ORDER_8)
"""The values of y of the points of small order (RFC 7748, section 6.1, gives those of the other form)."""
SIGN = 1 << 255


def _text(y: int) -> str:
    return y.to_bytes(32, "little").hex()


@pytest.mark.parametrize("y", [*WEAK, PRIME, PRIME + 1])
@pytest.mark.parametrize("sign", [0, SIGN])
def test_a_point_of_small_order_is_no_key_in_any_spelling(y: int, sign: int) -> None:
    assert not is_key(_text(y | sign))


@pytest.mark.parametrize("y", [2, 3, PRIME - 2, ORDER_8 - 1, ORDER_8 + 1, PRIME - ORDER_8 - 1, PRIME + 2])
@pytest.mark.parametrize("sign", [0, SIGN])
def test_what_is_beside_such_a_point_is_a_key(y: int, sign: int) -> None:
    assert is_key(_text(y | sign))


@pytest.mark.parametrize("text", ["", "2" * 63, "2" * 65, "A" * 64, "g" * 64, f"{'2' * 64}\n"])
def test_a_key_has_64_small_hexadecimal_digits(text: str) -> None:
    assert not is_key(text)
    assert is_key("2" * 64)


@pytest.mark.parametrize("sign", [1, -1])
def test_whole_numbers_up_to_those_that_every_language_tells_apart(sign: int) -> None:
    assert canonical(sign * (2**53 - 1)) == str(sign * (2**53 - 1)).encode()
    with pytest.raises(BadItem, match=f"{sign * 2**53} has no canonical spelling"):
        canonical(sign * 2**53)


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, {"a": 1, "\udfff": 2}, [{"a": "\ud800"}]])
def test_half_a_character_is_refused(value: object) -> None:
    with pytest.raises(BadItem, match="a text has half a character in it"):
        canonical(value)
