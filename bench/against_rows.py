"""The rows of `bench.against`: each prepares two checkouts alike, and starts what is to be measured of each.

A checkout is driven by its command line alone, and what surrounds it (the load, the scripted Archives, the files to be
imported) is that of today for both: so the modules of the two may be named and placed as they like.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.answers import ITEM, METADATA, url_requests
from bench.archive import SERVICE, item, name_of
from bench.asking import ROUNDS_AT_ONCE
from bench.cached_redirects import REUSE, warm
from bench.importing import write_items
from bench.load import load, post
from bench.minting_http import GRANULARITY
from bench.processes import SERVER_CORE, NotStarted, run, serving, worked
from bench.questions import TEN, Questions
from bench.resolving_load import ORIGINAL, Scene, Work, connection
from bench.stubs import ip_of, item_of, service_of, stubs, tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from bench.processes import Server
    from bench.scale import Scale

ARCHIVES: Final = 100
ITEMS: Final = 1_000
"""That a resolver has hints of."""

_READERS: Final = 4
_REDIRECT_CONNECTIONS, _ANSWER_CONNECTIONS = 32, 16
_TRIES: Final = 5
"""A busy machine lets likely holders answer late, and then all Archives are asked: such a turn is another work."""

_PAUSE: Final = 1.5  # seconds in which a resolver writes its last hints
MINT_OPTIONS: Final = ("--host", "mint.example.org", "--ip", "150.163.34.243", "--granularity", GRANULARITY)
_KEY: Final = "1" * 20


@dataclass(frozen=True)
class Side:
    """A checkout: `source` is its `src`, of which its programs are run, each in a process of its own."""

    name: str
    source: Path

    @property
    def env(self) -> dict[str, str]:
        """The surroundings of its processes: no `ibi` but its own can be imported."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return kept | {"PYTHONPATH": str(self.source), "PYTHONSAFEPATH": "1"}

    def run(self, *words: str | Path) -> str:
        """What `ibi` prints. Raises NotStarted where it fails."""
        return run((sys.executable, "-m", "ibi", *words), self.env)

    def serve(self, program: str, data: Path, *words: str) -> AbstractContextManager[Server]:
        """Serve a data directory: `program` is archive, resolver or mint."""
        command = (sys.executable, "-m", "ibi", program, "serve", "--data", data, "--bind", "127.0.0.1:0")
        return serving((*command, *words), data.with_suffix(".log"), env=self.env)


@dataclass(frozen=True)
class Turn:
    """What one turn gave: how many were done, in how many seconds of a processor, and of the clock.

    `held_up`: for how many seconds the server could have worked, but others had the processor.
    """

    count: float
    worked: float
    seconds: float
    held_up: float = 0.0


