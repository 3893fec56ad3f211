"""The pages of operations as values: the list, each form as it is filled, each result, each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.people import Role
from ibi.accounts.tokens import Scope
from ibi.api.operation_pages import OperationPage, OperationsPage, form_fields, query_fields
from ibi.api.operations import OperationGroup, etag_of
from ibi.errors import BadField, Conflict, HoldingError, NotHeld
from ibi.http.response import Refusal
from support.acts.made_up import (
    COUNT,
    DOCUMENT,
    DROP,
    LIST,
    ONE,
    OTHERS,
    PUT,
    SEND,
    SET,
    SHOW,
    THINGS,
    UPLOAD,
    ListFields,
    MadeUp,
    ThingFields,
    read_file,
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[MadeUp]:
    made = MadeUp(tmp_path)
    yield made
    made.jobs.close()


def refused(error: type[Exception], act: Any, *words: Any, **named: Any) -> tuple[int, str]:
    with pytest.raises(error) as caught:
        act(*words, **named)
    return getattr(caught.value, "status", 0), str(caught.value)


def notes(page: OperationPage) -> list[str]:
    return [str(each) for each in page.notes]


def test_each_role_sees_the_operations_that_it_may_do(service: MadeUp) -> None:
    every = [OperationGroup(each.heading, [*each.operations]) for each in (THINGS, OTHERS)]
    assert service.show() == OperationsPage(every)
    assert service.show(role=Role.DEPOSITOR) == OperationsPage([
        OperationGroup("Things", [LIST, ONE, DOCUMENT]), OperationGroup("Settings", [SHOW]),
    ])  # fmt: skip
    assert (service.handler.scope, service.handler.files, service.handler.small_files) == (
        Scope.READ,
        True,
        False,
    )


def test_what_is_read_is_shown_at_once_unless_a_field_is_needed(service: MadeUp) -> None:
    found = {"things": ["a", "b"], "next": "/-/api/things?least=1"}
    assert service.show("things", "done=x&lang=en") == OperationPage(LIST, {}, result=found, notes=[])
    page = service.show("things", "least=2")
    assert page == OperationPage(LIST, {"least": ["2"]}, result={"things": ["b"]}, notes=[])
    assert (page.texts("least"), page.texts("more")) == (["2"], ())
    assert service.show("thing") == OperationPage(ONE, {})
    page = service.show("thing", "name=a")
    assert (replace(page, notes=()), notes(page)) == (
        OperationPage(ONE, {"name": ["a"]}, result={"name": "a", "size": 1, "words": ["x"]}),
        ["a was looked at"],
    )
    assert service.show("thing", "name=c", Form([("name", "c")])) == OperationPage(ONE, {"name": ["c"]})
    assert refused(NotHeld, service.show, "thing", "name=c")[1] == "there is no thing c"
    assert refused(BadField, service.show, "things", "least=x")[1] == "least is a whole number from 0 to 9"
    assert refused(Refusal, service.show, "things", "least=9") == (422, "/secret cannot be read")
    saved = service.show("document")
    assert (saved.status, read_file(saved)) == (200, b"a file")
    assert service.send("export").body == b"new"


def test_an_address_without_an_operation_has_no_page(service: MadeUp) -> None:
    for word in ("own", "unheard", "things/a"):
        assert refused(Refusal, service.show, word) == (404, "there is no such page here")
        assert refused(Refusal, service.send, word) == (404, "there is no such page here")
    assert refused(Refusal, service.send, "things") == (404, "there is no such page here")
    why = (403, "your account does not permit this; ask an administrator")
    assert refused(Refusal, service.show, "set", role=Role.KEEPER) == why
    assert refused(Refusal, service.send, "set", role=Role.KEEPER) == why


PRESENT = {"loud": ["yes"], "rate": ["2"], "title": ["One\nTwo"], "hosts": ["c", "d"]}


def test_a_form_is_filled_with_what_there_is(service: MadeUp) -> None:
    version = etag_of({"settings": service.settings})
    page = service.show("set", "rate=9")  # a link must not bring along a change
    assert page == OperationPage(SET, PRESENT, PRESENT, version)
    assert [each.name for each in page.fields] == ["loud", "rate", "title", "hosts"]
    assert [(heading, [each.name for each in known]) for heading, known in page.groups] == [
        ("Sound", ["loud", "rate"]), ("Words", ["title", "hosts"]),
    ]  # fmt: skip
    put = service.show("put-thing", "name=a&size=3")
    assert put == OperationPage(PUT, {"name": ["a"]})
    assert [(heading, [each.name for each in known]) for heading, known in put.groups] == [
        ("", ["name", "size", "words", "secret"])
    ]
    assert service.show("upload") == OperationPage(UPLOAD, {"sure": ["yes"]})
    for word, operation in (("drop-thing", DROP), ("count", COUNT), ("send", SEND)):
        assert service.show(word) == OperationPage(operation, {}), word


def typed(**fields: str) -> Form:
    """The form of the settings as a browser sends it, with these changes."""
    texts = {"rate": "2", "title": "One\r\nTwo", "hosts": "c\r\nd", "loud": "yes", **fields}
    was = [("was.loud", "yes"), ("was.rate", "2"), ("was.title", "One\nTwo"), ("was.hosts", "c\nd")]
    return Form([*was, *((name, text) for name, text in texts.items() if text)])


def test_after_a_fault_a_form_shows_what_was_typed_where_it_was_changed(service: MadeUp) -> None:
    seen = etag_of({"settings": service.settings})
    service.settings |= {"rate": 3.0, "title": "Other"}
    present = {"loud": ["yes"], "rate": ["3"], "title": ["Other"], "hosts": ["c", "d"]}
    now = etag_of({"settings": service.settings})
    page = service.show("set", typed=typed(hosts="e\nf"))
    assert page == OperationPage(SET, {**present, "hosts": ["e\nf"]}, present, now)
    # What is wrong by itself was compared with nothing yet: the next form is still of the version that was seen.
    for rate, version in (("x", seen), ("4", now)):
        form = typed(rate=rate)
        form = Form([*form.fields, ("version", seen)])
        shown = service.show("set", typed=form)
        assert (shown.version, shown.values["rate"]) == (version, [rate])
    unticked = service.show("set", typed=typed(loud=""))
    assert unticked.values["loud"] == []
    upload = service.show("upload", typed=Form([("number", "9")]))
    assert upload == OperationPage(UPLOAD, {"file": [], "number": ["9"], "sure": []})


def test_what_was_changed_in_a_form_is_changed_and_nothing_else(service: MadeUp) -> None:
    def changed(**fields: str) -> Any:
        page = service.send("set", *typed(**fields).fields)
        assert page == OperationPage(SET, result=page.result, notes=[])
        return page.result

    assert changed() == {"changed": []}
    assert changed(rate="4") == {"changed": ["rate"]}
    assert changed(title=" Three\r\nFour ", hosts="e\r\nf") == {"changed": ["hosts", "title"]}
    assert service.settings == {"loud": True, "rate": 4.0, "title": "Three\nFour", "hosts": ("e", "f")}
    assert refused(Refusal, service.send, "set", *typed(title=" ").fields) == (422, "a title is needed")
    assert refused(BadField, service.send, "set", *typed(loud="x").fields)[1] == "loud is yes or no"
    seen = etag_of({"settings": dict(service.settings)})
    service.send("set", *typed(rate="5").fields, ("version", seen))
    assert service.settings["rate"] == 5.0
    assert refused(Conflict, service.send, "set", *typed(rate="6").fields, ("version", seen))[1] == (
        "this has been changed meanwhile, so nothing was done"
    )


def test_the_fields_of_a_form_are_read_as_browsers_send_them(service: MadeUp) -> None:
    page = service.send(
        "put-thing",
        ("name", " c "),
        ("size", "3"),
        ("words", "y\r\nz"),
        ("words", "w"),
        ("secret", ""),
        ("path", "/x"),
    )
    result = {"name": "c", "words": ["y", "z", "w"], "secret": "a secret of its own"}
    assert (page.result, notes(page)) == (result, ["“how large it is” is the field"])
    assert service.things["c"] == {"size": 3, "words": ["y", "z", "w"]}
    assert refused(BadField, service.send, "put-thing")[1] == "the field name is missing"
    assert refused(BadField, service.send, "put-thing", ("name", "c"), ("size", ""))[1] == (
        "size is a whole number from 0 to 9"
    )
    assert refused(BadField, service.send, "drop-thing", ("name", "c"))[1] == "tick the box to confirm"
    assert service.send("drop-thing", ("name", "c"), ("sure", "yes")) == OperationPage(
        DROP, result={}, notes=[]
    )
    assert "c" not in service.things
    assert service.send("count").startswith("/-/admin/do/job?id=")


def test_a_file_is_kept_only_with_fields_that_are_right(service: MadeUp) -> None:
    page = service.send("upload", ("number", "2"), files={"file": b"one"})
    assert page == OperationPage(UPLOAD, result={"file": "1", "number": 2, "sure": False}, notes=[])
    page = service.send("upload", ("sure", "yes"), ("number", ""), files={"file": b"two"})
    assert page.result == {"file": "2", "number": 1, "sure": True}
    assert refused(BadField, service.send, "upload", ("file", "1"))[1] == "the field file is missing"
    assert (service.kept, service.dropped) == ([b"one", b"two"], [])
    why = "number is a whole number from 1 to 5"
    assert refused(BadField, service.send, "upload", ("number", "9"), files={"file": b"three"})[1] == why
    assert refused(BadField, service.send, "upload", ("number", "2"))[1] == "the field file is missing"
    assert service.kept == [b"one", b"two"]
    assert (
        refused(HoldingError, service.send, "upload", ("number", "5"), files={"file": b"four"})[1]
        == "five is taken"
    )
    assert service.dropped == [b"four"]


def test_fields_of_a_page_of_its_own_are_read_from_its_form_or_its_query(service: MadeUp) -> None:
    form = Form([("name", "a"), ("words", "x"), ("secret", " k ")])
    assert form_fields(ThingFields, form) == ThingFields(name="a", words=("x",), secret="k")
    assert form_fields(ThingFields, form, name="b").name == "b"
    visit = service.visit("", "least=%202%20&done=x&lang=en")
    assert query_fields(ListFields, visit) == ListFields(least=2)
    assert query_fields(ListFields, service.visit("", "least=+")) == ListFields()
    with pytest.raises(BadField):
        query_fields(ListFields, service.visit("", "more=1"))
