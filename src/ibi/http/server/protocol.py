"""One connection of a client: uvicorn's protocol, with limits, a fast path, and a stop that loses no request.

Of uvicorn's `HttpToolsProtocol`, three things are used. The parser httptools calls its `on_...` methods with each
part of a request. It makes the ASGI scope, and the task in which the application answers (`cycle`). It pauses reading
and writing (`flow`). This class overrides these methods, which are internals: pyproject.toml admits tested versions.
What it adds, in the order in which a connection meets it (it never decides what is answered):

    bytes     Limits (T30). A head, and the body of a method that only reads, share one small limit and ten seconds.
              The body of a method that writes may be as large as its service allows, but must keep coming.
    head      The fast path: `at_once` of the service may answer, without task, scope and routing. If it declines, or
              if the request or its connection is unusual, the application gives the same answer.
    repeat    Most clients send the same headers again and again on a connection. A request that differs from the last
              one in its target only is not parsed, and `repeat` of the service may answer (T34: mixed-up answers).
    turns     Pipelining: a request is parsed after the one before it is answered; until then its bytes wait, and no
              more are read. Connections with waiting requests go on round-robin (`turns`, T30).
    stopping  Each answer says that it is the last (`Connection: close`). An idle connection stays open for a moment:
              its client may have sent a request already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.http.server import head as heads
from ibi.http.server.connections import TOO_MANY
from ibi.http.server.head import BLANK_LINE, REQUEST_ID, TARGET, Head, is_request_id
from ibi.http.server.later import AnsweringLater
from ibi.http.server.progress import BodyProgress, Progress, has_unread
from ibi.runtime.logging import request_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ibi.http.server.config import Answer

HEAD_BYTES = 16 * 1024
"""The longest request line and headers together; more is answered with 431."""
REQUEST_SECONDS = 10
"""How long a client may take to send a whole request, or the head of one whose body may be large."""
LINGER_SECONDS = 2
"""How long the rest of a refused body is read and dropped, so that the client comes to read the answer."""
MOST_PER_TURN = 16
"""How many waiting requests of a connection are answered before other connections have their turn."""
FIRST_REQUEST_SECONDS: Final = 1.0
"""How long a stopping service waits for a client that has connected and sent nothing yet."""
NEXT_REQUEST_SECONDS: Final = 0.25
"""How long a stopping service waits for a client that has been answered before."""

# Bytes of framing that an honest client may send for one byte of a chunked body; more counts as too long.
_CHUNK_FRAMING: Final = 8
_TOO_LARGE: Final = 413
_HEAD_TOO_LONG: Final = 431
_LATE: Final = "the request did not arrive in time"


class Protocol(AnsweringLater):
    """One connection; see above."""

    # The connection
    _timer: asyncio.TimerHandle | None = None  # ends the wait for a request, or the next second of a body
    _close_after_answer = False  # whether the answer under way is the last one
    _refused = False  # whether the bytes that come from now on are dropped

    # The request that is coming in
    _is_incomplete = False  # whether its first byte has come and its last one has not
    _received = 0  # bytes of it that have come; if its body is large, only those after the head
    _last_bytes = b""  # the last three of them
    _body_bytes: int | None = None  # bytes of its large body that have come; None while none is coming
    _body_progress: BodyProgress  # how fast its large body comes
    _body_left = 0  # bytes of its body that are still to come, if its head gives a length
    _answer: Answer | None = None  # the answer of `at_once`, if it gave one

    # Bytes that wait to be parsed (`_held`), in pieces no longer than one request; no more are read meanwhile
    _held_parsed = 0  # how many of them are parsed already
    _paused = False  # whether reading is paused because of `_held`
    _in_turn = False  # whether this connection has its turn, or waits for it among the `Turns`
    _begun_in_piece = 0  # how many requests have begun in the piece that is being parsed
    _answered_in_piece = 0  # how many of these were answered at once
    _unsent = b""  # their answers, not yet sent

    # The last plain request, whose bytes are not parsed again if only its target changes
    _repeat_tail = b""  # all of its bytes after the target
    _repeat_head: Head  # its headers
    _repeated_at = 0.0  # when such a request was last answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Refuse the connection if its client has too many; else wait for the first request."""
        super().connection_made(transport)
        self._progress = Progress(transport)
        self._peer = self.client[0] if self.client else ""
        if not self.config.connections.enter(self._peer):
            self._refused = True
            transport.write(TOO_MANY)
            transport.close()
            return
        self._wait()
        if self.config.stopping:
            self._wait_for_last_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every timer."""
        self._stop_waiting()
        self._held = b""
        self.config.connections.leave(self._peer)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract is wider than uvicorn's None
        """Send the answers that are ready; the client sends no more, but may wait for further answers."""
        self._flush()
        self._close_after_answer = True
        # uvloop reports the end even while reading is paused: requests before it are still answered.
        unanswered = bool(self._held) or not getattr(self.cycle, "response_complete", True)
        return self._body_bytes is None and unanswered

    def pause_writing(self) -> None:
        """Answer no repeated requests from now on: the client does not take its answers."""
        self._repeatable = False
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on with the requests that wait."""
        super().resume_writing()
        self._queue()

    def end_if_stuck(self, now: float) -> None:
        """Abort the connection if its client does not take its answers; called every few seconds (T30)."""
        if self._progress.is_stuck(now):
            self._progress.drop_unsent()
            self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing has come for a while."""
        # Answers to repeated requests do not move the timer, to save half a microsecond; they count here.
        left = self._repeated_at + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def data_received(self, data: bytes) -> None:
        """Answer a repeated request, or parse the bytes: now, or when all requests before are answered."""
        if self._repeatable:
            if data.endswith(self._repeat_tail) and self._answer_repeated(data):
                return
            self._repeatable = False
        if self._refused:
            return
        end = data.find(BLANK_LINE) + len(BLANK_LINE)
        if end < len(BLANK_LINE) or self._held or self._is_incomplete or not self._is_idle():
            self._hold(data)
        else:  # nearly always: one request, perhaps with its body
            self._parse(data[:end])
            rest = data[end:]
            if rest and len(rest) <= self._body_left:  # all of it belongs to the body of this request
                self._parse(rest)
            elif rest:  # another request may begin in it
                self._hold(rest)
            elif self._begun_in_piece == self._answered_in_piece == 1 and not self._is_incomplete:
                self._learn(data)
            if self._unsent:
                self._flush()
        self._declined = False

    def _parse(self, data: bytes) -> None:
        """Parse a piece, which reaches no further than the end of one head, or of one request."""
        self._begun_in_piece = self._answered_in_piece = 0
        self._received += len(data)
        super().data_received(data)
        if self._received and not self.transport.is_closing():
            self._last_bytes = (self._last_bytes + data[-3:])[-3:]
            more = 0 if self._body_bytes is None else _CHUNK_FRAMING * self._body_bytes
            if self._received > HEAD_BYTES + more:
                self._refuse(_HEAD_TOO_LONG, "the request is too long")
            elif self._timer is None:  # the request is incomplete; one that comes whole needs no timer
                self._wait()

    def _may_parse(self) -> bool:
        """Whether the next bytes may be parsed: all requests before are answered, or one is incomplete."""
        return self._is_incomplete or self._is_idle()

    def _hold(self, data: bytes) -> None:
        """Hold bytes until they may be parsed, which may be now; read no more until then. uvloop reads 256 KiB."""
        self._held += data
        if not self._in_turn and self._may_parse():
            self._in_turn = True
            self._take_turn()
        # Not by `flow`, which uvicorn resumes after each answer, and when an application reads a body.
        if self._held and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _queue(self) -> None:
        """Ask for a turn, if bytes wait that may be parsed now."""
        if self._held and not self._in_turn and self._may_parse():
            self._in_turn = True
            self._unset_keepalive_if_required()
            self.config.turns.add(self._take_turn)

    def _take_turn(self) -> None:
        """Parse held requests, MOST_PER_TURN at most; stop after the first that is not answered at once."""
        for _ in range(MOST_PER_TURN):
            if self._refused or self.transport.is_closing():
                self._release()
            if not self._held or not self._may_parse():
                break
            before = self._last_bytes if self._is_incomplete else b""
            begin = self._held_parsed
            self._held_parsed = heads.end_of_piece(self._held, begin, before, self._body_left)
            piece = self._held[begin : self._held_parsed]
            if self._held_parsed == len(self._held):
                self._release()
            self._parse(piece)
        self._flush()
        self._in_turn = False
        self._queue()

    def _release(self) -> None:
        """Hold no bytes any more; read on, unless the application pauses the reading of a body."""
        self._held, self._held_parsed = b"", 0
        if self._paused:
            self._paused = False
            if not (self.flow.read_paused or self.transport.is_closing()):
                self.transport.resume_reading()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent and not self.transport.is_closing():
            self.transport.write(unsent)

    # Requests like the one before

    def _learn(self, data: bytes) -> None:
        """Keep the bytes around the target of `data`, which was exactly one plain request."""
        lead = self.parser.get_method() + b" "
        if isinstance(self.headers, Head) and data.startswith(lead + self.url + b" HTTP/1.1\r\n"):
            self._repeat_tail, self._repeat_head = data[len(lead) + len(self.url) :], self.headers
            # Only if the next byte begins a request: otherwise bytes of a body could be taken for one (T34).
            at_rest = self._timer is None and self._body_bytes is None and not self._received
            self._repeatable = at_rest and not self._refused and self._is_idle()

    def _answer_repeated(self, data: bytes) -> bool:
        """Answer a request that differs from the last plain one only in its target; False if this is none."""
        config, head, answer = self.config, self._repeat_head, None
        if len(data) > HEAD_BYTES:
            return False
        if data.startswith(b"GET /"):
            method, target = b"GET", data[4 : -len(self._repeat_tail)]
            if config.repeat is not None:
                answer = config.repeat(target, head)
        elif data.startswith(b"HEAD /"):
            method, target = b"HEAD", data[5 : -len(self._repeat_tail)]
        else:
            return False
        if answer is None:
            # Only visible ASCII: a blank in the target could smuggle in a second request (T34: mixed-up answers).
            if (at_once := config.at_once) is None or target.translate(None, TARGET):
                return False
            if config.later is not None and method == b"GET" and self._answer_later(data, target, head):
                return True
            answer = at_once(method, target, head, self._peer)
        if answer is None:
            self._declined = True  # it would be declined again
            return False
        status, rest = answer
        # `Config.first_lines`, inlined because the requests of most readers come here (decision 0025).
        headers = self.server_state.default_headers
        known = config.known_first_lines.get(status) if config.first_lines_of is headers else None
        self.transport.write((known or config.first_lines(status, headers)) + rest)
        self._repeated_at = self.loop.time()
        return True

    def on_message_begin(self) -> None:
        """Begin another request."""
        self._is_incomplete = True
        self._begun_in_piece += 1
        super().on_message_begin()
        self.headers = self.scope["headers"] = Head()

    def on_headers_complete(self) -> None:
        """Let `at_once` or the application answer the request, unless its head or body is too large."""
        if not self.url.startswith(b"/"):
            self.url = heads.read_absolute_form(self.url, self.headers)
        by_name = dict(self.headers)
        unusual = len(by_name) < len(self.headers) or not heads.is_host(by_name.get(b"host", b","))
        if (unusual or self.parser.should_upgrade()) and (self.ignore_upgrade() or self._refuse_fault()):
            return
        given = by_name.get(REQUEST_ID, b"")
        self._answer = self._answer_at_once(by_name)
        if self._answer is not None:
            if given and is_request_id(given):
                # `_learn` learns no headers with an ID, since the next request has another one.
                self._answer = self._answer[0], b"%b: %b\r\n%b" % (REQUEST_ID, given, self._answer[1])
                self.headers = list(self.headers)
            return
        if self._received > HEAD_BYTES:  # no bytes of the body are counted: a piece ends where its head ends
            self._refuse(_HEAD_TOO_LONG, "the head of the request is too long")
            return
        largest = self.config.largest_body
        large = largest and self.parser.get_method() in heads.WRITING
        self._body_left = int(by_name.get(b"content-length", 0))  # httptools accepts one number only
        if large and self._body_left > largest:
            self._refuse(_TOO_LARGE, "the body of the request is too large")
            return
        name = given if is_request_id(given) else b"%016x" % next(self.config.request_numbers)
        token = request_id.set(name.decode())  # the task of the application begins with it
        super().on_headers_complete()
        request_id.reset(token)
        if name is given or self.parser.get_method() not in heads.READING:
            self.cycle.default_headers = [*self.cycle.default_headers, (REQUEST_ID, name)]
        self.headers = []  # httptools reports trailers like headers: they count for nothing (T24, T34)
        if large:
            self._begin_body()
        if self.config.stopping:
            self._make_last()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on, unless the body is too large."""
        self._body_left = max(0, self._body_left - len(body))  # 0 of a chunked body
        if self._refused or self.transport.is_closing():
            return
        if self._body_bytes is not None:
            self._body_bytes += len(body)
            if self._body_bytes > self.config.largest_body:
                self._refuse(_TOO_LARGE, "the body of the request is too large")
                return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Keep the answer for sending, or let the application go on: the request is complete."""
        self._is_incomplete = False
        if self._answer is not None:
            (status, rest), self._answer = self._answer, None
            self._stop_waiting()
            self._received = 0
            self._answered_in_piece += 1
            self._unsent += self.config.first_lines(status, self.server_state.default_headers) + rest
            self.on_response_complete()
            return
        if self._refused or self._without_upgrade:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._received, self._body_bytes = 0, None
        if not self.transport.is_closing():
            super().on_message_complete()
            if self._close_after_answer:
                self._close_if_last()

    def _refuse_fault(self) -> bool:
        """Refuse a head that is wrong; return whether it is."""
        if fault := heads.fault(self.headers, self.parser):
            self._refuse(400, fault)
        return bool(fault)

    def _answer_at_once(self, by_name: Mapping[bytes, bytes]) -> Answer | None:
        """Return the answer of `at_once` to a plain request; None for other requests, or if it declines."""
        at_once, method = self.config.at_once, self.parser.get_method()
        if (
            at_once is None
            or method not in heads.READING
            or self._declined
            or self._received > HEAD_BYTES
            or not self.url.startswith(b"/")
            or b"#" in self.url
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or not heads.UNUSUAL.isdisjoint(by_name)
            or not isinstance(self.headers, Head)
        ):
            return None
        return at_once(method, self.url, self.headers, self._peer)

    def _is_idle(self) -> bool:
        """Whether nothing else is under way on this connection, or waits to be sent."""
        idle: bool = getattr(self.cycle, "response_complete", True)
        return idle and not self.flow.write_paused and not self.transport.is_closing()

    def _begin_body(self) -> None:
        # Without keep-alive uvicorn closes after the answer, which may be before the body has come. The
        # unread bytes would make the system reset the connection, and the client would lose the answer.
        if not self.cycle.keep_alive:
            self.cycle.keep_alive, self._close_after_answer = True, True
        self._received, self._body_bytes = 0, 0
        self._body_progress = BodyProgress()
        self._stop_waiting()
        self._timer = self.loop.call_later(1, self._check_body)

    def _check_body(self) -> None:
        """Check once a second that the body keeps coming, while it is read."""
        self._timer = self.loop.call_later(1, self._check_body)
        # While the application does not read on, neither do we, and the client is not to blame.
        if self._body_bytes is None or self.flow.read_paused or self.cycle.waiting_for_100_continue:
            return
        if self._body_progress.is_too_slow(self._received, self._body_bytes):
            self._refuse(408, _LATE)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._refuse, 408, _LATE)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Answers

    def on_response_complete(self) -> None:
        """Go on after an answer: with the next request, the rest of a body, or the end of the connection."""
        super().on_response_complete()
        if self._held:
            self._queue()
        if self._body_bytes is not None and self.cycle.response_complete:
            self._linger()
        if self._close_after_answer:
            self._close_if_last()
        # An answer that began before the service stopped could not say that it was the last one.
        if self.config.stopping and not self.transport.is_closing() and self._is_at_rest():
            self._wait_for_last_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP."""
        self._flush()
        if self._is_answered():
            self.transport.close()
        elif not self._refused:
            super().send_400_response(msg)

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer with this status after the answers that are ready, and end the connection."""
        self._flush()
        if self._refused:
            return
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._is_answered():
            lingers = self.cycle.response_complete
        else:
            self.transport.write(heads.refusal(status, sentence))
            lingers = self._body_bytes is not None or status in {_TOO_LARGE, _HEAD_TOO_LONG}
        if not lingers:
            self.transport.close()
            return
        self._refused = True
        if self.cycle is not None:  # an application that reads the body must learn that no more will come
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._linger()

    def _is_answered(self) -> bool:
        """Whether the request that is coming in has (part of) an answer: another would be taken for the next one's."""
        # While a head comes in, `headers` is a `Head`.
        return self._is_incomplete and not isinstance(self.headers, Head) and self.cycle.response_started

    def _linger(self) -> None:
        """Read on for a moment: closing with unread bytes resets the connection, and the answer is lost."""
        self._stop_waiting()
        self.flow.resume_reading()
        self._release()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _close_if_last(self) -> None:
        if self._body_bytes is None and self.cycle.response_complete and not self._held:
            self._flush()
            self.transport.close()

    # Stopping

    def shutdown(self) -> None:
        """Make the answer under way the last one; give an idle connection a moment. uvicorn calls this once."""
        if self._is_at_rest():
            self._wait_for_last_request()
        elif self.cycle is not None:
            self._make_last()

    def _make_last(self) -> None:
        if self.cycle.response_started:
            return
        if self._body_bytes is None:
            self.cycle.keep_alive = False
        else:  # uvicorn would close before it has read to the end, and the answer would be lost
            self._close_after_answer = True

    def _is_at_rest(self) -> bool:
        return self._received == 0 and not self._held and getattr(self.cycle, "response_complete", True)

    def _wait_for_last_request(self) -> None:
        answered = hasattr(self.cycle, "response_complete")  # at the beginning there is no cycle
        seconds = NEXT_REQUEST_SECONDS if answered else FIRST_REQUEST_SECONDS
        self.loop.call_later(seconds, self._close_at_rest)

    def _close_at_rest(self) -> None:
        if self.transport.is_closing() or not self._is_at_rest():
            return
        if has_unread(self.transport):
            self._wait_for_last_request()
        else:
            self.transport.close()
