"""Documents of every service, header by header: security.txt, the catalog of interfaces, and what is cached of them."""

from __future__ import annotations

import json

import pytest

from ibi.errors import ParseError
from ibi.http.conditional import http_date, tagged, unchanged
from ibi.http.files_origin import FilesOrigin
from ibi.http.memento import named_by
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.http.well_known import Interface, catalog, mail_url, security

DAY = 86_400
TAG = '"b94d27b9934d3e08a52e52d7da7dabfa"'


def requested(target: str = "/", **headers: str) -> Request:
    return Request.raw(
        target.encode(),
        [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "127.0.0.1",
    )


@pytest.mark.parametrize(
    ("now", "until"), [(0.0, "1970-06-30"), (DAY - 0.5, "1970-06-30"), (float(DAY), "1970-07-01")]
)
def test_where_a_weakness_is_reported(now: float, until: str) -> None:
    assert security("maria+ibi@example.org", now) == Response(
        200,
        f"Contact: mailto:maria+ibi@example.org\nExpires: {until}T00:00:00Z\nPreferred-Languages: en, pt\n".encode(),
        "text/plain; charset=utf-8",
        (("cache-control", "public, max-age=86400"),),
    )


@pytest.mark.parametrize(
    ("mail", "url"),
    [
        ("a@b", "mailto:a@b"),
        ("a{b}@example.org", "mailto:a%7Bb%7D@example.org"),
        ("x" * 64 + "@" + "y" * 255, "mailto:" + "x" * 64 + "@" + "y" * 255),
        ("x" * 65 + "@example.org", ""),
        ("x@" + "y" * 256, ""),
        ("a@b@c", ""),
        ("a b@example.org", ""),
        ("", ""),
    ],
)
def test_only_a_plain_mail_address_is_one_to_write_to(mail: str, url: str) -> None:
    assert mail_url(mail) == url
    assert (security(mail, 0.0) is None) is (not url)


def test_the_catalog_of_interfaces() -> None:
    links = [
        ("service-desc", "https://a.example/-/api/openapi.json", "application/json"),
        ("service-doc", "https://a.example/-/programs", "text/html"),
        ("service-doc", "https://a.example/doc", "text/plain"),
    ]
    found = catalog("https://a.example", [Interface("https://a.example/-/api", links)])
    assert (found.status, found.content_type) == (
        200,
        'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
    )
    assert found.headers == (
        ("cache-control", "public, max-age=3600"),
        ("link", '<https://a.example/.well-known/api-catalog>; rel="api-catalog"'),
    )
    contexts = [
        {
            "anchor": "https://a.example/.well-known/api-catalog",
            "item": [{"href": "https://a.example/-/api"}],
        },
        {
            "anchor": "https://a.example/-/api",
            "service-desc": [{"href": "https://a.example/-/api/openapi.json", "type": "application/json"}],
            "service-doc": [
                {"href": "https://a.example/-/programs", "type": "text/html"},
                {"href": "https://a.example/doc", "type": "text/plain"},
            ],
        },
    ]
    assert found.body == json.dumps({"linkset": contexts}, indent=1).encode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if_none_match": TAG}, 304),
        ({"if_none_match": f'"other", W/{TAG}'}, 304),
        ({"if_none_match": " * "}, 304),
        ({"if_none_match": '"other"'}, 200),
        ({"if_none_match": TAG.strip('"')}, 200),
        ({"if_modified_since": "Fri, 31 Dec 2100 00:00:00 GMT"}, 200),
    ],
)
def test_a_document_with_a_tag_is_sent_once(headers: dict[str, str], status: int) -> None:
    found = tagged(requested(**headers), b"hello world", "text/plain", "no-cache", ("vary", "Accept"))
    assert found == Response(
        status,
        b"hello world" if status == 200 else b"",
        "text/plain" if status == 200 else "",
        (("etag", TAG), ("cache-control", "no-cache"), ("vary", "Accept")),
    )


@pytest.mark.parametrize(
    ("headers", "same"),
    [
        ({"if_modified_since": "Tue, 21 Jul 2009 13:23:45 GMT"}, True),
        ({"if_modified_since": "Tue, 21 Jul 2009 13:23:44 GMT"}, False),
        ({"if_modified_since": "Tue, 21 Jul 2009 13:23:45 -0000"}, True),
        ({"if_modified_since": "Tue, 21 Jul 2009 10:23:45 -0300"}, True),
        ({"if_modified_since": "yesterday"}, False),
        ({"if_none_match": '"other"', "if_modified_since": "Tue, 21 Jul 2009 13:23:45 GMT"}, False),
        ({}, False),
    ],
)
def test_without_a_tag_the_time_of_the_last_change_counts(headers: dict[str, str], same: bool) -> None:
    assert unchanged(requested(**headers), TAG, "2009-07-21T13:23:45Z") is same


def test_a_time_in_a_header_is_that_of_greenwich() -> None:
    assert http_date("2009-07-21T10:23:45-03:00") == "Tue, 21 Jul 2009 13:23:45 GMT"


HOSTS = frozenset({"urlib.example:8080", "urlib.example"})


@pytest.mark.parametrize(
    "raw",
    [
        "LK47B6W/362SFKH",
        "LK47B6W%2F362SFKH",
        "http://urlib.example/LK47B6W/362SFKH",
        "HTTPS:/URLIB.example:8080/LK47B6W/362SFKH",
        "http%3A%2F%2Furlib.example%2FLK47B6W%2F362SFKH",
        "http://urlib.example:80/LK47B6W/362SFKH",
    ],
)
def test_a_gate_is_asked_by_a_name_or_a_persistent_url(raw: str) -> None:
    assert str(named_by(raw, HOSTS)) == "LK47B6W/362SFKH"


@pytest.mark.parametrize(
    "raw", ["http:///urlib.example/LK47B6W/362SFKH", "http:urlib.example/LK47B6W/362SFKH"]
)
def test_a_proxy_makes_one_slash_of_two_and_no_others(raw: str) -> None:
    with pytest.raises(ParseError):
        named_by(raw, HOSTS)


def test_a_gate_knows_no_urls_of_others() -> None:
    with pytest.raises(ParseError) as refused:
        named_by("http://other.example/LK47B6W/362SFKH" + "x" * 400, HOSTS)
    assert str(refused.value) == "this is no persistent URL of this service"
    assert (refused.value.what, len(refused.value.text)) == ("url", 200)


@pytest.mark.parametrize(
    ("address", "host", "receives", "separates"),
    [
        ("files.example:8080", "files.example:8080", True, False),
        ("files.example:8080", "FILES.example", True, False),
        ("files.example:8080", "archive.example", False, True),
        ("files.example:8080", "", False, True),
        ("", "", False, False),
        ("", "archive.example", False, False),
    ],
)
def test_files_may_have_an_address_of_their_own(
    address: str, host: str, receives: bool, separates: bool
) -> None:
    origin, request = FilesOrigin(address), requested("/col/a?b=1", host=host)
    assert (origin.receives(request), origin.separates(request)) == (receives, separates)
    assert ("location", f"//{address}/col/a?b=1") in origin.redirect(request).headers
