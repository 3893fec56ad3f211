"""A redirect as it lies ready in the file of `memory`: one row, read with one look (threats T20, T35).

    head        a checksum, when its answers were heard and may no longer be used, how it came about, how many Archives
    Archives    12 bytes that stand for one, and the generation under which its answers are kept
    answer      the rest of the response: header lines and an empty line
    thanks      a checksum, and whatever is to be sent for it; empty where there is no key to thank with

A row whose head says so is none, but a hint: what its target leads to depends on the reader's language.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_KEY: Final = 500
"""Bytes of a key; LMDB takes a few more."""

ARCHIVE: Final = struct.Struct(">12sQ")
"""What stands for an Archive (`memory_rows.archive_key`), and the generation of its answers."""

BY_LANGUAGE: Final = 255
"""The story of a row that is only a hint."""

_CHECKSUM: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">IddBBH")  # checksum, heard, fresh until, story, Archives, bytes of the answer

Redirect = tuple[bytes, int, int, bytes]
"""A redirect that may be given: the answer, how the metrics count it (its story), what tells it from others of its
target, and its row. A tuple and no class: one is made for each that is given."""


def write(
    heard: float,
    fresh_until: float,
    story: int,
    archives: Sequence[tuple[bytes, int]],
    answer: bytes,
    thanks: bytes,
) -> bytes:
    """The row of a redirect."""
    middle = b"".join(ARCHIVE.pack(*each) for each in archives) + answer
    head = _HEAD.pack(0, heard, fresh_until, story, len(archives), len(answer))[_CHECKSUM.size :]
    checksum = _CHECKSUM.pack(crc32(head + middle))
    return b"".join((checksum, head, middle, _CHECKSUM.pack(crc32(thanks)), thanks))


def read(row: bytes, now: float, latest: float) -> tuple[Redirect, bytes] | None:
    """A redirect that is fresh `now`, and what it depends on: its Archives, each as `ARCHIVE`; None where it is none.

    What was heard after the moment `latest` is not believed. Raises struct.error for what is no row.
    """
    checksum, heard, fresh_until, story, archives, length = _HEAD.unpack_from(row)
    start = _HEAD.size + ARCHIVE.size * archives
    end = start + length
    if now >= fresh_until or heard > latest or crc32(row[_CHECKSUM.size : end]) != checksum:
        return None
    return (row[start:end], story, checksum, row), row[_HEAD.size : start]


def fresh_until(row: bytes) -> float:
    """The moment until which the redirect of a row may be given (POSIX seconds)."""
    return float(_HEAD.unpack_from(row)[2])


def thanks_of(row: bytes) -> bytes | None:
    """The thanks that came with a redirect, None where they cannot be read."""
    archives, length = _HEAD.unpack_from(row)[4:]
    start = _HEAD.size + ARCHIVE.size * archives + length
    thanks = row[start + _CHECKSUM.size :]
    return thanks if _CHECKSUM.unpack_from(row, start)[0] == crc32(thanks) else None
