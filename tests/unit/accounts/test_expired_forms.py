"""A form that comes without a session is read within limits, and any bytes are a form, or none."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import MultipartParser

from ibi.accounts import forms
from ibi.accounts.forms import LONGEST_FIELDS, LONGEST_KEPT, MOST_FIELDS, packed, read_expired_form, unpacked
from ibi.http.request import ClientGone, Request
from ibi.http.response import Refusal

UNREADABLE = "the form cannot be read; open the page again and repeat it"

PIECES = st.sampled_from(
    [b"--x\r\n", b"--x--\r\n", b"\r\n", b"--", b"Content-Disposition: form-data; ", b'name="a"', b'name="password"',
     b'; filename="f"', b"filename*=utf-8''%ff", b"\r\n\r\n", b"text", b"\xff\xfe", b"\x00", b":", b"a" * 5000]
)  # fmt: skip


def read(pieces: list[bytes], kind: str = "multipart/form-data; boundary=x") -> Any:
    request = Request("POST", "/-/admin/deposit", "", {b"content-type": kind.encode()})
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        piece = left.pop(0) if left else b""
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return asyncio.run(read_expired_form(request, receive))


@given(st.lists(PIECES | st.binary(max_size=20), max_size=30))
def test_any_bytes_are_texts_or_nothing(pieces: list[bytes]) -> None:
    typed = read(pieces)
    assert typed is not None
    assert unpacked(packed(typed)) == typed
    assert not [name for name, _ in typed if "password" in name]


@given(st.text(max_size=60))
def test_any_boundary_is_one_or_none(boundary: str) -> None:
    kind = f"multipart/form-data; boundary={boundary}".encode("utf-8", "replace").decode("latin-1")
    assert read([b"--x\r\n\r\n"], kind) is not None


def test_texts_come_in_any_pieces() -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
    form = head % (b"a", b"") + b"one\r\ntwo\r\n" + head % (b"f", b'; filename="f"') + b"bytes\r\n"
    form += head % (b"form_token", b"") + b"t\r\n" + head % (b"b", b"") + "três".encode() + b"\r\n--x--\r\n"
    for size in (1, 7, len(form)):
        pieces = [form[begin : begin + size] for begin in range(0, len(form), size)]
        assert read(pieces) == (("a", "one\ntwo"), ("b", "três"))


def test_what_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    assert read([head, b"x" * LONGEST_KEPT, b"\r\n--x--\r\n"]) is None
    monkeypatch.setattr(forms, "LONGEST_EXPIRED", 100)
    assert read([head, b"x" * 101, b"\r\n--x--\r\n"]) is None


PART = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--x--\r\n'
URLENCODED = "application/x-www-form-urlencoded"


def test_what_is_just_short_enough_is_kept_and_read_again() -> None:
    longest = LONGEST_KEPT - len(packed((("a", ""),)))
    typed = (("a", "x" * longest),)
    assert read([PART % (b"a", b"x" * longest)]) == typed
    assert unpacked(packed(typed)) == typed
    assert read([PART % (b"a", b"x" * (longest + 1))]) is None
    assert unpacked(packed((("a", "x" * (longest + 1)),))) == ()


@pytest.mark.parametrize("more", [0, 1])
def test_a_form_is_read_up_to_its_longest_texts_and_no_further(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    body = PART % (b"password", b"x" * (LONGEST_FIELDS + more))
    assert read([body]) == (None if more else ())
    monkeypatch.setattr(forms, "LONGEST_EXPIRED", 1000 - more)
    file = PART.replace(b"\r\n\r\n", b'; filename="f"\r\n\r\n', 1)
    assert read([file % (b"f", b"x" * (1000 + len(b"%s%s") - len(file) - 1))]) == (None if more else ())


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"a=&b=1%C3%A9&password=p&new_password=q&form_token=t&token=u&key=k", (("a", ""), ("b", "1é"))),
        (b"form_token=%b" % (b"x" * (LONGEST_FIELDS - len("form_token="))), ()),
        (b"&".join([b"a=1"] * MOST_FIELDS), (("a", "1"),) * MOST_FIELDS),
    ],
)
def test_a_form_without_files_is_read_up_to_its_limits(body: bytes, found: Any) -> None:
    assert read([body], URLENCODED) == found


@pytest.mark.parametrize(
    ("body", "kind", "status", "sentence"),
    [
        (b"a=%b" % (b"x" * (LONGEST_FIELDS - 1)), URLENCODED, 413, "the texts of the form are too long"),
        (b"&".join([b"a=1"] * (MOST_FIELDS + 1)), URLENCODED, 400, UNREADABLE),
        (b"a=%ff", URLENCODED, 400, UNREADABLE),
        ("a=é".encode(), URLENCODED, 400, UNREADABLE),
        (b"a=1", "text/plain", 415, "this is not the form of this page; open the page again"),
    ],
)
def test_a_form_that_is_none_of_ours_is_refused(body: bytes, kind: str, status: int, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        read([body], kind)
    assert (refused.value.status, str(refused.value.why)) == (status, sentence)


@pytest.mark.parametrize("broken", [b"no boundary", b"--x\r\nA\x00: b\r\n\r\n--x--\r\n", b"--y--\r\n"])
def test_of_a_form_that_is_broken_nothing_is_kept(broken: bytes) -> None:
    assert read([broken]) == ()


@pytest.mark.parametrize("head", [b"", b"A:", b'Content-Disposition: form-data; name="f"; filename="f"'])
def test_a_form_of_very_many_parts_is_read_no_further_than_a_form_of_ours_goes(head: bytes) -> None:
    part = b"--x\r\n" + (head + b"\r\n" if head else b"") + b"\r\n\r\n"
    kept = [part] * MOST_FIELDS
    assert read([*kept, b"--x--\r\n"]) is not None
    assert read([*kept, part, b"--x--\r\n"]) is None
    request = Request("POST", "/", "", {b"content-type": b"multipart/form-data; boundary=x"})
    came = 0

    async def receive() -> dict[str, Any]:
        nonlocal came
        came += 1
        return {"type": "http.request", "body": part * MOST_FIELDS, "more_body": True}

    assert asyncio.run(read_expired_form(request, receive)) is None
    assert came == 2


def test_the_loop_has_its_turn_while_a_late_form_is_read() -> None:
    request = Request("POST", "/", "", {b"content-type": b"multipart/form-data; boundary=x"})
    threads = set[int]()
    write = MultipartParser.write

    def noting(self: MultipartParser, data: bytes) -> int:
        threads.add(threading.get_ident())
        return write(self, data)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"--x--\r\n"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultipartParser, "write", noting)
        asyncio.run(read_expired_form(request, receive))
    assert threads
    assert threading.get_ident() not in threads


def test_a_client_that_goes_away_meanwhile_is_gone() -> None:
    request = Request("POST", "/", "", {b"content-type": b"multipart/form-data; boundary=x"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        asyncio.run(read_expired_form(request, receive))
