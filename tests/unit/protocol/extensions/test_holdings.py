"""Holdings filters as they are written and read, and a second reading of their bits made from the words alone."""

from __future__ import annotations

from hashlib import sha256

import pytest
from rbloom import Bloom

from ibi.errors import ParseError
from ibi.protocol.extensions import holdings
from ibi.protocol.extensions.holdings import HoldingsFilter, number_of
from support.oracles.holdings import may_hold

NAMES = [f"sid.inpe.br/mtc-m18/2012/07.12.18.{number:04}" for number in range(2_000)]


def page_of(names: list[str], rate: float = 0.001) -> bytes:
    bloom = Bloom(len(names), rate, int)
    bloom.update(map(number_of, names))
    saved = bloom.save_bytes()
    return HoldingsFilter(len(names), int.from_bytes(saved[:8], "little"), saved[8:]).text()


def test_both_readings_of_a_filter_agree_about_every_name() -> None:
    page = page_of(NAMES, 0.05)  # so coarse that there are names about which both are wrong
    read = HoldingsFilter.read(page)
    bloom = Bloom.load_bytes(read.hashes.to_bytes(8, "little") + read.bits, int)
    others = [f"a.example/b/{number}" for number in range(5_000)]
    published = [number_of(name) in bloom for name in [*NAMES, *others]]
    assert published == [may_hold(page, name) for name in [*NAMES, *others]]
    assert all(published[: len(NAMES)])
    assert 100 < sum(published[len(NAMES) :]) < 500


def test_a_filter_made_from_the_words_alone_has_the_same_bytes() -> None:
    page = page_of(NAMES)
    read = HoldingsFilter.read(page)
    bits = bytearray(len(read.bits))
    for name in NAMES:
        x = int.from_bytes(sha256(name.encode()).digest()[:16], "big")
        for _ in range(read.hashes):
            x = (x * 47026247687942121848144207491837418733 + 1) % 2**128
            position = x // 2**32 % 2**64 % (8 * len(bits))
            bits[position // 8] |= 1 << position % 8
    assert bytes(bits) == read.bits


def test_a_filter_published_once_is_read_for_ever() -> None:
    page = page_of(["dpi.inpe.br/banon/1998/08.02.08.56", "8JMKD3MGP8W/35MMLL8"])
    assert page == b"ibi-holdings 1 names=2 hashes=9 bits=32\n" + bytes.fromhex("95908454")
    assert HoldingsFilter.read(page).text() == page


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"<html>no filter</html>",
        b"ibi-holdings 2 names=1 hashes=9 bits=8\n\0",
        b"ibi-holdings 1 names=1 hashes=9 bits=8\n",
        b"ibi-holdings 1 names=1 hashes=9 bits=8\n\0\0",
        b"ibi-holdings 1 names=1 hashes=9 bits=0\n",
        b"ibi-holdings 1 names=1 hashes=9 bits=9\n\0\0",
        b"ibi-holdings 1 names=1 hashes=0 bits=8\n\0",
        b"ibi-holdings 1 names=1 hashes=33 bits=8\n\0",
        b"ibi-holdings 1 names=1 hashes=999999999999 bits=8\n\0",
        b"ibi-holdings 1 names=-1 hashes=9 bits=8\n\0",
        b"ibi-holdings 1 names=1  hashes=9 bits=8\r\n\0",
    ],
)
def test_what_departs_from_the_form_is_no_filter(page: bytes) -> None:
    with pytest.raises(ParseError):
        HoldingsFilter.read(page)


@pytest.mark.parametrize("hashes", [1, 32])
def test_a_filter_has_from_one_to_so_many_hashes(hashes: int) -> None:
    page = b"ibi-holdings 1 names=1 hashes=%d bits=8\n\0" % hashes
    assert HoldingsFilter.read(page).text() == page


def test_a_filter_that_is_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of(NAMES)
    monkeypatch.setattr(holdings, "LONGEST_FILTER", len(page))
    HoldingsFilter.read(page)
    monkeypatch.setattr(holdings, "LONGEST_FILTER", len(page) - 1)
    with pytest.raises(ParseError, match="longer"):
        HoldingsFilter.read(page)
