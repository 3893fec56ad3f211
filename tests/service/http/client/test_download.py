"""Downloads, which take long: what is requested, from where, and what counts as an answer."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

import ibi
from ibi.errors import ForbiddenAddress, PeerError, PeerGarbled, PeerSilent
from ibi.http.client import AddressPolicy, download
from ibi.http.client.download import LONGEST_URL, CheckedURL, Downloads
from support.stream_server import listening

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
ANYWHERE = AddressPolicy(allow_private=True)
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


class Server:
    """Answers on this machine as a test tells it; keeps every request."""

    def __init__(self, *answers: bytes | Speak) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Answer; gives the root URL."""
        async with listening(self._serve) as self.port:
            yield f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            self.requests.append(head + await reader.readexactly(length))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(reader, writer, head)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def runs(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def fetched(url: str, most_bytes: int = 1000, seconds: float = 5.0, *, follow: bool = False) -> bytes:
    async with (
        Downloads(ANYWHERE) as downloads,
        downloads.get(url, most_bytes=most_bytes, seconds=seconds, follow=follow) as reply,
    ):
        return await reply.read()


def moved(url: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()


def heads(request: bytes) -> dict[str, str]:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


@runs
async def test_a_file_is_read_piece_by_piece() -> None:
    server = Server(OK)
    async with (
        server.running() as root,
        Downloads(ANYWHERE) as downloads,
        downloads.get(f"{root}/x", most_bytes=5, seconds=5) as reply,
    ):
        assert (reply.status, reply.url, reply.headers["content-length"]) == (200, f"{root}/x", "5")
        assert b"".join([chunk async for chunk in reply.chunks()]) == b"hello"


@runs
async def test_a_target_goes_out_byte_for_byte_without_its_fragment() -> None:
    server = Server(OK)
    async with server.running() as root:
        await fetched(f"{root}/a%20b/%C3%A9/../{{x}}?q=%2B+&&#part")
    assert server.requests[0].startswith(b"GET /a%20b/%C3%A9/../{x}?q=%2B+&& HTTP/1.1\r\n")


@pytest.mark.proves("MSG-20")
@runs
async def test_a_request_says_who_asks_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    lookups: list[str] = []

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        lookups.append(host)
        return [("127.0.0.1", port)]

    server = Server(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
    async with server.running() as _, Downloads(ANYWHERE, names) as downloads:
        for _ in range(2):
            url = f"http://archive.example:{server.port}"
            async with downloads.get(url, most_bytes=5, seconds=5) as reply:
                await reply.read()
    assert heads(server.requests[1]) == {
        "host": f"archive.example:{server.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "user-agent": f"ibi/{ibi.__version__}",
        "connection": "close",
    }
    assert lookups == ["archive.example"] * 2  # what was judged once is judged again


@runs
async def test_no_more_than_sixteen_are_under_way_at_once() -> None:
    under_way, most = 0, 0

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter, _head: bytes) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.1)
        under_way -= 1
        writer.write(OK)

    async with Server(speak).running() as root, Downloads(ANYWHERE) as downloads:
        await asyncio.gather(*(downloads.send("PUT", root) for _ in range(20)))
    assert most == 16


@runs
async def test_compressed_answers_are_refused() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")
    async with server.running() as root:
        with pytest.raises(PeerGarbled, match="compressed"):
            await fetched(root)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n",
    ],
)
@runs
async def test_one_byte_too_many_ends_it(answer: bytes) -> None:
    server = Server(answer)
    async with server.running() as root:
        with pytest.raises(PeerGarbled, match="larger than 4 bytes"):
            await fetched(root, most_bytes=4)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"220 this is a mail server\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
@runs
async def test_half_an_answer_is_none(answer: bytes) -> None:
    server = Server(answer)
    async with server.running() as root:
        with pytest.raises((PeerSilent, PeerGarbled)):
            await fetched(root)


@runs
async def test_an_answer_that_never_ends_does_at_its_deadline() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter, _head: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _number in range(200):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    server = Server(drip)
    async with server.running() as root:
        with pytest.raises(PeerSilent, match="in time"):
            await fetched(root, seconds=0.3)


