"""Which reply is an answer, why another one is none, and how long an answer is reused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.errors import ParseError, PeerBusy, PeerGarbled, PeerSilent, QueryRefused
from ibi.http.client import Reply
from ibi.protocol.url_list import UrlList
from ibi.resolver.resolve.answer_reader import (
    LONGEST_LIFETIME,
    REFUSALS,
    body_of,
    failure_of,
    failure_of_status,
    lifetime,
)

if TYPE_CHECKING:
    from ibi.errors import IbiError

PLAIN = {b"content-type": b"text/plain"}


def reply(status: int = 200, headers: dict[bytes, bytes] | None = None) -> Reply:
    return Reply(status, PLAIN if headers is None else headers, b"a b", "192.0.2.1")


@pytest.mark.proves("MSG-10")
@pytest.mark.parametrize("kind", [b"text/plain", b"Text/Plain; charset=utf-8", b"text/plain ; x=y"])
def test_an_answer_has_the_status_200_and_is_plain_text(kind: bytes) -> None:
    assert body_of(reply(headers={b"content-type": kind})) == b"a b"


@pytest.mark.parametrize("headers", [{}, {b"content-type": b"text/html"}, {b"content-type": b"text/plainer"}])
def test_what_is_no_plain_text_is_no_answer(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(PeerGarbled, match=r"^the answer is not text/plain$"):
        body_of(reply(headers=headers))


@pytest.mark.parametrize("status", [100, 199, 201, 204, 302, 400, 404, 413, 414, 429, 431, 500, 502, 503])
def test_any_other_status_is_none_and_some_of_them_blame_the_query(status: int) -> None:
    with pytest.raises(PeerGarbled) as raised:
        body_of(reply(status))
    assert isinstance(raised.value, QueryRefused) == (status in REFUSALS)
    assert str(raised.value) == f"the answer has the status {status}"
    for refused in (False, True):
        why = failure_of_status(reply(status), refused=refused)
        assert isinstance(why, QueryRefused) == refused
        assert str(why) == f"the answer has the status {status}"


def test_a_status_with_a_moment_to_come_back_asks_for_a_pause_whomever_it_blames() -> None:
    for refused in (False, True):
        why = failure_of_status(reply(503, {b"retry-after": b"17"}), refused=refused)
        assert isinstance(why, PeerBusy)
        assert (why.seconds, str(why)) == (17, "it asks for a pause of 17 s")


def test_what_is_kept_of_a_fault_does_not_hold_the_whole_answer() -> None:
    silent = PeerSilent("no answer")
    assert failure_of(silent) is silent
    why: IbiError = failure_of(ParseError("pair list", "x" * 9, "a fault at {place}", 1, 2, place="7"))
    assert not isinstance(why, ParseError)
    assert str(why) == "the answer is not a pair list: a fault at 7"


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        (None, 0),
        (b"", 0),
        (b"max-age=0", 0),
        (b"max-age=1", 1),
        (b"public, MAX-AGE=60", 60),
        (b"max-age=60, public", 60),
        (b"max-age=3599", LONGEST_LIFETIME - 1),
        (b"max-age=3600", LONGEST_LIFETIME),
        (b"max-age=3601", LONGEST_LIFETIME),
        (b"s-maxage=60", 0),
        (b"max-age=x", 0),
        *[(b"max-age=60, " + never, 0) for never in (b"no-store", b"no-cache", b"Private")],
    ],
)
def test_an_answer_is_reused_for_its_max_age_if_acknowledgments_may_come_together(
    control: bytes | None, seconds: int
) -> None:
    headers = {} if control is None else {b"cache-control": control}
    for pairs, expected in (
        ({"acknowledgment.batch": "yes"}, seconds),
        ({"acknowledgment.batch": "no"}, 0),
        ({"state": "Copy"}, 0),
        ({}, 0),
    ):
        assert lifetime(reply(headers=headers), UrlList(dict(pairs))) == expected
