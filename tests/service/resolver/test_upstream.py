"""Another resolver, asked for what no Archive here holds: over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ibi.errors import IbiError, QueryRefused, SetupError
from ibi.http.client import AddressPolicy, Client, HostPort
from ibi.http.request import Request
from ibi.identifier.forms import IBIForms
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.hops import Hops
from ibi.resolver.resolve.resolution import UpstreamRedirect
from ibi.resolver.upstream import (
    LONGEST_TITLE,
    Answer,
    Upstream,
    UpstreamAnswer,
    target_of,
)
from support.clock import run_with_false_clock
from support.stream_server import StreamServer, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
OWN = [HostPort.parse("urlib.net"), HostPort.parse("www.urlib.net:8080")]
URL = PersistentURL.parse("/LK47B6W/362SFKH")


@dataclass
class Above:
    """A resolver that says the same to all, and keeps the requests; "" says nothing at all."""

    says: bytes = b""
    requests: list[str] = field(default_factory=list)
    port: int = 0
    lines: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.current_task())
        try:
            while True:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                if not self.says:
                    continue
                writer.write(self.says)
        except asyncio.IncompleteReadError:
            pass  # the client has closed the connection
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    @property
    def headers(self) -> dict[str, str]:
        """Those of the last request, by lower-case name."""
        lines = [line.partition(": ") for line in self.requests[-1].split("\r\n")[1:] if line]
        return {name.lower(): value for name, _, value in lines}


def reply(status: int, *headers: str, body: str = "") -> bytes:
    data = body.encode()
    lines = [f"HTTP/1.1 {status} X", *headers, f"Content-Length: {len(data)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data


@asynccontextmanager
async def asking(above: Above, *, private_urls: bool = False) -> AsyncIterator[Upstream]:
    client = Client(AddressPolicy(allow_private=True))
    async with listening(above.answer) as above.port:
        try:
            yield Upstream(f"http://127.0.0.1:{above.port}/", client, SERVICE, OWN, private_urls=private_urls)
        finally:
            await client.close()
    await asyncio.gather(*(line for line in above.lines if line is not None))
    above.lines.clear()


def ask(above: Above, url: PersistentURL = URL, language: str = "", hops: str = "") -> Answer:
    async def main() -> Answer:
        async with asking(above) as upstream:
            return (await upstream.ask(url, language, hops))[0]

    return run_with_false_clock(main())


@pytest.mark.proves("RES-02", "RES-03")
def test_the_other_resolver_is_asked_as_a_reader_asks_and_told_only_the_readers_languages() -> None:
    above = Above(reply(302, "Location: http://far.example/x?y=1"))
    url = PersistentURL.parse("/rep/LK47B6W/362SFKH+(pt)/a%20b.txt", "q=1&ibiurl.requireditemstatus=Original")
    assert ask(above, url, "pt-BR, en;q=0.5") == UpstreamRedirect("http://far.example/x?y=1")
    assert above.requests[0].startswith(
        "GET /LK47B6W/362SFKH+(pt)/a%20b.txt?q=1&ibiurl.requireditemstatus=Original HTTP/1.1\r\n"
    ), above.requests[0]
    assert set(above.headers) == {
        "host", "user-agent", "accept", "accept-encoding", "connection", "cdn-loop", "accept-language",
    }  # fmt: skip
    assert above.headers["accept-language"] == "pt-BR, en;q=0.5"
    assert above.headers["cdn-loop"] == f'ibi-resolver; id="{SERVICE.main.canonical}"'
    read = Hops.read(above.headers["cdn-loop"])
    assert read is not None
    assert read.loops({SERVICE.main.canonical})


@pytest.mark.parametrize("language", ["", "a\r\nX: 1", "é", "en," * 300])
def test_a_preference_that_no_header_can_hold_is_left_out(language: str) -> None:
    above = Above(reply(404))
    ask(above, language=language)
    assert "accept-language" not in above.headers


def test_a_request_for_a_preview_says_so_and_is_not_acknowledged() -> None:
    above = Above(reply(302, "Location: http://far.example/x"))

    async def main() -> None:
        async with asking(above) as upstream:
            await upstream.ask(URL, only_looking=True)
            assert above.headers["sec-purpose"] == "prefetch"
            await upstream.ask(URL)
            assert "sec-purpose" not in above.headers

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("path", "query", "target"),
    [
        ("/LK47B6W/362SFKH", "", "/LK47B6W/362SFKH"),
        ("/ibi/LK47B6W/362SFKH).", "", "/LK47B6W/362SFKH"),
        ("/LK47B6W/362SFKH", "info", "/LK47B6W/362SFKH"),
        ("/LK47B6W/362SFKH", "?", "/LK47B6W/362SFKH:"),
        ("/LK47B6W/362SFKH!+:", "", "/LK47B6W/362SFKH!+:"),
        ("/LK47B6W/362SFKH", "a=b&ibiurl.unknown=1&&c", "/LK47B6W/362SFKH?a=b&c"),
        (
            "/LK47B6W/362SFKH+",
            "ibiurl.verblist=GetMetadata&ibiurl.requireditemstatus=Original&x=%C3%A9",
            "/LK47B6W/362SFKH+?ibiurl.verblist=GetMetadata&ibiurl.requireditemstatus=Original&x=%C3%A9",
        ),
        ("/a.example/b@80/2010/01.01.00.00/doc/x.html", "", "/a.example/b@80/2010/01.01.00.00/doc/x.html"),
        ("/LK47B6W/362SFKH%2B", "", "/LK47B6W/362SFKH+"),
    ],
)
def test_what_is_asked_there_is_what_was_sent_here(path: str, query: str, target: str) -> None:
    url = PersistentURL.parse(path, query)
    assert target_of(url) == target
    again = PersistentURL.parse(*target.split("?", 1))
    for name in ("ibi", "relation", "verbs", "file_path", "original_required", "foreign_query"):
        assert getattr(again, name) == getattr(url, name)
    assert target_of(again) == target


@pytest.mark.parametrize(
    "location",
    [
        "", "/LK47B6W/362SFKH", "javascript:alert(1)", "http://u@far.example/", "http://127.0.0.1/",
        "http://far.example/\\x", "http://far.example/é", "ftp://far.example/", f"http://far.example/{'x' * 9000}",
    ],
)  # fmt: skip
def test_a_redirect_to_a_refused_location_proves_nothing(location: str) -> None:
    answer = ask(Above(reply(302, f"Location: {location}".rstrip())))
    assert isinstance(answer, IbiError)
    assert str(answer) == "it gave an address that is not safe to follow"


@pytest.mark.parametrize(
    "location",
    [
        "http://urlib.net/LK47B6W/362SFKH", "https://URLIB.net./x", "https://urlib.net:443/", "http://urlib.net:80",
        "http://www.urlib.net:8080?x",
    ],
)  # fmt: skip
def test_a_redirect_back_to_ourselves_is_not_followed(location: str) -> None:
    answer = ask(Above(reply(302, f"Location: {location}")))
    assert isinstance(answer, IbiError)
    assert str(answer) == "it leads back to this resolver"


def test_another_port_of_our_host_is_not_ourselves() -> None:
    assert ask(Above(reply(303, "Location: http://urlib.net:8081/x"))) == UpstreamRedirect(
        "http://urlib.net:8081/x"
    )


@pytest.mark.parametrize("status", [404, 409, 410, 503])
def test_its_alerts_are_told_with_its_own_title(status: int) -> None:
    text = reply(
        status, "Content-Type: text/plain; charset=utf-8", body="Nenhum Arquivo tem este item\n\nmais\n"
    )
    assert ask(Above(text)) == UpstreamAnswer(status, "Nenhum Arquivo tem este item")
    problem = json.dumps({"title": "No Archive holds this item", "status": status})
    found = ask(Above(reply(status, "Content-Type: application/problem+json", body=problem)))
    assert found == UpstreamAnswer(status, "No Archive holds this item")


@pytest.mark.parametrize(
    ("status", "known", "expected"),
    [(404, True, True), (404, False, False), (404, 1, False), (410, True, False)],
)
def test_that_it_knows_the_item_is_believed_of_a_404_alone(
    status: int, known: object, expected: bool
) -> None:
    problem = json.dumps({"title": "No", "known": known})
    found = ask(Above(reply(status, "Content-Type: application/problem+json", body=problem)))
    assert found == UpstreamAnswer(status, "No", expected)


@pytest.mark.parametrize(
    ("kind", "body", "title"),
    [
        ("text/html", "<h1>No</h1>", ""),
        ("application/problem+json", "[" * 10_000, ""),
        ("application/problem+json", '{"title": 5}', ""),
        ("application/problem+json", "[]", ""),
        ("text/plain", "a\x1b[31m\tb \u202e c\r\nd", "a [31m b c"),
        ("text/plain", "x" * 5_000, "x" * LONGEST_TITLE),
    ],
)
def test_of_its_words_one_printable_line_is_passed_on(kind: str, body: str, title: str) -> None:
    assert ask(Above(reply(404, f"Content-Type: {kind}", body=body))) == UpstreamAnswer(404, title)


@pytest.mark.parametrize("status", [200, 204, 400, 421, 500, 502])
def test_what_is_neither_a_redirect_nor_an_alert_proves_nothing(status: int) -> None:
    answer = ask(Above(reply(status)))
    assert isinstance(answer, IbiError)
    assert str(answer) == f"the answer has the status {status}"
    # Only 500 is a fault of the upstream resolver: the others blame the request, 502 an Archive there.
    assert isinstance(answer, QueryRefused) == (status != 500)


def test_where_the_request_came_by_it_there_is_nothing_to_add() -> None:
    assert ask(Above(reply(508))) is None


def test_a_request_goes_on_with_the_names_of_all_it_came_by_and_not_too_far() -> None:
    above = Above(reply(404))
    hops = ", ".join(f'ibi-resolver; id="r{n}/x"' for n in range(3))
    assert ask(above, hops=hops) == UpstreamAnswer(404)
    assert above.headers["cdn-loop"] == f'{hops}, ibi-resolver; id="{SERVICE.main.canonical}"'
    count = len(above.requests)
    for too_many in (f'{hops}, ibi-resolver; id="r4/x"', "ibi-resolver"):
        assert isinstance(ask(above, hops=too_many), IbiError)
    assert len(above.requests) == count


class Resolving(Above):
    """A resolver that holds nothing and asks the next one, as the hops of the request allow."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.service = IBIForms.parse(f"rep {name}.example/w/2020/01.01.00.00")
        self.next: Upstream | None = None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.current_task())
        try:
            while True:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                writer.write(await self._response(self.headers["cdn-loop"]))
        except asyncio.IncompleteReadError:
            pass  # the client has closed the connection
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _response(self, header: str) -> bytes:
        hops = Hops.read(header)
        if hops is None or hops.loops({self.service.main.canonical}):
            return reply(508)
        assert self.next is not None
        answer, _ = await self.next.ask(URL, "", header)
        if isinstance(answer, UpstreamAnswer):
            return reply(answer.status)
        return reply(404 if answer is None else 503)


