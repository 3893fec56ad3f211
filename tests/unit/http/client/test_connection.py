"""One connection to a peer: when an answer is whole, when the connection is used again, and what its sender hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ibi.errors import PeerError
from ibi.http.client.connection import Connection, StaleConnection
from ibi.http.client.response import Reply, SharedState
from support.http_answers import answer

WHOLE = answer(b"url http://a.example/x")
LAST = answer(b"url http://a.example/x", "Connection: close")
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nurl http://a.example/x"
BODY = b"url http://a.example/x"
CUT = "the connection was closed before the end of the answer"
ENDED = "ended"
"""What is played: the connection was ended from here."""


class Transport(asyncio.Transport):
    """The near end of a connection; what was written, and whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = list[bytes]()
        self.ended = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended


class Sender:
    """What the sender of a request has heard."""

    def __init__(self) -> None:
        self.heard = list[str]()

    def end(self, outcome: Reply | PeerError) -> None:
        self.heard.append(outcome.body.decode() if isinstance(outcome, Reply) else str(outcome))

    def replace_connection(self) -> None:
        self.heard.append("again")


class OpenedConnection:
    """A connection, the near end, and how often it was told to be lost."""

    def __init__(self) -> None:
        self.lost = list[Connection]()
        self.near = Transport()
        self.connection = Connection("192.0.2.7", (2_048, 4_096), self.lost.append, SharedState())
        self.connection.connection_made(self.near)

    def ask(self) -> Sender:
        sender = Sender()
        self.connection.send(b"GET / HTTP/1.1\r\n\r\n", sender)
        return sender


def in_loop(play: Callable[[], None]) -> None:
    """Run a play in an event loop, which a connection belongs to."""

    async def main() -> None:
        play()

    asyncio.run(main())


Act = Callable[[Connection], object]
CLOSED: Act = lambda connection: connection.connection_lost(None)  # noqa: E731 - one word for an act
BROKEN: Act = lambda connection: connection.connection_lost(ConnectionResetError())  # noqa: E731 - the same
AT_ITS_END: Act = lambda connection: connection.eof_received()  # noqa: E731 - the same
ABORTED: Act = lambda connection: connection.abort()  # noqa: E731 - the same


@pytest.mark.parametrize(
    ("came", "acts", "heard"),
    [
        (UNTIL_CLOSE, [AT_ITS_END], BODY.decode()),
        (UNTIL_CLOSE, [AT_ITS_END, CLOSED], BODY.decode()),
        (UNTIL_CLOSE, [AT_ITS_END, BROKEN], BODY.decode()),
        (UNTIL_CLOSE, [BROKEN], CUT),
        # Ended from here: the other side has not said that nothing more would come.
        (UNTIL_CLOSE, [CLOSED], CUT),
        (UNTIL_CLOSE, [ABORTED, CLOSED], CUT),
        (WHOLE[:-1], [AT_ITS_END, CLOSED], CUT),
        (WHOLE[:-1], [CLOSED], CUT),
        (WHOLE[:-1], [BROKEN], CUT),
        (b"", [AT_ITS_END, CLOSED], CUT),
        (b"", [CLOSED], CUT),
    ],
)
def test_without_a_length_only_the_end_of_what_the_other_side_sends_makes_an_answer_whole(
    came: bytes, acts: list[Act], heard: str
) -> None:
    def play() -> None:
        line = OpenedConnection()
        sender = line.ask()
        if came:
            line.connection.data_received(came)
        assert sender.heard == []
        for act in acts:
            act(line.connection)
        assert sender.heard == [heard]

    in_loop(play)


@pytest.mark.parametrize("end", [CLOSED, BROKEN])
@pytest.mark.parametrize(("came", "heard"), [(b"", "again"), (WHOLE[:1], CUT), (WHOLE[:-1], CUT)])
def test_only_a_request_that_was_sent_over_a_used_connection_is_sent_again(
    came: bytes, heard: str, end: Act
) -> None:
    def play() -> None:
        line = OpenedConnection()
        line.ask()
        line.connection.data_received(WHOLE)
        sender = line.ask()
        if came:
            line.connection.data_received(came)
        end(line.connection)
        assert sender.heard == [heard]
        assert line.lost == [line.connection]
        assert line.connection.closed
        assert line.connection.gone.done()

    in_loop(play)


@pytest.mark.parametrize(
    ("came", "ended"),
    [(WHOLE, False), (LAST, True), (WHOLE + b"x", True), (WHOLE + WHOLE, True), (b"HTTP/1.0 204 No\r\n\r\n", True)],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_connection_is_used_again_after_one_whole_answer_that_lets_it(
    came: bytes, ended: bool, size: int
) -> None:
    def play() -> None:
        line = OpenedConnection()
        for _ in range(2):  # the second time, the answer is known by its bytes
            sender = line.ask()
            for start in range(0, len(came), size):
                line.connection.data_received(came[start : start + size])
            assert len(sender.heard) == 1
            assert line.near.ended is line.connection.closed is ended
            if ended:
                line = OpenedConnection()
        assert line.connection.consumer is None

    in_loop(play)


def test_bytes_that_answer_no_request_end_a_connection() -> None:
    def play() -> None:
        for before in ([], [WHOLE]):
            line = OpenedConnection()
            for each in before:
                line.ask()
                line.connection.data_received(each)
            assert not line.near.ended
            line.connection.data_received(b"x")
            assert line.near.ended

    in_loop(play)


def test_nothing_is_sent_over_a_connection_that_is_not_open() -> None:
    def refused(line: OpenedConnection) -> bool:
        sender = Sender()
        with pytest.raises(StaleConnection):
            line.connection.send(b"GET / HTTP/1.1\r\n\r\n", sender)
        return line.connection.consumer is None and not line.near.written and not sender.heard

    def play() -> None:
        not_made, closing, aborted, lost = (OpenedConnection() for _ in range(4))
        not_made.connection = Connection("192.0.2.7", (1, 1), not_made.lost.append, SharedState())
        not_made.connection.abort()  # which does nothing yet
        closing.near.ended = True
        aborted.connection.abort()
        lost.connection.connection_lost(None)
        assert [refused(each) for each in (not_made, closing, aborted, lost)] == [True] * 4
        assert [each.lost for each in (not_made, closing, aborted)] == [[]] * 3
        lost.connection.abort()
        assert not lost.near.ended, "it has ended already"

    in_loop(play)


def test_the_end_of_a_connection_for_which_no_client_waits_any_more_is_no_error() -> None:
    async def main() -> None:
        line = OpenedConnection()
        line.connection.gone.cancel()  # by who waited for it, and was cancelled
        line.connection.connection_lost(None)
        assert line.lost == [line.connection]

    asyncio.run(main())
