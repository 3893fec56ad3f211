"""Stored files over HTTP beside nginx: a file of 1 MB, and many small ones. Both serve the same bytes of one Archive.

Each server runs on one core, as in operation, and the load asks from the other core; they take turns. Once more,
nginx stands in front of the Archive, which sees who may have the file and leaves the sending to nginx.
"""

from __future__ import annotations

import random
import shutil
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.answers import LOADED, waits
from bench.archive import made, serve, settings, take_in
from bench.figures import figure, table
from bench.nginx import free_ports, nginx
from bench.processes import hold_this_process, serving
from bench.questions import Questions
from bench.turns import turn_about

if TYPE_CHECKING:
    from pathlib import Path

    from bench.scale import Scale

CONNECTIONS: Final = 16
LARGE, SMALL, MANY = 1_000_000, 4_000, 960
_ONE: Final = "archive.example/b/2010/01.01.00.00"
_PREFIX: Final = "/-/kept"
_SERVERS: Final = """
upstream archive {{ server 127.0.0.1:{archive}; keepalive 16; }}
server {{ listen 127.0.0.1:{alone}; location /col/ {{ alias {col}/; }} }}
server {{
    listen 127.0.0.1:{front};
    location / {{ proxy_pass http://archive; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_set_header Host $http_host; }}
    location {prefix}/ {{ internal; alias {col}/; etag off; add_header ETag $upstream_http_etag; }}
}}
"""


def measure(place: Path, scale: Scale) -> None:
    """Measure and print. Raises NotHere without nginx or wrk."""
    hold_this_process()
    with ExitStack() as stack:
        ports = _started(stack, place)
        print(f"{CONNECTIONS} connections; median of {scale.runs} runs of {scale(1, 1, 3)} s (least to most)")
        large = Questions((f"/col/{_ONE}/doc/large.bin",))
        _measure((f"a file of {LARGE:,} bytes", large, LARGE), ports, place, scale)
        chance = random.Random(7)
        names = [f"/col/{_name(chance.randrange(MANY))}/doc/small.bin" for _ in range(20_000)]
        _measure((f"{MANY} files of {SMALL:,} bytes", Questions(tuple(names)), SMALL), ports, place, scale)
        print("\nat 70 %: an open loop of seven tenths of the rate that was reached")


def _name(number: int) -> str:
    return f"archive.example/b/2011/01.01.{number // 60:02}.{number % 60:02}"


def _started(stack: ExitStack, place: Path) -> dict[str, int]:
    """The ports of the Archive, of nginx alone, and of nginx in front of an Archive that leaves files to it."""
    data, handing = place / "archive", place / "handing"
    _fill(data)
    alone, front = free_ports(2)
    shutil.copytree(data, handing)
    first = stack.enter_context(serving(serve(data), place / "log"))
    settings(_PREFIX).write(handing)
    behind = stack.enter_context(serving(serve(handing), place / "log2"))
    servers = _SERVERS.format(archive=behind.port, alone=alone, front=front, col=data / "col", prefix=_PREFIX)
    stack.enter_context(nginx(place / "nginx", servers, alone))
    return {"the Archive": first.port, "nginx": alone, "nginx before the Archive": front}


def _fill(data: Path) -> None:
    """Make an Archive of one item with a large file and many with a small one."""
    directory = made(data)
    (data / "large").write_bytes(bytes(range(250)) * (LARGE // 250))
    (data / "small").write_bytes(bytes(range(250)) * (SMALL // 250))
    items = [{"rep": _name(number), "files": {"small.bin": "small"}} for number in range(MANY)]
    take_in(directory, [{"rep": _ONE, "files": {"large.bin": "large"}}, *items])


def _measure(what: tuple[str, Questions, int], ports: dict[str, int], place: Path, scale: Scale) -> None:
    """All servers turn about, and their table."""
    name, questions, size = what

    def run(port: int) -> float:
        return questions.closed_loop(port, CONNECTIONS, scale(1, 1, 3), place)

    for port in ports.values():
        questions.check(port)
    found = turn_about({who: partial(run, port) for who, port in ports.items()}, scale.runs)
    rates = {who: figure(runs) for who, runs in found.items()}
    table(
        (name, "files/s", "MB/s", "of nginx", "at 70 %: p50, p99, p99.9 in ms"),
        (
            (
                who,
                rate.text(),
                rate.times(size / 1e6).text(),
                (rate / rates["nginx"]).text(2),
                waits(ports[who], questions, LOADED * rate.median, scale),
            )
            for who, rate in rates.items()
        ),
    )