@pytest.mark.parametrize(
    ("count", "questions", "status"), [(1, 2, 404), (2, 3, 404), (3, 4, 404), (7, 4, 503)]
)
def test_resolvers_in_a_ring_ask_each_other_once_and_end(count: int, questions: int, status: int) -> None:
    """Each knows that the request came by it, so the ring closes with what all of them know together."""
    ring = [Resolving(f"r{n}") for n in range(count)]

    async def main() -> None:
        client = Client(AddressPolicy(allow_private=True))
        servers = [StreamServer(each.answer) for each in ring]
        for server in servers:
            await server.start()
        ports = [server.port for server in servers]
        for each, port in zip(ring, [*ports[1:], ports[0]], strict=True):
            each.next = Upstream(f"http://127.0.0.1:{port}", client, each.service, OWN)
        first = Upstream(f"http://127.0.0.1:{ports[0]}", client, SERVICE, OWN)
        answer, _ = await first.ask(URL)
        assert isinstance(answer, UpstreamAnswer)
        assert answer.status == status
        await client.close()
        for server in servers:
            await server.stop()
        await asyncio.gather(*(line for each in ring for line in each.lines if line is not None))

    run_with_false_clock(main())
    assert sum(len(each.requests) for each in ring) == questions


def test_a_silent_resolver_is_waited_for_three_seconds_and_then_not_asked() -> None:
    above = Above()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with asking(above) as upstream:
            for _ in range(5):
                began = loop.time()
                silence, was_sent = await upstream.ask(URL)
                assert (isinstance(silence, IbiError), was_sent) == (True, True)
                assert loop.time() - began == pytest.approx(3.0, abs=0.1)
            await asyncio.sleep(3.1)  # a question of the resolver's own, which decides
            assert above.requests[-1].startswith("GET /robots.txt ")
            began = loop.time()
            answer, was_sent = await upstream.ask(URL)
            assert isinstance(answer, IbiError)
            assert ("it did not respond lately" in str(answer), was_sent) == (True, False)
            assert loop.time() == began
            assert len(above.requests) == 6
            await asyncio.sleep(31)
            above.says = reply(404)
            assert await upstream.ask(URL) == (UpstreamAnswer(404), True)
            assert await upstream.ask(URL) == (UpstreamAnswer(404), True)

    run_with_false_clock(main())


