"""The one scripted Archive of tests, proofs and benchmarks: a small HTTP server on loopback that does what data says.

`ScriptedServer` listens at one address. It passes the head of each request to a function and sends what that function
returns:

    bytes        the whole HTTP answer, sent at once (the fast path: nothing else is done for a request)
    Behaviour    how to answer: after how long, with what status and head, how slowly, with which fault
    None         no answer; the connection stays open

`ScriptedArchive` is such a server with a table: a `Behaviour` for each question of the standard, one for all other
questions, one for acknowledgments. It records each request as it came over the wire, and in `breaches` whatever no
Archive may be told. `ScriptedArchives` are several, and the names by which a client finds them.

There is no task for a connection: everything happens in callbacks of the event loop, so hundreds of Archives in one
process cost little, and nothing is left over when a test ends.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import unquote_plus

from support.http_answers import LIES, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
#: A language range that the runner adds to every reader's preference. No other client would make it up.
LANGUAGE_CANARY = "x-canari7"
REQUIRED_STATE = "requireditemstatus"

NOTICE = b"notice {acknowledgment received}"
CONFIRMATION = b"confirmation yes"

Question = tuple[str, tuple[str, ...], str]
"""(IBI in lower case, verbs, file path)."""

_END = b"\r\n\r\n"
_BACKLOG = 512
_NO_LINGER = struct.pack("ii", 1, 0)  # a socket closed with it sends RST instead of FIN


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How to answer one request.

    `after` and `drip` (between bytes) are in seconds of the loop. `lie` is a name of LIES, "silence", "reset" or None;
    `status` and `headers` (lines) are those of an honest answer. `pieces`, if given, are sent as they are, instead of
    all this; they may be without an end. The connection is closed afterwards if `closes`, and after every lie.
    """

    body: bytes = b""
    after: float = 0.0
    drip: float = 0.0
    lie: str | None = None
    headers: tuple[str, ...] = ()
    status: str = "200 OK"
    pieces: Iterable[bytes] | None = None
    closes: bool = False

    def to_send(self) -> Iterator[bytes]:
        """The bytes that go over the wire, in pieces."""
        if self.pieces is not None:
            pieces = self.pieces
        elif self.lie is not None:
            pieces = LIES[self.lie](self.body)
        else:
            pieces = (answer(self.body, *self.headers, status=self.status),)
        return (bytes((byte,)) for piece in pieces for byte in piece) if self.drip else iter(pieces)


Reply = bytes | Behaviour | None


