"""Many small honest Archives in one process: what they are asked is counted, and nothing else costs them anything.

    python -m bench.stubs ARCHIVES

They listen at one port of 127.20.0.1, 127.20.0.2, ...; each answers for its own items, with nine pairs, and says of all
others that it does not know them. The name of an item tells who holds it:

    h0007.example/b@80/2010/01.01.00.00.27      Archive 7, whose service has the same prefix
    n0007.example/b@80/2010/01.01.00.00.27      Archive 7 too, whose prefix tells nothing

Of 20 items, one migrates to the next Archive as soon as a GET of /-/migrated=copy (its giver keeps a Copy) or
/-/migrated=gone (it keeps nothing) is heard: those whose seconds are 7, 27 or 47. /-/announced=n,0,1000 has those among
the items of these numbers announced to the resolver, first by who has got one, then by who gave it away, as our own
Archives do. /-/hanging=20 makes so many Archives
silent, the first one and others at equal distances; /-/reuse=60 lets all answers be used again for so many seconds;
after /-/numbered=1 no two answers that an item is not known are alike, since each has a number in its head.
After /-/leased=1 they speak the extension of `bench.stub_changes`, after /-/notices=8080 they send notices to the
resolver at that port; then /-/change=ITEM has an item lead elsewhere. /-/part=1 ends all connections that are open.
/-/counts tells how many URL requests, acknowledgments and requests for changes have come, and counts anew; also how
many notices are still to be sent, and how many of all were refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

import uvloop

from bench.processes import LOAD_CORE, serving
from bench.stub_changes import LoggedArchive, notices_of, send_notice
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from support.http_answers import answer
from support.scripted_archive import NOTICE, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from bench.processes import Server

FIRST: Final = 1_262_304_000
"""2010-01-01: each item of an Archive is named a second after the one before."""

_MIGRATING = frozenset({7, 27, 47})  # seconds of the names
_READY = re.compile(r"ready (\d+)")
_QUERY_START = b"parsedibiurl.ibi="
_KEY = "1234567890-1234567890"


def ip_of(archive: int) -> str:
    """Where an Archive listens."""
    return f"127.20.{archive // 250}.{archive % 250 + 1}"


def service_of(archive: int) -> str:
    """The IBI of its service."""
    return f"h{archive:04}.example/b@80/2020/01.01.00.00"


def item_of(archive: int, number: int, kind: str = "n") -> str:
    """The name of one of its items."""
    return (
        f"{kind}{archive:04}.example/b@80/{time.strftime('%Y/%m.%d.%H.%M.%S', time.gmtime(FIRST + number))}"
    )


def query_of(item: str) -> str:
    """What a resolver asks every Archive about an item."""
    return UrlRequest(("127.0.0.1",), parse_ibi(item)).query()


def stubs(archives: int, folder: Path) -> AbstractContextManager[Server]:
    """So many Archives in a process of their own, on the core of the load."""
    command = ("taskset", "-c", str(LOAD_CORE), sys.executable, "-m", "bench.stubs", str(archives))
    return serving(command, folder / f"stubs-{archives}.log", _READY)


def tell(port: int, what: str) -> dict[str, int]:
    """Say something to the stubs behind a port, and take what they have counted so far; they count anew."""
    with urlopen(f"http://{ip_of(0)}:{port}/-/{what}", timeout=10) as answer:
        return dict(json.load(answer))


class _Stubs:
    """What all of them share."""

    def __init__(self, archives: int) -> None:
        self.archives = archives
        self.port = 0
        self.queries = self.acknowledged = self.requests = 0
        self.migrated = ""
        self.hanging = frozenset[int]()
        self.reuse = self.numbered = 0
        self.empty = answer(b"")
        self.notice = answer(NOTICE)
        self.around: dict[str, list[tuple[bytes, bytes]]] = {"Original": [], "Copy": []}
        self.servers: list[ScriptedServer] = []
        self.resolver = 0
        self.logged: list[LoggedArchive] = []
        self.announcing = self.refused = 0
        self._sending: set[asyncio.Task[None]] = set()

    def listen_at(self, port: int) -> None:
        """Take the port of all of them, which each answer names."""
        self.port = port
        self._prepare()

    def _prepare(self) -> None:
        """Everything of an answer but the name of the item, which has always the same length."""
        more = f"Cache-Control: max-age={self.reuse}\r\n" if self.reuse else ""
        batch = "acknowledgment.batch yes\r\n" if self.reuse else ""
        for state in self.around:
            self.around[state] = [
                self._around(archive, state, more, batch) for archive in range(self.archives)
            ]

    def _around(self, archive: int, state: str, more: str, batch: str) -> tuple[bytes, bytes]:
        lead = f"{batch}archiveaddress {ip_of(archive)}:{self.port}\r\ncontenttype Data\r\nibi {{rep "
        end = (
            f"}}\r\nibi.archiveservice {{rep {service_of(archive)}}}\r\nibi.platformsoftware {{}}\r\n"
            f"state {state}\r\ntimestamp 2021-01-01T00:00:00Z\r\nurl http://files.example/{archive:04}\r\n"
            f"urlkey {_KEY}"
        )
        size = len(lead) + len(item_of(0, 0)) + len(end)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n{more}\r\n"
        return (head + lead).encode(), end.encode()

    def answer(self, archive: int, request: bytes) -> bytes | None:
        """What an Archive says; nothing if it hangs."""
        at = request.find(_QUERY_START)
        if at < 0:
            return self._other(archive, request)
        self.queries += 1
        if archive in self.hanging:
            return None
        name = request[at + len(_QUERY_START) : request.find(b"&", at)]
        holder, state = int(name[1:5]), "Original"
        if self.migrated and int(name[-2:]) in _MIGRATING:
            if archive == holder:
                state = "Copy" if self.migrated == "copy" else ""
            else:
                holder = (holder + 1) % self.archives
        if archive != holder or not state:
            return self.empty if not self.numbered else _NUMBERED % self.queries
        if self.logged:
            return self.logged[archive].answer(name.decode())
        before, after = self.around[state][archive]
        return b"%b%b%b" % (before, name, after)

    def log_changes(self) -> None:
        """Have all answers live until something changes."""
        self.logged = [
            LoggedArchive(
                f"{ip_of(archive)}:{self.port}", service_of(archive), partial(self._notify, archive)
            )
            for archive in range(self.archives)
        ]

    def _notify(self, archive: int, query: str) -> None:
        self._send([(archive, query)])

    def _send(self, notices: Sequence[tuple[int, str]]) -> None:
        """Send these notices of Archives, one after the other."""
        self.announcing += len(notices)
        task = asyncio.get_running_loop().create_task(self._send_all(notices))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_all(self, notices: Sequence[tuple[int, str]]) -> None:
        for archive, query in notices:
            try:
                self.refused += not await send_notice(query, self.resolver, ip_of(archive))
            except OSError:
                self.refused += 1
            self.announcing -= 1

    def announce(self, letter: str, start: int, stop: int) -> None:
        """Announce those of these items that migrate."""
        got, given = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
        for number in range(start, stop):
            archive = number % self.archives
            name = item_of(archive, number, letter)
            if int(name[-2:]) in _MIGRATING:
                got[(archive + 1) % self.archives].append(name)
                given[archive].append(name)
        self._send(
            [
                (archive, notice)
                for each in (got, given)
                for archive, names in each.items()
                for notice in notices_of(service_of(archive), names)
            ]
        )

    def _other(self, archive: int, request: bytes) -> bytes:
        if b"servicesubject=acknowledgment" in request:
            self.acknowledged += 1
            return self.notice
        if b"servicesubject=changesRequest" in request:
            self.requests += 1
            return self.logged[archive].reply(request) if self.logged else _NOT_FOUND
        what, _, value = request.split(b" ", 2)[1].decode().removeprefix("/-/").partition("=")
        if what not in _ORDERS:  # such as whether it publishes a filter of its holdings
            return _NOT_FOUND
        counts = {"asked": self.queries, "acknowledged": self.acknowledged, "changes": self.requests}
        counted = json.dumps(counts | {"announcing": self.announcing, "refused": self.refused})
        self.queries = self.acknowledged = self.requests = 0
        self._obey(what, value)
        return answer(counted.encode())

    def _obey(self, what: str, value: str) -> None:
        if what in {"announced", "change"}:
            self._obey_about_items(what, value)
        elif what == "migrated":
            self.migrated = value
        elif what == "hanging":
            count = int(value)
            self.hanging = frozenset(range(0, self.archives, self.archives // count) if count else ())
        elif what == "reuse":
            self.reuse = int(value)
            self._prepare()
        elif what == "numbered":
            self.numbered = int(value)
        elif what == "leased":
            self.log_changes()
        elif what == "notices":
            self.resolver = int(value)
        elif what == "part":  # once this answer has left
            for server in self.servers:
                asyncio.get_running_loop().call_soon(server.hang_up_all)

    def _obey_about_items(self, what: str, value: str) -> None:
        if what == "change":
            self.logged[int(value[1:5])].change(value)
        else:
            letter, start, stop = value.split(",")
            self.announce(letter, int(start), int(stop))


_ORDERS = frozenset(
    "counts migrated hanging reuse numbered leased notices announced change part".split(),
)
_NUMBERED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Request-Id: %016d\r\nContent-Length: 0\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


async def _serve(archives: int) -> None:
    shared, port = _Stubs(archives), 0
    for archive in range(archives):
        server = ScriptedServer(partial(shared.answer, archive), ip_of(archive), port)
        await server.open()
        shared.servers.append(server)
        port = server.port
    shared.listen_at(port)
    print(f"ready {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as _runner:
        _runner.run(_serve(int(sys.argv[1])))
