"""What is just long enough is read, and one more is not: every limit of messages, queries and persistent URLs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.holdings import HoldingsFilter
from ibi.protocol.messages import (
    MOST_MESSAGE_BYTES,
    URL_LENGTH_SURE_TO_FIT,
    InclusionRequest,
    fit_into_message,
    is_key,
    read_request,
    split_hostport,
)
from ibi.protocol.pair_list import read_pairs
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query
from ibi.protocol.verb_list import VerbList

SERVICE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
ITEM = "LK47B6W/362SFKH"


def _inclusion(version: str) -> None:
    read_request(
        InclusionRequest(
            "mtc-m21.sid.inpe.br",
            parse_ibi(SERVICE),
            "150.163.34.239",
            version,
            "admin@archive.example",
            "1" * 10,
        ).query()
    )


def _readers(number: int) -> None:
    addresses = "+".join(["1.2.3.4"] * number)
    read_request(f"servicesubject=urlRequest&clientinformation.ipaddress={addresses}&parsedibiurl.ibi={ITEM}")


def _changed(number: int) -> None:
    names = "+".join([ITEM] * number)
    read_request(f"servicesubject=changeNotification&ibi.archiveservice={SERVICE}&changed={names}")


def _pairs(number: int) -> None:
    read_pairs(b" ".join(b"n%d v" % each for each in range(number)))


def _filter(number: int) -> None:
    start = b"ibi-holdings 1 names=1 hashes=9 bits="
    size = number - len(start) - len(b"%d\n" % (8 * number))
    HoldingsFilter.read(start + b"%d\n" % (8 * size) + bytes(size))


def _acknowledgment(count: int) -> None:
    read_request(
        f"servicesubject=acknowledgment&clientinformation.ipaddress=1.2.3.4&contenttype=Data&url=u"
        f"&url.persistent=p&urlkey=1234567890&acknowledgment.count={count}"
    )


ADDRESS = "an address is a host, perhaps with a port: archive.example.org:8080"
QUERY = "a query has at most 16384 characters and 256 pairs"
LONGER_BODY = "it is longer than {} bytes"
LONGER = "it is longer than {} characters"


@pytest.mark.parametrize(
    ("read", "limit", "sentence"),
    [
        pytest.param(lambda number: read_query("a" * number), 16_384, QUERY, id="query"),
        pytest.param(lambda number: read_query("&".join(["a=b"] * number)), 256, QUERY, id="pairs"),
        pytest.param(
            lambda number: read_pairs(b"name word" + b" " * (number - 9)), 262_144, LONGER_BODY, id="body"
        ),
        pytest.param(_pairs, 4096, "it has more than {} pairs", id="pairs of a body"),
        pytest.param(_filter, 32 * 1024 * 1024, LONGER_BODY, id="filter"),
        pytest.param(lambda number: VerbList.parse("GetMetadata".ljust(number)), 512, LONGER, id="verbs"),
        pytest.param(lambda number: PersistentURL.parse(f"/{ITEM}/".ljust(number, "a")), 8192, LONGER, id="path"),
        pytest.param(
            lambda number: PersistentURL.parse(f"/{ITEM}", "x".ljust(number - 2 - len(ITEM), "a")),
            8192,
            LONGER,
            id="query of a persistent URL",
        ),
        pytest.param(
            lambda number: split_hostport("a." * (number // 2 - 1) + "a" * (2 + number % 2)), 256, ADDRESS, id="address"
        ),
        pytest.param(
            lambda number: _inclusion("1" * number), 256, "a platform version is a short line of ASCII", id="version"
        ),
        pytest.param(_readers, 32, "a reader has from 1 to {} addresses", id="addresses of a reader"),
        pytest.param(
            _changed, 50, "a notification tells from 1 to {} changed names, or has no such pair", id="changed names"
        ),
        pytest.param(
            _acknowledgment,
            100_000,
            "an acknowledgment counts from 1 to {} readers, and its id is a few digits",
            id="readers of an acknowledgment",
        ),
    ],
)  # fmt: skip
def test_the_greatest_is_read_and_one_more_is_refused(
    read: Callable[[int], object], limit: int, sentence: str
) -> None:
    read(limit)
    with pytest.raises(ParseError) as refused:
        read(limit + 1)
    assert str(refused.value) == sentence.format(limit)


def test_the_longest_key_is_a_key_and_a_longer_one_is_none() -> None:
    assert is_key("1" * 256)
    assert not is_key("1" * 257)


def test_urls_of_a_message_fit_up_to_their_limit() -> None:
    assert fit_into_message("a" * 12_797, "%")  # "%" is quoted as "%25"
    assert not fit_into_message("a" * 12_798, "%")
    assert fit_into_message("%" * URL_LENGTH_SURE_TO_FIT)
    assert URL_LENGTH_SURE_TO_FIT == 4266
    assert MOST_MESSAGE_BYTES == 15_360


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_exist(port: int) -> None:
    assert split_hostport(f"archive.example:{port}") == ("archive.example", port)
    for no_port in (0, 65536):
        with pytest.raises(ParseError):
            split_hostport(f"archive.example:{no_port}")