@pytest.mark.parametrize("probe", [reply(500), reply(200, "Retry-After: 60")])
def test_a_resolver_whose_probe_fails_too_is_not_asked_for_a_while(probe: bytes) -> None:
    above = Above(reply(500))

    async def main() -> None:
        async with asking(above) as upstream:
            for _ in range(4):
                assert isinstance((await upstream.ask(URL))[0], IbiError)
            last = asyncio.create_task(upstream.ask(URL))
            while len(above.requests) < 5:  # noqa: ASYNC110 - what is waited for has no event of its own
                await asyncio.sleep(0.001)
            above.says = probe
            await last
            await asyncio.sleep(0.1)
            assert above.requests[-1].startswith("GET /robots.txt ")
            above.says = reply(404)
            answer, was_sent = await upstream.ask(URL)
            assert ("it did not respond lately" in str(answer), was_sent) == (True, False)
            assert len(above.requests) == 6

    run_with_false_clock(main())


def test_no_longer_is_waited_than_the_reader_has() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with asking(Above()) as upstream:
            began = loop.time()
            silence, was_sent = await upstream.ask(URL, seconds=0.4)
            assert (isinstance(silence, IbiError), was_sent) == (True, True)
            assert loop.time() - began == pytest.approx(0.4, abs=0.1)
            too_late, was_sent = await upstream.ask(URL, seconds=-1)
            assert (isinstance(too_late, IbiError), was_sent) == (True, False)
            assert loop.time() - began < 0.5

    run_with_false_clock(main())


