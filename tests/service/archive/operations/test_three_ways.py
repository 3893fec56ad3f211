"""Every operation by JSON, by page and by command: the same refusals for the same bad input, the same results."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import pytest

from ibi.api.fields import FieldInfo, described
from ibi.api.operations import Operation
from ibi.archive.operations.listed import OPERATIONS
from ibi.runtime.settings import ArchiveSettings, Peer
from support.archive.archive_fixture import REP
from support.archive.three_ways import BY_NAME, EVERY, OWN_PAGES, SURE, UNKNOWN, Came, Given, Ways, problem_of

BAD: list[tuple[str, Given]] = [
    ("set", {"page_rate": "-1"}), ("set", {"page_burst": "0"}), ("set", {"address": "no host!"}),
    ("set-institution", {"colour": "green"}), ("set-institution", {"contact": "the library"}),
    ("set-institution", {"name": "x" * 201}), ("set-institution", {"font": "gothic"}),
    ("set", {"mint_port": "70000"}), ("set", {"networks": "10.0.0.1/8"}), ("set", {"ip": "nowhere"}),
    ("peer", {"name": "b", "address": "ftp://x"}), ("peer", {"name": "b" * 300, "address": "http://b.example"}),
    ("peer", {"name": "b", "token": "t"}), ("forget-peer", {"name": "nothing"}),
    ("rotate-key", {"resolver": "http://nowhere.example"}),
    ("audit", {"ibi": UNKNOWN}), ("audit", {"ibi": "no name"}),
    ("repair", {"ibi": REP, "file": "nothing.txt", "upload": b"words"}),
    ("repair", {"ibi": UNKNOWN, "file": "a.txt", "upload": b"words"}),
    ("backup", {"keep": "0"}), ("backup", {}),
    ("attest", {"ibi": UNKNOWN}), ("attest", {"ibi": "no name"}), ("import-bag", {"upload": b"no bag"}),
    ("refresh", {"ibi": REP}), ("refresh", {"ibi": UNKNOWN}),
    ("harvest", {"url": "ftp://x"}), ("harvest", {"url": "http://127.0.0.1:9", "since": "yesterday"}),
    ("settle", {"names": UNKNOWN}), ("settle", {"names": "no name"}), ("settle", {"names": REP}),
    ("retire", {"to": "nowhere"}), ("stop-job", {"id": "0" * 32}), ("job", {"id": "none"}),
    ("deposit", {}), ("deposit", {"rights": "mine"}), ("deposit", {"edition_of": "no name"}),
    ("edit", {"ibi": REP, "language": "portugu\u00eas"}), ("edit", {"ibi": UNKNOWN, "rights": "mine"}),
    ("put-file", {"ibi": UNKNOWN, "file": "a.txt", "upload": b"words"}),
    ("take-out-file", {"ibi": REP, "file": "nothing.txt"}), ("take-out-file", {"ibi": UNKNOWN, "file": "a.txt"}),
    ("delete", {"ibi": REP, "reason": "x" * 4_001}), ("delete", {"ibi": UNKNOWN, "reason": "wrong"}),
    ("copy", {"ibi": "no name"}), ("copy", {"ibi": REP}), ("copy", {"ibi": UNKNOWN, "archive": "ftp://x"}),
    ("hand-over", {"ibi": REP, "to": "nobody"}), ("hand-over", {"ibi": REP, "to": "ftp://x"}),
    ("take-back", {"transfer": "0" * 32}),
    ("join", {"resolver": "ftp://x"}), ("leave", {"resolver": "ftp://x"}),
    ("leave", {"resolver": "http://nowhere.example"}),
    ("add-account", {"name": "not a/name", "role": "keeper"}), ("add-account", {"name": "root", "role": "keeper"}),
    ("add-account", {"name": "ada", "role": "king"}), ("remove-account", {"name": "ada"}),
    ("set-password", {"name": "ada"}), ("set-role", {"name": "ada", "role": "keeper"}),
    ("set-role", {"name": "maria", "role": "king"}),
    ("make-token", {"name": "not a/name", "scopes": "read"}), ("make-token", {"name": "ways", "scopes": "read"}),
    ("make-token", {"name": "t", "scopes": "rule"}), ("revoke-token", {"name": "nothing"}),
]  # fmt: skip

WITHOUT_BAD = {
    "switch": "a button, a word of two, or a truth value: each way offers only what is right",
    "check": "it has only a truth value", "index": "it has no fields",
}  # fmt: skip
"""Acts that change something and have no fields that could be bad, with the reason."""

NAMED_OTHERWISE = {"take-back": "its command names the item, not the hand-over"}
"""Acts whose command takes another field, so that its refusals are others."""


def test_every_act_that_changes_something_is_refused_here_for_bad_input() -> None:
    acts = {each.name for each in EVERY if each.changes}
    assert acts - {name for name, _ in BAD} == WITHOUT_BAD.keys()
    assert {each.name for each in EVERY if each.changes and each.page} == OWN_PAGES.keys()


@pytest.mark.parametrize(("name", "given"), BAD, ids=[f"{name} {' '.join(given)}" for name, given in BAD])
def test_bad_input_is_refused_with_one_sentence_by_every_way(ways: Ways, name: str, given: Given) -> None:
    before = ArchiveSettings.read(ways.data)
    operation = BY_NAME[name]
    version = {"if_match": "*"} if HTTPStatus.PRECONDITION_REQUIRED in operation.refusals else {}
    came = [ways.by_json(operation, given, **version), ways.by_page(operation, given)]
    came += [] if name in NAMED_OTHERWISE else [ways.by_command(operation, given)]
    sentences = [each.refusal[:1].lower() + each.refusal[1:] for each in came]
    assert sentences[0]
    assert "\n" not in sentences[0]
    assert str(ways.data) not in sentences[0]
    assert "Traceback" not in sentences[-1]
    assert sentences == [sentences[0]] * len(came)
    assert ArchiveSettings.read(ways.data) == before


@pytest.mark.parametrize(
    ("name", "problem"), [(REP, f"{REP} has no file nothing.txt"), (UNKNOWN, f"{UNKNOWN} is not held here")]
)
def test_the_repair_of_what_is_not_held_is_not_found(ways: Ways, name: str, problem: str) -> None:
    answer = ways.request(BY_NAME["repair"], {"ibi": name, "file": "nothing.txt", "upload": b"words"})
    assert (answer.status, json.loads(answer.body)["detail"]) == (404, problem)


def _needed(operation: Operation[Any, Any]) -> list[FieldInfo]:
    """The fields that must be given, and are neither in the path of the route nor in that of the page."""
    own = OWN_PAGES.get(operation.name)
    places = {*operation.place.split(), *(own.places if own else ())}
    # A browser sends nothing for a box that is not ticked.
    return [each for each in described(operation.fields)
            if each.required and not each.is_truth and each.name not in places]  # fmt: skip


TYPED = {"absent": None, "empty": "", "blank": "  "}
# A list is absent, or has texts: none of the ways gives an empty one.
NEEDY = {f"{act.name} {needed.name} {word}": (act, needed, typed)
         for act in EVERY if act.changes
         for needed in _needed(act)
         for word, typed in TYPED.items() if typed is None or not needed.is_list}  # fmt: skip


@pytest.mark.parametrize("case", NEEDY)
def test_what_must_be_given_is_missed_by_every_way_alike(ways: Ways, case: str) -> None:
    operation, needed, typed = NEEDY[case]
    first = needed.name
    names = {each.name for each in described(operation.fields) if each.required}
    given = {name: REP if name == "ibi" else "http://127.0.0.1:9" for name in sorted(names - {first})}
    given |= dict.fromkeys(set(operation.place.split()) - {"ibi"}, "b")
    if typed is not None:
        given[first] = typed
    if operation.page:
        on_page = ways.send_own(operation, given, without=first)
    else:
        ways.root.look(f"/-/admin/do/{operation.name}")
        on_page = ways.root.send(
            f"/-/admin/do/{operation.name}", *given.items(), *([SURE] if operation.warning else [])
        )
    over_json = ways.request(operation, given)
    assert json.loads(over_json.body)["detail"] == f"the field {first} is missing"
    assert problem_of(on_page) == f"The field {first} is missing"
    if (typed == "" or needed.is_list) and first != "upload":  # a file of the machine, or a folder
        assert ways.by_command(operation, given).refusal == f"the field {first} is missing"


def _peers(ways: Ways) -> dict[str, Peer]:
    return Peer.read_tables(ways.data)


def test_a_peer_is_named_and_forgotten_by_every_way(ways: Ways) -> None:
    for number, way in enumerate((ways.by_json, ways.by_page, ways.by_command)):
        given = {"name": f"b{number}", "address": "http://b.example/", "token": "secret"}
        assert way(BY_NAME["peer"], given).refusal == ""
        assert _peers(ways)[f"b{number}"] == Peer(address="http://b.example", token="secret")
        assert way(BY_NAME["forget-peer"], {"name": f"b{number}"}).refusal == ""
        assert f"b{number}" not in _peers(ways)


def test_a_setting_is_changed_by_every_way_and_no_other_with_it(ways: Ways) -> None:
    for number, way in enumerate((ways.by_json, ways.by_page, ways.by_command), 3):
        before = ArchiveSettings.read(ways.data)
        assert way(BY_NAME["set"], {"page_rate": str(number), "aliases": f"a{number}.example"}).refusal == ""
        after = ArchiveSettings.read(ways.data)
        assert (after.page_rate, after.aliases) == (number, (f"a{number}.example",))
        assert {name for name in before.__slots__ if getattr(before, name) != getattr(after, name)} == {
            "page_rate",
            "aliases",
        }


@pytest.mark.parametrize("name", ["audit", "check", "index"])
def test_what_takes_long_has_one_result(ways: Ways, name: str) -> None:
    operation = BY_NAME[name]
    over_json, on_page = ways.by_json(operation, {}), ways.by_page(operation, {})
    assert over_json.refusal == on_page.refusal == ""
    assert over_json.result == on_page.result
    typed = ways.by_command(operation, {})
    assert typed.refusal == ""
    if name == "audit":
        assert f"{over_json.result['files']} files read, 0 faults" in str(typed.result)
    if name == "check":
        assert over_json.result == {"differences": [], "open": 0}


def test_backups_are_made_by_every_way_into_the_folder_of_the_settings(ways: Ways) -> None:
    folder = ways.folder / "backups"
    assert ways.by_command(BY_NAME["set"], {"backup_folder": str(folder)}).refusal == ""
    time.sleep(1.2)  # a running server follows within a second
    made = set()
    for way in (ways.by_json, ways.by_page, ways.by_command):
        assert way(BY_NAME["backup"], {"verify": "yes"} if way != ways.by_command else {}).refusal == ""
        time.sleep(1.1)  # a backup is named after its second
        listed = ways.by_json(BY_NAME["backups"], {}).result["backups"]
        made.add(len(listed))
    assert made == {1, 2, 3}
    assert ways.by_command(BY_NAME["set"], {"backup_folder": ""}).refusal == ""


def test_over_http_nothing_on_the_machine_is_named(ways: Ways) -> None:
    for name, given in (("set", {"geo_database": "/etc/passwd"}), ("backup", {"to": "somewhere"})):
        assert "command line" in ways.by_json(BY_NAME[name], given).refusal
        page = ways.root.look(f"/-/admin/do/{name}")
        assert f'name="{next(iter(given))}"' not in page.text


def test_an_item_goes_out_as_a_bag_and_as_a_receipt(ways: Ways) -> None:
    for name in ("attest", "export"):
        over_json = ways.request(BY_NAME[name], {"ibi": REP})
        on_page = ways.root.look(f"/-/admin/do/{name}?ibi={quote(REP)}")
        assert over_json.status == on_page.status == 200
        assert over_json.headers["content-disposition"] == on_page.headers["content-disposition"]
        assert over_json.headers["content-type"] == on_page.headers["content-type"]
    assert (
        json.loads(ways.by_command(BY_NAME["attest"], {"ibi": REP}).result)["receipt"]["kind"]
        == "ibi receipt"
    )
    assert list((ways.data / "staging").iterdir()) == []


def test_a_request_is_done_once_for_its_key(ways: Ways) -> None:
    given = {"name": "once", "address": "http://once.example"}
    first = ways.request(BY_NAME["peer"], given, idempotency_key="k1")
    assert ways.by_json(BY_NAME["forget-peer"], {"name": "once"}).refusal == ""
    again = ways.request(BY_NAME["peer"], given, idempotency_key="k1")
    assert (first.status, first.body) == (again.status, again.body)
    assert "once" not in _peers(ways)  # it was not done again
    other = ways.request(BY_NAME["peer"], {**given, "token": "t"}, idempotency_key="k1")
    assert other.status == 422
    # What was refused may come again, mended.
    bad = ways.request(BY_NAME["peer"], {"name": "once", "address": "ftp://x"}, idempotency_key="k2")
    assert bad.status == 422
    assert ways.request(BY_NAME["peer"], given, idempotency_key="k2").status == 200
    assert ways.program("POST", "/tokens", b'{"name": "two", "scopes": ["read"]}', content_type="application/json",
                        idempotency_key="k3").status == 201  # fmt: skip
    again = ways.program("POST", "/tokens", b'{"name": "two", "scopes": ["read"]}', content_type="application/json",
                        idempotency_key="k3")  # fmt: skip
    assert again.status == 409
    assert "not shown again" in json.loads(again.body)["detail"]
    kept = b"".join(path.read_bytes() for path in (ways.data / "replies").glob("*.json"))
    assert b"ibi_" not in kept


CONDITIONAL = [each for each in OPERATIONS if each.changes]


@pytest.mark.parametrize("operation", CONDITIONAL, ids=[each.name for each in CONDITIONAL])
def test_nothing_is_changed_that_has_changed_meanwhile(ways: Ways, operation: Operation[Any, Any]) -> None:
    given: dict[str, str] = {
        "name": "b", "address": "http://b.example", "resolver": "http://127.0.0.1:9", "switched_on": "no",
        "page_rate": "9", "ibi": REP, "file": "a.txt", "upload": "0" * 32, "url": "http://127.0.0.1:9",
        "to": "b", "transfer": "0" * 32, "id": "0" * 32, "reason": "wrong",
    }  # fmt: skip
    names = {each.name for each in described(operation.fields)}
    wanted = {name: text for name, text in given.items() if name in names and (name != "ip")}
    if operation.name == "set":
        wanted = {"page_rate": "9"}
    if operation.name == "backup":
        wanted = {}
    before = [(path.name, path.read_bytes()) for path in sorted(ways.data.glob("*.toml"))]
    answer = ways.request(operation, wanted, if_match='"of another time"')
    # What is not there has no version.
    assert answer.status == (404 if operation.name in {"take-back", "stop-job"} else 412), answer.text
    assert [(path.name, path.read_bytes()) for path in sorted(ways.data.glob("*.toml"))] == before


def test_what_has_not_changed_is_changed(ways: Ways) -> None:
    for path, name, given in (
        ("/settings", "set", {"page_rate": "11"}),
        ("/peers", "peer", {"name": "c", "address": "http://c.example"}),
        ("/membership", "switch", {"switched_on": "yes"}),
    ):
        etag = ways.program("GET", path).headers["etag"]
        assert ways.request(BY_NAME[name], given, if_match=etag).status == 200
        if name != "switch":
            assert ways.request(BY_NAME[name], given, if_match=etag).status == 412
    assert ways.by_json(BY_NAME["forget-peer"], {"name": "c"}).refusal == ""


def _shown_by(ways: Ways, operation: Operation[Any, Any], wanted: Mapping[str, str]) -> str:
    """The ETag of what shows what an operation changes; "" where nothing does."""
    path = operation.pattern
    if path.startswith("/items/<ibi>"):  # shown by a plain route, which is open to all
        return ways.program("GET", f"/items/{wanted['ibi']}").headers["etag"]
    while path:
        shown = next((each for each in OPERATIONS if each.route == f"GET {path}"), None)
        needed = {each.name for each in described(shown.fields) if each.required} if shown else set()
        if shown is not None and needed <= {shown.place}:
            answer = ways.request(shown, {shown.place: wanted[shown.place]} if shown.place else {})
            return answer.headers.get("etag", "")
        path = path.rpartition("/")[0]
    return ""


NO_VERSION = {
    "deposit": "a new item was nothing before",
    "copy": "the item need not be here before",
    "import-bag": "its item need not be here before",
    "harvest": "its items need not be here before",
    "retire": "it depends on all that is here",
    "check": "it depends on all that is here",
    "index": "what it makes is derived",
    "repair": "a file gets the bytes that are listed for it",
    "settle": "it depends on which originals are not settled",
    "take-back": "there is no such hand-over",
    "stop-job": "there is no such job",
}
"""Operations that depend on nothing that is shown, with the reason: of If-Match they take only *."""


@pytest.mark.parametrize("operation", CONDITIONAL, ids=[each.name for each in CONDITIONAL])
def test_what_is_as_it_was_seen_is_no_conflict(ways: Ways, operation: Operation[Any, Any]) -> None:
    made = ways.program("POST", "/items", b'{"metadata": {"title": ["T"]}}', content_type="application/json")
    wanted = {"name": "nothing", "id": "0" * 32, "transfer": "0" * 32, "ibi": json.loads(made.body)["rep"]}
    wanted |= {"file": "nothing.txt"}
    etag = _shown_by(ways, operation, wanted)
    assert (not etag) == (operation.name in NO_VERSION)
    if etag and operation.name != "audit":
        names = {each.name for each in described(operation.fields)}
        given = {name: text for name, text in wanted.items() if name in names}
        # Whatever else is wrong with the request, it is not the version.
        assert ways.request(operation, given, if_match=etag).status != 412


def test_what_others_have_changed_meanwhile_is_not_undone_by_a_form(ways: Ways) -> None:
    path = "/-/admin/do/set"
    assert ways.by_command(BY_NAME["set"], {"audit_days": "30", "admin": "a@b.example"}).refusal == ""
    time.sleep(1.2)  # the pages follow within a second
    page = ways.root.look(path)
    kept = [(name, ways.root.hidden(name)) for name in re.findall(r'name="(was\.\w+|version)"', page.text)]
    typed = {name.removeprefix("was."): text for name, text in kept if name != "version"}
    assert ways.by_command(BY_NAME["set"], {"audit_days": "60"}).refusal == ""
    answer = ways.root.send(path, *kept, *(typed | {"admin": "c@d.example"}).items())
    assert answer.status == 409
    ways.root.page = answer
    again = [(name, ways.root.hidden(name)) for name in re.findall(r'name="(was\.\w+|version)"', answer.text)]
    shown = {name: ways.root_value(name) for name in typed}
    assert (shown["audit_days"], shown["admin"]) == ("60", "c@d.example")
    assert ways.root.send(path, *again, *shown.items()).status == 200
    settings = ArchiveSettings.read(ways.data)
    assert (settings.audit_days, settings.admin) == (60, "c@d.example")


def test_a_peer_keeps_its_token_when_its_address_changes(ways: Ways) -> None:
    given = {"name": "keeps", "address": "http://one.example", "token": "secret"}
    assert ways.by_json(BY_NAME["peer"], given).refusal == ""
    for number, way in enumerate((ways.by_json, ways.by_page, ways.by_command)):
        assert way(BY_NAME["peer"], {"name": "keeps", "address": f"http://n{number}.example"}).refusal == ""
        assert _peers(ways)["keeps"] == Peer(address=f"http://n{number}.example", token="secret")
    assert ways.by_json(BY_NAME["forget-peer"], {"name": "keeps"}).refusal == ""


def test_a_name_in_a_path_is_utf8(ways: Ways) -> None:
    given = {"name": "São", "address": "http://one.example"}
    assert ways.by_json(BY_NAME["peer"], given).refusal == ""
    assert "São" in _peers(ways)
    assert ways.by_page(BY_NAME["forget-peer"], {"name": "São"}).refusal == ""
    assert (
        ways.program(
            "PUT", "/peers/%ff", b'{"address": "http://a.example"}', content_type="application/json"
        ).status
        == 400
    )
    assert ways.by_json(BY_NAME["peer"], {"name": "a\x1b[31m", "address": "http://a.example"}).refusal


def test_a_file_of_a_form_that_fails_is_not_left_behind(ways: Ways) -> None:
    before = set((ways.data / "uploads").glob("*.part"))
    for _ in range(3):
        assert ways.by_page(BY_NAME["import-bag"], {"upload": b"no bag"}).refusal
    assert set((ways.data / "uploads").glob("*.part")) == before


def test_a_key_is_in_no_reply_that_is_kept(ways: Ways) -> None:
    body = b'{"resolver": "http://127.0.0.1:9", "key": "98765432109876543210"}'
    joined = ways.program(
        "POST", "/membership", body, content_type="application/json", idempotency_key="join"
    )
    assert joined.status == 201
    kept = b"".join(path.read_bytes() for path in (ways.data / "replies").glob("*.json"))
    assert b"98765432109876543210" not in kept
    assert ways.program("DELETE", "/membership?resolver=http://127.0.0.1:9").status == 204


def test_a_resolver_that_is_reached_by_https_now_is_the_one_that_was_joined(ways: Ways) -> None:
    before = _joined_resolvers(ways)  # other tests of this file may have joined some
    found = []
    for url in (
        "http://resolver.example/8JMKD3MGP8W/35MMLL8",
        "https://resolver.example/8JMKD3MGP8W/35MMLL8",  # the same service
        "http://resolver.example/8JMKD3MGP8W/35MMLL9",  # another one
    ):
        body = json.dumps({"resolver": url}).encode()
        joined = ways.program("POST", "/membership", body, content_type="application/json")
        assert joined.status == 201
        found.append(json.loads(joined.body))
    added = [url for url in _joined_resolvers(ways) if url not in before]
    assert added == ["https://resolver.example", "http://resolver.example"]
    assert found[0]["key"] == found[1]["key"] != found[2]["key"]
    for root in ("https://resolver.example", "http://resolver.example"):
        assert ways.program("DELETE", f"/membership?resolver={root}").status == 204


def _joined_resolvers(ways: Ways) -> list[str]:
    return [each["url"] for each in json.loads(ways.program("GET", "/membership").body)["resolvers"]]


def test_a_repeated_file_has_the_first_reply(ways: Ways) -> None:
    made = ways.program("POST", "/items", b'{"metadata": {"title": ["With a file"]}, "key": "f"}',
                        content_type="application/json")  # fmt: skip
    ibi, etag = json.loads(made.body)["rep"], made.headers["etag"]
    sent = [
        ways.program("PUT", f"/items/{ibi}/files/a.txt", b"words", if_match=etag, idempotency_key="file")
        for _ in range(2)
    ]
    assert [each.status for each in sent] == [201, 201]
    assert sent[0].body == sent[1].body
    assert ways.program("PUT", f"/items/{ibi}/files/a.txt", b"other", if_match=etag).status == 412


def test_a_sentence_calls_a_field_as_its_reader_does(ways: Ways) -> None:
    stays = b'{"metadata": {"title": ["Stays"]}, "key": "stays", "transferable": false}'
    made = ways.program("POST", "/items", stays, content_type="application/json")
    ibi = json.loads(made.body)["rep"]
    extra = ways.data / "col" / "extra"
    extra.touch()
    for way, leave_them, repair in (
        (ways.by_json, "leave_them", "repair"),
        (ways.by_page, "“although some originals must stay", "“fix what is safe to fix"),
        (ways.by_command, "--leave-them", "--repair"),
    ):
        refused = way(BY_NAME["retire"], {"to": "http://127.0.0.1:8089", "token": "t"})
        assert f"choose {leave_them}" in refused.refusal, refused
        found = way(BY_NAME["check"], {})
        # A command that finds something ends with status 1, and has printed it.
        shown = found.result if way == ways.by_command else found.result["differences"][0]["advice"]
        assert f"check again with {repair}" in shown, shown
    extra.unlink()
    assert ways.by_json(BY_NAME["forget-peer"], {"name": "127.0.0.1:8089"}).refusal == ""
    assert ways.program("DELETE", f"/items/{ibi}?reason=wrong", if_match=made.headers["etag"]).status < 300


def test_a_folder_for_backups_is_that_of_the_command(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ways.folder)
    assert ways.by_command(BY_NAME["set"], {"backup_folder": "here"}).refusal == ""
    assert ArchiveSettings.read(ways.data).backup_folder == str(ways.folder / "here")
    assert ways.by_command(BY_NAME["set"], {"backup_folder": ""}).refusal == ""


def _item_by_page(ways: Ways, path: str, given: Given) -> Came:
    """Deposit or edit an item by its form."""
    page = ways.root.look(path)
    kept = {name: ways.root.hidden(name) for name in ("once", "since") if f'name="{name}"' in page.text}
    parts = [(name, None, str(text).encode()) for name, text in {**kept, **given}.items()]
    if path.endswith("/deposit"):
        answer = ways.root.send_files(path, *parts)
    else:
        answer = ways.root.send(path, *((name, text.decode()) for name, _, text in parts))
    name = answer.headers.get("location", "").removeprefix("/-/admin/items/").partition("?")[0]
    return Came(problem_of(answer), _held(ways, name) if name else None)


def _held(ways: Ways, name: str) -> dict[str, Any]:
    """The facts of an item, without what two items never share."""
    item: dict[str, Any] = json.loads(ways.program("GET", f"/items/{name}").body)
    return {each: item[each] for each in item if each not in {"rep", "ibip", "timestamp", "key", "history"}}


def _deposited_by_every_way(ways: Ways, given: Mapping[str, str]) -> list[Came]:
    """An item of these facts, deposited by JSON, by its form and by command."""
    body = json.dumps({**given, "metadata": {"title": ["T"]}}).encode()
    answer = ways.program("POST", "/items", body, content_type="application/json")
    made = json.loads(answer.body)
    over_json = Came(made.get("detail", ""), _held(ways, made["rep"]) if answer.status == 201 else None)
    on_page = _item_by_page(ways, "/-/admin/deposit", {**given, "dc.title": "T"})
    typed = ways.by_command(BY_NAME["deposit"], given, "--title", "T")
    if not typed.refusal:
        typed = Came(result=_held(ways, typed.result.split()[0]))
    return [over_json, on_page, typed]


def test_an_item_is_the_same_by_every_way(ways: Ways) -> None:
    given = {"language": "pt", "rights": "mine", "url": "http://far.example/x", "access": "embargoed",
             "embargo": "2050-01-31", "licence": "http://far.example/licence"}  # fmt: skip
    over_json, on_page, typed = _deposited_by_every_way(ways, given)
    assert over_json.result == {**over_json.result, **given, "metadata": {"title": ["T"]}}
    assert on_page == typed == over_json


@pytest.mark.parametrize(
    "given",
    [
        {"language": "portugu\u00eas"}, {"licence": "ftp://far.example/"}, {"url": "javascript:alert(1)"},
        {"embargo": "tomorrow", "access": "embargoed"}, {"rights": "x" * 4_001}, {"access": "embargoed"},
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_bad_fact_of_an_item_is_refused_with_one_sentence_by_every_way(
    ways: Ways, given: Mapping[str, str]
) -> None:
    sentences = [
        (each.refusal[:1].lower() + each.refusal[1:]) for each in _deposited_by_every_way(ways, given)
    ]
    assert sentences[0]
    assert sentences == [sentences[0]] * 3


def _check_refused_replacements(ways: Ways, names: list[str]) -> None:
    """An item cannot replace itself, and what replaces it has an IBI."""
    for each, sentence in (
        ("itself", "an item cannot take its own place"),
        ("nothing of the kind", "replacement is the IBI of an item, or its persistent URL: "),
        (
            "6qtX3pFwXQZ3r59YCT/GUQnU",
            "the item that takes its place is named by an IBI or by its persistent URL",
        ),
    ):
        given = [{"reason": "wrong", "replacement": name if each == "itself" else each} for name in names]
        refusals = [
            ways.by_json(BY_NAME["delete"], {"ibi": names[0], **given[0]}).refusal,
            _item_by_page(ways, f"/-/admin/delete/{names[1]}", {**given[1], "sure": "yes"}).refusal,
            ways.by_command(BY_NAME["delete"], {"ibi": names[2], **given[2]}).refusal,
        ]
        assert [each[:1].lower() + each[1:] == refusals[0] for each in refusals] == [True] * 3, refusals
        assert [each.lower().startswith(sentence.lower()) for each in refusals] == [True] * 3, refusals


def test_an_item_is_edited_and_removed_alike_by_every_way(ways: Ways) -> None:
    item = b'{"metadata": {"title": ["E"]}}'
    made = [ways.program("POST", "/items", item, content_type="application/json") for _ in range(3)]
    names = [json.loads(answer.body)["rep"] for answer in made]
    ways.request(BY_NAME["edit"], {"ibi": names[0], "rights": "mine"}, if_match="*")
    _item_by_page(ways, f"/-/admin/edit/{names[1]}", {"rights": "mine", "dc.title": "E"})
    ways.by_command(BY_NAME["edit"], {"ibi": names[2], "rights": "mine"})
    facts = [_held(ways, name) for name in names]
    assert facts[0]["rights"] == "mine"
    assert facts[1:] == [facts[0]] * 2
    long = {"reason": "x" * 4_001}
    refusals = [
        ways.by_json(BY_NAME["delete"], {"ibi": names[0], **long}).refusal,
        _item_by_page(ways, f"/-/admin/delete/{names[1]}", {**long, "sure": "yes"}).refusal,
        ways.by_command(BY_NAME["delete"], {"ibi": names[2], **long}).refusal,
    ]
    assert refusals == ["reason is a text of at most 4000 characters"] * 3
    _check_refused_replacements(ways, names)
    other = {"reason": "wrong", "replacement": f"see https://r.example/{UNKNOWN}!"}
    assert ways.by_json(BY_NAME["delete"], {"ibi": names[0], **other}).refusal == ""
    _item_by_page(ways, f"/-/admin/delete/{names[1]}", {**other, "sure": "yes"})
    assert ways.by_command(BY_NAME["delete"], {"ibi": names[2], **other}).refusal == ""
    left = [json.loads(ways.program("GET", f"/items/{name}").body)["item"] for name in names]
    facts_left = [(each["state"], each["reason"], each["replacement"]) for each in left]
    assert facts_left == [("Deleted", "wrong", UNKNOWN)] * 3
    histories = [[(event["what"], event["detail"]) for event in each["history"]] for each in left]
    assert [what for what, _ in histories[0]] == ["deposited", "edited", "removed"]
    assert histories[1:] == [histories[0]] * 2
