"""Bad input at a resolver: one sentence, whether it comes as JSON, in a form, or on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.api import accounts
from ibi.api.operations import Operation
from ibi.cli import main
from ibi.resolver.operations.listed import OPERATIONS
from ibi.runtime.settings import ResolverSettings
from support.archive.administration_fixture import Librarian
from support.archive.three_ways import SURE, problem_of
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver

UNKNOWN = "nobody.example/x/2014/01.01.00.00"
Fields = list[tuple[str, str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredResolver]:
    with administered_resolver(tmp_path_factory.mktemp("bad")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(running: AdministeredResolver) -> Librarian:
    return running.browser("root")


def of_archive(what: str, ibi: str) -> Fields:
    """The fields of a button on a page about an Archive."""
    return [("ibi", ibi), ("what", what), SURE]


def registration(ibi: str, **more: str) -> tuple[str, str, dict[str, str], str, Fields, list[str]]:
    """A registration by each way."""
    options = {"key": "--key", "mail": "--mail", "title": "--title"}
    words = [word for name, text in more.items() for word in (options[name], text)]
    return (
        "POST", "/registrations", {"ibi": ibi, **more}, "do/register", [("ibi", ibi), *more.items()],
        ["register", "--archive-service", ibi, *words],
    )  # fmt: skip


def setting(
    name: str, text: str, value: object
) -> tuple[str, str, dict[str, object], str, Fields, list[str]]:
    """A change of a setting by each way."""
    return "PATCH", "/settings", {name: value}, "policies", [(name, text)], ["set", name, text]


BAD = {
    "a name that is none": registration("no"),
    "a key that is none": registration(UNKNOWN, key="12"),
    "a mail address that is none": registration(UNKNOWN, mail="no mail"),
    "a title that is too long": registration(UNKNOWN, title="a" * 201),
    "a title that turns the text": registration(UNKNOWN, title="a\u202eb"),
    "a new key for none": (
        "POST", f"/registrations/{UNKNOWN}/rotate", None, "archives", of_archive("key", UNKNOWN), ["rotate", UNKNOWN],
    ),
    "a move of none": (
        "POST", f"/registrations/{UNKNOWN}/allow-move", None, "archives", of_archive("move", UNKNOWN),
        ["allow-move", UNKNOWN],
    ),
    "an end of none": (
        "DELETE", f"/registrations/{UNKNOWN}", None, "archives", of_archive("forget", UNKNOWN),
        ["unregister", "--archive-service", UNKNOWN],
    ),
    "an approval of none": (
        "POST", f"/registrations/{UNKNOWN}/approve", None, "applications", of_archive("approve", UNKNOWN),
        ["approve", UNKNOWN],
    ),
    "a refusal of none": (
        "POST", f"/registrations/{UNKNOWN}/refuse", {"reason": "no"}, "applications",
        [*of_archive("refuse", UNKNOWN), ("reason", "no")], ["refuse", UNKNOWN, "--reason", "no"],
    ),
    "a refusal without a reason": (
        "POST", f"/registrations/{UNKNOWN}/refuse", {"reason": ""}, "applications",
        [*of_archive("refuse", UNKNOWN), ("reason", "")], ["refuse", UNKNOWN, "--reason", ""],
    ),
    "an alert that is none": (
        "POST", f"/alerts/{UNKNOWN}/settle", None, "alerts", [("ibi", UNKNOWN)], ["settle-alert", UNKNOWN],
    ),
    "a number beyond its bounds": setting("original_days", "0", 0),
    "a number that is none": setting("connect_seconds", "soon", "soon"),
    "a word that is none": setting("policy", "lax", "lax"),
    "a text that is too long": setting("admin", "a" * 255, "a" * 255),
    "a colour that is none": (
        "PATCH", "/institution", {"colour": "green"}, "identity", [("colour", "green")],
        ["institution", "--colour", "green"],
    ),
    "an account without a name": (
        "POST", "/accounts", {"name": "", "role": "administrator"}, "accounts",
        [("what", "add"), ("name", ""), ("role", "administrator")],
        ["account", "add", "", "--role", "administrator", "--generate"],
    ),
    "an account without a role": (
        "POST", "/accounts", {"name": "ada"}, "accounts", [("what", "add"), ("name", "ada")],
        ["account", "add", "ada", "--generate"],
    ),
    "a role of none": (
        "PATCH", "/accounts/ada", {"role": "administrator"}, "accounts",
        [("what", "role"), ("name", "ada"), ("role", "administrator")], None,
    ),
    "a token without a name": (
        "POST", "/tokens", {"name": "", "scopes": ["read"]}, "do/make-token", [("name", ""), ("scopes", "read")],
        ["token", "add", "", "--scope", "read"],
    ),
    "a token without scopes": (
        "POST", "/tokens", {"name": "t"}, "do/make-token", [("name", "t")], ["token", "add", "t"],
    ),
    "an account whose name is none": (
        "POST", "/accounts", {"name": "not a/name", "role": "administrator"}, "accounts",
        [("what", "add"), ("name", "not a/name"), ("role", "administrator")],
        ["account", "add", "not a/name", "--role", "administrator", "--generate"],
    ),
    "an account that is there": (
        "POST", "/accounts", {"name": "root", "role": "administrator"}, "accounts",
        [("what", "add"), ("name", "root"), ("role", "administrator")],
        ["account", "add", "root", "--role", "administrator", "--generate"],
    ),
    "a role that is none": (
        "POST", "/accounts", {"name": "ada", "role": "king"}, "accounts",
        [("what", "add"), ("name", "ada"), ("role", "king")],
        ["account", "add", "ada", "--role", "king", "--generate"],
    ),
    "a password for none": (
        "POST", "/accounts/ada/password", None, "accounts", [("what", "password"), ("name", "ada"), SURE],
        ["account", "password", "ada", "--generate"],
    ),
    "an end of no account": (
        "DELETE", "/accounts/ada", None, "accounts", [("what", "remove"), ("name", "ada"), SURE],
        ["account", "remove", "ada"],
    ),
    "a token whose name is none": (
        "POST", "/tokens", {"name": "not a/name", "scopes": ["read"]}, "do/make-token",
        [("name", "not a/name"), ("scopes", "read")], ["token", "add", "not a/name", "--scope", "read"],
    ),
    "a scope that is none": (
        "POST", "/tokens", {"name": "t", "scopes": ["rule"]}, "do/make-token",
        [("name", "t"), ("scopes", "rule")], ["token", "add", "t", "--scope", "rule"],
    ),
    "an end of no token": (
        "DELETE", "/tokens/nothing", None, "do/revoke-token", [("name", "nothing"), SURE],
        ["token", "remove", "nothing"],
    ),
}  # fmt: skip


def test_every_act_that_changes_something_is_refused_here_for_bad_input() -> None:
    requests = [f"{method} {path}" for method, path, *_ in BAD.values()]
    every: tuple[Operation[Any, Any], ...] = (*OPERATIONS, *accounts.OPERATIONS)
    acts = [each for each in every if each.changes]
    patterns = {each.name: re.sub("<word>", "[^/]+", each.route.replace("<ibi>", ".+")) for each in acts}
    assert {
        name
        for name, pattern in patterns.items()
        if not any(re.fullmatch(pattern, each) for each in requests)
    } == set()


@pytest.mark.parametrize(
    ("page", "what", "words"),
    [("applications", "approve", ["approve", ""]), ("applications", "refuse", ["refuse", "", "--reason", "no"]),
     ("archives", "key", ["rotate", ""]), ("archives", "move", ["allow-move", ""]),
     ("archives", "forget", ["unregister", "--archive-service", ""])],
)  # fmt: skip
def test_an_archive_that_is_not_named_is_missed_by_page_and_command_alike(
    running: AdministeredResolver,
    browser: Librarian,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    what: str,
    words: list[str],
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    browser.look(f"/-/admin/{page}")
    fields = *of_archive(what, ""), *([("reason", "no")] if what == "refuse" else [])
    assert problem_of(browser.send(f"/-/admin/{page}", *fields)) == "The field ibi is missing"
    capsys.readouterr()
    assert main(["resolver", words[0], *_with_data(words[1:], running)]) == 1
    assert capsys.readouterr().err.strip() == "ibi: the field ibi is missing"


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_one_sentence_by_every_way(
    running: AdministeredResolver,
    browser: Librarian,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    method, path, body, page, form, words = BAD[case]
    before = ResolverSettings.read(running.data)
    reply = running.ask(method, path, body, Scope.ADMIN)
    over_json = json.loads(reply.body)["detail"]
    shown = browser.look(f"/-/admin/{page}").text
    seen = re.findall(r'name="((?:was\.)?\w+)" value="([^"]*)"', shown)
    kept = [(name, unescape(text)) for name, text in seen if name.startswith("was.") or name == "version"]
    typed = dict(form)
    others = [(name[4:], text) for name, text in kept if name.startswith("was.") and name[4:] not in typed]
    on_page = problem_of(browser.send(f"/-/admin/{page}", *kept, *others, *form))
    assert over_json
    assert on_page[:1].lower() + on_page[1:] == over_json
    assert (words is None) == (case == "a role of none")  # all have the same role, so no command changes one
    if words is not None:
        capsys.readouterr()
        try:
            status = main(["resolver", words[0], *_with_data(words[1:], running)])
        except SystemExit as end:
            status = int(end.code or 0)
        typed_there = capsys.readouterr().err.strip().splitlines()[-1].partition(": ")[2]
        assert status in {1, 2}
        # A command calls a field as its option.
        assert typed_there.replace("--scope", "scopes").replace("--", "") == over_json
    assert ResolverSettings.read(running.data) == before


def test_accounts_and_tokens_are_made_and_ended_by_every_way(
    running: AdministeredResolver, browser: Librarian, capsys: pytest.CaptureFixture[str]
) -> None:
    role = "administrator"

    def program(method: str, path: str, body: object = None) -> None:
        assert running.ask(method, path, body, Scope.ADMIN).status in {200, 201, 204}

    def page(word: str, *fields: tuple[str, str]) -> None:
        shown = browser.look(f"/-/admin/{word}").text
        version = re.findall(r'name="(version)" value="([^"]*)"', shown)
        answer = browser.send(
            f"/-/admin/{word}", *((name, unescape(text)) for name, text in version), *fields
        )
        assert answer.status in {200, 303}, answer.text

    def command(*words: str) -> None:
        assert main(["resolver", *words, "--data", str(running.data)]) == 0
        capsys.readouterr()

    def known() -> tuple[set[str], set[str]]:
        lists = (running.get_json(f"/{what}", Scope.ADMIN)[what] for what in ("accounts", "tokens"))
        accounts, tokens = ({each["name"] for each in rows} - {"root", "admin"} for rows in lists)
        return accounts, tokens

    def make_by_program() -> None:
        program("POST", "/accounts", {"name": "ada", "role": role})
        program("POST", "/accounts/ada/password")
        program("PATCH", "/accounts/ada", {"role": role})
        program("POST", "/tokens", {"name": "t", "scopes": ["read"]})

    def make_by_page() -> None:
        page("accounts", ("what", "add"), ("name", "ada"), ("role", role))
        page("accounts", ("what", "password"), ("name", "ada"), SURE)
        page("accounts", ("what", "role"), ("name", "ada"), ("role", role))
        page("do/make-token", ("name", "t"), ("scopes", "read"))

    def make_by_command() -> None:
        command("account", "add", "ada", "--role", role, "--generate")
        command("account", "password", "ada", "--generate")
        command("token", "add", "t", "--scope", "read")

    def end_by_program() -> None:
        program("DELETE", "/accounts/ada")
        program("DELETE", "/tokens/t")

    def end_by_page() -> None:
        page("accounts", ("what", "remove"), ("name", "ada"), SURE)
        page("do/revoke-token", ("name", "t"), SURE)

    def end_by_command() -> None:
        command("account", "remove", "ada")
        command("token", "remove", "t")

    makes = (make_by_program, make_by_page, make_by_command)
    for make, end in zip(makes, (end_by_program, end_by_page, end_by_command), strict=True):
        before = known()
        make()
        made = known()
        assert [made[0] - before[0], made[1] - before[1]] == [{"ada"}, {"t"}]
        end()
        assert known() == before


def _with_data(words: list[str], running: AdministeredResolver) -> list[str]:
    """The words of a command, with the data directory after the last of them."""
    return [*words, "--data", str(running.data)]
