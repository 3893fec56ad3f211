"""What each kind of page costs one reader, who is not counted, and how the refusal reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ibi.archive.service.admission import COSTS, AdmissionControl, refusal
from ibi.http.request import Request
from support.archive.archive_fixture import NOW, Clock, settings_for

SETTINGS = settings_for(
    "archive.example", page_rate=2.0, page_burst=20, costly_rate=0.5, costly_burst=10,
    trusted_proxies=("192.0.2.1",),
)  # fmt: skip
READER = "203.0.113.7"
LEFT = {
    **dict.fromkeys(("item", "metadata", "files", "linkset", "timegate", "timemap"), ("pages", 19)),
    **dict.fromkeys(("api/handles", "api/items", "api/changes"), ("pages", 19)),
    "oai": ("pages", 18),
    "qr": ("pages", 16),
    **dict.fromkeys(("search", "browse", "statistics", "feed", "api/search"), ("costly", 9)),
    "api/statistics": ("costly", 8),
    **dict.fromkeys(("resourcesync", "zip"), ("costly", 5)),
}
"""By the beginning of the path: the bucket, and how many tokens are left in it after one request."""
NOT_COUNTED = (
    "/", "/col/a/b/doc/x.pdf", "/-/", "/-/healthz", "/-/about", "/-/static/x.css", "/-/items", "/-/api",
    "/-/api/", "/-/api/state", "/-/api/item", "/x/-/item", "/robots.txt",
)  # fmt: skip


def control(clock: Clock | None = None, **more: float) -> AdmissionControl:
    return AdmissionControl(replace(SETTINGS, **more), (clock or Clock()).seconds)  # type: ignore[arg-type]  # by name


def request_of(path: str, peer: str = READER, **headers: str) -> Request:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request("GET", path, "", sent, peer=peer)


@pytest.mark.parametrize("below", ["", "/", "/a/b", "/a/b/c/d"])
def test_each_kind_of_page_has_its_bucket_and_its_cost(below: str) -> None:
    assert {f"/-/{kind}" for kind in LEFT} == COSTS.keys()
    for kind, (name, left) in LEFT.items():
        decision = control().check(request_of(f"/-/{kind}{below}"))
        assert decision is not None
        assert decision.wait == 0
        policy = {"pages": '"pages";q=20;w=10', "costly": '"costly";q=10;w=20'}[name]
        later = {"pages": 1, "costly": 2}[name]
        assert decision.headers == (
            ("ratelimit-policy", policy), ("ratelimit", f'"{name}";r={left};t={later}')
        )  # fmt: skip


@pytest.mark.parametrize("path", NOT_COUNTED)
def test_other_pages_are_not_counted(path: str) -> None:
    assert control().check(request_of(path)) is None


@pytest.mark.parametrize(
    ("request_", "is_counted"),
    [
        (request_of("/-/item/a"), True),
        (request_of("/-/item/a", "127.0.0.1"), False),
        (request_of("/-/item/a", "::1"), False),
        (request_of("/-/item/a", "192.0.2.1"), False),  # a proxy that names no reader
        (request_of("/-/item/a", "192.0.2.1", x_forwarded_for=READER), True),
        (request_of("/-/item/a", "192.0.2.1", x_forwarded_for="127.0.0.1"), False),
        (request_of("/-/item/a", authorization="Bearer x"), True),
        (request_of("/-/api/items/a", authorization="Bearer x"), False),
        (request_of("/-/api/items/a", authorization=""), True),
    ],
)
def test_readers_are_counted_by_a_vouched_address_and_programs_with_a_token_are_not(
    request_: Request, is_counted: bool
) -> None:
    assert (control().check(request_) is not None) == is_counted


def test_each_reader_has_both_buckets_alone() -> None:
    both = control(page_burst=1, costly_burst=1)
    for path in ("/-/item/a", "/-/search"):
        for reader in (READER, "198.51.100.7"):
            waits = [found.wait for _ in range(2) if (found := both.check(request_of(path, reader)))]
            assert waits[0] == 0 < waits[1]


def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing() -> None:
    clock = Clock()
    one = control(clock, page_burst=1)

    def wait() -> float:
        found = one.check(request_of("/-/item/a"))
        assert found is not None
        return found.wait

    assert wait() == 0
    for clock.now in (NOW - 1000, NOW):
        assert wait() == pytest.approx(0.5)
    clock.now = NOW + 0.5
    assert wait() == 0


@pytest.mark.parametrize(
    ("path", "status", "accept"),
    [
        ("/-/oai", 503, b"text/html"),
        ("/-/oai/x", 503, b"text/html"),
        ("/-/search", 429, b"text/html"),
        ("/-/resourcesync", 429, b"text/html"),
        ("/-/api/items", 429, b"application/problem+json"),
    ],
)
def test_a_refusal_is_one_that_the_client_understands(path: str, status: int, accept: bytes) -> None:
    given = request_of(path, accept="text/html", host="archive.example")
    found, code, error = refusal(given, 0.2)
    assert (found.headers, code) == ({b"accept": accept, b"host": b"archive.example"}, status)
    assert replace(found, headers=given.headers) == given
    sentence = "this is more than one reader may ask for at a time; please come back in 1 s"
    assert str(error) == sentence
    assert str(refusal(given, 3.01)[2]) == sentence.replace("1 s", "4 s")
