"""What is just long enough is read, and one more is not: every limit of messages, queries and persistent URLs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import (
    MOST_CHANGED,
    MOST_ESCAPED_URL_BYTES,
    InclusionRequest,
    fit_into_message,
    is_key,
    read_request,
    split_hostport,
)
from ibi.protocol.pair_list import MAX_BODY, read_pairs
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import MAX_PAIRS, MAX_QUERY, read_query
from ibi.protocol.verb_list import VerbList

SERVICE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
ITEM = "LK47B6W/362SFKH"


def _key(number: int) -> None:
    if not is_key("1" * number):
        raise ParseError("key", "", "this is no key")


def _quoted(number: int) -> None:
    if not fit_into_message("a" * (number - 3), "%"):  # "%" is quoted as "%25"
        raise ParseError("URL", "", "it is too long")


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


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (lambda number: read_query("a" * number), MAX_QUERY),
        (lambda number: read_query("&".join(["a=b"] * number)), MAX_PAIRS),
        (lambda number: read_pairs(b"name word" + b" " * (number - 9)), MAX_BODY),
        (lambda number: VerbList.parse("GetMetadata".ljust(number)), 512),
        (lambda number: PersistentURL.parse(f"/{ITEM}/".ljust(number, "a")), 8192),
        (lambda number: PersistentURL.parse(f"/{ITEM}", "x".ljust(number - 2 - len(ITEM), "a")), 8192),
        (lambda number: split_hostport("a." * (number // 2 - 1) + "a" * (2 + number % 2)), 256),
        (lambda number: _inclusion("1" * number), 256),
        (_key, 256),
        (_quoted, MOST_ESCAPED_URL_BYTES),
        (_readers, 32),
        (_changed, MOST_CHANGED),
    ],
)
def test_the_greatest_is_read_and_one_more_is_refused(read: Callable[[int], object], limit: int) -> None:
    read(limit)
    with pytest.raises(ParseError):
        read(limit + 1)


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_exist(port: int) -> None:
    assert split_hostport(f"archive.example:{port}") == ("archive.example", port)
    for no_port in (0, 65536):
        with pytest.raises(ParseError):
            split_hostport(f"archive.example:{no_port}")
