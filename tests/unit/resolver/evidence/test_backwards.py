"""A log is read from its end, and an entry is found in it by reading little: against reading all of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.evidence.backwards import is_half, lines_backwards, position_of
from ibi.resolver.evidence.chain import CHAIN_START, LONGEST_LINE, NewEntry, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence


class CountedFile(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.count += len(line)
        return line


def entries(number: int, size: int = 0) -> list[bytes]:
    lines, last = list[bytes](), CHAIN_START
    for _ in range(number):
        line, last = write_line(last, NewEntry("2026-01-01T00:00:00.000Z", "excluded", {"ibi": "x" * size}))
        lines.append(line)
    return lines


def test_the_lines_before_a_position_are_those_that_begin_in_the_last_bytes() -> None:
    text = b"a\nbcd\n\nef\nlast half"
    whole = text.splitlines(keepends=True)
    for end in range(len(text) + 1):
        for most in range(1, len(text) + 3):
            found = list(lines_backwards(io.BytesIO(text), end, most))
            begin = max(0, end - most)
            positions = [sum(map(len, whole[:number])) for number in range(len(whole))]
            read = [at for at in positions if begin < at < end or at == begin == 0 < end]
            if not read and end:
                read = [begin]  # a part of a line that is longer
            expected = [(at, text[at:end].splitlines(keepends=True)[0]) for at in reversed(read)]
            assert (end, most, found) == (end, most, expected)


@pytest.mark.parametrize("damaged", [(), (0, 1), (3_999, 4_000, 4_001), (7_999,)])
def test_an_entry_is_found_by_reading_little(damaged: Sequence[int]) -> None:
    lines = entries(8_000)
    whole = len(b"".join(lines))
    assert whole > 12 * LONGEST_LINE
    for number in damaged:
        lines[number] = b"damaged\n"
    positions = [0]
    for line in lines:
        positions.append(positions[-1] + len(line))
    for number in (0, 1, 2, 3, 500, 1_234, 4_000, 4_001, 4_002, 4_003, 7_999, 8_000, 8_001):
        sound = [each for each in range(8_000) if each not in damaged and each + 1 >= number]
        expected = positions[sound[0]] if sound else positions[-1]
        file = CountedFile(b"".join(lines))
        assert (number, position_of(file, number)) == (number, expected)
        assert file.count < 2 * LONGEST_LINE + 10_000


def test_in_a_log_of_long_lines_damaged_for_longer_than_a_line_an_entry_is_found() -> None:
    lines = entries(40, 30_000)
    for number in (*range(10, 14), 20, 21):
        lines[number] = b"x" * (len(lines[number]) - 1) + b"\n"
    lines[30:30] = [b"y" * 3 * LONGEST_LINE + b"\n"]
    positions = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    numbers = {number: number - 1 if number <= 30 else number for number in range(1, 41)}
    sound = {
        number: at for number, at in numbers.items() if not 11 <= number <= 14 and number not in {21, 22}
    }
    for number in range(42):
        following = [at for each, at in sound.items() if each >= number]
        expected = positions[following[0]] if following else positions[-1]
        assert (number, position_of(io.BytesIO(b"".join(lines)), number)) == (number, expected)


def test_what_may_still_be_written_is_a_short_line_without_an_end() -> None:
    lines = [b"", b"x", b"x\n", b"x" * (LONGEST_LINE - 1), b"x" * LONGEST_LINE]
    assert [is_half(line) for line in lines] == [True, True, False, True, False]
