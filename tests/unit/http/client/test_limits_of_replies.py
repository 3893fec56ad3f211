"""Limits of answers and addresses, at their edge: what is still taken, and in which words one more is refused."""

from __future__ import annotations

from ibi.http.client.address_policy import HostPort
from ibi.http.client.response import MOST_HELD, ReplyParser, SharedState
from ibi.http.handle_records import WantedValues
from support.checks.limits import meet


def read(raw: bytes, head: int = 16_384, body: int = 100_000, unfinished: int = 0) -> None:
    """Parse an answer that must be whole; raise what it is refused for."""
    shared = SharedState()
    shared.unfinished = unfinished
    parser = ReplyParser(head, body, shared)
    parser.feed(raw)
    if parser.refusal is not None:
        assert shared.unfinished == unfinished
        raise parser.refusal
    assert parser.complete
    parser.take("127.0.0.1")
    assert shared.unfinished == unfinished


def with_length(size: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (size, b"x" * size)


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (body, trailers)


def test_lines_of_the_head_and_behind_the_body() -> None:
    refusal = "the answer has more than 128 lines of headers"
    meet(128, lambda lines: read(b"HTTP/1.1 204 No\r\n" + b"a: b\r\n" * lines + b"\r\n"), refusal)
    meet(128, lambda lines: read(chunked(trailers=b"a: b\r\n" * (lines - 1))), refusal)


def test_bytes_of_the_head() -> None:
    def take(size: int) -> None:
        begin = b"HTTP/1.1 204 No\r\na: "
        raw = begin + b"x" * (size - len(begin) - 4) + b"\r\n\r\n"
        shared = SharedState()
        parser = ReplyParser(100, 0, shared)
        parser.feed(raw[:-1])  # a head that is whole is not too long
        if parser.refusal is not None:
            raise parser.refusal

    meet(101, take, "the head of the answer is longer than 100 bytes")


def test_bytes_of_the_body_however_it_comes() -> None:
    refusal = "the answer is larger than 5000 bytes"
    meet(5000, lambda size: read(with_length(size), body=5000), refusal)
    meet(5000, lambda size: read(chunked(b"x" * size), body=5000), refusal)


def test_pieces_of_the_body() -> None:
    meet(1023, lambda count: read(chunked(*[b"x"] * count)), "the answer comes in too many pieces")


def test_while_too_much_is_held_only_small_answers_are_read() -> None:
    refusal = "too many large answers are coming in at once"
    meet(16_384, lambda size: read(with_length(size), unfinished=MOST_HELD), refusal)
    meet(20_000, lambda size: read(with_length(size), unfinished=MOST_HELD - 20_000), refusal)


def test_ports_and_hosts() -> None:
    wrong = "the address 'a.example:65536' has no valid port after the colon"
    meet(65_535, lambda port: HostPort.parse(f"a.example:{port}"), wrong)
    host = "a." * 126
    wrong = f"the address '{host}aa' is not a host with an optional port"
    meet(
        253, lambda length: HostPort.parse(host + "a" * (length - len(host))) if length > 252 else None, wrong
    )


def test_parts_of_a_query_for_records() -> None:
    meet(64, lambda count: WantedValues.read("&".join(["type=a"] * count)), "it has more than 64 parts")
