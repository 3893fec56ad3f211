"""Records of handles, as whole documents: the indexes of their values are public, and never change."""

from __future__ import annotations

import json

import pytest

from ibi.errors import ParseError
from ibi.http.handle_records import (
    TYPES,
    HandleValue,
    Location,
    WantedValues,
    handle_failure,
    handle_record,
    locations,
)

HANDLE, CHANGED = "20.500/x", "2026-11-29T20:00:00Z"


def shown(query: str, *values: HandleValue) -> tuple[int, list[tuple[int, str, str]]]:
    record = json.loads(handle_record(HANDLE, values, CHANGED, WantedValues.read(query)).body)
    return record["responseCode"], [
        (each["index"], each["type"], each["data"]["value"]) for each in record["values"]
    ]


def test_a_record_as_a_whole() -> None:
    values = [
        HandleValue("etag", "a\udcffé"),
        HandleValue("URL", "http://a.example/"),
        HandleValue("IBI", ""),
    ]
    answer = handle_record(HANDLE, values, CHANGED, WantedValues(), ("x-more", "y"))
    assert answer.body.decode() == (
        '{"responseCode": 1, "handle": "20.500/x", "values": ['
        '{"index": 1, "type": "URL", "data": {"format": "string", "value": "http://a.example/"},'
        ' "ttl": 60, "timestamp": "2026-11-29T20:00:00Z"},'
        ' {"index": 14, "type": "etag", "data": {"format": "string", "value": "a?é"},'
        ' "ttl": 60, "timestamp": "2026-11-29T20:00:00Z"}]}'
    )
    assert answer.status == 200
    assert answer.headers == (("cache-control", "public, max-age=60"), ("x-more", "y"))
    pretty = handle_record(HANDLE, values, CHANGED, WantedValues(pretty=True)).body
    assert (json.loads(pretty), pretty[:4]) == (json.loads(answer.body), b"{\n  ")


def test_the_index_of_every_type() -> None:
    indexes = {
        "URL": 1, "IBI": 2, "IBI_STATE": 4, "IBI_ARCHIVE": 5, "KernelInformationProfile": 10,
        "digitalObjectType": 11, "digitalObjectLocation": 12, "digitalObjectPolicy": 13, "etag": 14,
        "dateModified": 15, "dateCreated": 16, "version": 17, "wasDerivedFrom": 18, "specializationOf": 19,
        "wasRevisionOf": 100, "alternateOf": 200, "10320/loc": 1000,
    }  # fmt: skip
    assert indexes == TYPES
    values = [HandleValue(kind, data) for kind in reversed(TYPES) for data in "ab"]
    numbers = [number for number, _, _ in shown("", *values)[1]]
    assert numbers == sorted(numbers)
    assert set(numbers) == {first + further for first in indexes.values() for further in (0, 1)}


@pytest.mark.parametrize(
    ("query", "code", "indexes"),
    [
        ("", 1, [1, 2, 3]), ("type=URL", 1, [1]), ("index=3", 1, [3]), ("type=URL&index=3", 1, [1, 3]),
        ("type=&index=", 1, [1, 2, 3]), ("type=HS_ADMIN", 200, []), ("index=999999999", 200, []), ("x=y", 1, [1, 2, 3]),
        ("&".join(["type=IBI"] * 64), 1, [2, 3]),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_shown(query: str, code: int, indexes: list[int]) -> None:
    found, values = shown(query, HandleValue("URL", "u"), HandleValue("IBI", "a"), HandleValue("IBI", "b"))
    assert (found, [index for index, _, _ in values]) == (code, indexes)


@pytest.mark.parametrize("query", ["index=1000000000", "index=x", "index=-1", "&".join(["type=IBI"] * 65)])
def test_what_cannot_be_asked_for(query: str) -> None:
    with pytest.raises(ParseError, match=r"an index is a whole number|it has more than 64 parts"):
        WantedValues.read(query)


def test_flags_are_set_unless_they_are_false() -> None:
    wanted = [WantedValues.read(query) for query in ("pretty&all", "pretty=false&all=true", "")]
    assert [(each.pretty, each.everywhere) for each in wanted] == [
        (True, True),
        (False, True),
        (False, False),
    ]


def test_of_several_places_the_first_counts() -> None:
    places = locations([Location("http://a.example/?x&y", "Original", "1/a"), Location("http://b.example/")])
    assert places == HandleValue(
        "10320/loc",
        '<locations><location id="0" href="http://a.example/?x&amp;y" weight="1" state="Original" archive="1/a"/>'
        '<location id="1" href="http://b.example/" weight="0" state="" archive=""/></locations>',
    )


@pytest.mark.parametrize(("status", "code"), [(404, 100), (400, 2), (503, 2)])
def test_a_failure_as_a_whole(status: int, code: int) -> None:
    answer = handle_failure(status, HANDLE, "é", ("x-more", "y"))
    assert answer.body.decode() == f'{{"responseCode": {code}, "handle": "20.500/x", "message": "é"}}'
    assert (answer.status, answer.headers) == (status, (("cache-control", "no-store"), ("x-more", "y")))
