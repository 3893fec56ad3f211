"""A form with files: its fields and files, what is refused and in which words, and the status of errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.accounts.forms import LONGEST_FIELDS, MOST_FIELDS, TOKEN, unreadable
from ibi.accounts.layout import Form
from ibi.archive.admin.forms import FormHandling, page_error
from ibi.errors import BadItem, Conflict, IbiError, LostState, NotHeld, PeerSilent, SetupError, Unsettled
from ibi.http.request import Request
from ibi.http.response import Refusal
from support.archive.archive_fixture import NewArchive

BOUNDARY = "b0undary"
SECRET = "t" * 64


def part(head: str, body: bytes = b"x", kind: str = "form-data") -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: {kind}; {head}\r\n\r\n".encode() + body + b"\r\n"


GOOD = part(f'name="{TOKEN}"', SECRET.encode())


def taken(archive: NewArchive, *parts: bytes, end: bytes = f"--{BOUNDARY}--\r\n".encode()) -> Form:
    """The form of these parts, as a page gets it. Raises what refuses it."""
    body = b"".join(parts) + end

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    def check(token: str) -> None:
        if token != SECRET:
            raise Refusal(403, IbiError("this form is of another session"))

    async def take() -> Form:
        headers = {
            b"content-type": f"multipart/form-data; boundary={BOUNDARY}".encode(),
            b"content-length": str(len(body)).encode(),
        }
        handling = FormHandling(archive.settings, archive.item_store, 64 << 20)
        async with handling.take(Request("POST", "/", "", headers), receive, check) as form:
            return Form(form.fields, dict(form.files), form.kept, form.problem)

    return asyncio.run(take())


def refusal(archive: NewArchive, *parts: bytes) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        taken(archive, *parts)
    assert list((archive.data / "staging").glob("*")) == []
    return refused.value.status, str(refused.value.why)


def test_fields_come_in_their_order_and_files_under_names_of_their_own(archive: NewArchive) -> None:
    form = taken(
        archive,
        GOOD,
        part('name="title"', "á\r\nb".encode()),
        part('name="file"; filename=""', b""),
        *(
            part(f'name="file"; filename="{name}"', name.encode())
            for name in ("a.txt", "C:\\x\\a.txt", "a.txt", ".x", ".x", "n")
        ),
        part('name="title"', b""),
    )
    assert (list(form.fields), form.problem) == ([(TOKEN, SECRET), ("title", "á\nb"), ("title", "")], None)
    assert [(name, file.size) for name, file in form.files.items()] == [
        ("a.txt", 5), ("a%20(2).txt", 10), ("a%20(3).txt", 5), (".x", 2), (".x%20(2)", 2), ("n", 1),
    ]  # fmt: skip


def test_a_form_that_cannot_be_is_refused_in_a_sentence(archive: NewArchive) -> None:
    none = unreadable()
    unclear = none.status, str(none.why)
    fields = [part('name="a"') for _ in range(MOST_FIELDS - 1)]
    assert len(taken(archive, GOOD, *fields).fields) == MOST_FIELDS
    for parts in (
        [GOOD, part('name="a"', kind="attachment")],
        [GOOD, part('filename="a"')],
        [GOOD, part('name="a"', b"\xff")],
        [GOOD, *fields, part('name="a"')],
    ):
        assert refusal(archive, *parts) == unclear
    space = LONGEST_FIELDS - len(SECRET)
    assert len(taken(archive, GOOD, part('name="a"', b"x" * space)).fields) == 2
    assert refusal(archive, GOOD, part('name="a"', b"x" * (space + 1))) == (
        413,
        "the texts of the form are too long",
    )
    other = 403, "this form is of another session"
    assert refusal(archive, part('name="a"')) == other
    # No file is kept for a form of another session, not even for a moment.
    assert refusal(archive, part('name="file"; filename="a.txt"'), GOOD) == other


def test_an_error_of_an_act_has_its_status_and_one_of_another_kind_has_none() -> None:
    errors = (NotHeld("x"), 404), (Unsettled("x"), 503), (Conflict("x"), 409), (PeerSilent("x"), 502)
    for error, status in errors:
        assert page_error(error) == (status, error, ())
    for other in (BadItem("x"), SetupError("x"), ValueError("x")):
        assert page_error(other) is None
    found = page_error(LostState("the file /x is gone"))
    assert found
    status, why, headers = found
    assert (status, str(why)) == (503, "no label can be given now; ask again later")
    assert headers == (("retry-after", "10"),)
