"""The express lane: what can be answered without waiting is answered before any task, scope or routing exists.

The service decides on the raw request; what it declines, and all that is unusual about a request or its connection,
goes to the application as ever. Whoever asks cannot tell which of the two has answered.

Who asks several times on one connection sends the same head each time, but for the target. What a head means is found
out by httptools; where the very same bytes come again around another target, they mean the same, and need no second
look (threat T34). Whatever differs in a byte is taken apart anew. And where a target comes again within a head that is
known, the service is only asked whether it says the same again, to who sends this head.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ibi.serving import receiving

if TYPE_CHECKING:
    import asyncio


class Head(list[tuple[bytes, bytes]]):
    """The headers of a request, names in lower case; `known` is what the service found out about them, for itself."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__()
        self.known: object = None


Again = Callable[[Head], bool]
"""Whether an answer is given once more, to who sends these headers in a GET of the very same target."""

Answer = tuple[int, bytes, Again | None]
"""The status and the rest of an answer: header lines, an empty line, the body; and whether it may be kept at hand."""

AtOnce = Callable[[bytes, Head, str], Answer | None]
"""In: the target as it came, the headers, the address of who asks ("" where there is none). Out: the answer.
None: the application answers."""

MOST_AT_ONCE = 16
"""How many requests of those that came in together are answered before others have their turn."""

MOST_BYTES_AT_HAND: Final = 96 * 1024 * 1024
"""So many bytes a process keeps at hand, some 100,000 targets with their answers; what comes then is not kept."""

FULL_SECONDS: Final = 60.0
"""So long it stays as it is when it is full, then it begins anew: readers ask for other things after a while."""

_AROUND: Final = 450  # bytes that these take in memory besides
_UNUSUAL: Final = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
_VISIBLE: Final = bytes(range(0x21, 0x7F)).replace(b"#", b"")


