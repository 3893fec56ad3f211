"""What programs of administrators ask a resolver for: by a token, and nothing that its pages would not do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ibi.accounts.people import Accounts
from ibi.accounts.tokens import Scope, Tokens
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.runtime.settings import ResolverSettings
from support.programs import Reply
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver

FIRST, SECOND = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "a.example/b/2014/01.01.00.00"
THIRD = "8JMKD3MGP8W/35MMLL8"
KEY = "12345678901234567890"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredResolver]:
    with administered_resolver(tmp_path_factory.mktemp("running")) as made:
        yield made


def decoded(answer: Reply, status: int = 200) -> Any:
    return answer.content(status)


def written(running: AdministeredResolver) -> list[tuple[str, dict[str, str | int]]]:
    evidence = Evidence(running.data / EVIDENCE_FILE, time.time)
    return [(entry.what, dict(entry.facts)) for entry in evidence.entries()]


def test_an_application_is_approved_another_refused_and_the_evidence_says_by_which_token(
    running: AdministeredResolver,
) -> None:
    # Applications are listed by their second and then by IBI: in this order a new second changes nothing.
    for service in (SECOND, FIRST):
        running.registry.apply(
            parse_ibi(service), "archive.example", "ada@archive.example", "Ada", ["b.example"]
        )
    listed = running.get_json("/registrations?state=applied")["registrations"]
    assert [(each["service_ibi"], each["state"]) for each in listed] == [
        (SECOND, "applied"),
        (FIRST, "applied"),
    ]
    approved = decoded(running.ask("POST", f"/registrations/{FIRST}/approve", None, Scope.ADMIN))
    assert (approved["service_ibi"], approved["state"], approved["included"]) == (FIRST, "registered", False)
    assert (
        running.ask("POST", f"/registrations/{SECOND}/refuse", {"reason": "Not ours."}, Scope.ADMIN).status
        == 204
    )
    assert running.ask("GET", f"/registrations/{SECOND}", None, Scope.READ).status == 404
    again = running.ask("POST", f"/registrations/{SECOND}/approve", None, Scope.ADMIN)
    assert "has not applied" in decoded(again, 422)["detail"]
    assert written(running)[-2:] == [
        ("approved", {"ibi": FIRST, "by": "token admin"}),
        ("unregistered", {"ibi": SECOND, "by": "token admin"}),
    ]


def test_a_refusal_tells_what_a_field_may_be(running: AdministeredResolver) -> None:
    state = running.ask("GET", "/registrations?state=waiting", None, Scope.READ).content(422)
    assert state["detail"] == "state is one of: applied, registered"
    many = {"ibi": THIRD, "url_hosts": ["b.example"] * 101}
    hosts = running.ask("POST", "/registrations", many, Scope.ADMIN).content(422)
    assert hosts["detail"] == "url_hosts is a list of at most 100 texts, each of at most 2048 characters"
    days = running.ask("PATCH", "/settings", {"original_days": 1.5}, Scope.ADMIN).content(422)
    assert days["detail"] == "original_days is a whole number from 1 to 36500"
    role = running.ask("POST", "/accounts", {"name": "ada", "role": "keeper"}, Scope.ADMIN).content(422)
    assert role["detail"] == "role is one of: administrator"


def test_an_archive_is_registered_gets_a_new_key_may_move_and_is_forgotten(
    running: AdministeredResolver,
) -> None:
    made = decoded(
        running.ask("POST", "/registrations", {"ibi": THIRD, "mail": "a@b.example"}, Scope.ADMIN), 201
    )
    assert running.registry.check_key(parse_ibi(THIRD), made["key"])
    known = running.ask("POST", "/registrations", {"ibi": THIRD, "key": made["key"]}, Scope.ADMIN)
    assert decoded(known, 201) == {"service_ibi": THIRD}
    other = running.ask("POST", "/registrations", {"ibi": THIRD, "key": KEY}, Scope.ADMIN)
    assert "registered already" in decoded(other, 422)["detail"]
    running.registry.hold_move(parse_ibi(THIRD), Move("new.example", "192.0.2.7", 1.0))
    assert (
        decoded(running.ask("POST", f"/registrations/{THIRD}/allow-move", None, Scope.ADMIN))["may_move"]
        is True
    )
    rotated = decoded(running.ask("POST", f"/registrations/{THIRD}/rotate", None, Scope.ADMIN))
    assert running.registry.check_key(parse_ibi(THIRD), rotated["key"])
    facts = running.get_json(f"/registrations/{THIRD}")
    assert made["key"] not in json.dumps(facts)
    assert rotated["key"] not in json.dumps(facts)
    assert running.ask("DELETE", f"/registrations/{THIRD}", None, Scope.ADMIN).status == 204
    assert running.ask("DELETE", f"/registrations/{THIRD}", None, Scope.ADMIN).status == 404
    assert [what for what, facts in written(running) if facts.get("ibi") == THIRD] == [
        "registered", "move-allowed", "rotated", "unregistered",
    ]  # fmt: skip
    with closing(Evidence(running.data / EVIDENCE_FILE, time.time)) as evidence:
        lines = b"".join(evidence.lines()).decode()
    assert made["key"] not in lines
    assert rotated["key"] not in lines


def test_the_included_archives_are_listed_with_their_state(running: AdministeredResolver) -> None:
    service = parse_ibi("c.example/d/2015/01.01.00.00")
    running.registry.register(service, KEY)
    request = InclusionRequest("archive.example", service, "192.0.2.1", "1", "a@b.example", KEY)
    assert running.registry.include(request, running.registry.open_change(service), confirmed=True)
    deadline = time.monotonic() + 30
    while not (facts := running.get_json("/archives")["archives"]) and time.monotonic() < deadline:
        time.sleep(0.5)  # what was found is facts again for five seconds
    [archive] = facts
    assert (archive["service_ibi"], archive["address"]) == (str(service), "archive.example")
    assert archive["standing"] in {"heard", "silent", "not asked"}
    assert archive["platform_version"] == "1"


def test_the_log_is_told_page_by_page_and_verified(running: AdministeredResolver) -> None:
    evidence = Evidence(running.data / EVIDENCE_FILE, time.time)
    for number in range(5):
        evidence.write("deleted", ibi=f"z.example/y/2014/01.01.00.0{number}", archive=SECOND)
    evidence.write("original", ibi=f"rep {FIRST} ibip {THIRD}", archive=SECOND)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST, archives=f"{SECOND} {THIRD}")
    evidence.close()
    first = running.ask("GET", "/log?what=deleted&limit=2", None, Scope.READ)
    page = decoded(first)
    assert [each["facts"]["ibi"][-1] for each in page["entries"]] == ["4", "3"]
    assert first.headers["link"] == f'<{page["next"]}>; rel="next"'
    again = running.ask("GET", "/log?what=deleted&limit=2", None, Scope.READ)
    assert first.headers["etag"] == again.headers["etag"]
    following = decoded(running.ask("GET", page["next"].removeprefix("/-/api"), None, Scope.READ))
    assert [each["facts"]["ibi"][-1] for each in following["entries"]] == ["2", "1"]
    about = running.get_json(f"/log?ibi={THIRD.lower()}")["entries"]
    assert about[0]["what"] == "alert"
    verdict = running.get_json("/log/verify", Scope.ADMIN)
    assert (verdict["whole"], verdict["damage"]) == (True, 0)
    assert verdict["last"].startswith(f"{verdict['entries']}:")
    other = running.get_json(f"/log/verify?since=1:{'0' * 64}", Scope.ADMIN)
    assert other["whole"] is False
    assert "anchor" in other["problem"]
    [alert] = running.get_json("/alerts")["alerts"]
    assert (alert["ibi"], alert["first"]["facts"]["archive"]) == (FIRST, SECOND)
    assert [each["archive"] for each in alert["claimants"]] == [SECOND, THIRD]
    assert [entry["what"] for entry in alert["claimants"][0]["told"]] == ["original"]


def test_settings_are_changed_by_a_program_and_counted_by_the_running_resolver(
    running: AdministeredResolver,
) -> None:
    assert {"mirror_key", "upstream_token"}.isdisjoint(running.get_json("/settings")["settings"])
    changed = decoded(
        running.ask("PATCH", "/settings", {"registration": "form", "request_rate": 7}, Scope.ADMIN)
    )
    assert changed["changed"] == ["registration", "request_rate"]
    assert ResolverSettings.read(running.data).registration == "form"
    deadline = time.monotonic() + 30
    while "/-/register" not in running.get_json("/openapi.json")["paths"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "/-/register" in running.get_json("/openapi.json")["paths"]
    later = decoded(
        running.ask("PATCH", "/settings", {"stale_seconds": 10}, Scope.ADMIN, accept_language="pt-BR")
    )
    assert len(later["notes"]) == 1
    assert decoded(running.ask("PATCH", "/settings", {"stale_seconds": 10}, Scope.ADMIN))["changed"] == []
    assert written(running)[-1][1] == {
        "name": "stale_seconds", "before": "86400", "after": "10", "by": "token admin",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"policy": "lenient"}, {"policy": ["strict"]}, {"archive_seconds": 0}, {"archive_seconds": True},
        {"archive_seconds": 10**400}, {"request_burst": 1.5}, {"request_burst": "40"[:0]}, {"admin": 7},
        {"admin": "a b"}, {"service": FIRST}, {"mirror_key": "x"}, {"allow_private_archives": "yes"},
        {"negative_seconds": 5, "nothing": 1}, ["policy"], None, "strict",
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_changes_nothing(running: AdministeredResolver, change: Any) -> None:
    before = (running.data / "resolver.toml").read_bytes()
    answer = running.ask(
        "PATCH", "/settings", json.dumps(change).encode(), Scope.ADMIN, content_type="application/json"
    )
    assert answer.status == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (running.data / "resolver.toml").read_bytes() == before


def test_accounts_and_tokens_are_made_by_a_program_and_their_secrets_shown_once(
    running: AdministeredResolver,
) -> None:
    made = decoded(
        running.ask("POST", "/accounts", {"name": "ada", "role": "administrator"}, Scope.ADMIN), 201
    )
    assert running.browser().sign_in("ada", made["password"]).status == 303
    other = decoded(running.ask("POST", "/accounts/ADA/password", None, Scope.ADMIN))
    assert running.browser().sign_in("ada", made["password"]).status == 403
    ada = running.browser()
    assert ada.sign_in("ada", other["password"]).status == 303
    rows = running.get_json("/accounts", Scope.ADMIN)["accounts"]
    assert [(row["name"], sorted(row)) for row in rows] == [
        ("root", ["made", "name", "role"]), ("ada", ["made", "name", "role"]),
    ]  # fmt: skip
    assert running.ask("PATCH", "/accounts/ada", {"role": "keeper"}, Scope.ADMIN).status == 422
    assert running.ask("DELETE", "/accounts/ada", None, Scope.ADMIN).status == 204
    assert ada.look("/-/admin").status == 303
    assert running.ask("DELETE", "/accounts/ada", None, Scope.ADMIN).status == 404
    token = decoded(running.ask("POST", "/tokens", {"name": "t", "scopes": ["read"]}, Scope.ADMIN), 201)
    assert "entries" in decoded(running.ask("GET", "/log", None, token=token["token"]))
    assert running.ask("GET", "/accounts", None, token=token["token"]).status == 403
    assert token["token"] not in json.dumps(running.get_json("/tokens", Scope.ADMIN))
    assert running.ask("POST", "/tokens", {"name": "u", "scopes": ["deposit"]}, Scope.ADMIN).status == 422
    assert running.ask("POST", "/tokens", {"name": "t", "scopes": ["read"]}, Scope.ADMIN).status == 422
    assert running.ask("DELETE", "/tokens/t", None, Scope.ADMIN).status == 204
    assert running.ask("GET", "/log", None, token=token["token"]).status == 401
    assert Accounts(running.data).find("ada") is None
    assert Tokens(running.data).find(token["token"]) is None


def test_a_registration_with_a_given_key_has_no_secret_and_its_reply_is_repeated(
    running: AdministeredResolver,
) -> None:
    name = "e.example/f/2016/01.01.00.00"
    body = {"ibi": name, "key": "98765432109876543210"}
    sent = [
        running.ask("POST", "/registrations", body, Scope.ADMIN, idempotency_key="given") for _ in range(2)
    ]
    assert [(each.status, decoded(each, 201)) for each in sent] == [(201, {"service_ibi": name})] * 2
    kept = b"".join(path.read_bytes() for path in (running.data / "replies").glob("*.json"))
    assert b"98765432109876543210" not in kept
    page = running.browser("root")
    page.look("/-/admin/do/register")
    shown = page.send("/-/admin/do/register", ("ibi", name), ("key", body["key"]))
    assert (shown.status, "shown only now" in shown.text) == (200, False), shown.text
    assert running.ask("DELETE", f"/registrations/{name}", None, Scope.ADMIN).status == 204


EVERY = [
    ("GET", "/registrations", Scope.READ), ("POST", "/registrations", Scope.ADMIN),
    ("DELETE", f"/registrations/{FIRST}", Scope.ADMIN), ("POST", f"/registrations/{FIRST}/approve", Scope.ADMIN),
    ("POST", f"/registrations/{FIRST}/rotate", Scope.ADMIN), ("GET", "/archives", Scope.READ),
    ("POST", f"/registrations/{FIRST}/allow-move", Scope.ADMIN), ("GET", "/log", Scope.READ),
    ("GET", "/log/verify", Scope.ADMIN), ("GET", "/alerts", Scope.READ), ("GET", "/settings", Scope.READ),
    ("PATCH", "/settings", Scope.ADMIN), ("GET", "/accounts", Scope.ADMIN), ("POST", "/tokens", Scope.ADMIN),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "scope"), EVERY)
def test_a_route_answers_a_token_with_its_scope_only_and_never_a_cookie(
    running: AdministeredResolver, method: str, path: str, scope: Scope
) -> None:
    stranger = running.ask(method, path)
    assert (stranger.status, stranger.headers["www-authenticate"]) == (401, "Bearer")
    assert running.ask(method, path, None, token="ibi_unknown").status == 401
    assert running.ask(method, path, None, token=running.token()).status == 403
    if scope is Scope.ADMIN:
        refused = running.ask(method, path, None, Scope.READ)
        assert (refused.status, "admin" in json.loads(refused.body)["detail"]) == (403, True)
    root = running.browser("root")
    assert root.ask(method, f"/-/api{path}").status == 401


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"x"', b'{"ibi": 7}', b'{"ibi": "x", "more": 1}', b"{}", b'{"ibi": null}']
)
def test_a_body_that_cannot_be_is_one_sentence(running: AdministeredResolver, body: bytes) -> None:
    answer = running.ask("POST", "/registrations", body, Scope.ADMIN, content_type="application/json")
    assert answer.status in {400, 422}
    assert json.loads(answer.body)["detail"].count("\n") == 0
    assert running.ask("POST", "/registrations", b"{}", Scope.ADMIN, content_type="text/plain").status == 415
    assert running.ask("POST", "/registrations", b" " * 9000, Scope.ADMIN).status == 413


@pytest.mark.parametrize(
    "path",
    ["/log?nonsense=1", "/alerts?limit=1",
     "/log?limit=0", "/log?limit=x", "/log?before=0", "/log?ibi=nothing", "/alerts?before=-1", "/log/verify?since=1",
     "/registrations?state=x", "/log?what=a&what=b", "/registrations/nothing%20here"],
)  # fmt: skip
def test_a_question_that_cannot_be_is_one_sentence(running: AdministeredResolver, path: str) -> None:
    answer = running.ask("GET", path, None, Scope.ADMIN)
    assert answer.status in {400, 422}, answer.text
    assert json.loads(answer.body)["detail"]


def test_other_paths_of_the_resolver_are_as_they_were(running: AdministeredResolver) -> None:
    assert running.ask("GET", f"/handles/{FIRST}").status in {404, 503}
    assert running.ask("GET", "/nothing").status == 404
    assert running.ask("PUT", "/log", None, Scope.READ).status == 405
    assert running.ask("GET", "/log", None, Scope.READ, host="far.example").status == 421


def test_an_archive_that_is_not_registered_is_not_found_whatever_shall_be_done_with_it(
    running: AdministeredResolver,
) -> None:
    unknown = "/registrations/nobody.example/x/2014/01.01.00.00"
    sentence = "nobody.example/x/2014/01.01.00.00 is not registered here"
    for method, below in (("GET", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/allow-move")):
        answer = running.ask(method, f"{unknown}{below}", None, Scope.ADMIN)
        assert decoded(answer, 404)["detail"] == sentence, (method, below)


def test_a_text_that_is_no_name_is_told(running: AdministeredResolver) -> None:
    refused = running.ask("POST", "/registrations", {"ibi": "no"}, Scope.ADMIN).content(422)
    assert refused["detail"].startswith("no: ")
