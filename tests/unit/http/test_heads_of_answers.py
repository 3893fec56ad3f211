"""What goes out before a body, byte for byte; and what a client is told when a request fails."""

from __future__ import annotations

import errno
import io
import logging
import sqlite3
from dataclasses import fields

import pytest

from ibi.errors import IbiError, SetupError
from ibi.http.response import (
    HTML,
    LATER,
    NO_STORE,
    Refusal,
    Response,
    common,
    fault_refusal,
    link,
    pairs,
    redirect,
    visible,
)

ALWAYS = "x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\r\n"


@pytest.mark.parametrize(
    ("response", "head"),
    [
        (Response(200, b"12345", HTML), "content-type: text/html; charset=utf-8\r\ncontent-length: 5\r\n"),
        (Response(200, b"12345"), "content-length: 5\r\n"),
        (Response(204), ""),
        (Response(304, headers=(("etag", '"a"'),)), 'etag: "a"\r\n'),
        (Response(200, parts=iter(()), size=7), "content-length: 7\r\n"),
        (Response(200, file=io.BytesIO(b"x"), size=9, start=2), "content-length: 9\r\n"),
        (
            redirect("http://a.example/é?\u20ac \n", ("link", "<b>")),
            (
                "content-length: 0\r\nlocation: http://a.example/%E9?%E2%82%AC%20%0A\r\n"
                "cache-control: private, no-store\r\nlink: <b>\r\n"
            ),
        ),
        (
            pairs(b"a b\n"),
            (
                "content-type: text/plain\r\ncontent-length: 4\r\ncache-control: no-store\r\n"
                "x-robots-tag: noindex, nofollow\r\n"
            ),
        ),
        (
            pairs(b"", 429, LATER, cached="max-age=60"),
            (
                "content-type: text/plain\r\ncontent-length: 0\r\nretry-after: 10\r\ncache-control: max-age=60\r\n"
                "x-robots-tag: noindex, nofollow\r\n"
            ),
        ),
        (
            Response(
                200, headers=(("a", "1"), ("link", "<x>"), ("a", "2"), ("link", "<y>"), ("link", "<x>"))
            ),
            "content-length: 0\r\na: 1\r\nlink: <x>\r\nlink: <y>\r\n",
        ),
        (
            Response(200, headers=(("set-cookie", "a"), ("set-cookie", "b"), ("x", " ~é\x7f\ta"))),
            "content-length: 0\r\nset-cookie: a\r\nset-cookie: b\r\nx:  ~???a\r\n",
        ),
    ],
)
def test_heads(response: Response, head: str) -> None:
    assert response.whole() == (head + ALWAYS).encode() + response.body


def test_what_an_answer_says_before_those_of_all_answers_is_said() -> None:
    head = Response(200, headers=(("referrer-policy", "same-origin"),)).whole().decode()
    assert (
        head == "content-length: 0\r\nreferrer-policy: same-origin\r\nx-content-type-options: nosniff\r\n\r\n"
    )


def test_an_answer_has_nothing_but_its_status_unless_it_is_told() -> None:
    assert Response(204) == Response(204, b"", "", (), None, 0, None, 0, None)


def test_more_headers_change_nothing_else() -> None:
    whole = Response(
        206, b"b", "k", (("a", "1"),), io.BytesIO(), 5, afterwards=lambda: None, start=3, parts=iter(())
    )
    more = whole.having(("b", "2"), ("c", "3"))
    assert more.headers == (("a", "1"), ("b", "2"), ("c", "3"))
    for each in fields(Response):
        assert each.name == "headers" or getattr(more, each.name) is getattr(whole, each.name)


def test_statuses_of_redirects_and_what_follows_them() -> None:
    done: list[str] = []
    assert (redirect("/").status, pairs(b"").status) == (302, 200)
    other = redirect("/", status=303, afterwards=lambda: done.append("x"))
    assert (other.status, other.body, other.content_type) == (303, b"", "")
    assert other.afterwards is not None
    other.afterwards()
    assert done == ["x"]


def test_links() -> None:
    assert link("http://a/<b>", "next") == ("link", '<http://a/%3Cb%3E>; rel="next"')
    assert link("/é", "alternate", "pt-BR") == ("link", '</%E9>; rel="alternate"; hreflang="pt-BR"')


@pytest.mark.parametrize(
    ("url", "also", "written"),
    [
        ("!~", "", "!~"), ("", "", ""), (" \x7f", "", "%20%7F"), ("\xff\u0100", "", "%FF%C4%80"), ("\ud800", "", "%3F"),
        ("é!~", "", "%E9!~"), ("a<b", "<", "a%3Cb"), ("a<b", "", "a<b"), ("é<", "<", "%E9%3C"),
    ],
)  # fmt: skip
def test_urls_are_visible_ascii(url: str, also: str, written: str) -> None:
    assert visible(url, also) == written


def test_headers_that_never_change_are_sent_as_all_others() -> None:
    header = ("x-test", "é")
    assert common(header) == (header,)
    assert b"x-test: ?\r\n" in Response(200, headers=(header,)).whole()
    assert NO_STORE == (("cache-control", "no-store"),)


def caused(
    error: Exception, cause: BaseException | None = None, context: BaseException | None = None
) -> Exception:
    error.__cause__, error.__context__ = cause, context
    return error


FULL = OSError(errno.ENOSPC, "No space left on device")
NOT_NOW = "this server cannot answer now; try again later"


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(number, "x") for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)),
        caused(SetupError("x"), cause=FULL),
        caused(SetupError("x"), context=FULL),
        caused(SetupError("x"), cause=caused(ValueError("y"), context=FULL)),
    ],
)
def test_a_full_disk_is_told_as_one(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    refusal = fault_refusal(error)
    assert (refusal.status, str(refusal), refusal.headers, refusal.members) == (
        507,
        "the disk of this server takes no more at the moment",
        (),
        {},
    )
    assert caplog.messages == [f"the disk takes no more: {error}"]


def test_a_full_database_is_a_full_disk() -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    assert fault_refusal(error).status == 507
    error.sqlite_errorname = "SQLITE_BUSY"
    assert fault_refusal(error).status == 503


@pytest.mark.parametrize(
    ("error", "traced"), [(KeyError("a"), True), (IbiError("secret"), False), (OSError(errno.EIO, "x"), True)]
)
def test_of_any_other_fault_a_client_learns_nothing(
    error: Exception, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = fault_refusal(error)
    assert (refusal.status, str(refusal.why), refusal.headers) == (503, NOT_NOW, (LATER,))
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        f"a request could not be answered: {error}",
    )
    assert (record.exc_info is not None) is traced


def test_a_refusal_keeps_what_it_is_given() -> None:
    refusal = Refusal(422, IbiError("{name} is missing", name="a"), LATER, name="a")
    assert (refusal.status, str(refusal), refusal.headers, refusal.members) == (
        422,
        "a is missing",
        (LATER,),
        {"name": "a"},
    )