@runs
async def test_a_port_without_a_listener_is_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(PeerSilent, match="cannot be reached"):
        await fetched(f"http://127.0.0.1:{port}/")
    with pytest.raises(PeerSilent, match="has no address"):
        await fetched("http://nobody.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://localhost/",
        "http://user@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org:6379/",
        "http://example.org:0/",
        "http://exämple.org/",
        "http:///x",
        "ftp://example.org/",
        "file:///etc/passwd",
        "//example.org/",
        "http://example.org/a b",
        "http://example.org/\r\nX: y",
        f"http://example.org/{'x' * LONGEST_URL}",
    ],
)
@runs
async def test_what_must_not_be_contacted_is_not(url: str) -> None:
    async with Downloads(AddressPolicy()) as downloads:
        with pytest.raises(ForbiddenAddress):
            async with downloads.get(url, most_bytes=5, seconds=5):
                pass


@runs
async def test_a_name_is_judged_by_all_its_addresses_and_looked_up_once() -> None:
    server, lookups = Server(OK), []
    found = [("127.77.0.1", 0), ("127.0.0.1", 0)]

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        lookups.append(host)
        return [(ip, port) for ip, _ in found]

    policy = AddressPolicy(public=[ip_network("127.77.0.0/16")])
    async with server.running() as _, Downloads(policy, names) as downloads:
        url = f"http://archive.example:{server.port}/"
        with pytest.raises(ForbiddenAddress):
            async with downloads.get(url, most_bytes=5, seconds=5):
                pass
        assert (lookups, server.requests) == (["archive.example"], [])
        found[:] = [("127.77.0.1", 0)]
        with pytest.raises(PeerSilent):  # nothing listens there, and nowhere else is tried
            async with downloads.get(url, most_bytes=5, seconds=5):
                pass
        found[:] = []
        with pytest.raises(PeerSilent):
            async with downloads.get(url, most_bytes=5, seconds=5):
                pass
    assert server.requests == []


@runs
async def test_redirects_are_answers_unless_they_are_wanted() -> None:
    server = Server(moved("/there?x=%2F"), OK)
    async with server.running() as root:
        async with Downloads(ANYWHERE) as downloads, downloads.get(root, most_bytes=5, seconds=5) as reply:
            assert (reply.status, reply.headers["location"]) == (302, "/there?x=%2F")
        server.answers.insert(0, moved("/there?x=%2F"))
        assert await fetched(root, follow=True) == b"hello"
    assert server.requests[-1].startswith(b"GET /there?x=%2F ")


@runs
async def test_of_redirects_there_is_an_end() -> None:
    server = Server(moved("/again"))
    async with server.running() as root:
        with pytest.raises(PeerGarbled, match="more than 5 redirects"):
            await fetched(root, follow=True)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/", "http://[fe80::1]/", "javascript:x", "http://[x", "file:///etc/passwd"],
)
@runs
async def test_every_redirect_is_judged_like_the_first(location: str) -> None:
    server = Server(moved(location), OK)
    async with server.running() as root:
        with pytest.raises((ForbiddenAddress, PeerGarbled)):
            await fetched(root, follow=True)
    assert len(server.requests) == 1


@runs
async def test_headers_for_one_host_are_not_shown_to_another() -> None:
    there = Server(OK)
    async with there.running() as far:
        here = Server(moved(f"{far}/x"))
        async with here.running() as root, Downloads(ANYWHERE) as downloads:
            secret = {"Authorization": "Bearer secret"}
            async with downloads.get(root, most_bytes=5, seconds=5, headers=secret, follow=True) as reply:
                await reply.read()
    assert b"secret" in here.requests[0]
    assert b"secret" not in there.requests[0]


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        ("http://a.example/", "http://a.example/x", {"X": "y"}),
        ("http://a.example/", "https://a.example/x", {}),
        ("https://a.example/", "https://a.example/x", {"X": "y"}),
        ("https://a.example/", "https://a.example:8443/x", {}),
        ("https://a.example/", "http://a.example/x", None),
        ("https://a.example/", "http://a.example:443/x", None),
    ],
)
@runs
async def test_no_redirect_leads_from_https_to_http(
    first: str, second: str, sent: dict[str, str] | None
) -> None:
    requests: list[tuple[str, str, dict[str, str]]] = []

    async def request(
        _: object, method: str, url: object, *, headers: dict[str, str], **_how: object
    ) -> object:
        requests.append((method, str(url), headers))
        status, more = (302, {"Location": second}) if len(requests) == 1 else (200, {})
        return SimpleNamespace(status=status, headers=CIMultiDict(more), close=lambda: None)

    refused = pytest.raises(ForbiddenAddress, match=r"^a redirect from https to http is not followed$")
    with pytest.MonkeyPatch.context() as patch, refused if sent is None else nullcontext():
        patch.setattr(aiohttp.ClientSession, "request", request)
        asking: dict[str, Any] = {"most_bytes": 5, "seconds": 5.0, "headers": {"X": "y"}, "follow": True}
        async with Downloads(ANYWHERE) as downloads, downloads.get(first, **asking) as reply:
            assert (reply.status, reply.url) == (200, second)
    rest = [] if sent is None else [("GET", second, sent)]
    assert requests == [("GET", first, {"X": "y"}), *rest]