class Config(receiving.Config):
    """uvicorn's configuration, and what answers without waiting, by method."""

    at_once: AtOnce | None = None
    at_once_head: AtOnce | None = None
    _dated: object = None  # the default headers that these leads were made with: others once a second
    _leads: dict[int, bytes]
    _bytes_at_hand = 0
    _full_until = 0.0  # by the monotonic clock; 0 while there is room

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.at_hand: dict[bytes, tuple[int, bytes, Again]] = {}
        """What was answered to GETs of these targets."""

    def keep(self, target: bytes, status: int, rest: bytes, again: Again) -> None:
        """Have an answer at hand for GETs of a target, if there is room."""
        before = self.at_hand.get(target)
        grown = _size(target, rest) - (_size(target, before[1]) if before else 0)
        if self._bytes_at_hand + grown > MOST_BYTES_AT_HAND:
            now = time.monotonic()
            self._full_until = self._full_until or now + FULL_SECONDS
            if now < self._full_until:
                return
            self.at_hand.clear()
            self._bytes_at_hand, self._full_until, grown = 0, 0.0, _size(target, rest)
        self._bytes_at_hand += grown
        self.at_hand[target] = status, rest, again

    def lead(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The status line, and the headers that every answer begins with."""
        if headers is not self._dated:
            self._dated, self._leads = headers, {}
        lead = self._leads.get(status)
        if lead is None:
            lines = (b"%b: %b\r\n" % header for header in headers)
            lead = self._leads[status] = b"".join((STATUS_LINE[status], *lines))
        return lead


def _size(target: bytes, rest: bytes) -> int:
    """What an answer at hand takes; the service remembers the target, too."""
    return 2 * len(target) + len(rest) + _AROUND


class Protocol(receiving.Protocol):
    """A connection some of whose requests the application never sees."""

    config: Config
    headers: list[tuple[bytes, bytes]]
    _ready: Answer | None = None  # the answer to the request that is coming in
    _given = 0  # how many of those that came in together have been answered here
    _begun = 0  # how many of them have begun
    _open = False  # whether one has begun, and its end has not come
    _declined = False  # whether the service has declined what is coming in
    _tail = b""  # what came behind the target of the last plain request, byte for byte
    _plain = False  # whether nothing but requests like that has come since, and all of them were answered
    _head: Head  # its headers
    _rested = 0.0  # when the last answer was given on the short way
    _unsent = b""
    _peer = ""  # the address of who asks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Somebody will ask."""
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self._plain:
            tail = self._tail
            if data.endswith(tail) and self._short_way(data, tail):
                return
            self._plain = False
        fresh = self._body is None and not self._open
        self._given = self._begun = 0
        super().data_received(data)
        self._declined = False
        self._send()
        if fresh and self._begun == self._given == 1 and not self._open:
            self._learn(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract is wider than uvicorn's None
        """The client will ask nothing more; what it was to be told goes out before the connection closes."""
        self._send()
        return super().eof_received()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, after the answers to what was."""
        self._send()
        super().send_400_response(msg)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing has come for a while, unless it was answered on the short way."""
        left = self._rested + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        """The client does not take what it is told."""
        self._plain = False
        super().pause_writing()

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._open = True
        self._begun += 1
        super().on_message_begin()
        self.headers = self.scope["headers"] = Head()

    def on_headers_complete(self) -> None:
        """Let the application begin, unless there is an answer already."""
        self._ready = self._answer_at_once()
        if self._ready is None:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Answer, or let the application go on."""
        self._open = False
        if self._ready is None:
            super().on_message_complete()
            return
        (status, rest, _), self._ready = self._ready, None
        self._stop_waiting()
        self._received = 0
        self._given += 1
        self._unsent += self.config.lead(status, self.server_state.default_headers) + rest
        self.on_response_complete()

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent and not self.transport.is_closing():
            self.transport.write(unsent)

    def _refuse(self, status: int, sentence: str) -> None:
        self._send()
        super()._refuse(status, sentence)

    def _asked_of(self, method: bytes) -> AtOnce | None:
        if method == b"GET":
            return self.config.at_once
        return self.config.at_once_head if method == b"HEAD" else None

    def _is_at_a_beginning(self) -> bool:
        """Whether what comes now begins a request: nothing of one has come in, no body is coming, nobody lingers."""
        at_rest = self._waiting is None and self._body is None and not self._received
        return at_rest and not self._open and not self._refused and self._is_idle()

    def _say(self, status: int, rest: bytes) -> None:
        self.transport.write(self.config.lead(status, self.server_state.default_headers) + rest)
        self._rested = self.loop.time()

    def _is_idle(self) -> bool:
        """Whether nothing else is under way on this connection, or waits to be sent."""
        cycle: RequestResponseCycle | None = self.cycle
        idle = cycle is None or cycle.response_complete
        return idle and not self.flow.write_paused and not self.transport.is_closing()

    def _answer_at_once(self) -> Answer | None:
        """The answer to a plain request on a connection where nothing else is under way."""
        ask = self._asked_of(self.parser.get_method())
        if (
            ask is None
            or self._declined
            or self._given >= MOST_AT_ONCE
            or self._received > receiving.HEAD_BYTES
            or not self.url.startswith(b"/")
            or b"#" in self.url
            or not self._is_idle()
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or any(name in _UNUSUAL for name, _ in self.headers)
            or not isinstance(self.headers, Head)
        ):
            return None
        return ask(self.url, self.headers, self._peer)

    # The short way

    def _learn(self, data: bytes) -> None:
        """These bytes were one plain request and nothing else: what stands around its target is known from now on."""
        lead = self.parser.get_method() + b" "
        if isinstance(self.headers, Head) and data.startswith(lead + self.url + b" HTTP/1.1\r\n"):
            self._tail, self._head = data[len(lead) + len(self.url) :], self.headers
            self._plain = self._is_at_a_beginning()

    def _short_way(self, data: bytes, tail: bytes) -> bool:
        """Answer what differs from the plain request before in nothing but the target; False where that is not so."""
        config = self.config
        if len(data) > receiving.HEAD_BYTES:
            return False
        if data.startswith(b"GET /"):
            target, ask = data[4 : -len(tail)], config.at_once
            kept = config.at_hand.get(target)
            if kept is not None and kept[2](self._head):
                self._say(kept[0], kept[1])
                return True
        else:
            target, ask = data[5 : -len(tail)], config.at_once_head if data.startswith(b"HEAD /") else None
        if ask is None or target.translate(None, _VISIBLE):  # such as a blank, or a second request
            return False
        answer = ask(target, self._head, self._peer)
        if answer is None:
            self._declined = True  # it would be declined again
            return False
        status, rest, again = answer
        if again is not None:
            config.keep(target, status, rest, again)
        self._say(status, rest)
        return True
