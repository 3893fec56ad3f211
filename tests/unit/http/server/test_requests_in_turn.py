"""How requests follow one another on a connection, and how it ends, second by second.

Nothing here is a socket, and the clock is false: forty seconds of silence take no time, and no play depends on chance.
"""

from __future__ import annotations

from support.servers.connection_plays import (
    FAST,
    FIRST_ID,
    HEAD_TOO_LONG,
    LARGEST,
    NOT_HTTP,
    TOO_LARGE,
    WAIT,
    Play,
    all_of,
    get,
    outcome,
    post,
)

A_TURN = " | ".join(f"302, from: /fast/{number}" for number in range(17))


@all_of(
    Play(
        "several pieces",
        (WAIT + FAST + post(3) + b"a", b"bc" + get("/wait/2"), FAST),
        "0 paused; 3 200, from: /wait/3; 3 resumed; 3 302, from: /fast; 3 paused; "
        "3 200, x-request-id: 0000000000000002, from: /a; 3 resumed; 3 paused; "
        "5 200, from: /wait/2; 5 resumed; 5 302, from: /fast; 25 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes; "
        "at once GET /fast of 192.0.2.7; app POST /a; 3 bytes; at once GET /wait/2 of 192.0.2.7; "
        "app GET /wait/2; 0 bytes; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "more than have a turn",
        (b"".join(get(f"/fast/{number}") for number in range(20)),),
        f"0 {A_TURN}; 0 paused; 0 resumed; 0 302, from: /fast/17 | 302, from: /fast/18 | 302, from: /fast/19; "
        "20 closed",
        "at once GET /fast/0 of 192.0.2.7; at once GET /fast/1 of 192.0.2.7; "
        "at once GET /fast/2 of 192.0.2.7; at once GET /fast/3 of 192.0.2.7; "
        "at once GET /fast/4 of 192.0.2.7; at once GET /fast/5 of 192.0.2.7; "
        "at once GET /fast/6 of 192.0.2.7; at once GET /fast/7 of 192.0.2.7; "
        "at once GET /fast/8 of 192.0.2.7; at once GET /fast/9 of 192.0.2.7; "
        "at once GET /fast/10 of 192.0.2.7; at once GET /fast/11 of 192.0.2.7; "
        "at once GET /fast/12 of 192.0.2.7; at once GET /fast/13 of 192.0.2.7; "
        "at once GET /fast/14 of 192.0.2.7; at once GET /fast/15 of 192.0.2.7; "
        "at once GET /fast/16 of 192.0.2.7; at once GET /fast/17 of 192.0.2.7; "
        "at once GET /fast/18 of 192.0.2.7; at once GET /fast/19 of 192.0.2.7",
    ),
    Play(
        "one byte after the other",
        (*(FAST[at : at + 1] for at in range(len(FAST) - 1)), FAST[-1:] + FAST),
        "0 302, from: /fast | 302, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "other targets",
        (FAST, get("/fast/1"), get("/fast", method="HEAD"), get("/slow", method="HEAD"), 0, get("/a b")),
        "0 302, from: /fast; 0 302, from: /fast/1; 0 302, from: /fast; 0 200, from: /slow; "
        f"0 {NOT_HTTP}; 0 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast/1 of 192.0.2.7; "
        "at once HEAD /fast of 192.0.2.7; at once HEAD /slow of 192.0.2.7; app HEAD /slow; "
        "0 bytes",
    ),
    Play(
        "a target with a control character",
        (FAST, get("/fast\x7f")),
        f"0 302, from: /fast; 0 {NOT_HTTP}; 0 closed",
        "at once GET /fast of 192.0.2.7",
    ),
    Play(
        "a target with a fragment",
        (FAST, get("/fast#x")),
        "0 302, from: /fast; 0 200, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; app GET /fast; 0 bytes",
    ),
    Play(
        "another version",
        (FAST, FAST.replace(b"HTTP/1.1", b"HTTP/1.0")),
        "0 302, from: /fast; 0 200, from: /fast, connection: close; 0 closed",
        "at once GET /fast of 192.0.2.7; app GET /fast; 0 bytes",
    ),
    Play(
        "another method",
        (FAST, FAST.replace(b"GET", b"PUT")),
        f"0 302, from: /fast; 0 200, {FIRST_ID}, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; app PUT /fast; 0 bytes",
    ),
    Play(
        "blank lines between",
        (FAST, b"\r\n", FAST + b"\r\n", FAST),
        "0 302, from: /fast; 0 302, from: /fast; 0 302, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "later, just before an idle connection would have ended",
        (FAST, 18.0, get("/later")),
        "0 302, from: /fast; 21 200, from: /later; 41 closed",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "one that is refused between others",
        (WAIT + get("/fast", "host: y") + FAST,),
        "0 paused; 3 200, from: /wait/3; 3 400, connection: close, the request must name one host; 3 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
    Play(
        "one that is too large before another",
        (post(LARGEST + 1) + FAST,),
        f"0 {TOO_LARGE}; 2 closed",
    ),
    Play(
        "declined ones between",
        (FAST, get("/slow"), 0, get("/slow"), 0, FAST, FAST),
        "0 302, from: /fast; 0 200, from: /slow; 0 200, from: /slow; 0 302, from: /fast; "
        "0 302, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes; "
        "at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes; at once GET /fast of 192.0.2.7; "
        "at once GET /fast of 192.0.2.7",
    ),
    Play(
        "other headers",
        (FAST, get("/fast", "a: b"), get("/fast", "a: b"), get("/x", "a: b", method="OPTIONS"), 0, FAST),
        "0 302, from: /fast; 0 302, from: /fast; 0 302, from: /fast; "
        f"0 200, {FIRST_ID}, from: /x; 0 302, from: /fast; 20 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7; "
        "at once GET /fast of 192.0.2.7; app OPTIONS /x; 0 bytes; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "repeated",
        (FAST, get("/fast/again"), get("/fast/again", method="HEAD"), get("/fast/\u00e9")),
        f"0 302, from: /fast; 0 303, from: /fast/again; 0 302, from: /fast/again; 0 {NOT_HTTP}; 0 closed",
        "at once GET /fast of 192.0.2.7; repeat /fast/again; "
        "at once HEAD /fast/again of 192.0.2.7; repeat /fast/Ã©",
        hooks=True,
    ),
    Play(
        "repeated after a head that is too long for it",
        (get("/fast", f"a: {'b' * 16_000}"), get(f"/fast/again/{'c' * 400}", f"a: {'b' * 16_000}")),
        f"0 302, from: /fast; 0 {HEAD_TOO_LONG}; 2 closed",
        "at once GET /fast of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "later, and one more",
        (FAST, get("/later"), 1.0, FAST),
        "0 302, from: /fast; 1 paused; 3 200, from: /later; 3 resumed; 3 302, from: /fast; 23 closed",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7; "
        "at once GET /fast of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "later, with one more in the same piece",
        (FAST, get("/later") + FAST, 1.0, FAST),
        "0 302, from: /fast; 0 paused; 0 200, from: /later; 0 resumed; 0 302, from: /fast; "
        "1 302, from: /fast; 21 closed",
        "at once GET /fast of 192.0.2.7; repeat /later HTTP/1.1\r\nhost: x\r\n\r\nGET /fast; "
        "at once GET /later of 192.0.2.7; app GET /later; 0 bytes; "
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "later twice",
        (FAST, get("/later"), 4.0, get("/later/2"), 4.0, FAST),
        "0 302, from: /fast; 3 200, from: /later; 7 200, from: /later/2; 8 302, from: /fast; 28 closed",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7; "
        "repeat /later/2; later /later/2 of 192.0.2.7; repeat /fast; later /fast of 192.0.2.7; "
        "at once GET /fast of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "never",
        (FAST, get("/later/never"), 1.0, FAST),
        "0 302, from: /fast; 1 paused; 3 200, from: /later/never; 3 resumed; 3 302, from: /fast; 23 closed",
        "at once GET /fast of 192.0.2.7; repeat /later/never; later /later/never of 192.0.2.7; "
        "app GET /later/never; 0 bytes; at once GET /fast of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "while answers are not taken",
        (FAST, "takes_nothing", FAST + FAST, 2.0, "takes_all"),
        "0 302, from: /fast; 0 paused; 2 resumed; 2 302, from: /fast | 302, from: /fast; 22 closed",
        "at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7; at once GET /fast of 192.0.2.7",
    ),
)
def test_how_requests_follow_one_another(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)


@all_of(
    Play(
        "the last request",
        (get("/fast", "connection: close"),),
        "0 200, from: /fast, connection: close; 0 closed",
        "app GET /fast; 0 bytes",
    ),
    Play(
        "the last request, answered before its body comes",
        (post(3, "/early", "connection: close"), 1.0, b"abc"),
        f"0 200, {FIRST_ID}, from: /early; 1 closed",
        "app POST /early",
    ),
    Play(
        "the last request, with a body",
        (post(3, "/wait/3", "connection: close"), 1.0, b"abc"),
        f"3 200, {FIRST_ID}, from: /wait/3; 3 closed",
        "app POST /wait/3; 3 bytes",
    ),
    Play(
        "no further request", (FAST, "ends"), "0 302, from: /fast; 0 closed", "at once GET /fast of 192.0.2.7"
    ),
    Play(
        "no further request while an answer is awaited",
        (WAIT + FAST, "ends"),
        "0 paused; 3 200, from: /wait/3; 3 resumed; 3 302, from: /fast; 3 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes; at once GET /fast of 192.0.2.7",
    ),
    Play(
        "no further request while a later answer is awaited",
        (FAST, get("/later"), "ends"),
        "0 302, from: /fast; 3 200, from: /later; 3 closed",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7",
        hooks=True,
    ),
    Play("the end in a head", (b"GET /", "ends"), "0 closed"),
    Play("the end in a body", (post(3), "ends"), "0 closed", "app POST /a; client gone at 0"),
    Play(
        "gone while an answer is awaited",
        (WAIT, 1.0, "goes"),
        "1 gone",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; client gone at 3",
    ),
    Play(
        "gone while a later answer is awaited",
        (FAST, get("/later"), "goes"),
        "0 302, from: /fast; 0 gone",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7",
        hooks=True,
    ),
    Play("gone in a body", (post(3), 1.0, "goes"), "1 gone", "app POST /a; client gone at 1"),
)
def test_how_a_client_ends_a_connection(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)


@all_of(
    Play("nothing has come", ("stop",), "1 closed"),
    Play(
        "answered",
        (get("/slow"), 0, "stop"),
        "0 200, from: /slow; 0.25 closed",
        "at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes",
    ),
    Play(
        "answered at once, and asks again",
        (FAST, "stop", 0.1, FAST),
        "0 302, from: /fast; 0.1 200, from: /fast, connection: close; 0.1 closed",
        "at once GET /fast of 192.0.2.7; app GET /fast; 0 bytes",
    ),
    Play(
        "something is on its way",
        (get("/slow"), 0, "has_sent", "stop", 0.6, "is_read"),
        "0 200, from: /slow; 0.75 closed",
        "at once GET /slow of 192.0.2.7; app GET /slow; 0 bytes",
    ),
    Play(
        "waits",
        (WAIT, 1.0, "stop"),
        "3 200, from: /wait/3, connection: close; 3 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
    Play(
        "waits for a later answer",
        (FAST, get("/later"), 1.0, "stop", FAST),
        "0 302, from: /fast; 1 paused; 3 200, connection: close, from: /later; 3 closed",
        "at once GET /fast of 192.0.2.7; repeat /later; later /later of 192.0.2.7",
        hooks=True,
    ),
    Play(
        "has half an answer",
        (get("/drip"), 1.0, "stop"),
        "0 200, from: /drip; 0 a; 3 b; 6.25 closed",
        "at once GET /drip of 192.0.2.7; app GET /drip",
    ),
    Play(
        "has sent half a body",
        (post(3), 1.0, "stop", 1.0, b"abc"),
        f"2 200, {FIRST_ID}, from: /a; 2 closed",
        "app POST /a; 3 bytes",
    ),
    Play(
        "has half an answer and sent half a body",
        (post(3, "/drip"), 1.0, "stop", 1.0, b"abc"),
        f"0 200, {FIRST_ID}, from: /drip; 0 a; 3 b; 6.25 closed",
        "app POST /drip",
    ),
    Play(
        "has sent half a head",
        (b"GET /fast HT", 1.0, "stop", 1.0, b"TP/1.1\r\nhost: x\r\n\r\n"),
        "2 200, from: /fast, connection: close; 2 closed",
        "app GET /fast; 0 bytes",
    ),
    Play(
        "has asked twice",
        (WAIT + FAST, 1.0, "stop"),
        "0 paused; 3 200, from: /wait/3, connection: close; 3 closed",
        "at once GET /wait/3 of 192.0.2.7; app GET /wait/3; 0 bytes",
    ),
    Play("comes now", (), "1 closed", stopping=True),
    Play(
        "comes now and asks",
        (0.9, post(3), 1.0, b"abc"),
        f"1.9 200, {FIRST_ID}, from: /a; 1.9 closed",
        "app POST /a; 3 bytes",
        stopping=True,
    ),
)
def test_how_a_service_that_stops_ends_a_connection(play: Play) -> None:
    assert outcome(play) == (play.seen, play.heard)
