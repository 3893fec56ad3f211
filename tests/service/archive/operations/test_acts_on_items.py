"""Every act on an item depends on the item's ETag, one that is added tomorrow, too; hand-overs on their list."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest

import ibi.app.archive
import ibi.app.archive_admin
from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, field
from ibi.api.operations import Operation, OperationGroup
from ibi.api.routes import record
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.operations.exchange import REFRESH
from ibi.archive.operations.item_facts import check_optional_match
from ibi.archive.operations.listed import GROUPS, ITEM, OPERATIONS
from ibi.identifier.forms import parse_name
from ibi.runtime.settings import Peer
from support.acts.requests import BYTES, request_for
from support.archive.administration_fixture import AdministeredArchive, administered_archive
from support.engines import by_hand
from support.programs import Program, Reply


class NoteFields(Fields, frozen=True):
    """An item, and what is noted about it."""

    ibi: Annotated[str, field("one of its names", "ibi IBI", longest=512)]
    text: Annotated[str, field("what is noted")]


def note(context: ArchiveContext, fields: NoteFields) -> dict[str, Any]:
    """Note something in the rights of an item."""
    with context.opened() as item_store, item_store.unit_of_work(context.who) as work:
        held = work.get(parse_name(fields.ibi))
        check_optional_match(context, held)
        changed = replace(held, rights=fields.text, timestamp=work.next_timestamp(held))
        work.change(held, changed, (), "edited", changed=["rights"])
    return {}


NOTE = Operation(
    "note", "note something about an item", Scope.EDIT, NoteFields, note, "POST /items/<ibi>/notes", place="ibi",
    gives=record(),
)  # fmt: skip


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdministeredArchive]:
    """An Archive with one more act."""
    for module in (ibi.app.archive, ibi.app.archive_admin):
        monkeypatch.setattr(module, "OPERATIONS", (*OPERATIONS, NOTE))
    monkeypatch.setattr(ibi.app.archive_admin, "GROUPS", (*GROUPS, OperationGroup("Notes", (NOTE,))))
    with administered_archive(tmp_path) as made:
        yield made


@pytest.fixture
def program(served: AdministeredArchive) -> Program:
    return Program(served.archive.data, served.port)


def deposited(program: Program) -> tuple[str, str]:
    """A new item with a file: its path, and its ETag as all clients are given it."""
    made = program.ask("POST", "/items", {"metadata": {"title": ["T"]}}, Scope.ADMIN).content(201)
    path = f"/items/{made['rep']}"
    assert program.ask("PUT", f"{path}/files/old.txt", b"old", Scope.ADMIN, if_match="*").status == 201
    return path, program.ask("GET", path).headers["etag"]


VALUES: dict[str, dict[str, Any]] = {
    "edit": {"rights": "mine"},
    "put-file": {"file": "a.txt", BYTES: b"words"},
    "take-out-file": {"file": "old.txt"},
    "delete": {"reason": "wrong"},
    "refresh": {},
    "note": {"text": "mine"},
}
ACTS = [each for each in (*OPERATIONS, NOTE) if each.changes and f"{each.pattern}/".startswith(f"{ITEM}/")]


def done(program: Program, operation: Operation[Any, Any], path: str, tag: str) -> Reply:
    """Do an act on an item of this version."""
    request = request_for(operation, {"ibi": path.removeprefix("/items/"), **VALUES[operation.name]})
    headers = {**request.headers, "if_match": tag}
    return program.ask(request.method, request.target, request.body, Scope.ADMIN, **headers)


@pytest.mark.parametrize("operation", ACTS, ids=[each.name for each in ACTS])
def test_an_act_on_an_item_depends_on_the_etag_of_the_item(
    program: Program, operation: Operation[Any, Any]
) -> None:
    path, etag = deposited(program)
    assert done(program, operation, path, '"of another time"').status == 412
    edited = program.ask("PATCH", path, {"rights": "other"}, Scope.ADMIN, if_match=etag)
    assert done(program, operation, path, etag).status == 412
    assert program.ask("GET", path).content()["rights"] == "other"
    # The tag that all clients are given is as good as that of one who may see the history.
    tags = program.ask("GET", path).headers["etag"], edited.headers["etag"]
    assert tags[0] != tags[1]
    answer = done(program, operation, path, f'"no tag", {tags[0]}')
    # An original is not refreshed, in whatever version.
    assert answer.status == 409 if operation is REFRESH else answer.status < 300, answer.text


@contextmanager
def edit_of(served: AdministeredArchive, path: str) -> Iterator[None]:
    """Another edit of the item, which is committed at the end of the block and holds up all others meanwhile."""
    with by_hand.holding_up(served.archive.data) as connection:
        yield
        rep = path.removeprefix("/items/")
        sql = f"UPDATE item SET rights = 'between', timestamp = '2030-01-01T00:00:00Z' WHERE rep = '{rep}'"  # noqa: S608 - our own name
        assert connection.exec_driver_sql(sql).rowcount == 1


# A refresh makes a copy equal to its original, also after another refresh: nothing is undone.
UNDOING = [each for each in ACTS if each is not REFRESH]


@pytest.mark.parametrize("operation", UNDOING, ids=[each.name for each in UNDOING])
def test_an_edit_that_comes_in_between_is_neither_undone_nor_removed_unseen(
    served: AdministeredArchive, program: Program, operation: Operation[Any, Any]
) -> None:
    path, etag = deposited(program)
    with ThreadPoolExecutor(1) as threads:
        with edit_of(served, path):
            sent = threads.submit(done, program, operation, path, etag)
            time.sleep(0.5)  # it has found the item as it was, and waits for the transaction
            assert not sent.done(), sent.result().text
        answer = sent.result()
    assert answer.status == 412, answer.text
    assert program.ask("GET", path).content()["rights"] == "between"


OFFERED = """INSERT INTO giving
(id, item, peer, address, passage, proof, fingerprint, service, remove, who, stage, moment) VALUES
('00000000000000000000000000000000', 1, 'there', 'http://127.0.0.1:9', 'p', 'q', '', '', (1 = 0), 'otto', 'offered',
'2030-01-01T00:00:00Z')"""


@contextmanager
def another_hand_over(served: AdministeredArchive) -> Iterator[None]:
    """Another hand-over, which is committed at the end of the block and holds up all changes meanwhile."""
    with by_hand.holding_up(served.archive.data) as connection:
        yield
        connection.exec_driver_sql(OFFERED)


def test_a_hand_over_that_another_one_overtakes_is_a_conflict(
    served: AdministeredArchive, program: Program
) -> None:
    Peer.write_tables(served.archive.data, {"there": Peer(address="http://127.0.0.1:9", token="t")})
    body = {"ibi": deposited(program)[0].removeprefix("/items/"), "to": "there"}
    etag = program.ask("GET", "/hand-overs", None, Scope.ADMIN).headers["etag"]
    with ThreadPoolExecutor(1) as threads:
        with another_hand_over(served):
            sent = threads.submit(program.ask, "POST", "/hand-overs", body, Scope.ADMIN, if_match=etag)
            time.sleep(0.5)  # it has found no other hand-over, and waits for the transaction
            assert not sent.done(), sent.result().text
        answer = sent.result()
    assert answer.status == 412, answer.text
    found = program.ask("GET", "/hand-overs", None, Scope.ADMIN)
    assert [each["transfer"] for each in found.content()["transfers"]] == ["0" * 32]
    again = program.ask("POST", "/hand-overs", body, Scope.ADMIN, if_match=found.headers["etag"])
    assert again.status == 202, again.text


def test_the_page_of_an_item_leads_to_each_act_on_it(served: AdministeredArchive, program: Program) -> None:
    path, _ = deposited(program)
    name = path.removeprefix("/items/")
    maria, root = served.new_browser("maria"), served.new_browser("root")
    page = root.look(f"/-/admin{path}").text
    linked = re.findall(r'"(/-/admin/do/[^"]+)"', page)
    assert linked == [f"/-/admin/do/{act}?ibi={name}" for act in ("attest", "export", "note")]
    # Only an administrator takes bags out; a copy is refreshed, and an original is not.
    assert "/do/export" not in maria.look(f"/-/admin{path}").text
    maria.look(linked[-1])
    assert f'value="{name}"' in maria.page.text if maria.page else False
    answer = maria.send("/-/admin/do/note", ("ibi", name), ("text", "noted"))
    assert answer.status == 200, answer.text
    assert program.ask("GET", path).content()["rights"] == "noted"
