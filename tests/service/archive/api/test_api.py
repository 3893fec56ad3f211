"""The JSON interface of an Archive over a real socket: what it gives, what it takes, and all that it refuses."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, cast
from urllib.parse import quote, urlencode

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.api import dispatch
from ibi.api.bodies import LONGEST_JSON
from ibi.api.dispatch import Api
from ibi.archive.api import deposits, items, openapi, received_files
from ibi.archive.api.items import MOST_ITEMS
from ibi.archive.model.access import day_of
from ibi.archive.model.item import Holding
from ibi.archive.operations import items as item_operations
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopySource
from ibi.http.server.service import Service
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.protocol.vocabulary import ItemState
from support.archive.api_fixture import (
    BOUNDARY,
    FORM,
    LARGEST,
    TITLE,
    Asking,
    asking,
    count,
    deposited,
    file_part,
    form,
    item_part,
    json_of,
    part,
    path_of,
    refused,
)
from support.archive.archive_fixture import (
    SERVICE,
    WHEN,
    Answer,
    NewArchive,
    fill,
    listener,
    make_archive,
    serving,
)
from support.engines.by_hand import put_document
from support.web.unnamed import RENDERER

IBI = "a.example/b/2014/01.01.00.00"
LINKED = {**TITLE, "url": "http://far.example/x"}


@pytest.fixture
def api(new_archive: Callable[..., NewArchive]) -> Iterator[Asking]:
    """An Archive with nothing in it but its service."""
    with asking(new_archive) as made:
        yield made


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """An Archive with items, for tests that change none of them."""

    def make(address: str, **more: object) -> NewArchive:
        archive = make_archive(tmp_path_factory.mktemp("full") / "archive", address, more)
        fill(archive)
        return archive

    with asking(make) as made:
        yield made


# --- reading ---------------------------------------------------------------------------------------------------------


def test_items_are_listed_page_by_page_without_a_token(full: Asking) -> None:
    found, path = [], "/items?limit=1"
    while path:
        page = json_of(full.ask("GET", path))
        assert len(page["items"]) <= 1
        found += page["items"]
        path = page.get("next", "").removeprefix("/-/api")
    assert len(found) == 5
    names = [parse_ibi(item.get("rep") or item["ibip"]).canonical for item in found]
    assert names == sorted(set(names))
    assert json_of(full.ask("GET", f"/items?limit={MOST_ITEMS}"))["items"] == found


def test_the_next_page_is_also_a_link(full: Asking) -> None:
    answer = full.ask("GET", "/items?limit=1")
    assert answer.headers["link"] == f'<{json_of(answer)["next"]}>; rel="next"'
    assert "link" not in full.ask("GET", "/items").headers


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=-1", "limit=1e2", "limit=%D9%A1", "limit=1&limit=2", "limit=" + "9" * 5000,
              "after=" + "x" * 513, "after=%ff", "limit="],
)  # fmt: skip
def test_a_page_that_cannot_be_is_refused(full: Asking, query: str) -> None:
    refused(full.ask("GET", f"/items?{query}"), 400)


@pytest.mark.parametrize("after", ["", "zzz", "%00", "A.EXAMPLE/b/2010/01.01.00.00", "';%20--"])
def test_any_text_may_be_where_a_page_begins(full: Asking, after: str) -> None:
    assert full.ask("GET", f"/items?after={after}").status == 200


@pytest.mark.parametrize(
    "name",
    [
        "a.example/b@80/2010/01.01.00.00",
        "A.Example/b@80/2010/01.01.00.00",
        "a.example%2Fb%4080%2F2010%2F01.01.00.00",
        "8JMKD3MGP8W/35MME4E",
        "8jmkd3mgp8w%2f35mme4e",
    ],
)
def test_an_item_is_told_under_each_of_its_names(full: Asking, name: str) -> None:
    item = json_of(full.ask("GET", f"/items/{name}"))
    assert (item["rep"], item["ibip"]) == ("a.example/b@80/2010/01.01.00.00", "8JMKD3MGP8W/35MME4E")
    digest = sha256(b"aaa").hexdigest()
    assert item["files"]["a%20b.txt"] == {"size": 3, "sha256": digest, "type": "text/plain"}
    assert "history" not in item
    assert "thanks" not in item


def test_who_may_read_is_told_the_history_too(full: Asking) -> None:
    path = "/items/8JMKD3MGP8W/35MME4E"
    item = json_of(full.ask("GET", path, None, Scope.READ))
    assert [event["what"] for event in item["history"]] == ["imported"]
    assert item["thanks"] == 0
    history = json_of(full.ask("GET", f"{path}/history", None, Scope.READ))
    assert history == {"history": item["history"]}
    refused(full.ask("GET", f"{path}/history"), 401)
    refused(full.ask("GET", f"{path}/history", None, Scope.DEPOSIT), 403)


def test_a_list_of_files_that_is_not_public_is_for_those_who_may_read(full: Asking) -> None:
    path = "/items/a.example/b/2011/01.01.00.00"
    assert "files" not in json_of(full.ask("GET", path))
    assert list(json_of(full.ask("GET", path, None, Scope.READ))["files"]) == ["a.txt"]
    listed = {item.get("rep"): item for item in json_of(full.ask("GET", "/items"))["items"]}
    assert "files" not in listed["a.example/b/2011/01.01.00.00"]
    assert "files" in listed["a.example/b@80/2010/01.01.00.00"]


@pytest.mark.proves("SVC-10")
@pytest.mark.parametrize("more", [{"access": "restricted"}, {"access": "closed"},
                                  {"access": "embargoed", "embargo": "2023-11-15"}])  # fmt: skip
def test_what_leads_to_data_that_are_not_open_is_for_those_who_may_read(
    api: Asking, more: dict[str, str]
) -> None:
    path = deposited(api, {**TITLE, **more, "target": "b.txt"}, ("b.txt", b"b"))
    linked = deposited(api, {**LINKED, **more})
    page = json_of(api.ask("GET", "/items"))["items"]
    for value in (*page, json_of(api.ask("GET", path)), json_of(api.ask("GET", linked))):
        if value.get("access"):
            assert not {"files", "target", "url"} & value.keys()
            assert value["metadata"] == TITLE["metadata"]
    assert sum("access" in value for value in page) == 2
    item = json_of(api.ask("GET", path, None, Scope.READ))
    assert (list(item["files"]), item["target"]) == (["b.txt"], "b.txt")
    assert json_of(api.ask("GET", linked, None, Scope.READ))["url"] == LINKED["url"]
    edited = api.ask("PATCH", path, {"language": "en"}, Scope.EDIT, if_match="*")
    assert (edited.status, "files" in json_of(edited)) == (200, False)


def test_the_files_of_an_item_whose_embargo_has_ended_are_listed_without_a_token(
    new_archive: Callable[..., NewArchive],
) -> None:
    socket_here = listener()
    archive = new_archive(f"127.0.0.1:{socket_here.getsockname()[1]}")
    view = items.ItemView(archive.catalogue, lambda: day_of(archive.clock.seconds()))
    api = Api(openapi.routes(view.routes(), "0"), Tokens(archive.data), LARGEST)
    (archive.data / "b.txt").write_bytes(b"b")
    archive.load({"rep": IBI, "access": "embargoed", "embargo": "2023-11-15", "files": {"b.txt": "b.txt"}})
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        api=api.answer,
    )
    with serving(archive, socket_here, Service(app, close=app.close)) as served:
        asking_it = Asking(served)
        before = asking_it.ask("GET", f"/items/{IBI}")
        assert "files" not in json_of(before)
        archive.clock.now += 3 * 3600
        after = asking_it.ask("GET", f"/items/{IBI}", if_none_match=before.headers["etag"])
        assert (after.status, list(json_of(after)["files"])) == (200, ["b.txt"])


@pytest.mark.parametrize(("language", "words"), [("en", "was removed on"), ("pt-BR", "foi removido em")])
def test_who_asks_for_what_was_removed_is_told_why(api: Asking, language: str, words: str) -> None:
    body = {**TITLE, "key": "mine"}
    path = path_of(api.ask("POST", "/items", body, Scope.DEPOSIT))
    gone = api.ask("DELETE", f"{path}?reason=asked%20for%20by%20its%20author", None, Scope.DELETE)
    whole = f"{path.removeprefix('/items/')} {words} {json_of(gone)['timestamp']}: asked for by its author"
    assert refused(api.ask("GET", path, accept_language=language), 410) == whole
    again = api.ask("POST", "/items", body, Scope.DEPOSIT, accept_language=language)
    assert refused(again, 410) == whole


def test_what_was_removed_is_gone_and_what_is_left_of_it_is_told(full: Asking) -> None:
    answer = full.ask("GET", "/items/a.example/b/2012/01.01.00.00")
    assert "was removed on 2012-02-01" in refused(answer, 410)
    assert json_of(answer)["item"]["metadata"] == {"title": ["It was here"]}
    path = "/items/a.example/b/2012/01.01.00.00/history"
    assert full.ask("GET", path, None, Scope.READ).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/items/a.example/b/1999/01.01.00.00", 404),
        ("/items/x", 400),
        ("/items/%ff%fe", 400),
        ("/items/a/b/c/d/e/f", 404),
        ("/items/a.example/b/2010/01.01.00.00/", 404),
        ("/items/", 404),
        ("/items//history", 404),
        ("/nothing", 404),
        ("/", 404),
        ("/items/" + "x" * 9000, 400),
    ],
)
def test_what_is_not_there_is_a_sentence(full: Asking, path: str, status: int) -> None:
    refused(full.ask("GET", path), status)


def test_who_knows_an_item_already_is_not_told_again(api: Asking) -> None:
    path = deposited(api)
    etag = api.ask("GET", path).headers["etag"]
    assert api.ask("GET", path, if_none_match="*").status == 304
    again = api.ask("GET", path, if_none_match=f'"x", W/{etag}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    assert api.ask("GET", path, None, Scope.READ, if_none_match=etag).status == 200  # that one is told more
    api.ask("PATCH", path, {"language": "en"}, Scope.EDIT, if_match=etag)
    assert api.ask("GET", path, if_none_match=etag).status == 200


def test_a_copy_says_where_its_original_is_and_the_tag_tells_when_that_changes(api: Asking) -> None:
    archive = api.archive
    copy = archive.catalogue.put(
        Holding(forms=IBIForms.parse("ibip LK47B6W/362SFKH"), state=ItemState.COPY, timestamp=WHEN)
    )
    assert "copy" not in json_of(api.ask("GET", "/items/LK47B6W/362SFKH"))
    tags = set()
    for since in ("", WHEN):
        with archive.catalogue.writing() as writer:
            copies.save_source(writer.run, copy.number, CopySource(archive="http://far.example", since=since))
        answer = api.ask("GET", "/items/LK47B6W/362SFKH")
        assert json_of(answer)["copy"]["archive"] == "http://far.example"
        assert json_of(answer)["copy"]["equal"] is not bool(since)
        tags.add(answer.headers["etag"])
    assert len(tags) == 2


def test_head_tells_the_same_without_a_body(full: Asking) -> None:
    path = "/items/8JMKD3MGP8W/35MME4E"
    head, get = full.ask("HEAD", path), full.ask("GET", path)
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", get.headers["etag"])


def test_problems_are_told_in_the_language_of_the_reader(full: Asking) -> None:
    english = full.ask("GET", "/items/a.example/b/1999/01.01.00.00", accept_language="de")
    portuguese = full.ask("GET", "/items/a.example/b/1999/01.01.00.00", accept_language="pt")
    assert (english.headers["content-language"], portuguese.headers["content-language"]) == ("en", "pt-BR")
    assert refused(english, 404) != refused(portuguese, 404)
    assert "não" in portuguese.text, "letters are written as they are"


# --- who may -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/items", Scope.DEPOSIT),
        ("PATCH", "/items/8JMKD3MGP8W/35MME4E", Scope.EDIT),
        ("PUT", "/items/8JMKD3MGP8W/35MME4E/files/x", Scope.EDIT),
        ("DELETE", "/items/8JMKD3MGP8W/35MME4E/files/index.html", Scope.EDIT),
        ("DELETE", "/items/8JMKD3MGP8W/35MME4E", Scope.DELETE),
        ("POST", "/uploads", Scope.DEPOSIT),
        ("PATCH", "/uploads/" + "0" * 32, Scope.DEPOSIT),
        ("HEAD", "/uploads/" + "0" * 32, Scope.DEPOSIT),
        ("DELETE", "/uploads/" + "0" * 32, Scope.DEPOSIT),
    ],
)
def test_nothing_is_changed_without_a_token_that_may(
    full: Asking, method: str, path: str, scope: Scope
) -> None:
    anonymous = full.ask(method, path, {})
    assert (anonymous.status, anonymous.headers["www-authenticate"]) == (401, "Bearer")
    others = [each for each in Scope if each not in {scope, Scope.ADMIN}]
    wrong = full.ask(method, path, {}, *others)
    assert wrong.status == 403
    assert f'scope="{scope}"' in wrong.headers["www-authenticate"]
    assert full.ask(method, path, {}, token="unknown").status == 401
    assert count(full) == 4


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YTpi", "bearer unknown", "Bearer \xff", "x"])
def test_a_token_that_is_none_is_refused_also_where_none_is_needed(full: Asking, header: str) -> None:
    answer = full.ask("GET", "/items", authorization=header)
    assert "invalid_token" in answer.headers["www-authenticate"]
    refused(answer, 401)


def test_tokens_that_cannot_be_read_stop_writing_but_not_reading(api: Asking) -> None:
    token = api.token(Scope.ADMIN)
    put_document(api.archive.data, "tokens.json", "damaged")
    sentence = refused(api.ask("POST", "/items", TITLE, token=token), 503)
    assert "tokens.json" not in sentence
    assert api.ask("GET", "/items").status == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/items", "GET, HEAD, POST"),
        ("POST", "/items/8JMKD3MGP8W/35MME4E", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/items/8JMKD3MGP8W/35MME4E/files/x", "DELETE, PUT"),
        ("BREW", "/openapi.json", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_offered_is_told_what_is(
    full: Asking, method: str, path: str, allowed: str
) -> None:
    answer = full.ask(method, path, None, Scope.ADMIN)
    if answer.headers.get("content-type") != "text/plain; charset=utf-8":  # no method of HTTP at all
        assert answer.headers["allow"] == allowed
    assert answer.status == (400 if method == "BREW" else 405)


def test_one_token_cannot_have_too_much_under_way(api: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_REQUESTS", 1)
    token = api.token(Scope.DEPOSIT)
    head = f"POST /-/api/items HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    with socket.create_connection(("127.0.0.1", api.served.port)) as busy:
        busy.sendall(f"{head}Content-Length: 5\r\n\r\n{{".encode())
        while (answer := api.ask("POST", "/items", TITLE, Scope.DEPOSIT)).status == 201:
            pass  # the first one has not been read yet
        assert answer.headers["retry-after"] == "1"
        refused(answer, 429)
        assert api.ask("POST", "/items", TITLE, Scope.ADMIN).status == 201  # another token
    for _ in range(100):
        if api.ask("POST", "/items", TITLE, Scope.DEPOSIT).status == 201:
            return
    pytest.fail("the place of a client that is gone stays taken")


# --- deposits --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("ARC-08")
def test_a_deposit_gets_a_name_and_is_there(api: Asking) -> None:
    answer = api.ask("POST", "/items", LINKED, Scope.DEPOSIT)
    assert answer.status == 201
    item = json_of(answer)
    assert item["url"] == LINKED["url"]
    assert answer.headers["location"] == f"/-/api/items/{item['rep']}"
    shown = api.ask("GET", path_of(answer))
    assert (shown.headers["etag"], json_of(shown)) == (answer.headers["etag"], item)
    history = json_of(api.ask("GET", f"{path_of(answer)}/history", None, Scope.READ))["history"]
    assert [(event["who"], event["what"]) for event in history] == [("deposit", "deposited")]


def test_files_come_as_parts_of_a_form_and_go_out_as_they_came(api: Asking) -> None:
    content = bytes(range(256)) * 5000
    body = form(
        file_part("Relatório final.pdf", content),
        item_part({**TITLE, "target": "Relatório final.pdf"}),
        ('name="data/a%20b.txt"; filename="other.txt"', b"the part's own name counts"),
        file_part("empty", b""),
    )
    answer = api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM)
    files = json_of(answer)["files"]
    assert set(files) == {"Relat%C3%B3rio%20final.pdf", "data/a%20b.txt", "empty"}
    assert json_of(answer)["target"] == "Relat%C3%B3rio%20final.pdf"
    assert files["Relat%C3%B3rio%20final.pdf"]["sha256"] == sha256(content).hexdigest()
    name = json_of(answer)["rep"]
    assert api.served.get(f"/col/{name}/doc/Relat%C3%B3rio%20final.pdf").body == content
    assert api.served.get(f"/col/{name}/doc/empty").body == b""
    assert api.staging == []


def test_a_request_that_is_repeated_gives_the_same_item(api: Asking) -> None:
    first = api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="a")
    again = api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="a")
    assert (first.status, again.status) == (201, 200)
    assert json_of(first) == json_of(again)
    others = [
        api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key="b"),
        api.ask(
            "POST", "/items", TITLE, Scope.DEPOSIT, Scope.READ, idempotency_key="a"
        ),  # the key of another token
        api.ask("POST", "/items", TITLE, Scope.DEPOSIT),
    ]
    assert [other.status for other in others] == [201] * 3
    assert len({path_of(answer) for answer in (first, *others)}) == 4
    assert api.token(Scope.DEPOSIT) not in first.text


def test_files_of_a_repeated_request_are_not_kept_twice(api: Asking) -> None:
    body = form(item_part({**TITLE, "key": "k"}), file_part("a.txt"))
    answers = [api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    assert json_of(answers[0]) == json_of(answers[1])
    assert api.staging == []
    assert api.served.get(f"/col/{json_of(answers[0])['rep']}/doc/a.txt").body == b"abc"


@pytest.mark.long
def test_one_request_sent_many_times_at_once_gives_one_item(api: Asking) -> None:
    api.token(Scope.DEPOSIT)
    answers: list[Answer] = []

    def deposit() -> None:
        body = form(item_part(TITLE), file_part("a.txt"))
        answers.append(
            api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM, idempotency_key="once")
        )

    threads = [threading.Thread(target=deposit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({path_of(answer) for answer in answers}) == 1
    assert count(api) == 2
    assert api.staging == []


def test_what_was_removed_is_not_deposited_again_under_its_key(api: Asking) -> None:
    path = path_of(api.ask("POST", "/items", {**TITLE, "key": "k"}, Scope.DEPOSIT))
    assert api.ask("DELETE", f"{path}?reason=wrong", None, Scope.DELETE).status == 200
    refused(api.ask("POST", "/items", {**TITLE, "key": "k"}, Scope.DEPOSIT), 410)


def test_a_deposit_under_a_held_key_does_not_give_its_item_the_name_of_another(api: Asking) -> None:
    ibip, other = "LK47B6W/362SFKH", "b.example/c/2010/01.01.00.00"
    keyed = {**TITLE, "key": "k", "ibip": ibip}
    assert api.ask("POST", "/items", keyed, Scope.ADMIN).status == 201
    assert api.ask("POST", "/items", {**TITLE, "rep": other}, Scope.ADMIN).status == 201
    assert api.ask("POST", "/items", keyed, Scope.ADMIN).status == 200
    refused(api.ask("POST", "/items", {**keyed, "rep": other}, Scope.ADMIN), 409)
    refused(api.ask("POST", "/items", {**keyed, "rep": "b.example/c/2011/01.01.00.00"}, Scope.ADMIN), 409)


def test_a_deposit_has_its_place_among_other_items(api: Asking) -> None:
    first = deposited(api, {**TITLE, "language": "en"})
    name = first.removeprefix("/items/")
    edition = deposited(api, {**TITLE, "edition_of": name})
    silent = api.ask("POST", "/items", {**TITLE, "translation_of": name}, Scope.DEPOSIT)
    assert "a translation needs its language" in refused(silent, 422)
    translation = deposited(api, {**TITLE, "language": "pt", "translation_of": name})
    metadata = deposited(api, {**TITLE, "metadata_of": name})
    item = json_of(api.ask("GET", first))
    assert item["next_edition"] == edition.removeprefix("/items/")
    assert item["translations"] == {"pt": translation.removeprefix("/items/")}
    assert item["metadata_item"] == metadata.removeprefix("/items/")
    assert json_of(api.ask("GET", metadata))["contenttype"] == "Metadata"
    both = json_of(api.ask("GET", deposited(api, {**TITLE, "metadata_as_item": True})))
    assert json_of(api.ask("GET", f"/items/{both['metadata_item']}"))["contenttype"] == "Metadata"


@pytest.mark.parametrize("word", item_operations.RELATIONS)
def test_a_place_beside_an_item_that_is_not_held_is_refused(api: Asking, word: str) -> None:
    beside = {**TITLE, word: "a.example/b/1999/01.01.00.00"}
    sentence = refused(api.ask("POST", "/items", beside, Scope.DEPOSIT), 404)
    assert "a.example/b/1999/01.01.00.00" in sentence
    assert count(api) == 1


def test_names_and_states_are_given_by_administrators_only(api: Asking) -> None:
    given: dict[str, Any] = {
        "rep": "b.example/c/2010/01.01.00.00", "ibip": "LK47B6W/362SFKH", "state": "Copy", "aliases": [],
        "timestamp": WHEN, "reason": "x", "institution": {"en": "Other Institute"},
        "replacement": "a.example/b/2020/01.01.00.00",
    }  # fmt: skip
    assert set(given) == set(item_operations.FOR_ADMINISTRATORS)
    for name, value in given.items():
        assert name in refused(api.ask("POST", "/items", {**TITLE, name: value}, Scope.DEPOSIT), 403)
    answer = api.ask("POST", "/items", {**TITLE, "rep": given["rep"]}, Scope.ADMIN)
    assert path_of(answer) == f"/items/{given['rep']}"
    refused(api.ask("POST", "/items", {**TITLE, "rep": given["rep"]}, Scope.ADMIN), 409)


def test_an_archive_that_has_no_name_to_mint_under_says_so(
    api: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ibi.errors import MintingNotAllowed

    def nothing(_self: NewArchive, _count: int) -> Iterator[IBIForms]:
        raise MintingNotAllowed("set mint_host in {path}", path=api.archive.data)

    monkeypatch.setattr(NewArchive, "mint", nothing)
    with asking(lambda _address, **_: api.archive) as other:
        sentence = refused(other.ask("POST", "/items", TITLE, token=api.token(Scope.DEPOSIT)), 503)
    assert str(api.archive.data) not in sentence


# --- edition and removal ---------------------------------------------------------------------------------------------


def test_facts_are_edited_by_who_has_seen_them_last(api: Asking) -> None:
    path = deposited(api)
    seen = api.ask("GET", path).headers["etag"]
    first = api.ask("PATCH", path, {"language": "pt"}, Scope.EDIT, if_match=seen)
    assert (first.status, json_of(first)["language"]) == (200, "pt")
    refused(api.ask("PATCH", path, {"language": "en"}, Scope.EDIT, if_match=seen), 412)
    refused(api.ask("PATCH", path, {"language": "en"}, Scope.EDIT), 428)
    both = f'"other", {first.headers["etag"]}'
    second = api.ask("PATCH", path, {"language": None, "rights": "all"}, Scope.EDIT, if_match=both)
    assert "language" not in json_of(second)
    assert json_of(second)["rights"] == "all"
    assert api.ask("PATCH", path, {"language": "en"}, Scope.EDIT, if_match="*").status == 200
    history = json_of(api.ask("GET", f"{path}/history", None, Scope.READ))["history"]
    assert [event["detail"].get("changed") for event in history] == [
        None, ["language"], ["language", "rights"], ["language"],
    ]  # fmt: skip


@pytest.mark.parametrize("if_match", ['"x"', "x", '""', '"-"', "W/*", '"2023-11-14T22:13:20Z"', ",", "\xff"])
def test_an_etag_that_is_none_of_ours_matches_nothing(api: Asking, if_match: str) -> None:
    path = deposited(api)
    refused(api.ask("PATCH", path, {"language": "pt"}, Scope.EDIT, if_match=if_match), 412)
    assert "language" not in json_of(api.ask("GET", path))


@pytest.mark.parametrize(
    "facts",
    [
        {"rep": "a.example/b/2010/01.01.00.00"}, {"state": "Copy"}, {"key": "x"}, {"files": {}}, {"odd": 1},
        {"url": "javascript:x"}, {"url": 5}, {"language": "english"}, {"embargo": "2027-01-01"}, {"target": "none"},
        {"access": "embargoed"}, {"metadata": {"odd": ["x"]}}, {"next_edition": "x"}, {"translations": [1]},
        [], "x", 7, True, None,
    ],
)  # fmt: skip
def test_facts_that_cannot_be_change_nothing(api: Asking, facts: Any) -> None:
    path = deposited(api)
    before = json_of(api.ask("GET", path))
    refused(api.ask("PATCH", path, facts, Scope.EDIT, if_match="*"), 422)
    assert json_of(api.ask("GET", path)) == before


def test_files_come_change_and_go(api: Asking) -> None:
    path = deposited(api)
    new = api.ask("PUT", f"{path}/files/data/a%20b.txt", b"one", Scope.EDIT, if_match="*")
    assert new.status == 201
    other = api.ask("PUT", f"{path}/files/data/a%20b.txt", b"two", Scope.EDIT, if_match=new.headers["etag"])
    assert other.status == 200
    name = path.removeprefix("/items/")
    assert api.served.get(f"/col/{name}/doc/data/a%20b.txt").body == b"two"
    refused(api.ask("PUT", f"{path}/files/x", b"x", Scope.EDIT, if_match=new.headers["etag"]), 412)
    refused(api.ask("PUT", f"{path}/files/x", b"x", Scope.EDIT), 428)
    gone = api.ask("DELETE", f"{path}/files/data/a%20b.txt", None, Scope.EDIT, if_match="*")
    assert "files" not in json_of(gone)
    refused(api.ask("DELETE", f"{path}/files/data/a%20b.txt", None, Scope.EDIT, if_match="*"), 404)
    assert api.served.get(f"/col/{name}/doc/data/a%20b.txt").status == 404
    assert api.staging == []
    assert not list((api.archive.data / "col").rglob("a b.txt"))


def test_a_folder_of_an_item_may_be_called_files(api: Asking) -> None:
    path = deposited(api)
    assert api.ask("PUT", f"{path}/files/files/2010/files/x", b"x", Scope.EDIT, if_match="*").status == 201
    assert list(json_of(api.ask("GET", path))["files"]) == ["files/2010/files/x"]


def test_an_item_with_a_url_has_no_files(api: Asking) -> None:
    path = deposited(api, LINKED)
    refused(api.ask("PUT", f"{path}/files/x", b"x", Scope.EDIT, if_match="*"), 422)
    assert api.staging == []


def test_what_takes_the_place_of_a_removed_item_is_told_to_readers_programs_and_resolvers(
    api: Asking,
) -> None:
    old, new = deposited(api, TITLE, ("a.txt", b"abc")), deposited(api, LINKED)
    name, other = (path.removeprefix("/items/") for path in (old, new))
    target = f"{old}?reason=Twice&replacement={quote(f'https://r.example/{other}')}"
    assert json_of(api.ask("DELETE", target, None, Scope.DELETE))["replacement"] == other
    gone = api.ask("GET", old)
    assert gone.status == 410
    assert json_of(gone)["item"]["replacement"] == other
    assert f"and {other} takes its place: Twice" in json_of(gone)["detail"]
    events = json_of(api.ask("GET", f"{old}/history", None, Scope.READ))["history"]
    assert events[-1]["detail"] == {"reason": "Twice", "replacement": other}
    page = api.served.get(f"/-/item/{name}", accept="text/html", user_agent="Mozilla/5.0")
    assert page.status == 410
    assert f'/{other}">Open the replacement</a>' in page.text
    service = api.archive.settings.service.main
    message = {
        "servicesubject": "urlRequest",
        "parsedibiurl.ibi": name,
        "clientinformation.ipaddress": "192.0.2.1",
    }
    answer = api.served.get(f"/{service}?{urlencode(message)}").text
    assert f"tombstone.replacement {{rep {other}}}" in answer
    record = api.served.get(f"/{name}?json")
    assert json_of(record)["replacement"] == other
    # What was removed itself takes no other's place.
    third = deposited(api, TITLE)
    refusal = api.ask("DELETE", f"{third}?reason=x&replacement={quote(name)}", None, Scope.DELETE)
    assert refusal.status in {409, 410, 422}
    assert "was removed on" in json_of(refusal)["detail"]


def test_removal_is_for_ever_and_keeps_its_reason(api: Asking) -> None:
    path = deposited(api, TITLE, ("a.txt", b"abc"))
    answer = api.ask("DELETE", f"{path}?reason=Pedido%20do%20autor%3A%20n%C3%A3o", None, Scope.DELETE)
    assert answer.status == 200
    assert json_of(answer)["state"] == "Deleted"
    assert json_of(answer)["reason"] == "Pedido do autor: não"
    assert '"Pedido do autor: não"' in answer.text, "letters are written as they are"
    for method, target, body in (
        ("GET", path, None), ("DELETE", path, None), ("PATCH", path, {"language": "pt"}),
        ("PUT", f"{path}/files/x", b""), ("DELETE", f"{path}/files/a.txt", None),
    ):  # fmt: skip
        refused(api.ask(method, target, body, Scope.ADMIN, if_match="*"), 410)
    left = [file.name for file in (api.archive.data / "col").rglob("*") if file.is_file()]
    assert left == ["item.json"]  # its memory, beside the catalogue


def test_a_removal_may_ask_that_nothing_has_changed(api: Asking) -> None:
    path = deposited(api)
    seen = api.ask("GET", path).headers["etag"]
    api.ask("PATCH", path, {"language": "en"}, Scope.EDIT, if_match="*")
    refused(api.ask("DELETE", f"{path}?reason=wrong", None, Scope.DELETE, if_match=seen), 412)
    refused(api.ask("DELETE", f"{path}?reason={'x' * 4001}", None, Scope.DELETE), 422)
    assert api.ask("GET", path).status == 200


@pytest.mark.proves("ARC-11")
def test_the_service_of_the_archive_stays(api: Asking) -> None:
    refused(api.ask("DELETE", f"/items/{SERVICE.main}?reason=wrong", None, Scope.ADMIN), 409)


@pytest.mark.proves("ARC-13")
def test_a_copy_is_edited_where_its_original_is(api: Asking) -> None:
    catalogue = api.archive.catalogue
    copy = catalogue.put(
        Holding(forms=IBIForms.parse("ibip LK47B6W/362SFKH"), state=ItemState.COPY, timestamp=WHEN)
    )
    with catalogue.writing() as writer:
        copies.save_source(writer.run, copy.number, CopySource(archive="http://far.example"))
    path = "/items/LK47B6W/362SFKH"
    for answer in (
        api.ask("PATCH", path, {"language": "pt"}, Scope.EDIT, if_match="*"),
        api.ask("PUT", f"{path}/files/x", b"x", Scope.EDIT, if_match="*"),
    ):
        assert "http://far.example" in refused(answer, 409)
    assert api.staging == []


# --- bad input -------------------------------------------------------------------------------------------------------

DEEP = b"[" * 200_000 + b"]" * 200_000
DEEP_OBJECT = b'{"a":' * 150_000 + b"1" + b"}" * 150_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 400), (b"nonsense", 400), (b"\xff\xfe", 400), (b"\xef\xbb\xbf{}", 400), (b"{}x", 400),
        (DEEP, 400), (DEEP_OBJECT, 400), (b'{"url": NaN}', 400), (b'{"url": -Infinity}', 400),
        (b'{"url": 1e999}', 400), (b'{"url": ' + b"9" * 5000 + b"}", 400), (b'{"key": "\\ud800"}', 400),
        (b'{"key": "a", "key": "b"}', 400), (b'{"odd": {"a": 1, "a": 2}}', 400), (b"[]", 422), (b"7", 422),
        (b'"x"', 422), (b"null", 422), (b'{"url": 1e3}', 422), (b'{"odd": 1}', 422), (b'{"files": {}}', 422),
        (b'{"files": {"a": "/etc/passwd"}}', 422), (b'{"metadata": 5}', 422), (b'{"key": "a\\u0000b"}', 422),
        (b'{"uploads": 5}', 422), (b'{"uploads": {"a": 5}}', 422), (b'{"uploads": {"../a": "0"}}', 404),
        (b'{"uploads": {"a": "../../etc/passwd"}}', 404), (b'{"metadata_as_item": 1}', 422),
        (b'{"metadata_as_item": true}', 422), (b'{"edition_of": 5}', 422), (b'{"edition_of": "x"}', 422),
        (b'{"url": "http://a.example/", "key": "' + b"x" * 600 + b'"}', 422),
        (b'{"key": "' + b"x" * LONGEST_JSON + b'"}', 413),
    ],
)  # fmt: skip
def test_a_deposit_that_cannot_be_is_one_sentence_and_changes_nothing(
    api: Asking, body: bytes, status: int
) -> None:
    refused(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type="application/json"), status)
    assert (count(api), api.staging) == (1, [])


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"content_type": "text/plain"}, {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data"}, {"content_type": "multipart/mixed; boundary=x"},
        {"content_type": "application/json", "content_encoding": "gzip"},
        {"content_type": FORM, "content_encoding": "gzip"}, {"content_type": "application/jsonx"},
    ],
)  # fmt: skip
def test_a_body_of_another_type_is_refused(api: Asking, headers: dict[str, str]) -> None:
    refused(api.ask("POST", "/items", b'{"key": "x"}', Scope.DEPOSIT, **headers), 415)


def test_json_may_name_its_charset(api: Asking) -> None:
    kind = "Application/JSON; charset=UTF-8"
    body = b'{"metadata": {"title": ["T"]}}'
    assert api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=kind).status == 201


@pytest.mark.parametrize(
    "name",
    ["../x", "..", ".", "a/../../x", "/etc/passwd", "a//b", "a/", "", "a\\b", "..\\x", "a\x00b", "a\x07b", "x" * 256,
     "%2e%2e/%2e%2e/x", "a/" * 600],
)  # fmt: skip
def test_a_file_name_that_leads_elsewhere_is_refused(api: Asking, name: str) -> None:
    body = form(item_part(TITLE), (f'name="file"; filename="{name}"', b"abc"))
    answer = api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM)
    if name.startswith("%2e"):  # the name of a file that is called so, and no way out
        assert list(json_of(answer)["files"]) == ["%252e%252e/%252e%252e/x"]
    else:
        assert answer.status in {400, 422}, answer.body
        assert count(api) == 1
    assert api.staging == []


@pytest.mark.parametrize(
    "name", ["..%2fx", "%2e%2e", "a%00b", "a%5cb", "a%2f%2fb", "a//b", "x" * 300, "%zz", "a%0ab"]
)
def test_a_file_is_not_put_where_its_name_leads_elsewhere(api: Asking, name: str) -> None:
    path = deposited(api)
    refused(api.ask("PUT", f"{path}/files/{name}", b"x", Scope.EDIT, if_match="*"), 422)
    assert api.staging == []


@pytest.mark.parametrize(
    ("one", "other"),
    [("A.txt", "a.txt"), ("é.txt", "e\u0301.txt"), ("a", "a/b"), ("STRASSE", "straße"), ("same", "same")],
)
def test_names_that_some_disk_takes_for_one_are_refused_in_a_form_and_one_after_the_other(
    api: Asking, one: str, other: str
) -> None:
    body = form(item_part(TITLE), file_part(one), file_part(other))
    refused(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM), 422)
    assert (count(api), api.staging) == (1, [])
    if one != other:
        path = deposited(api, TITLE, (one, b"1"))
        answer = api.ask("PUT", f"{path}/files/{quote(other)}", b"2", Scope.EDIT, if_match="*")
        refused(answer, 422)
        assert len(json_of(api.ask("GET", path))["files"]) == 1


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([file_part("a.txt")], 422),
        ([item_part(TITLE), item_part(TITLE)], 422),
        ([item_part(TITLE), ('name="odd"', b"x")], 422),
        ([item_part(TITLE), ("filename=x", b"x")], 400),
        ([item_part(TITLE), ('name="../x"; filename="x"', b"x")], 422),
        ([item_part(TITLE), ('name="a b"; filename="x"', b"x")], 422),
        ([('name="item"', b"{")], 400),
        ([('name="item"', b"[]")], 422),
        ([('name="item"', DEEP)], 400),
        ([('name="item"', b" " * (LONGEST_JSON + 1))], 413),
        ([item_part({**TITLE, "target": "none"}), file_part("a.txt")], 422),
        ([item_part(LINKED), file_part("a.txt")], 422),
        ([item_part({"odd": 1}), file_part("a.txt")], 422),
        ([('name="item"\r\nX: ' + "x" * 20_000, b"{}")], 400),
        ([('name="item"\r\n' + "X: y\r\n" * 50 + "X: y", b"{}")], 400),
        ([], 422),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_keeps_nothing(
    api: Asking, parts: list[tuple[str, bytes]], status: int
) -> None:
    refused(api.ask("POST", "/items", form(*parts), Scope.DEPOSIT, content_type=FORM), status)
    assert (count(api), api.staging) == (1, [])


def test_an_item_of_the_longest_text_is_taken_in_a_form_and_alone(api: Asking) -> None:
    text = json.dumps(TITLE).encode().ljust(LONGEST_JSON)
    for body, kind in ((form(('name="item"', text)), FORM), (text, "application/json")):
        assert api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=kind).status == 201


def test_a_refused_form_keeps_no_disk_while_others_are_at_work(api: Asking) -> None:
    with api.archive.item_store.staging_session():  # who is not alone does not clear the folder at its end
        body = form(item_part({"odd": 1}), file_part("a.txt"))
        refused(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM), 422)
        assert api.staging == []


def test_a_file_that_cannot_be_discarded_now_changes_no_answer(
    api: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(FolderFiles, "discard", fail)
    body = form(item_part({"odd": 1}), file_part("a.txt"))
    refused(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM), 422)
    assert api.staging == []  # the end of the session has cleared it


@pytest.mark.parametrize("cut", [1, 2, 5, 30, 60, 100, 150, 10_000])
def test_a_form_that_is_broken_off_keeps_nothing(api: Asking, cut: int) -> None:
    whole = form(item_part(TITLE), file_part("a.txt", b"x" * 20_000))
    answer = api.ask("POST", "/items", whole[:-cut], Scope.DEPOSIT, content_type=FORM)
    if cut <= 2:  # only the end of the line is missing
        assert answer.status == 201
    else:
        refused(answer, 400)
        assert count(api) == 1
    assert api.staging == []


def test_the_boundary_may_be_wrong_or_long(api: Asking) -> None:
    body = form(item_part(TITLE))
    for boundary in ("other", "x" * 1000, '"', "\xff"):
        kind = f"multipart/form-data; boundary={boundary}"
        assert api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=kind).status in {400, 415}
    quoted = f'multipart/form-data; boundary="{BOUNDARY}"'
    assert api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=quoted).status == 201


def test_more_files_than_are_allowed_are_refused(api: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_files, "MOST_FILES", 3)
    body = form(item_part(TITLE), *(file_part(str(number)) for number in range(4)))
    assert "3" in refused(api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM), 413)
    assert (count(api), api.staging) == (1, [])


def test_a_body_without_its_length_is_no_empty_file(api: Asking) -> None:
    path = deposited(api)
    head = _put_head(api, path)
    assert _raw(api, f"{head}Connection: close\r\n\r\n".encode()).startswith(b"HTTP/1.1 411 ")
    chunked = b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    assert _raw(api, head.encode() + chunked).startswith(b"HTTP/1.1 201 ")
    assert api.served.get(f"/col/{path.removeprefix('/items/')}/doc/x").body == b"abcde"


@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"Content-Length: 5x\r\n\r\nabcde", b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ],
)  # fmt: skip
def test_lengths_that_contradict_each_other_change_nothing(api: Asking, more: bytes) -> None:
    path = deposited(api)
    head = _put_head(api, path)
    status = _raw(api, head.encode() + b"Connection: close\r\n" + more)[:12]
    assert status in {b"HTTP/1.1 400", b"HTTP/1.1 201"} if b"gzip" in more else status == b"HTTP/1.1 400"
    if status.endswith(b"400"):
        assert "files" not in json_of(api.ask("GET", path))


def _put_head(api: Asking, path: str) -> str:
    """The beginning of a request that puts a file."""
    token = api.token(Scope.EDIT)
    who = f"Host: x\r\nAuthorization: Bearer {token}\r\nIf-Match: *\r\n"
    return f"PUT /-/api{path}/files/x HTTP/1.1\r\n{who}"


def _raw(api: Asking, raw: bytes) -> bytes:
    received = b""
    with socket.create_connection(("127.0.0.1", api.served.port), timeout=10) as connection:
        connection.sendall(raw)
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:  # it was closed while more was coming
            pass
    return received


@pytest.mark.parametrize("kind", ["form", "file"])
def test_a_client_that_goes_away_in_the_middle_leaves_nothing(api: Asking, kind: str) -> None:
    path = deposited(api)
    token = api.token(Scope.ADMIN)
    if kind == "form":
        head = f"POST /-/api/items HTTP/1.1\r\nContent-Type: {FORM}\r\n"
        begin = part(*item_part(TITLE)) + part(*file_part("a.txt", b"a" * 100_000))
    else:
        head, begin = f"PUT /-/api{path}/files/x HTTP/1.1\r\nIf-Match: *\r\n", b"a" * 3_000_000
    with socket.create_connection(("127.0.0.1", api.served.port)) as connection:
        connection.sendall(
            f"{head}Host: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 9000000\r\n\r\n".encode()
        )
        connection.sendall(begin)
        _until(lambda: bool(api.staging) or kind == "form")
    _until(lambda: api.staging == [])
    assert count(api) == 2
    assert "files" not in json_of(api.ask("GET", path))


def _until(true: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(500):
        if true():
            return
        waiting.wait(0.02)
    pytest.fail("it did not come to that")


@pytest.mark.long
def test_a_file_that_is_larger_than_allowed_is_refused_before_it_comes(api: Asking) -> None:
    path = deposited(api)
    head = _put_head(api, path)
    for size in (LARGEST + (1 << 20) + 1, LARGEST * 1000):
        raw = f"{head}Connection: close\r\nContent-Length: {size}\r\n\r\n".encode()
        assert _raw(api, raw).startswith(b"HTTP/1.1 413 ")
    assert api.staging == []


@pytest.mark.parametrize("key", ["x" * 256, "\xff\x80"])
def test_an_idempotency_key_is_short_and_printable(api: Asking, key: str) -> None:
    refused(api.ask("POST", "/items", TITLE, Scope.DEPOSIT, idempotency_key=key), 400)


def test_other_items_are_read_during_a_slow_deposit(api: Asking) -> None:
    path = deposited(api)
    token = api.token(Scope.DEPOSIT)
    with socket.create_connection(("127.0.0.1", api.served.port)) as slow:
        slow.sendall(
            f"POST /-/api/items HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: {FORM}\r\n"
            "Content-Length: 100000\r\n\r\n".encode()
        )
        slow.sendall(part(*item_part(TITLE)))
        assert api.ask("GET", path).status == 200
        assert api.ask("POST", "/items", TITLE, Scope.DEPOSIT).status == 201


class OpenQueue(NewArchive):
    """An Archive whose labels come when `open` is set."""

    waits: threading.Semaphore
    open: threading.Event

    def mint(self, count: int) -> Iterator[IBIForms]:
        self.waits.release()
        assert self.open.wait(60)
        yield from super().mint(count)


@pytest.fixture
def queue(new_archive: Callable[..., NewArchive]) -> Callable[[str], NewArchive]:
    def make(address: str) -> NewArchive:
        archive = OpenQueue(**vars(new_archive(address)))
        archive.waits, archive.open = threading.Semaphore(0), threading.Event()
        return archive

    return make


def test_a_deposit_behind_too_many_others_is_told_to_come_later(
    queue: Callable[[str], NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deposits, "MOST_DEPOSITS", 2)
    with asking(queue) as api, ThreadPoolExecutor() as clients:
        api.token(Scope.DEPOSIT)
        archive = cast("OpenQueue", api.archive)
        waiting = [clients.submit(api.ask, "POST", "/items", TITLE, Scope.DEPOSIT) for _ in range(2)]
        try:
            assert all(archive.waits.acquire(timeout=20) for _ in range(2))
            answer = api.ask("POST", "/items", TITLE, Scope.DEPOSIT)
        finally:
            archive.open.set()
        assert refused(answer, 503) == "too many deposits are under way; ask again later"
        assert answer.headers["retry-after"] == "5"
        assert [each.result().status for each in waiting] == [201, 201]
        assert api.ask("POST", "/items", TITLE, Scope.DEPOSIT).status == 201


def test_readers_and_uploads_do_not_wait_for_those_who_wait_for_labels(
    queue: Callable[[str], NewArchive],
) -> None:
    with asking(queue) as api:
        api.token(Scope.DEPOSIT)
        archive = cast("OpenQueue", api.archive)
        answers: list[int] = []

        def one() -> None:
            answers.append(api.ask("POST", "/items", TITLE, Scope.DEPOSIT).status)

        threads = [threading.Thread(target=one) for _ in range(20)]
        for thread in threads:
            thread.start()
        try:
            assert all(archive.waits.acquire(timeout=20) for _ in range(20))
            upload = api.ask("POST", "/uploads", None, Scope.DEPOSIT, upload_length="3")
            path = upload.headers["location"].removeprefix("/-/api")
            kind = {"content_type": "application/offset+octet-stream", "upload_offset": "0"}
            assert api.ask("PATCH", path, b"abc", Scope.DEPOSIT, **kind).status == 204
            assert api.ask("GET", f"/items/{SERVICE.rep}").status == 200
            assert answers == []
        finally:
            archive.open.set()
            for thread in threads:
                thread.join(60)
        assert answers == [201] * 20


def test_a_history_tells_the_name_of_the_token_and_never_the_token(api: Asking) -> None:
    path = deposited(api)
    text = api.ask("GET", path, None, Scope.READ).text
    assert '"who": "deposit"' in text
    assert all(token not in text for token in api.tokens.values())


def test_who_holds_the_item_of_a_label_finds_it_in_the_catalogue(api: Asking) -> None:
    path = deposited(api, TITLE, ("a.txt", b"abc"))
    holding = api.archive.catalogue.holding(parse_name(path.removeprefix("/items/")))
    assert holding is not None
    assert holding.files[0].staged == ""
    assert os.path.exists(api.archive.folder.path_of(holding.forms, holding.files[0]))  # noqa: PTH110 - a path of bytes
