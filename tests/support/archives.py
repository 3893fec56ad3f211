"""Archives that follow a script: real sockets on loopback, every request kept, and no good manners unless told so.

A `ScriptedArchive` answers the messages of the standard from a table. It can also be silent, refuse, reset, drip, or
tell one of the lies of `wire.LIES`. Whatever it is asked it writes down as it came over the wire; and should it hear
what no Archive may hear, it says so at once in `breaches`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import unquote_plus

from support.wire import LIES, answer

if TYPE_CHECKING:
    from collections.abc import Iterable

#: All a resolver may tell an Archive in headers, and in the pairs of a urlRequest (MSG-25, RES-03).
HEADERS = frozenset({"host", "user-agent", "accept", "accept-encoding", "connection", "cdn-loop"})
PAIRS = frozenset(
    {
        "servicesubject",
        "clientinformation.ipaddress",
        "parsedibiurl.ibi",
        "parsedibiurl.filepath",
        "parsedibiurl.verblist",
    }
)
#: A language range that the runner adds to every reader's preference. Nobody else could have made it up.
LANGUAGE_CANARY = "x-canari7"
REQUIRED_STATE = "requireditemstatus"

NOTICE = b"notice {acknowledgment received}"
CONFIRMATION = b"confirmation yes"

Question = tuple[str, tuple[str, ...], str]
"""(IBI in lower case, verbs, file path)."""


@dataclass(frozen=True)
class Told:
    """One request as it was received: `raw` is the whole head, `when` the time of the loop."""

    raw: bytes
    when: float

    @property
    def target(self) -> str:
        return self.raw.split(b" ", 2)[1].decode("latin-1")

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.raw.decode("latin-1").split("\r\n")[1:]
        return {
            name.lower(): value.strip() for name, colon, value in (x.partition(":") for x in lines) if colon
        }

    @property
    def pairs(self) -> dict[str, str]:
        """The decoded pairs; a plain "+" is a blank (MSG-07)."""
        fields = (pair.partition("=") for pair in self.query.split("&") if pair)
        return {unquote_plus(name): unquote_plus(value, "latin-1") for name, _, value in fields}

    @property
    def question(self) -> Question:
        pairs = self.pairs
        verbs = tuple(pairs.get("parsedibiurl.verblist", "").replace("+", " ").split())
        return pairs.get("parsedibiurl.ibi", "").lower(), verbs, pairs.get("parsedibiurl.filepath", "")


@dataclass(frozen=True)
class Conduct:
    """How an Archive answers one question, or (as its `manner`) all that the script does not mention.

    `after` and `drip` (between bytes) are in seconds of the loop. `lie` is a name of LIES, "silence", "reset" or None;
    `headers` are lines of an honest answer.
    """

    body: bytes = b""
    after: float = 0.0
    drip: float = 0.0
    lie: str | None = None
    headers: tuple[str, ...] = ()


@dataclass
class ScriptedArchive:
    """An Archive at `address` (a name of the play), whose service is `service`; it listens on `ip`."""

    name: str
    address: str
    service: str
    ip: str = "127.0.0.1"
    script: dict[Question, Conduct] = field(default_factory=dict)
    manner: Conduct = field(default_factory=Conduct)
    thanks: Conduct = field(default_factory=lambda: Conduct(NOTICE))
    breaches: list[str] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    closed_early: int = 0  # how often the other side left while an answer was due

    _server: asyncio.Server | None = None
    _absent: socket.socket | None = None
    _lines: dict[_Line, asyncio.Task[None]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Line(self), self.ip, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def be_absent(self) -> None:
        """Hold a port at which nothing listens: whoever connects is refused."""
        self._absent = socket.socket()
        self._absent.bind((self.ip, 0))
        self.port = self._absent.getsockname()[1]

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._absent is not None:
            self._absent.close()
        if self._server is not None:
            self._server.close()
        lines = list(self._lines)
        for line in lines:
            line.transport.abort()
        await asyncio.gather(*(line.gone.wait() for line in lines))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_up_all(self) -> None:
        """Close every connection, as a server does with those that are idle for long."""
        for line in list(self._lines):
            line.hang_up()

    def adopt(self, line: _Line) -> None:
        """A connection has come in."""
        task = asyncio.create_task(self._converse(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._lines[line] = task

    def let_go(self, line: _Line) -> None:
        """A connection is gone, perhaps while an answer was due."""
        self.closed_early += line.answering
        self._lines.pop(line).cancel()

    def requests(self, subject: str) -> list[Told]:
        """What it was told so far under this service subject."""
        return [told for told in self.told if told.pairs.get("servicesubject") == subject]

    @property
    def questions(self) -> list[Question]:
        return [told.question for told in self.requests("urlRequest")]

    @property
    def acknowledgments(self) -> list[dict[str, str]]:
        return [told.pairs for told in self.requests("acknowledgment")]

    async def _converse(self, line: _Line) -> None:
        """Hear and answer on one connection until one side has enough of it."""
        self.connections += 1
        try:
            while True:
                raw = await line.heads.get()
                told = Told(raw, asyncio.get_running_loop().time())
                self.told.append(told)
                self._listen_for_secrets(told)
                conduct = self._conduct(told)
                line.answering = True
                await self._say(conduct, line)
                line.answering = False
                if conduct.lie is not None:
                    return
        finally:
            line.hang_up()

    def _conduct(self, told: Told) -> Conduct:
        subject = told.pairs.get("servicesubject")
        if subject == "acknowledgment":
            return self.thanks
        if subject == "inclusionConfirmationRequest":
            return Conduct(CONFIRMATION)
        if told.target.partition("?")[0].lower() != "/" + self.service.lower():
            return Conduct(lie="status-404")
        return self.script.get(told.question, self.manner)

    def _listen_for_secrets(self, told: Told) -> None:
        """Nothing of the reader but the IP list, the IBI, the path and the verbs may arrive (RES-02, RES-03)."""
        strange = set(told.headers) - HEADERS
        if told.pairs.get("servicesubject") == "urlRequest":
            strange |= set(told.pairs) - PAIRS
            heard = told.raw.lower()
        else:  # the persistent URL is the chosen Archive's to know (note 8)
            heard = told.raw.lower().replace(_raw_pair(told, "url.persistent"), b"")
        if LANGUAGE_CANARY.encode() in heard:
            strange.add("language preference")
        if REQUIRED_STATE.encode() in heard:
            strange.add("required state")
        if strange:
            self.breaches.append(f"{self.name} was told of {', '.join(sorted(strange))}: {told.raw!r}")

    async def _say(self, conduct: Conduct, line: _Line) -> None:
        await asyncio.sleep(conduct.after)
        if conduct.lie == "silence":
            await asyncio.Event().wait()
        if conduct.lie == "reset":
            line.reset()
            return
        honest = [answer(conduct.body, "200 OK", "text/plain", *conduct.headers)]
        pieces: Iterable[bytes] = LIES[conduct.lie](conduct.body) if conduct.lie else honest
        for piece in pieces:
            if conduct.drip:
                for byte in piece:
                    line.write(bytes([byte]))
                    await asyncio.sleep(conduct.drip)
            else:
                line.write(piece)
                await asyncio.sleep(0)  # an endless lie leaves others their turn
                await line.room.wait()


class _Line(asyncio.Protocol):
    """One connection to a scripted Archive: `heads` are the requests; `gone` is set when it has ended."""

    def __init__(self, archive: ScriptedArchive) -> None:
        self._archive = archive
        self._heard = b""
        self.heads: asyncio.Queue[bytes] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.answering = False
        self.room = asyncio.Event()
        self.room.set()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._archive.adopt(self)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            head, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self.heads.put_nowait(head + b"\r\n\r\n")

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.gone.set()
        self.room.set()
        self._archive.let_go(self)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def hang_up(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        ours: socket.socket = self.transport.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _raw_pair(told: Told, name: str) -> bytes:
    found = next((pair for pair in told.query.split("&") if pair.startswith(f"{name}=")), "\0")
    return found.lower().encode("latin-1")


@dataclass
class Neighbourhood:
    """Archives at their places, and the names by which a client finds them. An async context manager."""

    archives: tuple[ScriptedArchive, ...]
    absent: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        for archive in self.archives:
            if archive.name in self.absent:
                archive.be_absent()
            else:
                await archive.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for archive in self.archives:
            await archive.close()

    async def names(self, host: str, _port: int) -> list[tuple[str, int]]:
        """What `ibi.transport.Client` asks: the places of a host. Raises OSError for hosts that are not here."""
        for archive in self.archives:
            if archive.address.partition(":")[0].lower() == host:
                return [(archive.ip, archive.port)]
        raise OSError(f"no such host here: {host}")
