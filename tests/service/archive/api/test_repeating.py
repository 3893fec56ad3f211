"""One Idempotency-Key is one request: sent again it gives the same item, and with another content nothing."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, cast

import pytest

from ibi.accounts.tokens import Scope
from ibi.archive.api import deposits
from ibi.archive.model.item_json import read_item
from ibi.archive.operations import items
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.operations.items import CheckedDeposit
from ibi.archive.store.item_changes import Changed, deposit
from ibi.identifier.forms import IBIForms
from support.archive.administration_fixture import AdministeredArchive, Librarian, administered_archive
from support.archive.api_fixture import (
    FORM,
    Asking,
    asking,
    count,
    file_part,
    form,
    item_part,
    json_of,
    path_of,
    refused,
    whole,
)
from support.archive.archive_fixture import Answer, NewArchive
from support.engines import by_hand

TITLE = {"metadata": {"title": ["One"]}}
OTHER = {"metadata": {"title": ["Two"]}}


@pytest.fixture
def api(new_archive: Callable[..., NewArchive]) -> Iterator[Asking]:
    with asking(new_archive) as made:
        yield made


def sent(api: Asking, value: Any, *files: tuple[str, bytes], key: str = "k") -> Answer:
    if not files:
        return api.ask("POST", "/items", value, Scope.DEPOSIT, idempotency_key=key)
    body = form(item_part(value), *(file_part(name, content) for name, content in files))
    return api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM, idempotency_key=key)


@pytest.mark.parametrize("other", [(OTHER,), (TITLE, ("a.txt", b"x")), (TITLE | {"language": "pt"},)])
def test_a_key_that_comes_with_another_content_is_refused(api: Asking, other: tuple[Any, ...]) -> None:
    first = sent(api, TITLE)
    assert first.status == 201
    assert json_of(first)["rep"] in refused(sent(api, *other), 422)
    assert sent(api, *other, key="another").status == 201
    assert sent(api, TITLE).status == 200
    assert count(api) == 3
    assert api.staging == []


def test_the_bytes_of_files_belong_to_the_content(api: Asking) -> None:
    first = sent(api, TITLE, ("a.txt", b"one"), ("b.txt", b"two"))
    again = sent(api, TITLE, ("b.txt", b"two"), ("a.txt", b"one"))
    assert (first.status, again.status, path_of(first)) == (201, 200, path_of(again))
    refused(sent(api, TITLE, ("a.txt", b"one"), ("b.txt", b"2")), 422)
    refused(sent(api, TITLE, ("a.txt", b"one")), 422)
    assert api.staging == []


def test_a_request_is_the_same_after_its_item_was_edited(api: Asking) -> None:
    path = path_of(sent(api, TITLE))
    assert api.ask("PATCH", path, OTHER, Scope.EDIT, if_match="*").status == 200
    again = sent(api, TITLE)
    assert (again.status, json_of(again)["metadata"]["title"]) == (200, ["Two"])
    refused(sent(api, OTHER), 422)


def test_a_request_with_uploads_may_be_sent_again(api: Asking) -> None:
    value = {**TITLE, "uploads": {"a.bin": whole(api, b"from an upload")}}
    first, again = sent(api, value), sent(api, value)
    assert (first.status, again.status, path_of(first)) == (201, 200, path_of(again))
    assert json_of(again)["files"]["a.bin"]["sha256"] == sha256(b"from an upload").hexdigest()
    anew = {**TITLE, "uploads": {"a.bin": whole(api, b"from an upload")}}
    assert path_of(sent(api, anew)) == path_of(first)
    refused(sent(api, {**TITLE, "uploads": {"a.bin": whole(api, b"other bytes")}}), 422)


def test_a_request_with_uploads_and_a_key_of_the_items_own_may_be_sent_again(api: Asking) -> None:
    value = {**TITLE, "key": "mine", "uploads": {"a.bin": whole(api, b"from an upload")}}
    first, again = (api.ask("POST", "/items", value, Scope.DEPOSIT) for _ in range(2))
    assert (first.status, again.status, path_of(first)) == (201, 200, path_of(again))
    other = {**value, "rep": "a.example/b/2031/01.01.00.00"}
    assert "or its key, is already held" in refused(api.ask("POST", "/items", other, Scope.ADMIN), 409)


def test_an_item_from_before_digests_were_kept_is_given_as_it_was(api: Asking) -> None:
    api.token(Scope.DEPOSIT)
    key = f"idempotency:{sha256(b'deposit k').hexdigest()[:32]}"
    before = deposit(api.archive.item_store, read_item({**TITLE, "key": key}), (), "deposit").holding
    again = sent(api, OTHER)
    assert (again.status, json_of(again)["rep"]) == (200, str(before.forms.main))


@contextmanager
def no_writing(api: Asking) -> Iterator[None]:
    """Hold up all transactions that write until the end of the block."""
    with by_hand.holding_up(api.archive.data):
        yield


def sent_twice_at_once(api: Asking, value: Any, key: str = "k") -> list[Answer]:
    """The answers to two equal requests, of which each has looked for the item before the other has stored it."""
    api.token(Scope.DEPOSIT)
    with ThreadPoolExecutor(2) as clients:
        with no_writing(api):
            under_way = [clients.submit(sent, api, value, key=key) for _ in range(2)]
            time.sleep(0.5)
        return [each.result() for each in under_way]


@pytest.mark.parametrize("place", ["translation_of", "edition_of", "metadata_of", "metadata_as_item", "key"])
def test_two_equal_requests_at_once_give_the_same_item(api: Asking, place: str) -> None:
    source = path_of(sent(api, TITLE | {"language": "en"}, key="source")).removeprefix("/items/")
    given = {"metadata_as_item": True, "key": "mine"}.get(place, source)
    before = count(api)
    answers = sent_twice_at_once(api, TITLE | {"language": "pt", place: given}, "" if place == "key" else "k")
    assert sorted(each.status for each in answers) == [200, 201], [each.text for each in answers]
    assert path_of(answers[0]) == path_of(answers[1])
    assert count(api) == before + (2 if place == "metadata_as_item" else 1)


@pytest.mark.parametrize("key", ["k", ""])
def test_two_equal_requests_with_uploads_at_once_give_the_same_item(api: Asking, key: str) -> None:
    uploads = {"b.bin": whole(api, b"two"), "a.bin": whole(api, b"one")}
    answers = sent_twice_at_once(api, {**TITLE, "uploads": uploads, **({} if key else {"key": "mine"})}, key)
    assert sorted(each.status for each in answers) == [200, 201], [each.text for each in answers]
    assert path_of(answers[0]) == path_of(answers[1])
    assert set(json_of(answers[1])["files"]) == set(uploads)
    assert api.staging == []


class LabelsInTurn(NewArchive):
    """An Archive whose deposits get their labels one after the other, when `may_go` is released."""

    waits: threading.Semaphore
    may_go: threading.Semaphore

    def mint(self, count: int) -> Iterator[IBIForms]:
        self.waits.release()
        assert self.may_go.acquire(timeout=60)
        yield from super().mint(count)


def test_a_request_whose_uploads_were_used_while_it_waited_for_a_label_gives_the_same_item(
    new_archive: Callable[..., NewArchive],
) -> None:
    def make(address: str) -> NewArchive:
        archive = LabelsInTurn(**vars(new_archive(address)))
        archive.waits, archive.may_go = threading.Semaphore(0), threading.Semaphore(0)
        return archive

    with asking(make) as api, ThreadPoolExecutor(2) as clients:
        archive = cast("LabelsInTurn", api.archive)
        value = {**TITLE, "uploads": {"a.bin": whole(api, b"one")}}
        under_way = [clients.submit(sent, api, value) for _ in range(2)]
        try:
            assert all(archive.waits.acquire(timeout=20) for _ in range(2))
            archive.may_go.release()
            done, _ = wait(under_way, 20, FIRST_COMPLETED)
        finally:
            archive.may_go.release(2)
        assert [each.result().status for each in done] == [201]
        assert sorted(each.result().status for each in under_way) == [200, 201]
        assert len({path_of(each.result()) for each in under_way}) == 1


def test_an_upload_that_stays_in_use_refuses_a_deposit(api: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deposits, "LONGEST_WAIT_OF_REPEATED", 0.3)
    tries, store = list[CheckedDeposit](), items.store_deposit

    def counted(context: ArchiveContext, checked: CheckedDeposit, labels: Sequence[IBIForms]) -> Changed:
        tries.append(checked)
        return store(context, checked, labels)

    monkeypatch.setattr(items, "store_deposit", counted)
    upload = whole(api, b"one")
    value = {**TITLE, "uploads": {"a.bin": upload}}
    with (api.archive.data / "uploads" / f"{upload}.part").open("rb") as in_use:
        fcntl.flock(in_use, fcntl.LOCK_EX)
        for key in ("", "k"):
            why = "another request is at work on this upload; try again in a moment"
            assert refused(sent(api, value, key=key), 409) == why
    assert [each.draft.key for each in tries].count("") == 1
    assert len(tries) <= 6  # one tries once, the other one every tenth of a second
    assert sent(api, value).status == 201


@pytest.fixture(scope="module")
def maria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Librarian]:
    with administered_archive(tmp_path_factory.mktemp("office")) as served:
        assert isinstance(served, AdministeredArchive)
        yield served.new_browser("maria")


def test_a_form_that_is_sent_twice_is_one_item_and_one_that_was_changed_is_told_so(maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    once = ("once", None, maria.hidden("once").encode())

    def filled(title: bytes) -> Answer:
        return maria.send_files(
            "/-/admin/deposit", once, ("dc.title", None, title), ("file", "a.txt", b"words")
        )

    token = maria.page
    first, again = filled(b"One"), filled(b"One")
    assert (first.status, first.headers["location"]) == (303, again.headers["location"])
    maria.page = token
    changed = filled(b"Two")
    assert changed.status == 422
    assert "This request has already created" in changed.text
    assert 'value="Two"' in changed.text
