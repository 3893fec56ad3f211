"""The three positional systems."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.numerals import IBIP, IPV4, IPV6, MAX_DIGITS

pytestmark = pytest.mark.proves("GEN-64", "GEN-65", "AMB-13")


def test_an_ip_address_is_read_as_text_with_its_dots_as_digits() -> None:
    assert IPV4.read("150.163.2.174") == 4588904456580
    assert IPV6.read("2001:252:0:1::2008:6") == 478239719325051908572237


def test_numbers_are_written_without_padding() -> None:
    assert [IBIP.write(number) for number in (1, 19050, 480992662)] == ["3", "U5H", "38G3TS3"]


def test_zero_is_the_zero_digit() -> None:
    assert IBIP.write(0) == "2"


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="from zero upwards"):
        IBIP.write(-1)


def test_a_foreign_character_is_pointed_at() -> None:
    with pytest.raises(ParseError) as fault:
        IPV4.read("1.2x3")
    assert (fault.value.start, fault.value.end) == (3, 4)


@pytest.mark.parametrize("text", ["", "2" * (MAX_DIGITS + 1)])
def test_no_number_is_empty_or_endless(text: str) -> None:
    with pytest.raises(ParseError):
        IBIP.read(text)


def test_digits_of_other_scripts_are_no_digits() -> None:
    with pytest.raises(ParseError):
        IPV4.read("１.2.3.4")
