"""What is just long enough is read, and one character more is not: every limit of the names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibi.errors import ParseError
from ibi.identifier.generator import LabelGenerator
from ibi.identifier.ibip import EPOCH, IBIp
from ibi.identifier.legacy import MAX_LENGTH, LegacyId
from ibi.identifier.numerals import IBIP, MAX_DIGITS
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.typos import MAX_CORE, likely_spelling
from ibi.identifier.unwrapping import MAX_TEXT, unwrap

LABEL = 512  # characters of a label, as docs/reference/limits.md has it


def _generator(host: str) -> LabelGenerator:
    return LabelGenerator(host, for_trying=True)


@pytest.mark.parametrize(
    ("read", "start", "filling", "end", "limit"),
    [
        (IBIP.read, "", "2", "", MAX_DIGITS),
        (IBIp.parse, "", "2", "W/34PGRBS", LABEL),
        (UniformRepositoryName.parse, "sid.inpe.br/", "m", "/2009/02.16.17.46", LABEL),
        (LegacyId.parse, "", "a", "XbZc/345", MAX_LENGTH),
        (unwrap, "8JMKD3MGP8W/34PGRBS", " ", "", MAX_TEXT),
        (_generator, "", "a", ".example", 253),
    ],
)
def test_a_text_of_the_greatest_length_is_read_and_a_longer_one_refused(
    read: Callable[[str], object], start: str, filling: str, end: str, limit: int
) -> None:
    text = start + filling * (limit - len(start) - len(end)) + end
    assert len(text) == limit
    read(text)
    with pytest.raises(ParseError, match=rf"(longer than|at most|from 1 to) {limit} \w+"):
        read(start + filling + text[len(start) :])


@pytest.mark.parametrize("parse", [IBIp.parse, UniformRepositoryName.parse])
def test_a_wrong_text_of_the_greatest_length_is_not_called_too_long(parse: Callable[[str], object]) -> None:
    with pytest.raises(ParseError) as found:
        parse("?" * LABEL)
    assert "longer than" not in str(found.value)
    with pytest.raises(ParseError, match="longer than 512 characters"):
        parse("?" * (LABEL + 1))


def test_the_longest_text_with_a_slip_is_guessed_at_and_a_longer_one_is_not() -> None:
    start, end = "sid.inpe.br/", "/2O09/02.16.17.46"
    word = "m" * (MAX_CORE - len(start) - len(end))
    assert likely_spelling(start + word + end) == f"{start}{word}/2009/02.16.17.46"
    assert likely_spelling(f"{start}m{word}{end}") is None


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_exist(port: int) -> None:
    generator = LabelGenerator("archive.example", port, "150.163.34.243", port, for_trying=True)
    label = generator.label(1234806360 * 10**9)
    assert label.ibip is not None
    assert label.ibip.port == port


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("sid.inpe.br/a/1994/02.16.17:46", None),
        ("sid.inpe.br/a/1995/01.01.00:00", "sid.inpe.br/a/1995/01.01.00.00"),
        ("sid.inpe.br/a/2099/12.31.23:59", "sid.inpe.br/a/2099/12.31.23.59"),
        ("sid.inpe.br/a/2100/01.01.00:00", None),
    ],
)
def test_only_a_name_of_our_age_is_guessed(slip: str, meant: str | None) -> None:
    assert likely_spelling(slip) == meant


SIX_DIGITS = EPOCH + 27**5  # the first second that an IBIp writes with six digits: 1996-01-13
NOW = 1234806360  # 2009-02-16


@pytest.mark.parametrize(
    ("port", "second", "meant"),
    [
        (79, NOW, False),
        (80, NOW, True),
        (9999, NOW, True),
        (10000, NOW, False),
        (800, SIX_DIGITS - 1, False),
        (800, SIX_DIGITS, True),
        (800, 4102444799, True),  # the end of 2099
        (800, 4102444800, False),
    ],
)
def test_only_an_ibip_of_a_common_port_and_of_our_age_is_guessed(port: int, second: int, meant: bool) -> None:
    generator = LabelGenerator("archive.example", 80, "150.163.34.243", port, for_trying=True)
    label = str(generator.label(second * 10**9).ibip)
    assert likely_spelling(label.replace("/", " ")) == (label if meant else None)
