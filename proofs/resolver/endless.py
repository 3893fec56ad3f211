"""Answers that are meant to hurt by their size: each is an iterator over pieces of bytes, most without an end."""

from __future__ import annotations

import gzip
import itertools
import string
from functools import cache
from typing import TYPE_CHECKING, Final

from ibi.protocol.pair_list import write_pairs
from support.http_answers import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.protocol.pair_list import PairList

_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
_PIECE: Final = b"archiveaddress a.example " * 2600
_LONGEST: Final = 255 * 1024
_MOST_PAIRS: Final = 4_090


@cache
def _zeros() -> bytes:
    return gzip.compress(bytes(1 << 24))


def _body(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE))


def _head(_: PairList) -> Iterator[bytes]:
    yield _HEAD
    yield from itertools.repeat((b"X-More: " + b"m" * 900 + b"\r\n") * 70)


def _one_header(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"X-More: "
    yield from itertools.repeat(b"m" * 65536)


def _small_headers(_: PairList) -> Iterator[bytes]:
    yield _HEAD
    yield from itertools.repeat(b"a:\r\n" * 16_000)


def _trailers(pairs: PairList) -> Iterator[bytes]:
    body = write_pairs(pairs)
    yield _HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
    yield from itertools.repeat((b"X-More: " + b"m" * 900 + b"\r\n") * 70)


def _compressed(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"Content-Encoding: gzip\r\nContent-Length: 10000000000\r\n\r\n"
    yield from itertools.repeat(_zeros())


def _compressed_silently(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"Content-Length: 200000\r\n\r\n"
    yield from itertools.repeat(_zeros())


def _gigabyte(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"Content-Length: 1000000000\r\n\r\n"
    yield from itertools.repeat(_PIECE)


def _until_closed(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"\r\n"
    yield from itertools.repeat(_PIECE)


def _small_chunks(_: PairList) -> Iterator[bytes]:
    yield _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"1\r\na\r\n" * 10_000)


def _largest(pairs: PairList) -> Iterator[bytes]:
    """The longest list that is read: as many pairs as there may be, in as many bytes; it does not lead anywhere."""
    size = (_LONGEST - 2000) // _MOST_PAIRS - 9
    more = b"".join(b"\r\np%05d %s" % (number, b"v" * size) for number in range(_MOST_PAIRS))
    yield answer(write_pairs({name: value for name, value in pairs.items() if name != "url"}) + more)


def _related(pairs: PairList) -> Iterator[bytes]:
    """As many translations as can be named, none of which leads anywhere."""
    languages = itertools.islice(itertools.product(string.ascii_uppercase, repeat=4), _MOST_PAIRS)
    names = ("{}{}-{}{}".format(*letters).encode() for letters in languages)
    more = b"".join(
        b"\r\nurl.translation(%s%s) mailto:nobody" % (name[:2].lower(), name[2:]) for name in names
    )
    yield answer(write_pairs({name: value for name, value in pairs.items() if name != "url"}) + more)


RELATED: Final = "endless relations"
"""Weighs most where a translation is wanted."""

ENDLESS: Final[dict[str, Callable[[PairList], Iterator[bytes]]]] = {
    "endless body": _body,
    "endless head": _head,
    "endless header": _one_header,
    "endless small headers": _small_headers,
    "endless trailers": _trailers,
    "endless compressed": _compressed,
    "endless compressed silently": _compressed_silently,
    "endless gigabyte": _gigabyte,
    "endless until closed": _until_closed,
    "endless small chunks": _small_chunks,
    "endless largest list": _largest,
    RELATED: _related,
}
"""By the manner of the Archive."""
