"""What minting remembers, and how it stands on disk: a line of words with a checksum. Pure."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

WIDTH = 256
"""Bytes of the line of a record: less than a sector, always the same."""

_VERSION = "1"


class Record(NamedTuple):
    """What is remembered.

    `last`: the last date given. `seen`: the latest clock shown, and `running`: how long the machine had been running
    then, in its run called `boot`; all in ticks. `drawn`: how many labels. `machine`, `file`: where this was written.
    `names`: a hash of the prefixes that the labels had.
    """

    last: int
    seen: int
    running: int
    drawn: int
    boot: str
    machine: str
    names: str = "-"
    file: str = ""

    def line(self) -> bytes:
        """The record as it stands on disk: words, a checksum, blanks, a line end."""
        numbers = f"{self.last} {self.seen} {self.running} {self.drawn}"
        return checked(f"{_VERSION} {numbers} {self.boot} {self.machine} {self.names} {self.file}".encode())

    @classmethod
    def read(cls, line: bytes) -> Record | None:
        """The record that a line holds; None if it is damaged in any way."""
        body = unchecked(line)
        words = body.split(b" ") if body else ()
        if len(line) != WIDTH or not words or words[0] != _VERSION.encode():
            return None
        try:
            last, seen, running, drawn = map(int, words[1:5])
            boot, machine, names, file = (word.decode() for word in words[5:])
        except ValueError:
            return None
        return cls(last, seen, running, drawn, boot, machine, names, file)


def checked(body: bytes, width: int = WIDTH) -> bytes:
    """A line of so many bytes: words, their checksum, blanks, a line end."""
    return (b"%b %d" % (body, crc32(body))).ljust(width - 1) + b"\n"


def unchecked(line: bytes) -> bytes | None:
    """The words of a line, without their checksum; None if it is damaged in any way."""
    body = line.rstrip().rpartition(b" ")[0]
    return body if checked(body, len(line)) == line else None
