"""Which answers pages of other origins may read: every route of both programs, by real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.http.cors import EXPOSE
from support.archive.administration_fixture import AdministeredArchive, administered_archive
from support.archive.archive_fixture import GONE, REP
from support.resolver.administration_fixture import SERVICE, AdministeredResolver, administered_resolver

ORIGIN = "https://page.example"
CLOSED = "a.example/b/2013/04.01.00.00"
READER = {"X-Forwarded-For": "203.0.113.1"}
UNKNOWN = "a.example/none/2010/01.01.00.00"

OF_ARCHIVE = {
    "/": 200, f"/{REP}": 302, f"/{UNKNOWN}": 404, f"/{GONE}": 410, "/no-such-name": 400, f"/-/item/{REP}": 200,
    f"/-/item/{UNKNOWN}": 404, f"/-/item/{GONE}": 410, f"/-/item/{REP}?format=csl": 200,
    f"/-/item/{REP}?format=none": 404, f"/-/metadata/{REP}": 200, f"/-/metadata/{CLOSED}?format=csl": 200,
    f"/-/linkset/{REP}": 200, f"/-/qr/{REP}.svg": 200, f"/-/timegate/{REP}": 302, f"/-/timemap/{REP}": 200,
    "/-/oai?verb=Identify": 200, "/-/search?text=x": 0, "/-/browse": 0, "/-/feed": 0, "/sitemap.xml": 0,
    "/-/sitemap/1.xml": 0, "/-/about": 200, "/robots.txt": 200, "/.well-known/api-catalog": 200,
    "/.well-known/resourcesync": 200, "/-/resourcesync/changelist.xml": 200,
    "/-/api/openapi.json": 200, "/-/api/search?text=x": 0, f"/-/api/handles/{REP}": 200,
    "/-/api/changes": 200, "/-/programs": 200,
    f"/-/api/handles/{UNKNOWN}": 404,
}  # fmt: skip
"""What is public at an Archive, and its status there (0: whatever it is while the index is made)."""
NOT_OF_ARCHIVE = {
    f"/col/{REP}/doc/index.html": 200, f"/-/files/{REP}": 200, f"/-/zip/{REP}": 200,
    "/-/admin": 303, "/-/admin/sign-in": 200, "/-/admin/items": 303, "/-/healthz": 200, "/-/readyz": 200,
    "/-/nonce": 404, "/-/holdings": 0, "/-/static/none.css": 404, "/-/none": 404, "/-/api/none": 404,
    "/.well-known/security.txt": 200, f"/{REP}?servicesubject=urlRequest": 400,
}  # fmt: skip
OF_RESOLVER = {
    "/": 200, f"/{UNKNOWN}": 503, "/no-such-name": 400, f"/{SERVICE.main}": 302, f"/-/explain/{UNKNOWN}": 200,
    "/-/explain/none": 400, f"/-/api/handles/{UNKNOWN}": 503, f"/-/timegate/{UNKNOWN}": 503,
    f"/-/timemap/{UNKNOWN}": 503, "/-/about": 200, "/-/status": 200, f"/-/find?text=see+{UNKNOWN}": 200,
    "/-/api/openapi.json": 200, "/.well-known/api-catalog": 200, "/robots.txt": 200,
    "/-/programs": 200, f"/{'x' * 9_000}": 414,
}  # fmt: skip
NOT_OF_RESOLVER = {
    "/-/admin": 303, "/-/admin/sign-in": 200, "/-/healthz": 200, "/-/readyz": 200, "/-/nonce": 404,
    "/-/metrics": 200, "/-/registry": 200, "/-/register": 404, "/-/api/keys": 405, "/-/none": 404,
    "/-/api/none": 404, f"/{SERVICE.main}?servicesubject=inclusionRequest": 400, "/.well-known/none": 404,
}  # fmt: skip
DESCRIBED = {
    "archive": {
        "/search", "/changes", "/openapi.json", "/handles/{ibi}", "/-/item/{ibi}", "/-/metadata/{ibi}",
        "/-/linkset/{ibi}",
        "/-/timegate/{ibi}", "/-/timemap/{ibi}", "/-/search", "/-/feed", "/-/oai", "/-/about", "/sitemap.xml",
        "/.well-known/api-catalog", "/.well-known/resourcesync", "/-/resourcesync/changelist.xml",
    },
    "resolver": {
        "/-/status", "/-/about", "/-/find", "/-/explain/{ibi}", "/-/api/handles/{ibi}", "/-/timegate/{ibi}",
        "/-/timemap/{ibi}", "/-/api/openapi.json",
    },
}  # fmt: skip
"""The routes in the description of each program whose answers to GET and HEAD are public."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    folder = tmp_path_factory.mktemp("archive")
    (folder / "a.txt").write_text("words")
    item = {
        "rep": CLOSED,
        "files": {"a.txt": "a.txt"},
        "access": "closed",
        "metadata": {"title": ["Kept back"]},
    }
    (folder / "items.jsonl").write_text(json.dumps(item))
    with administered_archive(folder, trusted_proxies=("127.0.0.1/32",)) as made:
        assert main(["archive", "import", "--data", str(made.archive.data), str(folder / "items.jsonl")]) == 0
        yield made


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredResolver]:
    with administered_resolver(tmp_path_factory.mktemp("resolver")) as made:
        yield made