class ScriptedServer:
    """Listens at `ip`; `port` is a free one where none is given, and kept when it stops and listens again.

    `reply` gets the head of each request, with the empty line that ends it. `connections` counts those that were
    ever made, `closed_early` those which the other side left while an answer was due.
    """

    def __init__(self, reply: Callable[[bytes], Reply], ip: str = "127.0.0.1", port: int = 0) -> None:
        self.reply = reply
        self.ip = ip
        self.port = port
        self.connections = 0
        self.closed_early = 0
        self._server: asyncio.Server | None = None
        self._absent: socket.socket | None = None
        self._open: set[_Connection] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._held_back: list[Callable[[], None]] | None = None

    async def open(self) -> None:
        """Listen."""
        bound = self._bound()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(partial(_Connection, self), sock=bound, backlog=_BACKLOG)

    def be_absent(self) -> None:
        """Hold a port at which nothing listens: a connection is refused."""
        self._absent = self._bound()

    def _bound(self) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((self.ip, self.port))
        self.port = bound.getsockname()[1]
        return bound

    def stop_listening(self) -> None:
        """Refuse new connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def still_open(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    @property
    def listening(self) -> bool:
        """Whether a connection can be made."""
        return self._server is not None

    def hold(self) -> None:
        """Begin no answer that is a `Behaviour` before `release`."""
        self._held_back = []

    def release(self) -> None:
        """Begin the answers that were held back."""
        held, self._held_back = self._held_back or [], None
        for begin in held:
            begin()

    def hold_back(self, begin: Callable[[], None]) -> bool:
        """Called by a connection: whether this answer begins later."""
        if self._held_back is None:
            return False
        self._held_back.append(begin)
        return True

    def hang_up_all(self) -> None:
        """Close every connection, as a server does with those that are idle for long."""
        for connection in list(self._open):
            connection.hang_up()

    def drop_all(self) -> None:
        """End every connection at once, with what it has not sent yet."""
        for connection in list(self._open):
            connection.drop()

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._absent is not None:
            self._absent.close()
        self.stop_listening()
        self.drop_all()
        await self._none_open.wait()

    def connected(self, connection: _Connection) -> None:
        """Called by a connection that was made."""
        self.connections += 1
        self._open.add(connection)
        self._none_open.clear()

    def disconnected(self, connection: _Connection, *, early: bool) -> None:
        """Called by a connection that has ended; `early` if an answer was due."""
        self.closed_early += early
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()


class _Connection(asyncio.Protocol):
    """One connection to a scripted server: requests are answered one after the other, in order."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._reply = server.reply
        self._unread = b""
        self._waiting: deque[bytes] = deque()  # heads of requests behind the one that is being answered
        self._behaviour: Behaviour | None = None  # of the request that is being answered
        self._pieces: Iterator[bytes] | None = None
        self._timer: asyncio.Handle | None = None
        self._paused = False
        self._due = False  # whether the client waits for an answer
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        self._server.connected(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._behaviour = self._pieces = None
        self._waiting.clear()
        self._server.disconnected(self, early=self._due)

    def data_received(self, data: bytes) -> None:
        if self._unread:
            data = self._unread + data
        # One whole request is what nearly always comes; it is not cut, which would copy it (0.3 us).
        if self._behaviour is None and data.find(_END) == len(data) - len(_END):
            self._unread = b""
            self._answer(data)
            return
        *heads, self._unread = data.split(_END)
        for head in heads:
            if self._behaviour is None:
                self._answer(head + _END)
            else:
                self._waiting.append(head + _END)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._pieces is not None and self._timer is None:
            self._pour()

    def hang_up(self) -> None:
        """End the connection once all is sent."""
        self._transport.close()

    def drop(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def _answer(self, head: bytes) -> None:
        reply = self._reply(head)
        if type(reply) is bytes:
            self._write(reply)
            return
        self._due = True
        if isinstance(reply, Behaviour) and reply.lie != "silence":
            self._behaviour = reply
            if not self._server.hold_back(self._wait):
                self._wait()

    def _wait(self) -> None:
        if self._behaviour is None:
            return  # the connection has ended meanwhile
        if self._behaviour.after:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._behaviour.after, self._begin, self._behaviour)
        else:
            self._begin(self._behaviour)

    def _begin(self, behaviour: Behaviour) -> None:
        self._timer = None
        if behaviour.lie == "reset":
            self._due = False
            ours: socket.socket = self._transport.get_extra_info("socket")
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.drop()
            return
        self._pieces = behaviour.to_send()
        self._pour()

    def _pour(self) -> None:
        """Send the next piece; the one after it in another turn of the loop, as an endless answer may not block it."""
        self._timer = None
        behaviour, pieces = self._behaviour, self._pieces
        if behaviour is None or pieces is None or self._paused or self._transport.is_closing():
            return
        piece = next(pieces, None)
        if piece is None:
            self._finish(behaviour)
            return
        self._transport.write(piece)
        loop = asyncio.get_running_loop()
        if behaviour.drip:
            self._timer = loop.call_later(behaviour.drip, self._pour)
        elif behaviour.pieces is None and behaviour.lie is None:
            self._finish(behaviour)  # an honest answer is one piece
        else:
            self._timer = loop.call_soon(self._pour)

    def _finish(self, behaviour: Behaviour) -> None:
        self._behaviour = self._pieces = None
        self._due = False
        if behaviour.closes or behaviour.lie is not None:
            self.hang_up()
            return
        while self._waiting and self._behaviour is None:
            self._answer(self._waiting.popleft())


@dataclass(frozen=True)
class ReceivedRequest:
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


class ScriptedArchive(ScriptedServer):
    """An Archive at `address` (a name of the play), whose service is `service`; it listens on `ip`.

    `script` is the behaviour for each question, `manner` that for all others, `on_acknowledgment` that for
    acknowledgments; all three may be changed while it is open. `received` are the requests it got, `breaches` what
    it should not have got.
    """

    def __init__(
        self,
        name: str,
        address: str,
        service: str,
        ip: str = "127.0.0.1",
        *,
        script: dict[Question, Behaviour] | None = None,
        manner: Behaviour | None = None,
    ) -> None:
        super().__init__(self._reply, ip)
        self.name = name
        self.address = address
        self.service = service
        self.script = script or {}
        self.manner = manner or Behaviour()
        self.on_acknowledgment = Behaviour(NOTICE)
        self.breaches: list[str] = []
        self.expected_headers = HEADERS
        self.received: list[ReceivedRequest] = []

    def requests(self, subject: str) -> list[ReceivedRequest]:
        """The requests so far under this service subject."""
        return [request for request in self.received if request.pairs.get("servicesubject") == subject]

    @property
    def questions(self) -> list[Question]:
        return [request.question for request in self.requests("urlRequest")]

    @property
    def acknowledgments(self) -> list[dict[str, str]]:
        return [request.pairs for request in self.requests("acknowledgment")]

    def _reply(self, head: bytes) -> Reply:
        request = ReceivedRequest(head, asyncio.get_running_loop().time())
        self.received.append(request)
        self._record_breaches(request)
        return self.behaviour_for(request)

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        """How this request is answered; what a subclass may decide otherwise."""
        subject = request.pairs.get("servicesubject")
        if subject == "acknowledgment":
            return self.on_acknowledgment
        if subject == "inclusionConfirmationRequest":
            return Behaviour(CONFIRMATION)
        if request.target.partition("?")[0].lower() != "/" + self.service.lower():
            return Behaviour(lie="status-404")
        return self.script.get(request.question, self.manner)

    def _record_breaches(self, request: ReceivedRequest) -> None:
        """Nothing of the reader but the IP list, the IBI, the path and the verbs may arrive (RES-02, RES-03)."""
        strange = set(request.headers) - self.expected_headers
        if request.pairs.get("servicesubject") == "urlRequest":
            strange |= set(request.pairs) - PAIRS
            received = request.raw.lower()
        else:  # the persistent URL is the chosen Archive's to know (note 8)
            received = request.raw.lower().replace(_raw_pair(request, "url.persistent"), b"")
        if LANGUAGE_CANARY.encode() in received:
            strange.add("language preference")
        if REQUIRED_STATE.encode() in received:
            strange.add("required state")
        if strange:
            self.breaches.append(f"{self.name} was told of {', '.join(sorted(strange))}: {request.raw!r}")


def _raw_pair(request: ReceivedRequest, name: str) -> bytes:
    found = next((pair for pair in request.query.split("&") if pair.startswith(f"{name}=")), "\0")
    return found.lower().encode("latin-1")


@dataclass
class ScriptedArchives:
    """Several, and the names by which a client finds them; `absent` ones refuse connections. A context manager."""

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
        """What `ibi.http.client.Client` asks: the places of a host. Raises OSError for hosts that are not here."""
        for archive in self.archives:
            if archive.address.partition(":")[0].lower() == host:
                return [(archive.ip, archive.port)]
        raise OSError(f"no such host here: {host}")
