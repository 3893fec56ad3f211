"""Stored files over HTTP beside nginx: a file of 1 MB, and many small ones. Both serve the same bytes of one Archive.

    python -m bench.files [--full]

Each server runs on one core, as its keeper runs it, and wrk asks from the other core; they take turns, each for a
second, with `--full` for three. In the third column nginx stands in front of the Archive, which sees who may have the
file and leaves the sending to nginx.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.disk import add_option, surroundings, workplace
from bench.figures import figure, table
from bench.processes import NotStarted, serving, wrk
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.intake.importing import Importer
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = 5
CONNECTIONS = 16
LARGE, SMALL, MANY = 1_000_000, 4_000, 1_000
_SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00")
_ONE = "archive.example/b/2010/01.01.00.00"
_PREFIX = "/-/kept"
_SCRIPT = """
math.randomseed(7)
request = function()
  return wrk.format("GET", %s)
end
done = function(summary, latency, requests)
  print(string.format("%%d errors, %%.3f ms median, %%.3f ms of 99 in 100",
    summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""
_LARGE_FILE = f'"/col/{_ONE}/doc/large.bin"'
_SMALL_FILES = (
    f'string.format("/col/archive.example/b/2011/01.01.%%02d.%%02d/doc/small.bin",'
    f" math.random(0, {MANY // 60 - 1}), math.random(0, 59))"
)
_SAID = re.compile(r"(\d+) errors, ([\d.]+) ms median, ([\d.]+) ms of")
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_NGINX = """
daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log notice; {user}
events {{ worker_connections 256; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; default_type application/octet-stream;
    client_body_temp_path {place}/t1; proxy_temp_path {place}/t2; fastcgi_temp_path {place}/t3;
    uwsgi_temp_path {place}/t4; scgi_temp_path {place}/t5;
    upstream archive {{ server 127.0.0.1:{archive}; keepalive 16; }}
    server {{ listen 127.0.0.1:{alone}; location /col/ {{ alias {col}/; }} }}
    server {{
        listen 127.0.0.1:{front};
        location / {{ proxy_pass http://archive; proxy_http_version 1.1; proxy_set_header Connection "";
                      proxy_set_header Host $http_host; }}
        location {prefix}/ {{ internal; alias {col}/; etag off; add_header ETag $upstream_http_etag; }}
    }}
}}
"""


@dataclass(frozen=True)
class Run:
    """One run of the load: files a second, and the milliseconds a file took, mostly and at most."""

    rate: float
    median: float
    most: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.files", description=__doc__)
    parser.add_argument("--full", action="store_true", help="runs of three seconds")
    add_option(parser)
    args = parser.parse_args()
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if shutil.which("wrk") is None or nginx is None:
        print("no files are measured: wrk or nginx is missing")
        return
    with workplace(args.dir) as place, ExitStack() as stack:
        print(f"\nStored files, {CONNECTIONS} connections, one core\n{surroundings(place)}")
        ports = _started(stack, place, nginx)
        for name, path, size in (
            (f"a file of {LARGE:,} bytes", _LARGE_FILE, LARGE),
            (f"{MANY // 60 * 60} files of {SMALL:,} bytes", _SMALL_FILES, SMALL),
        ):
            _measure(name, path, size, 3 if args.full else 1, ports, place)


def _started(stack: ExitStack, place: Path, nginx: str) -> tuple[int, int, int]:
    """The ports of the Archive, of nginx alone, and of nginx in front of an Archive that leaves files to it."""
    data = place / "archive"
    _fill(data)
    alone, front = _free_ports(2)
    first = stack.enter_context(serving(_archive(data), place / "log"))
    handing = place / "handing"
    shutil.copytree(data, handing)
    _settings(accel_prefix=_PREFIX).write(handing)
    behind = stack.enter_context(serving(_archive(handing), place / "log2"))
    user = "user root;" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(
        _NGINX.format(
            place=place,
            user=user,
            archive=behind.port,
            alone=alone,
            front=front,
            col=data / "col",
            prefix=_PREFIX,
        )
    )
    command = (nginx, "-e", "stderr", "-g", "error_log stderr notice;", "-c", place / "nginx.conf")
    stack.enter_context(serving(command, place / "log3", re.compile("start worker process ")))
    return first.port, alone, front


def _archive(data: Path) -> Sequence[str | Path]:
    return (sys.executable, "-m", "ibi", "archive", "serve", "--data", data, "--bind", "127.0.0.1:0")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]


def _settings(accel_prefix: str = "") -> ArchiveSettings:
    return ArchiveSettings(
        address="127.0.0.1",
        ip="127.0.0.1",
        service=_SERVICE,
        key="1" * 20,
        secret="ab" * 32,
        admin="admin@archive.example",
        accel_prefix=accel_prefix,
    )


def _fill(data: Path) -> None:
    """Make an Archive of one item with a large file and many with a small one."""
    directory = ArchiveDirectory(data, this_machine())
    directory.begin()
    directory.make(_settings())
    (data / "large").write_bytes(bytes(range(250)) * (LARGE // 250))
    (data / "small").write_bytes(bytes(range(250)) * (SMALL // 250))
    names = [f"archive.example/b/2011/01.01.{n // 60:02}.{n % 60:02}" for n in range(MANY // 60 * 60)]
    lines = [{"rep": _ONE, "files": {"large.bin": "large"}}]
    lines += [{"rep": name, "files": {"small.bin": "small"}} for name in names]
    path = data / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with directory.keeper() as keeper:
        report = Importer(keeper, "bench", lambda refused: print(refused.why)).run(path)
    if report.added != len(lines):
        raise NotStarted(f"only {report.added} of {len(lines)} items were taken in")


def _measure(name: str, path: str, size: int, seconds: int, ports: tuple[int, int, int], place: Path) -> None:
    """All servers turn about, and their table."""
    script = place / "ask.lua"
    script.write_text(_SCRIPT % path.replace("%%", "%"))
    runs: list[list[Run]] = [[] for _ in ports]
    for turn in range(RUNS + 1):
        for mine, port in zip(runs, ports, strict=True):
            run = _asked(port, script, seconds)
            if turn:  # the first only warms
                mine.append(run)
    rates = [figure(run.rate for run in mine) for mine in runs]
    lines = []
    for server, mine, rate in zip(
        ("the Archive", "nginx", "nginx before the Archive"), runs, rates, strict=True
    ):
        lines.append(
            (
                server,
                rate.text(),
                rate.times(size / 1e6).text(),
                (rate / rates[1]).text(2),
                figure(run.median for run in mine).text(2),
                figure(run.most for run in mine).text(2),
            )
        )
    table((name, "files/s", "MB/s", "of nginx", "ms, median", "ms, 99 in 100"), lines)


def _asked(port: int, script: Path, seconds: int) -> Run:
    printed = wrk(port, script, CONNECTIONS, seconds)
    said, rate = _SAID.search(printed), _RATE.search(printed)
    if said is None or rate is None or said[1] != "0":
        raise NotStarted(f"the load did not run clean: {printed}")
    return Run(float(rate[1]), float(said[2]), float(said[3]))


if __name__ == "__main__":
    main()
