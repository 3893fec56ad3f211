"""What programs of librarians ask an Archive for, by a token: all that its pages do."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.people import Accounts
from ibi.accounts.tokens import Scope
from ibi.archive.api import imports
from ibi.archive.operations.item_facts import item_facts
from ibi.archive.preservation.backup import Backup
from ibi.archive.preservation.backup_store import DATA, BackupStore
from ibi.archive.store.data_directory import DataDirectory
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings, Peer
from support.archive.administration_fixture import AdministeredArchive, administered_archive
from support.archive.archive_fixture import LAST, REP
from support.archive.replication_fixture import NAME, make_archive
from support.programs import Program, Reply

SAMPLES = {
    "jsonl": (b'{"key": "j1", "metadata": {"title": ["One"]}}\n{"key": "j2", "language": 7}\n', 2),
    "bibtex": (b"@book{b1, title={Two}, author={Ada}}\n\n@book{b1x, ibi={no ibi}, title={x}}\n", None),
    "ris": (b"TY  - BOOK\r\nTI  - Three\r\nUR  - http://a.example/three\r\nER  - \r\n", None),
    "csv": (b"key,title\nc1,Four\nc2,Five\n", None),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("office")) as made:
        yield made


@pytest.fixture(scope="module")
def program(served: AdministeredArchive) -> Program:
    return Program(served.archive.data, served.port)


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_file_of_each_format_is_weighed_and_then_taken_in(program: Program, kind: str) -> None:
    content, _ = SAMPLES[kind]
    dry = program.ask("POST", f"/imports?format={kind}&dry=yes", content, Scope.ADMIN).content()
    assert dry["dry"] is True
    assert dry["added"] >= 1
    weighed = {name: dry[name] for name in ("added", "unchanged", "refused", "refusals")}
    done = program.ask("POST", f"/imports?upload={dry['upload']}", None, Scope.ADMIN).content()
    assert {name: done[name] for name in weighed} == weighed
    assert (done["dry"], "upload" in done) == (False, False)
    assert program.ask("POST", f"/imports?upload={dry['upload']}", None, Scope.ADMIN).status == 404
    again = program.ask("POST", f"/imports?format={kind}", content, Scope.ADMIN).content()
    assert (again["added"], again["refused"]) == (0, weighed["refused"])


def test_a_corrected_record_warns_and_updates_by_its_key(program: Program) -> None:
    first = b"title,date,url\nThe river,2001,http://a.example/river\n"
    assert program.ask("POST", "/imports?format=csv", first, Scope.ADMIN).content()["notices"] == []
    corrected = b"title,date,url\nThe rivers,2001,http://a.example/river\n"
    dry = program.ask("POST", "/imports?format=csv&dry=yes", corrected, Scope.ADMIN).content()
    assert (dry["added"], [each["line"] for each in dry["notices"]]) == (1, [2])
    keyed = (b"key,title\nupdated,One\n", b"key,title,language\nupdated,Two,en\n")
    assert program.ask("POST", "/imports?format=csv", keyed[0], Scope.ADMIN).content()["added"] == 1
    assert program.ask("POST", "/imports?format=csv", keyed[1], Scope.ADMIN).content()["refused"] == 1
    dry = program.ask("POST", "/imports?format=csv&dry=yes&update=yes", keyed[1], Scope.ADMIN).content()
    assert (dry["changed"], "language, metadata.title" in dry["notices"][0]["notice"]) == (1, True)
    done = program.ask("POST", f"/imports?upload={dry['upload']}&update=yes", None, Scope.ADMIN).content()
    assert (done["changed"], done["added"], done["refused"]) == (1, 0, 0)
    again = program.ask("POST", "/imports?format=csv&update=yes", keyed[1], Scope.ADMIN).content()
    assert (again["changed"], again["unchanged"]) == (0, 1)
    assert program.ask("POST", "/imports?format=csv&update=si", keyed[1], Scope.ADMIN).status == 422


PROTOCOLS = ("/uploads", "/transfers")
"""Routes of protocols whose requests can be repeated by themselves, and have no version."""


def test_every_route_that_changes_something_lists_the_headers_of_such_requests(program: Program) -> None:
    document = program.ask("GET", "/openapi.json").content()
    found = {
        (method, path): {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in {"post", "put", "patch", "delete"} and not path.startswith(PROTOCOLS)
    }
    assert ("post", "/imports") in found
    assert [each for each, headers in found.items() if not headers >= {"if-match", "idempotency-key"}] == []


def test_a_text_that_names_no_item_is_told(program: Program) -> None:
    refused = program.ask("POST", "/copies", {"ibi": "zzz"}, Scope.ADMIN).content(422)
    assert refused["detail"] == "zzz: there is no IBI in this text"


def test_an_import_depends_on_no_version(program: Program) -> None:
    row, before = (
        b"key,title\nversion,One\n",
        program.ask("GET", "/state", None, Scope.ADMIN).content()["items"],
    )
    refused = program.ask("POST", "/imports?format=csv", row, Scope.ADMIN, if_match='"of another time"')
    assert refused.status == 412
    assert program.ask("GET", "/state", None, Scope.ADMIN).content()["items"] == before
    assert program.ask("POST", "/imports?format=csv", row, Scope.ADMIN, if_match="*").content()["added"] == 1


def test_an_upload_starts_once_for_a_key(program: Program) -> None:
    def begin(length: str, key: str) -> Reply:
        return program.ask("POST", "/uploads", None, Scope.ADMIN, upload_length=length, idempotency_key=key)

    first, again, other = begin("3", "begin"), begin("3", "begin"), begin("3", "another")
    assert [each.status for each in (first, again, other)] == [201] * 3
    assert first.headers["location"] == again.headers["location"] != other.headers["location"]
    assert begin("4", "begin").status == 422


def test_a_report_names_lines_and_is_in_the_language_of_the_request(program: Program) -> None:
    lines = b'{"key": "k1"}\n{"key": "k2", "language": 7}\nnothing\n{"files": {"a": "a.txt"}}\n'
    for language, word in (("en", "text"), ("pt-BR", "texto")):
        report = program.ask(
            "POST",
            "/imports?dry=yes",
            lines,
            Scope.ADMIN,
            content_type="application/jsonl",
            accept_language=language,
        ).content()
        assert (report["added"], report["refused"]) == (1, 3)
        assert [each["line"] for each in report["refusals"]] == [2, 3, 4]
        assert word in report["refusals"][0]["problem"]


def test_of_many_refused_records_only_the_first_are_told(program: Program) -> None:
    lines = b"nothing\n" * (imports.MOST_SHOWN + 50)
    report = program.ask("POST", "/imports?format=jsonl", lines, Scope.ADMIN).content()
    assert report["refused"] == imports.MOST_SHOWN + 50
    assert len(report["refusals"]) == imports.MOST_SHOWN


def test_a_large_file_comes_as_an_upload_that_can_be_resumed(program: Program) -> None:
    rows = b"key,title\n" + b"".join(b"u%d,Title %d\n" % (number, number) for number in range(300))
    begun = program.ask("POST", "/uploads", None, Scope.ADMIN, upload_length=str(len(rows)))
    upload = begun.headers["location"].rpartition("/")[2]
    early = program.ask("POST", f"/imports?upload={upload}&format=csv", None, Scope.ADMIN)
    assert "not complete" in early.content(409)["detail"]
    for start in (0, 1000):
        part = rows[start : start + 1000] if start == 0 else rows[start:]
        sent = program.ask(
            "PATCH", f"/uploads/{upload}", part, Scope.ADMIN, upload_offset=str(start),
            content_type="application/offset+octet-stream",
        )  # fmt: skip
        assert sent.status == 204, sent.text
    assert (
        program.ask("POST", f"/imports?upload={upload}", None, Scope.ADMIN).status == 422
    )  # no format is told
    assert (
        program.ask(
            "POST",
            f"/imports?upload={upload}&format=csv",
            None,
            Scope.ADMIN,
            token=program.token(Scope.ADMIN, Scope.READ),
        ).status
        == 404
    )  # another token's
    done = program.ask("POST", f"/imports?upload={upload}&format=csv", None, Scope.ADMIN).content()
    assert (done["added"], done["refused"]) == (300, 0)


@pytest.mark.parametrize(
    ("query", "content", "kind", "status"),
    [
        ("", b"x", "application/octet-stream", 422), ("?format=xls", b"x", "", 422), ("?dry=perhaps", b"x", "", 422),
        ("?formt=csv", b"x", "text/csv", 422),
        ("?format=csv&format=ris", b"x", "", 400), ("?upload=../../x", None, "", 404),
        ("?format=csv", b"nothing here\n1,2,3", "", 422), ("?upload=" + "0" * 32, None, "", 404),
    ],
)  # fmt: skip
def test_an_import_that_cannot_be_takes_in_nothing_and_leaves_nothing_behind(
    program: Program, query: str, content: bytes | None, kind: str, status: int
) -> None:
    before = sorted((program.data / "uploads").glob("*.part"))
    answer = program.ask(
        "POST", f"/imports{query}", content, Scope.ADMIN, **({"content_type": kind} if kind else {})
    )
    assert (answer.status, bool(answer.content(status)["detail"])) == (status, True)
    assert sorted((program.data / "uploads").glob("*.part")) == before
    assert list((program.data / "staging").iterdir()) == []


def test_too_large_a_file_of_records_is_refused(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "LARGEST_IMPORT", 1000)
    assert program.ask("POST", "/imports?format=csv", b"x" * 2000, Scope.ADMIN).status == 413


def test_copies_are_asked_for_with_the_right_that_it_takes(program: Program) -> None:
    wrong = program.ask("POST", "/copies", {"ibi": REP, "archive": "http://127.0.0.1:1"}, Scope.TRANSFER)
    assert wrong.status == 409  # it is held here
    there = {"ibi": "z.example/y/2014/01.01.00.00", "archive": "http://127.0.0.1:1"}
    assert program.ask("POST", "/copies", there, Scope.TRANSFER).status == 502  # a private address
    assert program.ask("POST", "/copies", {**there, "private": True}, Scope.TRANSFER).status == 403
    assert (
        program.ask("POST", "/copies", {**there, "private": True}, Scope.ADMIN).status == 502
    )  # no Archive listens there
    assert program.ask("POST", "/copies", {"ibi": "no name"}, Scope.TRANSFER).status == 422
    assert program.ask("POST", "/copies", {"ibi": there["ibi"]}, Scope.TRANSFER).status == 409  # no resolver
    assert program.ask("POST", f"/items/{REP}/refresh", None, Scope.TRANSFER).status == 409  # no copy
    assert program.ask("POST", f"/items/{there['ibi']}/refresh", None, Scope.TRANSFER).status == 404


@pytest.mark.parametrize("modifier", ["!", "+(en)", ":"])
def test_a_url_of_another_item_is_no_name_of_the_one_to_copy(
    served: AdministeredArchive, program: Program, modifier: str
) -> None:
    url = f"http://urlib.net/{NAME}{modifier}"
    wanted = {"ibi": url, "archive": "http://127.0.0.1:1", "private": True}
    sentence = f"{NAME}{modifier} leads to another item than {NAME}"
    refused = program.ask("POST", "/copies", wanted, Scope.ADMIN)
    assert sentence in refused.content(409)["detail"]
    root = served.new_browser("root")
    root.look("/-/admin/copy")
    answer = root.send("/-/admin/copy", ("ibi", url), ("archive", "http://127.0.0.1:1"), ("private", "yes"))
    assert answer.status == 422
    assert sentence in html.unescape(answer.text)


def test_a_copy_is_answered_as_the_item_is_shown_afterwards(program: Program, tmp_path: Path) -> None:
    there = make_archive(tmp_path, 2)
    there.put()
    wanted = {"ibi": NAME, "archive": there.root, "private": True}
    with there.served():
        taken = program.ask("POST", "/copies", wanted, Scope.ADMIN)
        shown = program.ask("GET", f"/items/{NAME}", None, Scope.ADMIN)
        refresh, seen = f"/items/{NAME}/refresh", taken.headers["etag"]
        assert program.ask("POST", refresh, None, Scope.TRANSFER, if_match='"x"').status == 412
        assert program.ask("POST", refresh, None, Scope.TRANSFER, if_match=seen).status == 200
    item = taken.content()
    assert item == shown.content()
    assert taken.headers["etag"] == shown.headers["etag"]
    assert taken.headers["location"] == f"/-/api/items/{NAME}"
    assert [event["what"] for event in item["history"]] == ["copied"]
    assert item["thanks"] == 0
    edited = {"file_list_public": False}
    etag = taken.headers["etag"]
    # A change of the copy can depend on it; that a copy is not edited comes after.
    assert program.ask("PATCH", f"/items/{NAME}", edited, Scope.ADMIN, if_match='"x"').status == 412
    assert program.ask("PATCH", f"/items/{NAME}", edited, Scope.ADMIN, if_match=etag).status != 412


def test_an_item_of_an_operation_is_without_its_history_for_one_who_may_not_read(tmp_path: Path) -> None:
    there = make_archive(tmp_path, 3)
    holding = there.put()
    with there.directory.catalogue() as catalogue:
        assert {"history", "thanks"} & set(item_facts(catalogue, holding, with_history=False)) == set()
        assert {"history", "thanks"} <= set(item_facts(catalogue, holding, with_history=True))


def test_a_hand_over_is_started_watched_and_taken_back(program: Program) -> None:
    Peer.write_tables(program.data, {"far": Peer(address="http://127.0.0.1:9", token="ibi_secretofthepeer")})
    program.ask("POST", "/imports?format=csv", b"key,title\nh1,To go\n", Scope.ADMIN).content()
    items = program.ask("GET", "/items?limit=500", None, Scope.READ).content()["items"]
    ibi = next(item["rep"] for item in items if item.get("key") == "h1")
    assert program.ask("POST", "/hand-overs", {"ibi": ibi, "to": "nobody"}, Scope.TRANSFER).status == 422
    begun = program.ask("POST", "/hand-overs", {"ibi": ibi, "to": "far"}, Scope.TRANSFER).content(202)
    assert (begun["item"], begun["to"], begun["stage"]) == (ibi, "http://127.0.0.1:9", "offered")
    listed = program.ask("GET", "/hand-overs", None, Scope.TRANSFER)
    listing = listed.content()
    assert [each["transfer"] for each in listing["transfers"]] == [begun["transfer"]]
    assert listing["peers"] == [{"name": "far", "address": "http://127.0.0.1:9"}]
    assert "secretofthepeer" not in listed.text
    ended = program.ask("DELETE", f"/hand-overs/{begun['transfer']}", None, Scope.TRANSFER).content()
    assert ended["stage"] == "ended"
    assert (
        program.ask("GET", f"/hand-overs/{begun['transfer']}", None, Scope.TRANSFER).content()["stage"]
        == "ended"
    )
    assert program.ask("GET", "/hand-overs", None, Scope.TRANSFER).content()["transfers"] == []
    assert program.ask("GET", "/hand-overs/unknown", None, Scope.TRANSFER).status == 404


def test_the_archive_is_switched_joins_and_leaves(program: Program) -> None:
    joined = program.ask("POST", "/membership", {"resolver": "http://127.0.0.1:9"}, Scope.ADMIN).content(201)
    assert joined["resolver"] == "http://127.0.0.1:9"
    assert joined["key"] in joined["command"]
    standing = program.ask("GET", "/membership", None, Scope.ADMIN)
    assert [each["url"] for each in standing.content()["resolvers"]] == ["http://127.0.0.1:9"]
    assert joined["key"] not in standing.text
    for on in (False, True):
        assert (
            program.ask("PATCH", "/membership", {"switched_on": on}, Scope.ADMIN).content()["switched_on"]
            is on
        )
        assert ArchiveSettings.read(program.data).switched_on is on
    assert program.ask("PATCH", "/membership", {"switched_on": "yes"}, Scope.ADMIN).status == 422
    assert program.ask("POST", "/membership", {"resolver": "ftp://x"}, Scope.ADMIN).status == 422
    assert program.ask("DELETE", "/membership", None, Scope.ADMIN).status == 422
    assert program.ask("DELETE", "/membership?resolver=http://other.example", None, Scope.ADMIN).status == 422
    assert program.ask("DELETE", "/membership?resolver=http://127.0.0.1:9", None, Scope.ADMIN).status == 204
    assert ArchiveSettings.read(program.data).resolver == ""


def test_the_state_of_the_archive_is_for_the_read_scope(program: Program) -> None:
    state = program.ask("GET", "/state", None, Scope.READ).content()
    assert state["items"]["Original"] >= 1
    assert state["files"]["free"] > 0
    settings = ArchiveSettings.read(program.data)
    assert state["service"] == str(settings.service)
    assert settings.key not in json.dumps(state)
    audit = program.ask("GET", "/audit", None, Scope.READ).content()
    assert (audit["damaged"], audit["faults"], audit["days"]) == ([], 0, settings.audit_days)
    deadline = time.monotonic() + 60
    while not (index := program.ask("GET", "/index", None, Scope.READ).content())["ready"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert index["items"] >= 1
    assert program.ask("GET", "/statistics").status == 200


def test_accounts_and_tokens_are_for_administrators(served: AdministeredArchive, program: Program) -> None:
    made = program.ask("POST", "/accounts", {"name": "ines", "role": "depositor"}, Scope.ADMIN).content(201)
    ines = served.new_browser()
    assert ines.sign_in("ines", made["password"]).status == 303
    assert ines.look("/-/admin/delete/" + LAST).status == 403
    assert (
        program.ask("PATCH", "/accounts/ines", {"role": "administrator"}, Scope.ADMIN).content()["role"]
        == "administrator"
    )
    assert ines.look("/-/admin/accounts").status == 200
    assert program.ask("POST", "/accounts", {"name": "INES", "role": "keeper"}, Scope.ADMIN).status == 422
    assert program.ask("POST", "/accounts", {"name": "a b", "role": "keeper"}, Scope.ADMIN).status == 422
    assert program.ask("POST", "/accounts", {"name": "x", "role": "god"}, Scope.ADMIN).status == 422
    assert program.ask("DELETE", "/accounts/ines", None, Scope.ADMIN).status == 204
    assert ines.look("/-/admin").status == 303
    assert Accounts(program.data).find("ines") is None
    listed = (
        program.ask("GET", "/accounts", None, Scope.ADMIN).text
        + program.ask("GET", "/tokens", None, Scope.ADMIN).text
    )
    assert "argon2" not in listed
    assert "sha256" not in listed
    token = program.ask("POST", "/tokens", {"name": "p", "scopes": ["deposit", "read"]}, Scope.ADMIN).content(
        201
    )
    assert token["scopes"] == ["read", "deposit"]
    assert program.ask("GET", "/state", None, token=token["token"]).status == 200
    assert program.ask("DELETE", "/tokens/p", None, Scope.ADMIN).status == 204
    assert program.ask("GET", "/state", None, token=token["token"]).status == 401


EVERY = [
    ("POST", "/imports", Scope.ADMIN), ("POST", "/copies", Scope.TRANSFER), ("GET", "/hand-overs", Scope.TRANSFER),
    ("POST", "/hand-overs", Scope.TRANSFER), ("DELETE", "/hand-overs/x", Scope.TRANSFER), ("GET", "/state", Scope.READ),
    ("POST", f"/items/{REP}/refresh", Scope.TRANSFER), ("GET", "/membership", Scope.ADMIN),
    ("GET", "/audit", Scope.READ),
    ("POST", "/membership", Scope.ADMIN), ("PATCH", "/membership", Scope.ADMIN), ("DELETE", "/membership", Scope.ADMIN),
    ("GET", "/accounts", Scope.ADMIN), ("POST", "/accounts", Scope.ADMIN), ("DELETE", "/accounts/root", Scope.ADMIN),
    ("POST", "/accounts/root/password", Scope.ADMIN), ("GET", "/tokens", Scope.ADMIN), ("GET", "/index", Scope.READ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "scope"), EVERY)
def test_a_route_accepts_its_scope_only_and_never_a_cookie(
    served: AdministeredArchive, program: Program, method: str, path: str, scope: Scope
) -> None:
    assert program.ask(method, path).status == 401
    others = [each for each in Scope if each not in {scope, Scope.ADMIN}]
    refused = program.ask(method, path, None, *others)
    assert scope in refused.content(403)["detail"]
    assert served.new_browser("root").ask(method, f"/-/api{path}").status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"7",
        b'{"more": 1}',
        b"{}",
        b'{"resolver": 7}',
        b'{"resolver": "http://x", "also": 1}',
        b"null",
    ],
)
def test_a_body_that_cannot_be_is_one_sentence(program: Program, body: bytes) -> None:
    before = (program.data / "archive.toml").read_bytes()
    answer = program.ask("POST", "/membership", body, Scope.ADMIN, content_type="application/json")
    assert answer.status in {400, 422}
    problem: Any = json.loads(answer.body)
    assert problem["detail"].count("\n") == 0
    long = json.dumps({"resolver": "x" * 3000}).encode()
    assert (
        program.ask("POST", "/membership", long, Scope.ADMIN, content_type="application/json").status == 422
    )
    assert (program.data / "archive.toml").read_bytes() == before


def test_no_lock_goes_into_a_backup(program: Program, tmp_path: Path, stored_in: str) -> None:
    program.ask("GET", "/accounts", None, Scope.ADMIN)  # with a token, the list of which was changed for it
    (program.data / "accounts.lock").touch()  # as where an account was changed
    made = {"settle.lock", "tokens.lock"} if stored_in == "sqlite" else {"settle.lock"}
    assert made <= {path.name for path in program.data.glob("*.lock")}
    done = Backup(DataDirectory(program.data, this_machine()), BackupStore(tmp_path)).run(keep=1)
    names = {path.name for path in (tmp_path / done.name / DATA).rglob("*")}
    assert "accounts.json" in names
    assert not {name for name in names if name.endswith(".lock")}
