"""How many instructions today's code takes for one request, to those of an earlier commit: valgrind counts them.

    python -m bench.instructions COMMIT [--only ROW ...]

Where neighbours make the times of `bench.against` differ by a tenth from turn to turn, these figures differ by half a
hundredth: they see all that a program does, and nothing of caches, disks and waits. A ratio above 1 says that today's
code takes less. Each side is run twice, with few and with many requests, one after the other over one connection; the
difference is what the requests took, without the start. A warm redirect has no row: under valgrind, most of what it
takes is what a resolver does each second, and so depends on how fast the machine is.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from typing import TYPE_CHECKING, Final

from bench.against import git, source_of, source_of_today
from bench.against_rows import ARCHIVES, MINT_OPTIONS, Setting, make_archive, make_resolver
from bench.answers import ITEM, METADATA, url_requests
from bench.archive import item, name_of
from bench.disk import add_option, workplace
from bench.figures import table
from bench.importing import write_items
from bench.processes import NotStarted, program
from bench.questions import TEN
from bench.resolving_load import ORIGINAL, connection
from bench.scale import SHORT
from bench.stubs import item_of, stubs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from bench.against_rows import Side

KNOWN: Final = 200
"""Items of which a resolver has hints."""

_COUNTED: Final = re.compile(r"I\s+refs:\s+([\d,]+)")
_LISTENS: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")
_START_SECONDS: Final = 180.0
_ORDER: Final = {"PYTHONHASHSEED": "1"}  # the same look-ups collide in every run
_SETTLE_SECONDS: Final = 4.0  # what a server does after its start, and after the last request

if TYPE_CHECKING:
    Counted = Callable[[Side, int], int]
    """Runs a side with so many requests; gives the instructions."""


def main(words: Sequence[str] | None = None) -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.instructions", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("commit", metavar="COMMIT", help="the earlier commit")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[*ROWS], help=", ".join(ROWS))
    add_option(parser)
    args = parser.parse_args(words)
    program("valgrind")
    then = git("rev-parse", "--verify", f"{args.commit}^{{commit}}").decode().strip()
    with workplace(args.dir, on_a_disk=False) as place:
        sides = source_of(then, place / "then"), source_of_today(place / "today")
        table(
            ("instructions of one", "then", "today", "today to then"),
            (_line(name, place, sides) for name in args.only or [*ROWS]),
        )
    return 0


def _line(name: str, place: Path, sides: Sequence[Side]) -> tuple[str, ...]:
    few, many, row = ROWS[name]
    folder = place / name
    folder.mkdir()
    with ExitStack() as stack:
        counts = row(Setting(stack, folder, sides, SHORT))
        found = [(counts(side, many) - counts(side, few)) / (many - few) for side in sides]
    return name, *(f"{each:,.0f}" for each in found), f"{found[0] / found[1]:.3f}"


def _clicks(name: Callable[[int], str], *, known: bool) -> Callable[[Setting], Counted]:
    """Clicks on items that `name` gives by number; `known`: of which the resolver has hints, else each is a new one."""

    def prepare(setting: Setting) -> Counted:
        archives = setting.stack.enter_context(stubs(ARCHIVES, setting.place))
        data = {side.name: make_resolver(setting, side, archives) for side in setting.sides}
        fresh = {side.name: count(1_000_000) for side in setting.sides}
        for side in setting.sides if known else ():
            with (
                side.serve("resolver", data[side.name]) as server,
                connection("127.0.0.1", server.port) as get,
            ):
                for number in range(KNOWN):
                    get(name(number), b"302")
                time.sleep(_SETTLE_SECONDS)

        def counted(side: Side, clicks: int) -> int:
            with _watched(setting, side, "resolver", data[side.name]) as (port, result):
                with connection("127.0.0.1", port) as get:
                    for at in range(clicks):
                        get(name(at % KNOWN if known else next(fresh[side.name])), b"302")
                time.sleep(_SETTLE_SECONDS)
            return result()

        return counted

    return prepare


def _pages(items: int) -> Callable[[Setting], Counted]:
    """Pages of so many items with the metadata of a report, again from the first, as a browser requests them."""

    def prepare(setting: Setting) -> Counted:
        file = setting.place / "pages.jsonl"
        file.write_text("".join(f"{json.dumps(item('large', at))}\n" for at in range(items)))
        data = {side.name: setting.folder(side) / "pages" for side in setting.sides}
        for side in setting.sides:
            make_archive(side, data[side.name])
            side.run("archive", "set", "--data", data[side.name], "--page-rate", "0")
            side.run("archive", "import", "--data", data[side.name], "--format", "jsonl", file)
            side.run("archive", "index", "--data", data[side.name])

        def counted(side: Side, requests: int) -> int:
            targets = (f"/-/item/{name_of(at % items)}" for at in range(requests))
            with _watched(setting, side, "archive", data[side.name]) as (port, result):
                _get_all(port, targets, TEN, 200)
                time.sleep(_SETTLE_SECONDS)
            return result()

        return counted

    return prepare


def _get_all(port: int, targets: Iterable[str], headers: Sequence[str], status: int) -> None:
    """Request all of these over one connection, one after the other, and read each answer to its end."""
    lines = dict(line.format(host=f"127.0.0.1:{port}").split(": ", 1) for line in headers)
    with closing(HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)) as line:
        for target in targets:
            line.request("GET", target, headers=lines)
            answer = line.getresponse()
            answer.read()
            if answer.status != status:
                raise NotStarted(f"{target} was answered with {answer.status}, not with {status}")


def _url_requests(size: str, verb: str) -> Callable[[Setting], Counted]:
    """URL requests to an Archive, one after the other about another item of this size."""

    def prepare(setting: Setting) -> Counted:
        data, lines = (
            {side.name: setting.folder(side) / "data" for side in setting.sides},
            setting.place / "lines",
        )
        write_items(lines, size, KNOWN)
        for side in setting.sides:
            make_archive(side, data[side.name])
            side.run("archive", "import", "--data", data[side.name], "--format", "jsonl", lines)
            side.run("archive", "index", "--data", data[side.name])
        targets = url_requests(KNOWN, verb).targets

        def counted(side: Side, requests: int) -> int:
            with _watched(setting, side, "archive", data[side.name]) as (port, result):
                with connection("127.0.0.1", port) as get:
                    for at in range(requests):
                        get(targets[at % KNOWN], b"200")
                time.sleep(_SETTLE_SECONDS)
            return result()

        return counted

    return prepare


def _minting(labels: int) -> Callable[[Setting], Counted]:
    """Requests for so many labels each."""

    def prepare(setting: Setting) -> Counted:
        data = {side.name: setting.folder(side) / "mint" for side in setting.sides}
        tokens = {
            side.name: side.run("mint", "token", "--data", data[side.name], "--name", "bench").strip()
            for side in setting.sides
        }

        def counted(side: Side, requests: int) -> int:
            body = json.dumps({"count": labels}).encode()
            headers = {"Authorization": f"Bearer {tokens[side.name]}", "Content-Type": "application/json"}
            with _watched(setting, side, "mint", data[side.name], *MINT_OPTIONS) as (port, result):
                with closing(HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)) as line:
                    for _ in range(requests):
                        line.request("POST", "/-/api/mint", body, headers)
                        if line.getresponse().read().count(b'"rep"') != labels:
                            raise NotStarted(f"{side.name} did not give {labels} labels")
                time.sleep(_SETTLE_SECONDS)
            return result()

        return counted

    return prepare


def _importing(setting: Setting) -> Counted:
    """Items with the metadata of a report, taken in by the command line."""

    def counted(side: Side, items: int) -> int:
        data, lines = setting.folder(side) / str(items), setting.place / f"{items}.jsonl"
        make_archive(side, data)
        write_items(lines, "large", items)
        words = ("archive", "import", "--data", data, "--format", "jsonl", lines)
        done = subprocess.run(  # noqa: S603 - our own command
            _command(setting, words), capture_output=True, text=True, env=side.env | _ORDER, check=True
        )
        return _result(done.stderr)

    return counted


def _command(setting: Setting, words: Sequence[str | Path]) -> list[str]:
    watcher = (
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        f"--cachegrind-out-file={setting.place / 'counts'}",
    )
    return list(map(str, (*watcher, sys.executable, "-m", "ibi", *words)))


def _result(text: str) -> int:
    match = _COUNTED.search(text)
    if match is None:
        raise NotStarted(f"valgrind has counted nothing: {text[-2000:]}")
    return int(match[1].replace(",", ""))


@contextmanager
def _watched(
    setting: Setting, side: Side, kind: str, data: Path, *words: str
) -> Iterator[tuple[int, Callable[[], int]]]:
    """Serve under valgrind; gives the port, and what returns the instructions after the end of the block."""
    log = data.with_suffix(".log")
    command = _command(setting, (kind, "serve", "--data", data, "--bind", "127.0.0.1:0", *words))
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=output, stderr=output, env=side.env | _ORDER
        )
    try:
        until = time.monotonic() + _START_SECONDS
        while (match := _LISTENS.search(log.read_text(errors="replace"))) is None:
            if time.monotonic() > until or process.poll() is not None:
                raise NotStarted(f"{command!r}: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        time.sleep(_SETTLE_SECONDS)
        yield int(match[1]), lambda: _result(log.read_text(errors="replace"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_START_SECONDS)


ROWS: Final = {
    "hinted redirect": (40, 340, _clicks(lambda n: f"/{item_of(n % ARCHIVES, n, 'n')}", known=True)),
    "first click, by prefix": (40, 340, _clicks(lambda n: f"/{item_of(n % ARCHIVES, n, 'h')}", known=False)),
    "redirect for which 100 Archives are asked": (
        *(4, 44),
        _clicks(lambda n: f"/{item_of(n % ARCHIVES, n, 'n')}{ORIGINAL}", known=False),
    ),
    "URL request, small item": (40, 340, _url_requests("small", ITEM)),
    "URL request, metadata of a large item": (40, 340, _url_requests("large", METADATA)),
    "page of an item": (40, 340, _pages(340)),
    "page of an item, once more": (40, 340, _pages(20)),
    "request for 100 labels": (5, 55, _minting(100)),
    "import of a large item": (100, 400, _importing),
}
"""Few and many requests, and what prepares them."""

if __name__ == "__main__":
    sys.exit(main())