def _ask(port: int, target: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, target, headers={"Origin": ORIGIN, **headers})
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


def _is_shared(headers: dict[str, str]) -> bool:
    allowed = headers.get("access-control-allow-origin")
    assert allowed in {None, "*"}
    assert not {name for name in headers if name.startswith("access-control-")} - {
        "access-control-allow-origin", EXPOSE[0]
    }  # fmt: skip
    return allowed is not None


@pytest.mark.parametrize("accept", ["text/html", "application/json", "text/plain"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_what_is_public_is_shared_and_nothing_else(
    archive: AdministeredArchive, resolver: AdministeredResolver, program: str, method: str, accept: str
) -> None:
    port, public, private = {
        "archive": (archive.port, OF_ARCHIVE, NOT_OF_ARCHIVE),
        "resolver": (resolver.port, OF_RESOLVER, NOT_OF_RESOLVER),
    }[program]
    found = {target: _ask(port, target, method, Accept=accept) for target in (*public, *private)}
    assert {target for target, (_, headers, _) in found.items() if _is_shared(headers)} == public.keys()
    if (accept, method) == ("text/html", "GET"):
        expected = {target: status for target, status in (public | private).items() if status}
        assert {target: found[target][0] for target in expected} == expected


@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_each_described_route_is_public_or_not_shared(
    archive: AdministeredArchive, resolver: AdministeredResolver, program: str
) -> None:
    port = archive.port if program == "archive" else resolver.port
    routes = json.loads(_ask(port, "/-/api/openapi.json")[2])["paths"]
    assert routes.keys() >= DESCRIBED[program]
    for path, methods in routes.items():
        in_api = program == "archive" and "servers" not in methods
        filled = path.replace("{ibi}", REP).replace("{", "").replace("}", "")
        writing = [word.upper() for word in methods if word in {"post", "put", "patch", "delete", "options"}]
        for method in ("GET", "HEAD", *writing):
            shared = _is_shared(_ask(port, f"/-/api{filled}" if in_api else filled, method)[1])
            assert shared is (method in {"GET", "HEAD"} and path in DESCRIBED[program]), (method, path)


def test_what_a_token_or_another_method_gets_is_not_shared(archive: AdministeredArchive) -> None:
    page = f"/-/item/{REP}"
    assert _is_shared(_ask(archive.port, page)[1])
    assert not _is_shared(_ask(archive.port, page, Authorization="Bearer x")[1])
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = _ask(archive.port, page, method)
        assert (status, _is_shared(headers)) == (405, False)


def test_a_page_that_differs_by_reader_is_not_shared(archive: AdministeredArchive) -> None:
    page = _ask(archive.port, f"/-/item/{CLOSED}", Accept="text/html")
    assert (page[0], _is_shared(page[1])) == (200, False)
    again = _ask(
        archive.port, f"/-/item/{CLOSED}", **{"Accept": "text/html", "If-None-Match": page[1]["etag"]}
    )
    assert (again[0], _is_shared(again[1])) == (304, False)
    metadata = _ask(archive.port, f"/-/metadata/{CLOSED}?format=csl")
    assert (metadata[0], _is_shared(metadata[1])) == (200, True)


def test_nothing_is_shared_at_the_address_of_files(tmp_path: Path) -> None:
    with administered_archive(tmp_path, files_address="files.example") as archive:
        for target in (f"/{REP}", f"/-/item/{REP}", f"/col/{REP}/doc/index.html"):
            assert not _is_shared(_ask(archive.port, target, Host="files.example")[1])


def test_a_page_may_read_the_headers_that_programs_need(archive: AdministeredArchive) -> None:
    headers = _ask(archive.port, f"/-/item/{REP}?format=csl", **READER)[1]
    exposed = set(headers[EXPOSE[0]].split(", "))
    assert {"link", "retry-after", "ibi-incomplete", "etag", "ratelimit", "memento-datetime"} <= exposed
    assert {"link", "etag", "ratelimit"} <= headers.keys() & exposed


def test_too_many_requests_are_told_to_other_origins_too(tmp_path: Path) -> None:
    with administered_archive(
        tmp_path, page_rate=0.001, page_burst=1, trusted_proxies=("127.0.0.1/32",)
    ) as archive:
        answers = [_ask(archive.port, f"/-/item/{REP}", **READER) for _ in range(3)]
        assert any(
            status == 429 and _is_shared(headers) and "retry-after" in headers
            for status, headers, _ in answers
        )