class Watch:
    """What a server uses from now on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._worked, self._held_up = worked(server), _held_up(server.pid)

    def turn(self, count: float, seconds: float) -> Turn:
        """The turn that ends now."""
        cost, held_up = worked(self._server) - self._worked, _held_up(self._server.pid) - self._held_up
        return Turn(count, cost, seconds, held_up)


def _held_up(pid: int) -> float:
    total = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended meanwhile
            total += int(stat.read_text().split()[1])
    return total / 1e9


Run = Callable[[], Turn]
"""One turn of a line."""
Start = Callable[[ExitStack], Mapping[str, Run]]
"""Starts the servers of one side, and gives the lines of the row."""


@dataclass(frozen=True)
class Setting:
    """In what a row is prepared: what it starts lives as long as `stack`, files lie in `place`."""

    stack: ExitStack
    place: Path
    sides: Sequence[Side]
    scale: Scale

    def folder(self, side: Side) -> Path:
        """Where the files of one side lie."""
        folder = self.place / side.name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def seconds(self) -> float:
        """How long a turn takes, where that can be chosen."""
        return self.scale(0.1, 1.0, 1.0)


def redirect(setting: Setting) -> dict[str, Start]:
    """Redirects that lie in the redirect cache: no Archive is asked."""
    archives = setting.stack.enter_context(stubs(ARCHIVES, setting.place))
    tell(archives.port, REUSE)
    items = setting.scale(100, 5_000, 5_000)
    questions = Questions(tuple(f"/{item_of(at % ARCHIVES, at, 'h')}" for at in range(items)), status=302)
    lines = {
        "warm redirect": questions,
        "warm redirect, headers of a browser": replace(questions, headers=TEN),
    }

    def start(side: Side, data: Path, running: ExitStack) -> dict[str, Run]:
        server = running.enter_context(side.serve("resolver", data))

        def turn(questions: Questions) -> Turn:
            tell(archives.port, "counts")
            done = _closed_loop(server, questions, _REDIRECT_CONNECTIONS, setting.place)
            if tell(archives.port, "counts")["asked"]:
                raise NotStarted(f"{side.name}: Archives were asked for redirects that should be cached")
            return done

        questions.check(server.port)
        _closed_loop(server, questions, _REDIRECT_CONNECTIONS, setting.place)
        return {name: partial(turn, each) for name, each in lines.items()}

    starts = dict[str, Start]()
    for side in setting.sides:
        data = make_resolver(setting, side, archives)
        with side.serve("resolver", data) as server:
            warm(server.port, questions)
        starts[side.name] = partial(start, side, data)
    return starts


def hinted(setting: Setting) -> dict[str, Start]:
    """Items whose holder a hint tells, and first clicks on items whose prefix tells it; one Archive is asked."""
    known, by_prefix = Work(items=setting.scale(20, ITEMS, ITEMS)), Work("h", zipf=False)
    lines = {"hinted redirect": known, "first click, by prefix": by_prefix}
    return _among_archives(setting, lines, _READERS, known=known, most=1.2)


def fan_out(setting: Setting) -> dict[str, Start]:
    """Originals of items not requested before: all Archives are queried and awaited."""
    lines = {f"redirect for which {ARCHIVES} Archives are asked": Work(zipf=False, more=ORIGINAL)}
    return _among_archives(setting, lines, ROUNDS_AT_ONCE, most=1.05 * ARCHIVES)


def answers(setting: Setting) -> dict[str, Start]:
    """URL requests to an Archive, one after the other about another item."""
    sizes = {"small": setting.scale(100, 10_000, 10_000), "large": setting.scale(50, 2_000, 2_000)}
    files = {size: setting.place / f"{size}.jsonl" for size in sizes}
    for size, count in sizes.items():
        files[size].write_text("".join(f"{json.dumps(item(size, at))}\n" for at in range(count)))

    def start(side: Side, data: Mapping[str, Path], running: ExitStack) -> dict[str, Run]:
        servers = {size: running.enter_context(side.serve("archive", place)) for size, place in data.items()}

        def line(size: str, verb: str) -> Run:
            questions = url_requests(sizes[size], verb)
            questions.check(servers[size].port)
            run_once = partial(_closed_loop, servers[size], questions, _ANSWER_CONNECTIONS, setting.place)
            run_once()
            return run_once

        return {
            "URL request, small item": line("small", ITEM),
            "URL request, metadata of a large item": line("large", METADATA),
        }

    starts = dict[str, Start]()
    for side in setting.sides:
        data = {size: setting.folder(side) / size for size in sizes}
        for size, place in data.items():
            make_archive(side, place)
            side.run("archive", "import", "--data", place, files[size])
            side.run("archive", "index", "--data", place)
        starts[side.name] = partial(start, side, data)
    return starts


def pages(setting: Setting) -> dict[str, Start]:
    """The pages of items with the metadata of a report, one after the other, and the front page."""
    items = setting.scale(50, 2_000, 2_000)
    lines = {
        f"page of an item, of {items:,}": Questions(
            tuple(f"/-/item/{name_of(at)}" for at in range(items)), headers=TEN
        ),
        "front page": Questions(("/",), headers=TEN),
    }

    def start(side: Side, data: Path, running: ExitStack) -> dict[str, Run]:
        server = running.enter_context(side.serve("archive", data))
        runs: dict[str, Run] = {}
        for name, questions in lines.items():
            questions.check(server.port)
            runs[name] = partial(_closed_loop, server, questions, _ANSWER_CONNECTIONS, setting.place)
            runs[name]()
        return runs

    file = setting.place / "pages.jsonl"
    file.write_text("".join(f"{json.dumps(item('large', at))}\n" for at in range(items)))
    starts = dict[str, Start]()
    for side in setting.sides:
        data = setting.folder(side) / "pages"
        make_archive(side, data)
        side.run("archive", "set", "--data", data, "--page-rate", "0")
        side.run("archive", "import", "--data", data, "--format", "jsonl", file)
        side.run("archive", "index", "--data", data)
        starts[side.name] = partial(start, side, data)
    return starts


def minting(setting: Setting) -> dict[str, Start]:
    """Labels over HTTP, each durable before it is given, and many at once by the command line."""
    lines = {"label over HTTP, 100 a request": (8, 100), "label over HTTP, one a request": (32, 1)}
    many = setting.scale(1_000, 200_000, 200_000)

    def start(side: Side, data: Path, token: str, running: ExitStack) -> dict[str, Run]:
        server = running.enter_context(side.serve("mint", data, *MINT_OPTIONS))

        def turn(connections: int, count: int) -> Turn:
            request = post("/-/api/mint", json.dumps({"count": count}).encode(), f"Bearer {token}")
            watch = Watch(server)
            done = load(server.port, request, connections, setting.seconds / 2)
            given = sum(body.count(b'"rep"') for body in done.bodies)
            if given != count * len(done.bodies):
                raise NotStarted(f"{side.name}: {given} labels in {len(done.bodies)} answers of {count} each")
            return watch.turn(given, done.seconds)

        runs: dict[str, Run] = {name: partial(turn, *each) for name, each in lines.items()}
        for run_once in runs.values():
            run_once()
        words = ("mint", "--data", data.with_name("by-command"), *MINT_OPTIONS, "--count", str(many))
        return runs | {f"label by the command line, of {many:,}": partial(_command, side, many, words)}

    starts = dict[str, Start]()
    for side in setting.sides:
        data = setting.folder(side) / "mint"
        token = side.run("mint", "token", "--data", data, "--name", "bench").strip()
        starts[side.name] = partial(start, side, data, token)
    return starts


def importing(setting: Setting) -> dict[str, Start]:
    """Items taken in from JSON lines into an empty Archive; the start of the command is part of it."""
    sizes = {"small": setting.scale(100, 20_000, 20_000), "large": setting.scale(50, 4_000, 4_000)}
    for size, count in sizes.items():
        write_items(setting.place / size, size, count)

    def turn(side: Side, size: str) -> Turn:
        data = setting.folder(side) / "data"
        make_archive(side, data)
        words = ("archive", "import", "--data", data, "--format", "jsonl", setting.place / size)
        done = _command(side, sizes[size], words)
        shutil.rmtree(data)
        return done

    def start(side: Side, _running: ExitStack) -> dict[str, Run]:
        return {f"{size} item, of {count:,}": partial(turn, side, size) for size, count in sizes.items()}

    return {side.name: partial(start, side) for side in setting.sides}


def _closed_loop(server: Server, questions: Questions, connections: int, folder: Path) -> Turn:
    watch = Watch(server)
    rate = questions.closed_loop(server.port, connections, 1, folder)
    return watch.turn(rate, 1.0)


def _command(side: Side, count: int, words: Sequence[str | Path]) -> Turn:
    """A command of a side as a whole, on the core of the servers."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "ibi", *map(str, words)]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=side.env
    ) as process:
        complaints = process.stderr.read() if process.stderr else b""
        os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
        )  # what it used can be read until it is waited for
        seconds, held_up = time.perf_counter() - begun, _held_up(process.pid)
    if process.returncode:
        raise NotStarted(f"{side.name}: ibi {words[0]} failed: {complaints.decode(errors='replace')[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn(count, cost, seconds, held_up)


def _among_archives(
    setting: Setting, lines: Mapping[str, Work], readers: int, *, most: float, known: Work | None = None
) -> dict[str, Start]:
    """Resolvers of both sides among the same Archives; `known`: items that each learns about beforehand.

    `most`: how many Archives may be asked for a redirect on average, where the lines are what they are called.
    """
    archives = setting.stack.enter_context(stubs(ARCHIVES, setting.place))
    seeds = dict.fromkeys((side.name for side in setting.sides), 0)

    def start(side: Side, data: Path, scene: Scene, running: ExitStack) -> dict[str, Run]:
        scene.resolver = running.enter_context(side.serve("resolver", data))

        def turn(work: Work) -> Turn:
            seeds[side.name] += 1
            why = ""
            for _ in range(_TRIES):
                watch = Watch(scene.resolver)
                result = scene.play(work, setting.seconds / 2, readers, seeds[side.name])
                done = watch.turn(result.redirects, result.seconds)
                if result.queries <= most * result.redirects + ARCHIVES:
                    return done
                why = f"{side.name}: {result.queries} Archives were asked for {result.redirects} redirects"
            raise NotStarted(why)

        for work in lines.values():
            turn(work)
        return {name: partial(turn, work) for name, work in lines.items()}

    starts = dict[str, Start]()
    for side in setting.sides:
        data = make_resolver(setting, side, archives)
        with side.serve("resolver", data) as server:
            if known is not None:
                _learn(server, known)
        # One scene for all starts: it keeps which items have not been asked for yet.
        starts[side.name] = partial(start, side, data, Scene(ARCHIVES, archives, server))
    return starts


def _learn(resolver: Server, known: Work) -> None:
    """Ask for each of the items once: the resolver then has a hint of it."""
    with connection("127.0.0.1", resolver.port) as get:
        for number in range(known.items):
            get(f"/{item_of(number % ARCHIVES, number, known.letter)}", b"302")
    time.sleep(_PAUSE)


def make_archive(side: Side, data: Path) -> None:
    """An empty Archive."""
    side.run(
        *("archive", "init", "--data", data, "--address", "127.0.0.1", "--ip", "127.0.0.1", "--for-trying"),
        *("--service-ibi", SERVICE, "--key", _KEY, "--admin", "admin@archive.example"),
    )


def make_resolver(setting: Setting, side: Side, archives: Server, *more: str) -> Path:
    """A resolver that includes the scripted Archives: it mirrors them from a list, signed as a resolver signs it.

    `more`: further arguments of `ibi resolver init`.
    """
    data, listed = setting.folder(side) / "resolver", setting.place / "registry"
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    registry = {
        "kind": "ibi registry",
        "version": 1,
        "resolver": {"service": "J8LNKB5R7W/3FUQHC6", "address": "resolver.example"},
        "issued": now,
        "archives": [
            {
                "service_ibi": service_of(archive),
                "address": f"{ip_of(archive)}:{archives.port}",
                "url_hosts": [],
                "confirmed": True,
                "since": now,
            }
            for archive in range(ARCHIVES)
        ],
        "key": {"type": "Ed25519", "public": public},
    }
    signature = key.sign(_canonical(registry)).hex()
    listed.write_bytes(_canonical({"registry": registry, "signature": signature}) + b"\n")
    own = ("--address", "127.0.0.1", "--service-ibi", "J8LNKB5R7W/3FUQHC5", "--allow-private-archives")
    side.run("resolver", "init", "--data", data, *own, *more)
    side.run("resolver", "set", "--data", data, "request_rate", "0")
    side.run("resolver", "import-registry", "--data", data, listed, "--key", public)
    return data


def _canonical(value: object) -> bytes:
    """As RFC 8785 writes what has only ASCII texts, whole numbers and truth values in it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Row:
    """A row: `prepare` gives, for each side by its name, what starts its servers.

    `factor`: how many times as many turns are taken as of the others, where they are short.
    """

    prepare: Callable[[Setting], dict[str, Start]]
    factor: int = 1


ROWS: Final = {
    "redirect": Row(redirect),
    "hinted": Row(hinted, factor=2),
    "fan-out": Row(fan_out, factor=2),
    "answers": Row(answers),
    "pages": Row(pages),
    "minting": Row(minting),
    "import": Row(importing),
}
