"""The fast path of a resolver and its application answer the same, whatever is requested and however it arrives.

One resolver is served by two processes, one without the fast path. Both are sent the same bytes in the same pieces:
good requests and odd ones, one or many together, over one connection; what they answer until they hang up is compared
byte for byte, but for dates and milliseconds.
"""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.resolver.lending import ADDRESS, SERVICE, archives, item, make_resolver

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "fast-path"

_CHANGING: Final = re.compile(
    rb"(?im)^date: [^\r]*|(?<=^content-length: )[1-9][^\r]*|(?<=^x-request-id: )[0-9a-f]{16}(?=\r)"
    rb'|[0-9]+(?= ms)|(?<="milliseconds": )[0-9]+|(?<="began": )[0-9]+'
)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)")
LAST: Final = b"GET /-/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""A request after which no other one comes."""

_TIMEOUT: Final = 60.0  # seconds
_AT_ONCE: Final = 4  # clients: while one waits for a server, another one asks the other

_KNOWN: Final = (*(item(n % 2, n) for n in range(12)), *(item(0, n, 2024) for n in range(3)))
_OTHERS: Final = (item(0, 1, 2022), item(0, 1, 2023), item(1, 1, 2019), "LK47B6W/362SFKH", "nothing", SERVICE)
_MORE: Final = (
    "",
    "",
    "",
    "",
    "+",
    "+(pt)",
    "!",
    ":",
    "/a.pdf",
    "?x=1",
    "?x=1&y=%2F",
    "?info",
    "?",
    "??",
    ".",
    "%20",
)
_HOSTS: Final = (
    *[ADDRESS.encode()] * 12,
    b"www.resolver.test",
    b"localhost",
    b"stranger.example",
    b"RESOLVER.test:80",
)
_BROWSER: Final = (
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html,*/*;q=0.8\r\n"
    b"Accept-Encoding: gzip, deflate, br\r\nSec-Fetch-Mode: navigate\r\nUpgrade-Insecure-Requests: 1"
)
_TAME: Final = (
    b"Accept: application/json",
    b"Accept-Language: pt-BR, pt;q=0.9, en;q=0.5",
    b"Accept-Language: en",
    b"Accept-Language: de",
    b"Purpose: prefetch",
    b"Sec-Purpose: prefetch;prerender",
    b"X-Forwarded-For: 192.0.2.9, 198.51.100.1",
    b"X-Forwarded-For: nonsense",
    b"CDN-Loop: ibi-resolver",
    f'CDN-Loop: ibi-resolver; id="{SERVICE}"'.encode(),
    b'CDN-Loop: ibi-resolver; id="c.example/x/2020/01.01.00.00"',
    b'CDN-Loop: other; v=1, ibi-resolver; id="b.example/x/2020/01.01.00.00"',
    b"Connection: keep-alive",
    b"Content-Length: 0",
    b"X: y\r\nX: z",
    _BROWSER,
)
_WILD: Final = (
    *_TAME,
    b"Connection: close",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Expect: 100-continue",
    b"Content-Length: x",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3",
    b"Host: other.example",
    b": no name",
    b" folded: line",
    b"X-Long: " + b"y" * 20_000,
    b"A\x00B: c",
    b"Bare: line\nfeed: x",
)


def prove(scale: Scale, seed: int) -> Report:
    """Ask both, and compare."""
    report = Report(NAME, "nobody can tell which of the two lanes has answered")
    with tempfile.TemporaryDirectory() as folder, archives(2) as around:
        data = Path(folder)
        make_resolver(data, around)
        with running(data, "open") as (fast_path, taken), running(data, "closed") as (application, _):
            _warm(application)
            most = scale.pick(1_500, 100_000, 1_000_000) // _AT_ONCE
            with ThreadPoolExecutor(_AT_ONCE) as clients:
                chances = [random.Random(f"{seed} {client}") for client in range(_AT_ONCE)]
                for part in clients.map(partial(_compared, (fast_path, application), most), chances):
                    report.add(part)
        report.count("given by the fast path", taken[0])
        report.count("declined by it", taken[1])
        report.count("given once more", taken[2])
    report.demand(taken[0] >= report.counts["requests"] // 15, "the fast path has hardly given anything")
    report.demand(taken[2] >= report.counts["requests"] // 100, "hardly anything was given once more")
    return report


@contextmanager
def running(data: Path, mode: str) -> Iterator[tuple[int, list[int]]]:
    """The port of a resolver; afterwards, how much its fast path gave, declined, and gave from the in-process cache."""
    command = (sys.executable, "-m", "proofs.resolver.one_path", str(data), mode)
    taken: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            yield int(_line(process).rpartition(":")[2]), taken
        finally:
            process.send_signal(signal.SIGTERM)
            taken += map(int, _line(process).split())


def _line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline() if process.stdout else ""


def _warm(port: int) -> None:
    """Request known items until their redirects are cached, which are written a moment later."""
    requests = [
        b"GET /%b%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (n.encode(), m.encode())
        for n in _KNOWN
        for m in _MORE
    ]
    for _ in range(3):
        answered(port, [*requests, LAST])
        time.sleep(0.7)


def _compared(ports: tuple[int, int], most: int, chance: random.Random) -> Report:
    """What one client sees with so many requests; others are at work beside it."""
    report = Report(NAME, "")
    while report.counts["requests"] < most:
        kind = chance.random()
        in_turn = kind > 0.4
        if kind < 0.15:
            pieces = [_wild(chance)]  # as a whole: what is refused early is not read to its end
            report.count("requests")
        else:
            some = _several(chance)
            pieces = [*some, LAST] if in_turn else _pieces(some, chance)
            report.count("requests", len(some))
        fast, ordinary = (_CHANGING.sub(b"*", answered(port, pieces, in_turn=in_turn)) for port in ports)
        report.demand(
            fast == ordinary,
            f"to {pieces!r} the fast path says {fast!r}, the ordinary path {ordinary!r}",
        )
        report.count("connections")
    return report


def answered(port: int, pieces: list[bytes], *, in_turn: bool = False) -> bytes:
    """What is answered until the other side hangs up; `in_turn`: each piece is one request, sent after an answer."""
    heard = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                connection.sendall(piece)
                if in_turn and not _hear_one(connection, heard, bodiless=piece.startswith(b"HEAD ")):
                    break
            connection.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise
        except OSError:  # it was refused before its end, and the refusal may still be read
            pass
        with suppress(ConnectionError):
            while part := connection.recv(65_536):
                heard += part
    return bytes(heard)


def _hear_one(connection: socket.socket, heard: bytearray, *, bodiless: bool) -> bool:
    """Hear one answer to its end; False where the connection ends."""
    start, missing = len(heard), -1
    while missing:
        part = connection.recv(65_536)
        if not part:
            return False
        heard += part
        end = heard.find(b"\r\n\r\n", start)
        length = _LENGTH.search(heard, start, end) if end >= 0 else None
        if end >= 0:
            body = 0 if bodiless or length is None else int(length[1])
            missing = max(0, end + 4 + body - len(heard))
    return True


def _target(chance: random.Random) -> bytes:
    if chance.random() < 0.2:  # how these are explained depends on when they were asked for last
        return f"/{chance.choice(_OTHERS)}{chance.choice(_MORE)}".encode().replace(b"?info", b"")
    name = chance.choice(["", "", "", "ibi:", "IBI%3A"]) + chance.choice(_KNOWN)
    if chance.random() < 0.05:
        name = chance.choice((name.upper(), f"rep/{name}", f"/{name}", f"{name}#part"))
    return f"/{name}{chance.choice(_MORE)}".encode()


def _several(chance: random.Random) -> list[bytes]:
    """Requests for one connection, many of them with the same head, as from one client, or the same altogether."""
    uniform = chance.random() < 0.3
    heads = [_head(chance) for _ in range(1 if uniform else chance.choice([1, 1, 1, 2, 3]))]
    methods = [b"GET"] * (80 if uniform else 8) + [b"HEAD", b"OPTIONS"]
    few = [_target(chance) for _ in range(2)]
    return [
        b"%b %b HTTP/1.1\r\n%b\r\n\r\n"
        % (chance.choice(methods), chance.choice(few) if uniform else _target(chance), chance.choice(heads))
        for _ in range(chance.choice([25, 40] if uniform else [1, 2, 5, 10, 25, 40]))
    ]


def _head(chance: random.Random) -> bytes:
    lines = [b"Host: " + chance.choice(_HOSTS)] if chance.random() < 0.97 else []
    lines += chance.sample(_TAME, chance.choice([0, 0, 0, 1, 2]))
    chance.shuffle(lines)
    return b"\r\n".join(lines or [b"X: y"])


def _pieces(some: list[bytes], chance: random.Random) -> list[bytes]:
    """Some requests, each by itself, all together, in any pieces, or byte by byte; at the end one that closes."""
    kind = chance.random()
    if kind < 0.5:
        return [*some, LAST]
    whole = b"".join(some) + LAST
    if kind > 0.98:
        return [whole[place : place + 1] for place in range(min(len(whole), 600))] + [whole[600:]]
    places = sorted(chance.sample(range(len(whole) + 1), chance.choice([0, 1, 3, 9])))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


def _wild(chance: random.Random) -> bytes:
    """A request of any kind, or nearly one, perhaps after good ones; nothing else comes then."""
    target = _target(chance) + chance.choice([b""] * 9 + [b" x", b"\xe9", b"\x00", b"?" + b"x" * 9_000])
    if chance.random() < 0.1:
        target = chance.choice([b"*", b"", b"http://a.example" + target, b"/x" * 9_000])
    method = chance.choice([b"GET"] * 12 + [b"HEAD", b"POST", b"get", b"FLY", b"\r\nGET"])
    version = chance.choice([b"HTTP/1.1"] * 12 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 "])
    lines, body = [_head(chance), *chance.sample(_WILD, chance.choice([0, 1, 1, 2]))], b""
    if chance.random() < 0.1:  # without a length it is no HTTP, and the one difference of decision 0019
        lines, body = (
            [_head(chance), chance.choice([b"Content-Length: 9", b"Content-Length: 90"])],
            b"some body",
        )
    text = b"%b %b %b\r\n" % (method, target, version) + b"".join(x + b"\r\n" for x in lines) + b"\r\n" + body
    return text if chance.random() < 0.9 else text[: chance.randrange(len(text))]
