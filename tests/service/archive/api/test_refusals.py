"""Every refusal of the JSON interface for items and uploads, whole: status, sentence and headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.api.bodies import LONGEST_JSON
from ibi.archive.operations import items
from support.archive.api_fixture import (
    BYTES,
    FORM,
    LARGEST,
    TITLE,
    Asking,
    asking,
    begun,
    brought,
    deposited,
    file_part,
    form,
    item_part,
    json_of,
    whole,
)
from support.archive.archive_fixture import GONE, WHEN, Answer, fill, make_archive

NO_STORE = {"cache-control": "no-store"}
WRONG = ("0", "501", "-1", "1e2", "0501", "٣")
TUS = {"tus-resumable": "1.0.0"}
MANY = "at most 1000 files are taken at a time"
REPLACEMENT = "replacement is the IBI of an item, or its persistent URL: there is no IBI in this text"
BROKEN = "the form is broken off, or not as multipart/form-data has to be"


@pytest.fixture(scope="module")
def api(stored_in: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:  # noqa: ARG001 - for each store
    """An Archive with items, which refuses whatever a test asks."""

    def make(address: str, **more: object) -> Any:
        archive = make_archive(tmp_path_factory.mktemp("refusing") / "archive", address, more)
        fill(archive)
        return archive

    with asking(make) as made:
        yield made


def refusal_of(answer: Answer) -> tuple[int, str, dict[str, str]]:
    """What a refusal says: its status, its sentence, and its headers besides those of every refusal."""
    usual = {"date", "server", "content-length", "content-type", "content-language", "vary", "connection"}
    headers = {name: value for name, value in answer.headers.items() if name not in usual}
    problem = json_of(answer)
    assert problem["status"] == answer.status
    return answer.status, problem["detail"], {name: headers[name] for name in headers if name in SHOWN}


SHOWN = (
    "cache-control",
    "retry-after",
    "tus-resumable",
    "tus-version",
    "upload-offset",
    "location",
    "etag",
    "accept",
)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        *((f"limit={text}", "limit is a whole number from 1 to 500") for text in WRONG),
        (f"after={'x' * 513}", "after is the name of an item"),
    ],
)  # fmt: skip
def test_a_page_of_items_that_cannot_be(api: Asking, query: str, sentence: str) -> None:
    assert refusal_of(api.ask("GET", f"/items?{query}".replace("٣", "%D9%A3"))) == (400, sentence, NO_STORE)


def test_the_longest_place_and_the_largest_page_are_given(api: Asking) -> None:
    assert json_of(api.ask("GET", f"/items?after={'z' * 512}&limit=500")) == {"items": []}
    assert len(json_of(api.ask("GET", "/items?limit=005"))["items"]) == 5


def test_what_was_removed_is_gone_for_every_request(api: Asking) -> None:
    sentence = f"{GONE} was removed on 2012-02-01T00:00:00Z"
    for method, path, value, scope in (
        ("GET", f"/items/{GONE}", None, Scope.READ),
        ("PATCH", f"/items/{GONE}", {"language": "pt"}, Scope.EDIT),
        ("DELETE", f"/items/{GONE}/files/a.txt", None, Scope.EDIT),
    ):
        answer = api.ask(method, path, value, scope, if_match="*")
        assert refusal_of(answer) == (410, sentence, NO_STORE)
        assert json_of(answer)["item"]["state"] == "Deleted"


@pytest.mark.parametrize(
    ("parts", "status", "sentence"),
    [
        ([item_part(TITLE), item_part(TITLE)], 422, "the part item is there twice"),
        ([file_part("a.txt"), file_part("a.txt")], 422, "the file a.txt is there twice"),
        ([(f'name="{"é" + "x" * 40}"', b"y")], 422, rf"the part \xc3\xa9{'x' * 32} is neither the item nor a file"),
        ([('filename="a.txt"', b"y")], 400,
         "every part of the form needs a name: Content-Disposition: form-data; name=…"),
        ([file_part("a.txt")], 422, "the form has no part item"),
        ([('name="item"', b" " * (LONGEST_JSON + 1))], 413,
         f"the part item is too long: at most {LONGEST_JSON} bytes are read"),
        ([item_part({"language": "pt"})], 422, "an item needs a file, a URL or metadata: give it at least a title"),
        ([item_part({**TITLE, "files": {}})], 422, "files come as parts of a form, or as uploads"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be(
    api: Asking, parts: list[tuple[str, bytes]], status: int, sentence: str
) -> None:
    found = refusal_of(api.ask("POST", "/items", form(*parts), Scope.DEPOSIT, content_type=FORM))
    assert found == (status, sentence, NO_STORE)
    assert api.staging == []


def test_a_form_that_is_none_or_broken_off(api: Asking) -> None:
    for kind, body, status, sentence in (
        ("multipart/form-data", b"x", 415, "the body must be JSON, or multipart/form-data with its boundary"),
        (f"multipart/form-data; boundary={'x' * 300}", b"x", 400, BROKEN),
        (FORM, b"x", 400, BROKEN),
        (FORM, form(file_part("a.txt"), end=b""), 400, BROKEN),
    ):
        found = refusal_of(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=kind))
        assert found[:2] == (status, sentence)


def test_a_thousand_files_and_no_more_are_taken_at_a_time(
    api: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert items.MOST_FILES == 1000
    uploads = dict.fromkeys((str(number) for number in range(1001)), "0" * 32)
    answer = api.ask("POST", "/items", {**TITLE, "uploads": uploads}, Scope.DEPOSIT)
    assert refusal_of(answer) == (413, MANY, NO_STORE)
    monkeypatch.setattr("ibi.archive.api.received_files.MOST_FILES", 1)
    answer = api.ask("POST", "/items", form(file_part("a"), file_part("b")), Scope.DEPOSIT, content_type=FORM)
    assert refusal_of(answer) == (413, "at most 1 files are taken at a time", NO_STORE)


def test_uploads_of_an_item_that_cannot_be(api: Asking) -> None:
    upload, short = whole(api, b"abc"), begun(api, 3).rpartition("/")[2]
    again = {"file.txt": upload, "other.txt": upload}
    incomplete = f"the upload {short} is not complete: 0 of 3 bytes have come"
    twice = form(item_part({**TITLE, "uploads": {"a.txt": upload}}), file_part("a.txt"))
    for body, kind, status, sentence in (
        ({**TITLE, "uploads": again}, "application/json", 422, "an upload becomes one file"),
        ({**TITLE, "uploads": {"a": short}}, "application/json", 409, incomplete),
        ({**TITLE, "uploads": {"a": "0" * 32}}, "application/json", 404, "there is no such upload"),
        (twice, FORM, 422, "the file a.txt is there twice"),
    ):
        found = refusal_of(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=kind))
        assert found == (status, sentence, NO_STORE)
    name = deposited(api)
    answer = api.ask("PATCH", name, {"uploads": {"a": upload}}, Scope.EDIT, if_match="*")
    assert refusal_of(answer) == (403, "uploads need a token with the scope deposit", NO_STORE)


@pytest.mark.parametrize("field", items.FOR_ADMINISTRATORS)
def test_what_only_an_administrator_gives(api: Asking, field: str) -> None:
    values = {"rep": "a.example/b/2016/01.01.00.00", "ibip": "LK47B6W/3P5GNKB", "timestamp": WHEN}
    found = refusal_of(api.ask("POST", "/items", {**TITLE, field: values.get(field, [])}, Scope.DEPOSIT))
    assert found == (403, f"only a token with the scope admin may give {field}", NO_STORE)


def test_edits_that_change_nothing_or_name_no_file(api: Asking) -> None:
    name = deposited(api, TITLE, ("a.txt", b"abc"))
    for method, path, value, status, sentence in (
        ("PATCH", name, {}, 422, "nothing to change was given: give a field or a file"),
        ("DELETE", f"{name}/files/b.txt", None, 404, f"{name.removeprefix('/items/')} has no such file"),
    ):
        assert refusal_of(api.ask(method, path, value, Scope.EDIT, if_match="*")) == (
            status,
            sentence,
            NO_STORE,
        )
    found = refusal_of(
        api.ask("DELETE", f"{name}?reason=x&replacement=no+name", None, Scope.DELETE, if_match="*")
    )
    assert found == (422, REPLACEMENT, NO_STORE)
    assert refusal_of(api.ask("PATCH", name, {"language": "pt"}, Scope.EDIT)) == (
        428, "say which state of the item is meant: If-Match with its ETag, or with *", NO_STORE,
    )  # fmt: skip


def test_the_key_of_a_deposit_that_is_too_long_or_used_for_another(api: Asking) -> None:
    found = refusal_of(api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="x" * 256))
    assert found == (400, "Idempotency-Key is a short printable text", NO_STORE)
    first = api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="x" * 255)
    assert first.status == 201
    name = first.headers["location"].removeprefix("/-/api/items/")
    other = api.ask("POST", "/items", {**TITLE, "language": "pt"}, Scope.DEPOSIT, idempotency_key="x" * 255)
    problem = f"this request has already created {name}; another item needs a request, or a form, of its own"
    assert refusal_of(other) == (422, problem, NO_STORE)
    assert api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="x" * 255).status == 200


@pytest.mark.parametrize(
    ("headers", "status", "sentence", "more"),
    [
        ({"upload_length": "x"}, 400, "Upload-Length must be a whole number", {}),
        ({}, 400, "Upload-Length must be a whole number", {}),
        ({"upload_length": "9" * 19}, 400, "Upload-Length must be a whole number", {}),
        ({"upload_length": "9" * 18}, 413, f"an upload may have at most {LARGEST} bytes", {}),
        ({"upload_length": str(LARGEST + 1)}, 413, f"an upload may have at most {LARGEST} bytes", {}),
        ({"upload_length": "1", "upload_metadata": "x" * 2049}, 400, "Upload-Metadata is a short printable text", {}),
        ({"upload_length": "1", "upload_metadata": "x\ty"}, 400, "Upload-Metadata is a short printable text", {}),
        ({"upload_length": "1", "tus_resumable": "0.2.2"}, 412, "only version 1.0.0 of tus is understood here",
         {"tus-version": "1.0.0"}),
    ],
)  # fmt: skip
def test_an_upload_that_cannot_be_begun(
    api: Asking, headers: dict[str, str], status: int, sentence: str, more: dict[str, str]
) -> None:
    found = refusal_of(api.ask("POST", "/uploads", None, Scope.DEPOSIT, **headers))
    assert found == (status, sentence, NO_STORE | TUS | more)


def test_bytes_of_an_upload_that_cannot_come(api: Asking) -> None:
    path = begun(api, 3)
    assert brought(api, path, 0, b"a").status == 204
    for offset, kind, status, sentence, more in (
        ("0", BYTES, 409, "the upload goes on at 1", {"upload-offset": "1"}),
        ("2", BYTES, 409, "the upload goes on at 1", {"upload-offset": "1"}),
        ("x", BYTES, 400, "Upload-Offset must be a whole number", {}),
        ("1", "text/plain", 415, f"the body must be {BYTES}", {}),
    ):
        headers = {"upload_offset": offset, "content_type": kind, "tus_resumable": "1.0.0"}
        found = refusal_of(api.ask("PATCH", path, b"bc", Scope.DEPOSIT, **headers))
        assert found == (status, sentence, NO_STORE | TUS | more)
    for method in ("PATCH", "DELETE"):
        headers = {"tus_resumable": "2.0.0", "upload_offset": "1", "content_type": BYTES}
        found = refusal_of(api.ask(method, path, b"bc", Scope.DEPOSIT, **headers))
        assert found == (
            412,
            "only version 1.0.0 of tus is understood here",
            NO_STORE | TUS | {"tus-version": "1.0.0"},
        )
    found = refusal_of(brought(api, path.replace(path[-32:], "0" * 32), 0, b"x"))
    assert found[:2] == (404, "there is no such upload")


def test_an_upload_is_told_whole_and_expires(api: Asking) -> None:
    path = begun(api, 3, upload_metadata="filename YQ==")
    expires = {"upload-expires": "Wed, 15 Nov 2023 22:13:20 GMT"}
    answer = api.ask("HEAD", path, None, Scope.DEPOSIT)
    head = {
        name: answer.headers[name] for name in answer.headers if name.startswith(("upload", "tus", "cache"))
    }
    state = {"upload-offset": "0", **expires, **TUS, **NO_STORE}
    assert (answer.status, head) == (200, {**state, "upload-length": "3", "upload-metadata": "filename YQ=="})
    api.archive.clock.now += 24 * 3600
    try:
        found = refusal_of(brought(api, path, 0, b"x"))
    finally:
        api.archive.clock.now -= 24 * 3600
    assert found == (410, f"the upload {path[-32:]} has expired; begin it again", NO_STORE)