def test_what_no_archive_here_has_is_asked_with_what_the_reader_sent_and_for_as_long_as_is_left() -> None:
    reader = Request.raw(b"/", [(b"accept-language", b"pt"), (b"cdn-loop", b'ibi-resolver; id="a/b"')], "")
    unknown, above = Alert(AlertKind.NOT_FOUND), Above()

    async def main() -> None:
        async with asking(above) as upstream:
            above.says = reply(404)
            for looks_only in (False, True):
                _, was_sent = await upstream.complete(
                    unknown, URL, reader, looks_only=looks_only, seconds=5.0
                )
                assert was_sent
                assert above.headers["accept-language"] == "pt"
                assert above.headers["cdn-loop"].startswith('ibi-resolver; id="a/b", ')
                assert ("sec-purpose" in above.headers) == looks_only
            above.says = b""
            began = asyncio.get_running_loop().time()
            _, was_sent = await upstream.complete(unknown, URL, reader, looks_only=False, seconds=0.4)
            assert was_sent
            assert asyncio.get_running_loop().time() - began == pytest.approx(0.4, abs=0.1)
            for other in (
                Alert(AlertKind.DELETED),
                Alert(AlertKind.TOO_FAR),
                Alert(AlertKind.NOT_FOUND, known=True),
            ):
                assert await upstream.complete(other, URL, reader, looks_only=False, seconds=5.0) == (
                    other,
                    False,
                )

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("root", "problem"),
    [
        ("https://urlib.example/", "is given by its root URL"),
        ("urlib.example", "is given by its root URL"),
        ("http://urlib.example/x", "is given by its root URL"),
        ("http://urlib.example:25/", "is given by its root URL"),
        ("http://u:p@urlib.example", "is given by its root URL"),
        ("http://", "is given by its root URL"),
        ("http://URLIB.net:80/", "is this resolver itself"),
    ],
)
def test_a_root_that_cannot_be_asked_is_told_before_anything_starts(root: str, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        Upstream(root, Client(AddressPolicy()), SERVICE, OWN)


def test_a_token_that_no_header_can_hold_is_told_before_anything_starts() -> None:
    with pytest.raises(SetupError, match="upstream_token"):
        Upstream("http://far.example", Client(AddressPolicy()), SERVICE, OWN, token="a\r\nX: 1")
