"""Short answers are taken apart once: what is known by its bytes is what the parser makes of them, and nothing else."""

from __future__ import annotations

import asyncio
from itertools import islice, pairwise
from typing import TYPE_CHECKING, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ibi.errors import PeerError
from ibi.http.client.connection import Connection
from ibi.http.client.cpu_budget import CpuBudget
from ibi.http.client.response import (
    LONGEST_INTERNED,
    LONGEST_INTERNED_BODY,
    MOST_INTERNED,
    InternedReplies,
    Reply,
    SharedState,
)
from support.http_answers import LIES, answer

if TYPE_CHECKING:
    from collections.abc import Sequence

Outcome = tuple[object, ...]
Script = list[tuple[bytes, list[int]]]

NOTHING = answer(b"")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HONEST = [
    NOTHING,
    answer(b"", "Date: Sun, 22 Nov 2026 09:00:00 GMT", kind="text/plain; charset=utf-8"),
    answer(b"", "Connection: close"),
    answer(b"", status="404 Not Found"),
    answer(b"notice {acknowledgment received}"),
    answer(b"url http://a.example/x\r\nstate Original"),
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-One: 1\r\nX-One: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Two: 2\r\n\r\n",
]
LYING = [b"".join(islice(lie(b"url http://a.example/x"), 3))[:8_000] for lie in LIES.values()]


@st.composite
def _spoilt(draw: st.DrawFn) -> bytes:
    """An answer of which a few bytes are others, more, or missing."""
    data = bytearray(draw(st.sampled_from(HONEST)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b"\r", b"\n", b"0", b":", b"\0", b" "])
        )
    return bytes(data)


ANSWERS = st.one_of(
    st.sampled_from(HONEST),
    st.sampled_from(HONEST),
    st.sampled_from(LYING),
    _spoilt(),
    st.tuples(st.sampled_from(HONEST), st.sampled_from([*HONEST, b"\r\n", b"\0", b"x"])).map(b"".join),
)
SCRIPTS = st.lists(st.tuples(ANSWERS, st.lists(st.integers(1, 400), max_size=3)), min_size=1, max_size=6)


class Forgetful(InternedReplies):
    """Has every answer taken apart, as if there were no memory."""

    def put(self, data: bytes, reply: Reply) -> None:
        """It is not kept."""


class RecordingTransport(asyncio.Transport):
    """The near end of a connection; what is written is discarded."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def write(self, _data: object) -> None:
        """It is sent."""

    def abort(self) -> None:
        """The connection ends."""
        self.ended = True

    def pause_reading(self) -> None:
        """Nothing waits here."""

    def resume_reading(self) -> None:
        """It goes on."""

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self.ended


class SingleOutcome:
    """A request that gets one outcome, once."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None

    def end(self, outcome: Reply | PeerError) -> None:
        """It has ended."""
        assert self.outcome is None
        self.outcome = tuple(outcome) if isinstance(outcome, Reply) else (type(outcome), str(outcome))

    def replace_connection(self) -> None:
        """It was closed before a word came."""
        assert self.outcome is None
        self.outcome = ("stale",)


def _open(shared: SharedState) -> tuple[Connection, RecordingTransport]:
    connection, line = Connection("192.0.2.7", (2_048, 4_096), lambda _: None, shared), RecordingTransport()
    connection.connection_made(line)
    return connection, line


def _pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def _play(interned: InternedReplies, script: Script) -> list[Outcome]:
    """Ask for each answer of a script over one connection, as long as it may be used, and then over another."""
    shared, outcomes = SharedState(), list[Outcome]()
    shared.interned = interned
    shared.cpu_budget = CpuBudget(
        lambda: 0.0
    )  # by a clock that stands still, every piece is parsed as it comes
    connection, line = _open(shared)
    for data, cuts in script:
        request = SingleOutcome()
        connection.send(b"GET / HTTP/1.1\r\n\r\n", request)
        for piece in _pieces(data, cuts):
            if not line.ended:
                connection.data_received(piece)
        whole = request.outcome is not None
        if not whole:
            connection.eof_received()
            connection.connection_lost(None)
        outcomes.append((*cast("Outcome", request.outcome), whole, line.ended))
        if line.ended or connection.closed:
            connection, line = _open(shared)
    assert not shared.unfinished
    return outcomes


@settings(max_examples=150, deadline=None)
@given(SCRIPTS)
@example([(CHUNKED + b"3\r\nabc\r\nzz", [])])  # what has come of it counts for no request when it is refused
def test_whatever_comes_is_the_same_answer_whether_it_was_seen_before_or_not(script: Script) -> None:
    async def main() -> None:
        parsed, interned = _play(Forgetful(), script), InternedReplies()
        assert _play(interned, script) == parsed
        assert _play(interned, script) == parsed  # all of it was seen now
        assert _play(interned, [(data, []) for data, _ in script]) == _play(
            Forgetful(), [(data, []) for data, _ in script]
        )

    asyncio.run(main())


def test_the_same_bytes_are_taken_apart_once_and_each_reply_names_its_own_peer() -> None:
    async def main() -> None:
        shared, replies = SharedState(), list[Reply]()

        class Collector(SingleOutcome):
            def end(self, outcome: Reply | PeerError) -> None:
                replies.append(cast("Reply", outcome))

        for peer in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
            connection = Connection(peer, (2_048, 4_096), lambda _: None, shared)
            connection.connection_made(RecordingTransport())
            for _ in range(2):
                connection.send(b"GET / HTTP/1.1\r\n\r\n", Collector())
                connection.data_received(NOTHING)
        assert [reply.peer for reply in replies] == [f"192.0.2.{last}" for last in (1, 1, 2, 2, 1, 1)]
        assert all(reply.headers is replies[0].headers for reply in replies)

    asyncio.run(main())


def test_only_few_and_short_answers_are_kept() -> None:
    interned = InternedReplies()
    interned.put(NOTHING, Reply(200, {}, b"", "192.0.2.7"))
    interned.put(b"long", Reply(200, {}, bytes(LONGEST_INTERNED_BODY + 1), "192.0.2.7"))
    interned.put(bytes(LONGEST_INTERNED + 1), Reply(200, {}, b"", "192.0.2.7"))
    assert interned.find(NOTHING) is not None
    assert interned.find(b"long") is None
    assert interned.find(bytes(LONGEST_INTERNED + 1)) is None
    for number in range(MOST_INTERNED):
        interned.put(b"%d" % number, Reply(200, {}, b"", "192.0.2.7"))
    assert interned.find(NOTHING) is None
    assert interned.find(b"%d" % (MOST_INTERNED - 1)) is not None
