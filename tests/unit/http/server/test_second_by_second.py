"""How long a client is waited for, and what comes of its heads and bodies, second by second.

Nothing here is a socket, and the clock is false: forty seconds of silence take no time, and no play depends on chance.
"""

from __future__ import annotations

import logging

import pytest

from ibi.http.server.protocol import HEAD_BYTES
from support.servers.connection_plays import (
    CHUNKED,
    FAST,
    FIRST_ID,
    HEAD_TOO_LONG,
    LARGEST,
    LATE,
    NOT_HTTP,
    TOO_LARGE,
    TOO_LONG,
    WAIT,
    Play,
    all_of,
    get,
    outcome,
    post,
)


@all_of(
    Play("nothing comes", (), f"10 {LATE}; 10 closed"),
    Play("half a head", (3.0, b"GET / HT"), f"10 {LATE}; 10 closed"),
    Play(
        "half of the second head",
        (FAST, 15.0, b"GET / HT", 1.0, b"TP/1.1\r\nho"),
        f"0 302, from: /fast; 25 {LATE}; 25 closed",
        "at once GET /fast of 192.0.2.7",
    ),
    Play(
        "half a head after the application",
        (get("/slow"), 15.0, b"GET / HT"),
        f"0 200, from: /slow; 25 {LATE}; 25 closed",
        "at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes",
    ),
    Play(
        "idle after a repeated request",
        (FAST, 15.0, FAST),
        "0 302, from: /fast; 15 302, from: /fast; 35 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "a small body that stops",
        (post(3), 1.0, b"a"),
        f"10 {LATE}; 10 closed",
        "app POST /a; client gone at 10",
        largest=0,
    ),
    Play(
        "a large body that stops",
        (post(LARGEST), 1.5, b"x"),
        f"12 {LATE}; 14 closed",
        "app POST /a; client gone at 12",
    ),
    Play(
        "a large body that drips",
        (post(LARGEST), *(0.999, b"x") * 70),
        f"61 {LATE}; 63 closed",
        "app POST /a; client gone at 61",
    ),
    Play(
        "a large body that is just fast enough",
        (post(LARGEST), *(0.999, b"x" * 1030) * 70, b"x" * (LARGEST - 70 * 1030)),
        f"69.93 200, {FIRST_ID}, from: /a; 89.93 closed",
        "app POST /a; 100000 bytes",
    ),
    Play(
        "a large body that is not read",
        (post(LARGEST, "/wait/70"), b"x" * 70_000, 20.0, b"x" * 30_000),
        f"0 paused; 70 resumed; 70 200, {FIRST_ID}, from: /wait/70; 90 closed",
        "app POST /wait/70; 100000 bytes",
    ),
    Play(
        "a body that is asked for late",
        (post(3, "/wait/30", "expect: 100-continue"), 31.0, b"abc"),
        f"30 100; 31 200, {FIRST_ID}, from: /wait/30; 51 closed",
        "app POST /wait/30; 3 bytes",
    ),
    Play(
        "answers that are not taken",
        (WAIT, "takes_nothing", *("look", 5.0) * 8),
        "30 what is unsent is dropped; 30 aborted; 35 what is unsent is dropped",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
    Play(
        "answers that are taken late",
        (WAIT, "takes_nothing", *("look", 5.0) * 5, "takes_all", *("look", 5.0) * 8),
        "25 200, from: /wait/3; 45 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
)
def test_how_long_a_client_is_waited_for(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)


@all_of(
    Play("announced as too large", (post(LARGEST + 1), 1.0, b"x" * 50_000), f"0 {TOO_LARGE}; 2 closed"),
    Play(
        "as large as it may be",
        (post(LARGEST), 1.0, b"x" * 50_000, 9.5, b"x" * 50_000),
        f"10.5 200, {FIRST_ID}, from: /a; 30.5 closed",
        "app POST /a; 100000 bytes",
    ),
    Play(
        "grown too large",
        (CHUNKED, b"186a0\r\n" + b"x" * LARGEST + b"\r\n", 1.0, b"1\r\nx\r\n", 1.0, b"0\r\n\r\n"),
        f"0 paused; 0 resumed; 1 {TOO_LARGE}; 3 closed",
        "app POST /a; client gone at 1",
    ),
    Play(
        "too much framing",
        (CHUNKED, *[b"1;" + b"x" * 8000 + b"\r\ny\r\n"] * 3),
        f"0 {TOO_LONG}; 2 closed",
        "app POST /a; client gone at 0",
    ),
    Play(
        "as much framing as there may be",
        (CHUNKED, b"1;" + b"x" * (HEAD_BYTES + 8 - 7) + b"\r\ny\r\n", b"0\r\n\r\n"),
        f"0 200, {FIRST_ID}, from: /a; 20 closed",
        "app POST /a; 1 bytes",
    ),
    Play(
        "a byte more of framing",
        (CHUNKED, b"1;" + b"x" * (HEAD_BYTES + 9 - 7) + b"\r\ny\r\n", b"0\r\n\r\n"),
        f"0 {TOO_LONG}; 2 closed",
        "app POST /a; client gone at 0",
    ),
    Play(
        "answered before it comes",
        (post(3, "/early"), 1.9, b"abc", 1.0, FAST),
        f"0 200, {FIRST_ID}, from: /early; 2.9 302, from: /fast; 22.9 closed",
        "app POST /early; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "answered and never whole",
        (post(3, "/early"), 1.9, b"ab"),
        f"0 200, {FIRST_ID}, from: /early; 2 closed",
        "app POST /early",
    ),
    Play(
        "answered, small and never whole",
        (get("/early", "content-length: 3", method="OPTIONS"), 1.9, b"ab"),
        f"0 200, {FIRST_ID}, from: /early; 12 closed",
        "app OPTIONS /early",
    ),
    Play(
        "half answered and never whole",
        (post(3, "/drip"),),
        f"0 200, {FIRST_ID}, from: /drip; 0 a; 3 b; 8 closed",
        "app POST /drip",
    ),
    Play("not HTTP", (CHUNKED + b"x\r\n",), f"0 {NOT_HTTP}; 0 closed", "app POST /a; client gone at 0"),
    Play(
        "answered and not HTTP",
        (get("/early", "transfer-encoding: chunked", method="POST"), 1.0, b"x\r\n"),
        f"0 200, {FIRST_ID}, from: /early; 1 closed",
        "app POST /early",
    ),
    Play(
        "half answered and not HTTP",
        (get("/drip", "transfer-encoding: chunked", method="POST"), 1.0, b"x\r\n"),
        f"0 200, {FIRST_ID}, from: /drip; 0 a; 1 closed",
        "app POST /drip",
    ),
    Play(
        "small",
        (post(3) + b"abc",),
        f"0 200, {FIRST_ID}, from: /a; 20 closed",
        "app POST /a; 3 bytes",
        largest=0,
    ),
    Play(
        "small where all are",
        (post(HEAD_BYTES), b"x" * HEAD_BYTES),
        f"0 200, {FIRST_ID}, from: /a; 20 closed",
        "app POST /a; 16384 bytes",
        largest=0,
    ),
    Play(
        "too long where all are small",
        (post(HEAD_BYTES + 1), b"x" * (HEAD_BYTES + 1)),
        f"0 200, {FIRST_ID}, from: /a; 20 closed",
        "app POST /a; 16385 bytes",
        largest=0,
    ),
    Play(
        "of a method that reads",
        (get("/fast", "content-length: 3") + b"abc" + FAST,),
        "0 paused; 0 200, from: /fast; 0 resumed; 0 302, from: /fast; 20 closed",
        "app GET /fast; 3 bytes; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "empty",
        (get("/fast", "content-length: 0") + FAST,),
        "0 paused; 0 200, from: /fast; 0 resumed; 0 302, from: /fast; 20 closed",
        "app GET /fast; 0 bytes; at once GET /fast of 192.0.2.7",
    ),
)
def test_what_becomes_of_a_body(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)


@all_of(
    Play("not HTTP", (b"hello\r\n\r\n",), f"0 {NOT_HTTP}; 0 closed"),
    Play(
        "not HTTP behind an answer",
        (FAST + b"hello\r\n\r\n",),
        f"0 302, from: /fast; 0 {NOT_HTTP}; 0 closed",
        "at once GET /fast of 192.0.2.7",
    ),
    Play(
        "not HTTP while an answer is awaited",
        (WAIT + b"hello\r\n\r\n",),
        f"0 paused; 3 200, from: /wait/3; 3 resumed; 3 {NOT_HTTP}; 3 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
    Play(
        "too long",
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * HEAD_BYTES, 1.0, b"b" * 1000),
        f"0 {TOO_LONG}; 2 closed",
    ),
    Play("as long as it may be and not whole", (b"GET /".ljust(HEAD_BYTES, b"a"),), f"10 {LATE}; 10 closed"),
    Play("one byte longer", (b"GET /".ljust(HEAD_BYTES, b"a"), 1.0, b"a"), f"1 {TOO_LONG}; 3 closed"),
    Play("too long in one piece", (get("/fast", f"a: {'b' * HEAD_BYTES}"),), f"0 {HEAD_TOO_LONG}; 2 closed"),
    Play(
        "too long before a body", (post(3, "/a", f"a: {'b' * HEAD_BYTES}"),), f"0 {HEAD_TOO_LONG}; 2 closed"
    ),
    Play(
        "two hosts",
        (get("/fast", "host: y"),),
        "0 400, connection: close, the request must name one host; 0 closed",
    ),
    Play(
        "no host",
        (b"GET /fast HTTP/1.1\r\n\r\n",),
        "0 400, connection: close, the request must name one host; 0 closed",
    ),
    Play(
        "two other headers of a name",
        (get("/fast", "a: b", "a: c"),),
        "0 302, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7",
    ),
    Play(
        "an absolute target",
        (get("http://y.example?q"),),
        "0 200, from: /; 20 closed",
        "at once GET /?q of 192.0.2.7; app GET /; 0 bytes",
    ),
    Play("a fragment", (get("/fast#a"),), "0 200, from: /fast; 20 closed", "app GET /fast; 0 bytes"),
    Play(
        "HTTP/1.0",
        (b"GET /fast HTTP/1.0\r\n\r\n",),
        "0 200, from: /fast, connection: close; 0 closed",
        "app GET /fast; 0 bytes",
    ),
    Play(
        "an offer of another protocol",
        (get("/fast", "connection: upgrade", "upgrade: h2c"),),
        "0 200, from: /fast; 20 closed",
        "app GET /fast; 0 bytes",
    ),
    Play(
        "an offer before a body",
        (post(3, "/a", "connection: upgrade", "upgrade: h2c") + b"abc" + FAST,),
        f"0 paused; 0 200, {FIRST_ID}, from: /a; 0 resumed; 0 302, from: /fast; 20 closed",
        "app POST /a; 3 bytes; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "another protocol with a body",
        (b"CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\ncontent-length: 3\r\n\r\nabc",),
        "0 400, connection: close, a request for another protocol must have no body; 0 closed; 0 paused",
    ),
    Play(
        "an ID of a request that reads",
        (
            get("/fast", "x-request-id: one"),
            get("/fast", "x-request-id: two"),
            get("/slow", "x-request-id: three"),
            0,
            get("/slow", "x-request-id: t/o"),
        ),
        "0 302, x-request-id: one, from: /fast; 0 302, x-request-id: two, from: /fast; "
        "0 200, x-request-id: three, from: /slow; 0 200, from: /slow; 20 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7; "
        "at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes; at once GET /slow of 192.0.2.7; "
        "app GET /slow; 0 bytes",
    ),
    Play(
        "an ID of a request that writes",
        (post(0, "/a", "x-request-id: one"), 0, post(0, "/a", "x-request-id: t/o"), 0, post(0)),
        f"0 200, x-request-id: one, from: /a; 0 200, {FIRST_ID}, from: /a; "
        "0 200, x-request-id: 0000000000000002, from: /a; 20 closed",
        "app POST /a; 0 bytes; app POST /a; 0 bytes; app POST /a; 0 bytes",
    ),
)
def test_what_becomes_of_a_head(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)


def test_what_is_wrong_with_a_request_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Any client can send it; what reads forms, and tells as much of it, is as quiet."""
    assert outcome(Play("not HTTP", (b"hello\r\n\r\n",), ""))[0] == f"0 {NOT_HTTP}; 0 closed"
    assert caplog.messages == []
    assert not logging.getLogger("python_multipart.multipart").isEnabledFor(logging.WARNING)
