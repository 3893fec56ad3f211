"""The request for changes, its reply, and what an answer says of how long it holds (docs/standard/extensions.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.errors import ParseError, PeerSilent
from ibi.identifier.forms import parse_name
from ibi.protocol.extensions.changes import (
    LONGEST_VALIDITY,
    MOST_NAMES,
    MOST_RESTS,
    ChangesReply,
    ChangesRequest,
    Position,
    Validity,
)
from ibi.protocol.messages import read_request
from ibi.protocol.pair_list import PairList, read_pairs

WORD = "5d1e0c4b7a9f2368"
AFTER = "41.9f3c01d2aa07b6e4"
TO = "43.e2a4490c61bb07d5"
NAMES = ("8JMKD3MGP8W/35MMLL8", "dpi.inpe.br/banon/1998/08.02.08.56")

words = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)
positions = st.builds(Position, st.integers(0, 10**18 - 1), words).map(str)
names = st.lists(st.sampled_from([*NAMES, "6qtX3pFwXQZGivnJSY/M7t24", "LK47B6W/362SFKH"]), unique=True)


def test_the_example_of_the_extension_is_written_so() -> None:
    request = ChangesRequest(WORD, AFTER)
    assert request.query() == f"changes.after={AFTER}&changes.word={WORD}&servicesubject=changesRequest"
    assert read_request(request.query()) == request
    reply = ChangesReply(WORD, TO, NAMES)
    assert reply.body() == (
        b"changes.names {8JMKD3MGP8W/35MMLL8 dpi.inpe.br/banon/1998/08.02.08.56}\r\n"
        b"changes.to 43.e2a4490c61bb07d5\r\nchanges.word 5d1e0c4b7a9f2368"
    )
    assert ChangesReply.read(reply.body(), WORD) == reply
    assert Validity(AFTER, NAMES[:1]).pairs() == {"changes.asof": AFTER, "changes.rests": NAMES[:1]}


@given(words, st.just("") | positions)
def test_every_request_is_read_as_it_is_written(word: str, after: str) -> None:
    assert read_request(ChangesRequest(word, after).query()) == ChangesRequest(word, after)


@given(words, positions, st.none() | names.map(tuple), st.booleans())
def test_every_reply_is_read_as_it_is_written(
    word: str, to: str, given: tuple[str, ...] | None, later: bool
) -> None:
    reply = ChangesReply(word, to, given, more=later and given is not None)
    assert ChangesReply.read(reply.body(), word) == reply


@given(positions, names, st.integers(0, LONGEST_VALIDITY))
def test_every_validity_is_read_as_it_is_written(position: str, rests: list[str], seconds: int) -> None:
    validity = Validity(position, tuple(rests), seconds)
    assert Validity.of(validity.pairs()) == validity


@pytest.mark.parametrize(
    "query",
    [
        "servicesubject=changesRequest",
        "servicesubject=changesRequest&changes.word=",
        f"servicesubject=changesRequest&changes.word={WORD[1:]}",
        f"servicesubject=changesRequest&changes.word={WORD}0",
        f"servicesubject=changesRequest&changes.word={WORD.upper()}",
        f"servicesubject=changesRequest&changes.word={WORD}&changes.after=",
        f"servicesubject=changesRequest&changes.word={WORD}&changes.after=41",
        f"servicesubject=changesRequest&changes.word={WORD}&changes.after=041.{WORD}",
        f"servicesubject=changesRequest&changes.word={WORD}&changes.after={'1' * 19}.{WORD}",
        f"servicesubject=changesRequest&changes.word={WORD}&changes.after={AFTER}%20",
    ],
)
def test_a_malformed_request_is_refused(query: str) -> None:
    with pytest.raises(ParseError):
        read_request(query)


@pytest.mark.parametrize(
    "body",
    [
        "",
        f"changes.to {TO}",
        f"changes.word {WORD}",
        f"changes.word {WORD[::-1]} changes.to {TO}",
        f"changes.word {{{WORD} {WORD}}} changes.to {TO}",
        f"changes.word {WORD} changes.to 43",
        f"changes.word {WORD} changes.to {{}}",
        f"changes.word {WORD} changes.to {TO} changes.more no",
        f"changes.word {WORD} changes.to {TO} changes.anything no",
        f"changes.word {WORD} changes.to {TO} changes.anything yes changes.more yes",
        f"changes.word {WORD} changes.to {TO} changes.anything yes changes.names {NAMES[0]}",
        f"changes.word {WORD} changes.to {TO} changes.names nothing",
        f"changes.word {WORD} changes.to {TO} changes.names {{{' '.join([NAMES[0]] * (MOST_NAMES + 1))}}}",
    ],
)
def test_what_is_no_reply_to_this_request_is_refused(body: str) -> None:
    with pytest.raises(ParseError):
        ChangesReply.read(body.encode(), WORD)


def test_a_reply_may_have_as_many_names_as_are_allowed() -> None:
    body = f"changes.word {WORD} changes.to {TO} changes.names {{{' '.join([NAMES[0]] * MOST_NAMES)}}}"
    assert ChangesReply.read(body.encode(), WORD).names == (NAMES[0],) * MOST_NAMES


def test_names_are_compared_in_their_canonical_form() -> None:
    spelled = "Sid.Inpe.br/MTC-m21/2012/06.05.15.34.39"
    canonical = (parse_name(spelled).canonical,)
    body = f"changes.word {WORD} changes.to {TO} changes.names {spelled}".encode()
    assert ChangesReply.read(body, WORD).names == canonical
    assert Validity.of({"changes.asof": TO, "changes.rests": spelled}) == Validity(TO, canonical)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "changes.asof 43",
        f"changes.asof {{{TO} {TO}}}",
        f"changes.asof {TO} changes.rests nothing",
        f"changes.asof {TO} changes.rests {{{' '.join([NAMES[0]] * (MOST_RESTS + 1))}}}",
        f"changes.asof {TO} changes.seconds -1",
        f"changes.asof {TO} changes.seconds 1.5",
        f"changes.asof {TO} changes.seconds {{1 2}}",
        f"changes.asof {TO} changes.seconds 1000000000",
        f"changes.rests {NAMES[0]} changes.seconds 10",
    ],
)
def test_an_answer_without_a_sound_position_holds_as_any_other(text: str) -> None:
    assert Validity.of(read_pairs(text.encode())) is None


@pytest.mark.parametrize(
    ("given", "seconds"), [("0", 0), ("1", 1), ("86399", 86_399), ("86400", 86_400), ("86401", 86_400)]
)
def test_no_answer_holds_for_more_than_a_day(given: str, seconds: int) -> None:
    pairs: PairList = {"changes.asof": TO, "changes.seconds": given}
    assert Validity.of(pairs) == Validity(TO, (), seconds)


def test_an_answer_that_rests_on_too_much_says_no_position() -> None:
    assert Validity(TO, (NAMES[0],) * MOST_RESTS).pairs() == {
        "changes.asof": TO,
        "changes.rests": (NAMES[0],) * MOST_RESTS,
    }
    assert Validity(TO, (NAMES[0],) * (MOST_RESTS + 1)).pairs() == {}


def test_a_position_has_a_number_and_a_word() -> None:
    assert Position.parse(TO) == (43, "e2a4490c61bb07d5")
    assert str(Position.parse(TO)) == TO
    with pytest.raises(ParseError):
        Position.parse("43.E2A4490C61BB07D5")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_archive_that_cannot_reply_now_is_silent(status: int) -> None:
    with pytest.raises(PeerSilent, match=f"^it answered with status {status}$"):
        ChangesReply.of(status, b"", WORD)


def test_an_archive_that_does_not_know_the_request_is_none_that_replies() -> None:
    body = ChangesReply(WORD, TO).body()
    assert ChangesReply.of(200, body, WORD) == ChangesReply(WORD, TO)
    for status in (204, 302, 400, 404, 500):
        with pytest.raises(ParseError, match="this is not the reply that was expected"):
            ChangesReply.of(status, body, WORD)


def test_an_answer_may_rest_on_as_many_names_as_are_allowed() -> None:
    written = Validity(TO, (NAMES[0],) * MOST_RESTS)
    assert Validity.of(written.pairs()) == written
