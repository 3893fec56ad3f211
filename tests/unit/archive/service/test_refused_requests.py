"""What an Archive refuses before it looks at what is asked for, and what it says where it has a fault itself."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from ibi.archive.service.adapter import ArchiveAdapter
from ibi.archive.service.service import LONGEST_URL, ArchiveService
from ibi.errors import SetupError
from support.archive.archive_fixture import LAST, REP, NewArchive, fill
from support.web.unnamed import RENDERER

TEXT = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", "content-language": "en"}
EXPOSED = (
    "content-language, etag, ibi-incomplete, ibi-outcome, link, memento-datetime, ratelimit, retry-after"
)
SHARED = {"access-control-allow-origin": "*", "access-control-expose-headers": EXPOSED}
ALWAYS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
HOST, FILES = "archive.example", "files.example"
CANNOT = "this Archive cannot answer now; try again later"


AppOf = Callable[[NewArchive], ArchiveService]


@pytest.fixture
def app_of() -> Iterator[AppOf]:
    """Makes the application of an Archive."""
    made = list[ArchiveService]()

    def make(archive: NewArchive) -> ArchiveService:
        stores = archive.catalogue, archive.file_store
        made.append(ArchiveService(archive.settings, *stores, archive.clock.seconds, RENDERER))
        return made[-1]

    yield make
    for app in made:
        asyncio.run(app.close())


def ask(
    app: ArchiveService, target: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    """What an application answers: its status, its headers besides the length, and its text."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("127.0.0.1", 5),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> NoReturn:
        await asyncio.Future()
        raise AssertionError

    asyncio.run(app(scope, receive, send))
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(each.get("body", b"") for each in sent[1:])
    assert head.pop("content-length", str(len(body))) == str(len(body))
    return sent[0]["status"], head, body.decode()


def test_what_is_too_long_for_another_host_or_no_reading_is_refused(
    archive: NewArchive, app_of: AppOf
) -> None:
    fill(archive)
    app = app_of(archive)
    long, allow = "x" * (LONGEST_URL - 1), {"allow": "GET, HEAD"}
    for target, method, host, status, sentence, more in (
        (f"/{long}x", "GET", HOST, 414, "the address is too long", SHARED),
        (f"/{long[3:]}?abcd", "GET", HOST, 414, "the address is too long", SHARED),
        ("/", "GET", "other.example", 421, "no Archive of this name is here", SHARED),
        (f"/-/item/{REP}", "POST", HOST, 405, "only GET and HEAD are understood here", allow),
    ):
        expected = status, {**TEXT, **more, **ALWAYS}, f"{sentence}\n"
        assert ask(app, target, method, host=host) == expected
    assert LONGEST_URL == 16 * 1024
    assert ask(app, f"/{long}", host=HOST)[0] == 400
    assert ask(app, f"/-/item/{REP}", host=HOST)[0] == 200


def test_at_the_address_of_the_files_there_are_no_pages(
    new_archive: Callable[..., NewArchive], app_of: AppOf
) -> None:
    archive = new_archive(files_address=FILES)
    fill(archive)
    app = app_of(archive)
    nothing = "there is nothing but files at this address\n"
    for accept in ("*/*", "text/html"):
        assert ask(app, "/", host=FILES, accept=accept) == (404, {**TEXT, **ALWAYS}, nothing)
    refused = ask(app, f"/col/{LAST}/doc/a.txt", "POST", host=FILES)
    allow = {"allow": "GET, HEAD"}
    assert refused == (405, {**TEXT, **allow, **ALWAYS}, "only GET and HEAD are understood here\n")
    status, headers, body = ask(app, f"/col/{LAST}/doc/a.txt", host=FILES)
    assert (status, body, "access-control-allow-origin" in headers) == (200, "aaa", False)


def test_a_fault_is_logged_and_shows_nothing_of_its_insides(
    archive: NewArchive, app_of: AppOf, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ZeroDivisionError("secret")

    app = app_of(archive)
    monkeypatch.setattr("ibi.archive.pages.site.Site.answer", broken)
    found = ask(app, f"/-/item/{REP}", host=HOST)
    assert found == (503, {**TEXT, "retry-after": "10", **SHARED, **ALWAYS}, f"{CANNOT}\n")
    assert caplog.messages == ["a request could not be answered"]
    assert caplog.records[0].exc_info


# --- the adapter, which answers for other software -------------------------------------------------------------------

PLACE = "/8JMKD3MGP8W/34PGRBS"


def adapter(lookup: Callable[..., Any] = lambda _: None, **more: Any) -> ArchiveAdapter:
    given = {"address": HOST, "service": f"ibip {PLACE[1:]}", "secret": b"s" * 16, "now": lambda: 1e9, **more}
    return ArchiveAdapter(lookup, **given)


def cgi(made: ArchiveAdapter, path: str, query: str = "", method: str = "GET") -> tuple[list[str], str]:
    """What CGI writes: the lines of the head, and the body."""
    output = io.BytesIO()
    made.cgi({"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}, output)
    head, _, body = output.getvalue().decode().partition("\r\n\r\n")
    return sorted(head.split("\r\n")), body


def test_an_adapter_says_why_it_cannot_be_made() -> None:
    with pytest.raises(SetupError) as short:
        adapter(secret=b"s" * 15)
    assert str(short.value) == "the secret has at least 16 bytes"
    with pytest.raises(SetupError) as without:
        adapter(relations=[".metadata"])
    assert str(without.value) == 'the relations must contain "", which is the item itself'


def test_an_adapter_refuses_in_a_pair_list(caplog: pytest.LogCaptureFixture) -> None:
    query = "servicesubject=urlRequest&requiredibi=8JMKD3MGP8W/35MME4E"
    for made, path, method, status, sentence, more in (
        (adapter(), "/other", "GET", "404 Not Found", "there is no Archive service at this path", []),
        (adapter(), PLACE, "POST", "405 Method Not Allowed", "only GET and HEAD are understood here",
         ["Allow: GET, HEAD"]),
    ):  # fmt: skip
        head, body = cgi(made, path, query, method)
        assert sentence in body
        length = f"Content-Length: {len(body.encode())}"
        assert head == sorted([f"Status: {status}", "Content-Type: text/plain", length, *more, *usual(head)])
    assert caplog.messages == []
    head, body = cgi(adapter(), PLACE.lower(), "servicesubject=inclusionConfirmationRequest", "HEAD")
    assert (body, "Content-Length: 16" in head) == ("", True)


def usual(head: list[str]) -> list[str]:
    """The lines of a head that every answer has."""
    return [
        line
        for line in head
        if line.partition(":")[0] not in {"Status", "Content-Type", "Content-Length", "Allow"}
    ]