@runs
async def test_a_header_that_would_end_the_head_is_a_fault_of_ours() -> None:
    async with Downloads(ANYWHERE) as downloads:
        with pytest.raises(ValueError, match="cannot be sent"):
            async with downloads.get(
                "http://127.0.0.1/", most_bytes=5, seconds=5, headers={"X": "a\r\nY: b"}
            ):
                pass


@runs
async def test_json_is_sent_with_its_token_and_the_whole_answer_heard() -> None:
    server = Server(b'HTTP/1.1 409 Conflict\r\nContent-Length: 10\r\n\r\n{"a": [1]}')
    async with server.running() as root, Downloads(ANYWHERE) as downloads:
        answer = await downloads.send("POST", f"{root}/-/api/x", json={"é": 1}, token="t0ken")
    assert (answer.status, answer.json()) == (409, {"a": [1]})
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /-/api/x ")
    assert heads(server.requests[0])["authorization"] == "Bearer t0ken"
    assert json.loads(body) == {"é": 1}


@runs
async def test_an_answer_that_is_no_json_says_so() -> None:
    server = Server(OK)
    async with server.running() as root, Downloads(ANYWHERE) as downloads:
        answer = await downloads.send("PUT", root, json=None)
    with pytest.raises(PeerGarbled, match="not JSON"):
        answer.json()


@runs
async def test_a_server_that_closes_at_once_after_each_answer_takes_any_number_of_posts() -> None:
    server = Server(OK)
    async with server.running() as root, Downloads(ANYWHERE) as downloads:
        for _ in range(20):
            assert (await downloads.send("POST", root, json={})).status == 200


@runs
async def test_closed_downloads_say_so() -> None:
    downloads = Downloads(ANYWHERE)
    with pytest.raises(PeerSilent, match="closed"):
        await downloads.send("POST", "http://127.0.0.1/", json={})
    async with downloads:
        pass
    with pytest.raises(PeerSilent, match="closed"):
        await downloads.send("POST", "http://127.0.0.1/", json={})


@runs
async def test_a_certificate_without_a_trusted_issuer_is_refused(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = f"req -x509 -subj /CN=127.0.0.1 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout {key}"
    made = ["openssl", *words.split(), "-out", str(cert)]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(serve, ssl=context) as port:
        with pytest.raises(PeerSilent, match="cannot be reached"):
            await fetched(f"https://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    ("url", "root", "whole"),
    [
        ("HTTP://Archive.Example", "http://archive.example", "http://archive.example/"),
        ("http://a.example:80/x", "http://a.example", "http://a.example/x"),
        ("https://a.example/x", "https://a.example", "https://a.example/x"),
        ("https://a.example:443?q", "https://a.example", "https://a.example/?q"),
        ("https://[2001:db8::1]:8443/x#y", "https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443/x"),
    ],
)
def test_a_place_is_spelled_in_one_way(url: str, root: str, whole: str) -> None:
    place = CheckedURL.parse(url)
    assert (place.root, str(place)) == (root, whole)


@runs
async def test_what_is_no_answer_is_told_in_one_line() -> None:
    for strange in (b"\x00" * 100, b"HTTP/9.9 200\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b"HTTP/1.1 200"):
        server = Server(strange)
        async with server.running() as root:
            with pytest.raises(PeerError) as caught:
                await fetched(root)
            assert "\n" not in str(caught.value)


@runs
async def test_who_falls_silent_in_the_middle_of_an_answer_is_not_waited_for() -> None:
    async def stop_halfway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _head: bytes) -> None:
        writer.write(OK[:-2])
        await reader.read()  # until the client goes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(download, "IDLE_SECONDS", 0.2)
        async with Server(stop_halfway).running() as root, asyncio.timeout(20):
            with pytest.raises(PeerSilent):
                await fetched(root, seconds=60)


@runs
async def test_a_connection_that_does_not_come_about_is_not_waited_for() -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),  # now its queue is full
    ):
        patch.setattr(download, "CONNECT_SECONDS", 0.2)
        async with asyncio.timeout(20):
            with pytest.raises(PeerSilent):
                await fetched(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=60)
