"""The pages of a resolver: each form has the fields of its act and no others, and what only reads refuses alike."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.api import accounts
from ibi.api.fields import described
from ibi.api.operations import Operation
from ibi.archive.operations import listed as of_archives
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.resolver.operations.listed import OPERATIONS
from support.archive.administration_fixture import Librarian
from support.archive.three_ways import problem_of
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver
from support.web.html_form import HtmlForm, forms_of

ROOT = Path(__file__).parents[4]
APPLIED, REGISTERED = "applied.example/x/2014/01.01.00.00", "moving.example/x/2014/01.01.00.00"
EVERY: tuple[Operation[Any, Any], ...] = (*OPERATIONS, *accounts.OPERATIONS)
BY_NAME = {each.name: each for each in EVERY}

WHAT = {
    "approve": "approve", "refuse": "refuse", "rotate": "key", "allow-move": "move", "unregister": "forget",
    "add-account": "add", "remove-account": "remove", "set-password": "password",
}  # fmt: skip
"""Acts whose page has forms of several, and the word by which these say which act is meant."""

ON_ITS_OWN_PAGE = {"rotate", "unregister"}
"""Acts that are done on the page of one Archive."""

MADE_FROM_FIELDS = {"make-token", "revoke-token"}
"""Acts that have pages of their own in an Archive only."""

NO_FIELD = {
    "form_token": "proves where the form is from", "what": "which act", "sure": "a confirmation",
    "version": "the version that was seen",
}  # fmt: skip
"""Names in forms that are no field of an operation, with the reason."""

BESIDE = {
    "log": {
        "what": "only in links",
        "limit": "a page is as long as it can be",
        "before": "only in links",
        "at": "only in links",
    },
}
"""Fields that a page has not, with the reason."""

NO_ACT = {
    "account": "one's own password, typed twice, which no token may change", "sign-in": "is no act of a program",
    "sign-out": "as sign-in", "do": "made from the fields", "items": "a search, as in JSON a plain route",
    "import": "its fields are those of ImportFields", "bulk": "acts on items, each as on the page of one item",
}  # fmt: skip
"""Forms of pages that do none of the operations, with the reason."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredResolver]:
    """A resolver whose pages have each form: an Archive has applied, another wants to move; there is an account."""
    with administered_resolver(tmp_path_factory.mktemp("forms")) as made:
        made.registry.apply(parse_ibi(APPLIED), "a.example", "ada@a.example")
        made.registry.register(parse_ibi(REGISTERED), "12345678901234567890")
        made.registry.hold_move(parse_ibi(REGISTERED), Move("new.example", "192.0.2.7", 1.0))
        with closing(Evidence(made.data / EVIDENCE_FILE, time.time)) as evidence:
            evidence.write(
                "alert", kind="suspect-originals", ibi=REGISTERED, archives=f"{REGISTERED} {APPLIED}"
            )
        assert (
            made.ask("POST", "/accounts", {"name": "ada", "role": "administrator"}, Scope.ADMIN).status == 201
        )
        yield made


@pytest.fixture(scope="module")
def browser(running: AdministeredResolver) -> Librarian:
    return running.browser("root")


def _form(browser: Librarian, operation: Operation[Any, Any]) -> HtmlForm:
    """The form that does an act."""
    own = operation.page if operation.name not in MADE_FROM_FIELDS else ""
    path = f"/-/admin/{own or f'do/{operation.name}'}"
    shown = f"{path}/{REGISTERED}" if operation.name in ON_ITS_OWN_PAGE else path
    forms = [each for each in forms_of(browser.look(shown).text) if each.action == path]
    wanted = ("what", WHAT.get(operation.name, ""))
    return next(each for each in forms if wanted in {*each.sent, *each.buttons} or operation.name not in WHAT)


NOT_SHOWN = {"set-role"}
"""All accounts of a resolver have one role, so that its page changes none."""
ACTS = [each for each in EVERY if (each.changes or each.name == "log") and each.name not in NOT_SHOWN]


@pytest.mark.parametrize("operation", ACTS, ids=[each.name for each in ACTS])
def test_the_form_of_an_act_has_its_fields(browser: Librarian, operation: Operation[Any, Any]) -> None:
    form = _form(browser, operation)
    names = {each for each in form.names if each and not each.startswith("was.")} - NO_FIELD.keys()
    known = {each.name for each in described(operation.fields) if not each.local}
    assert known - names == BESIDE.get(operation.name, {}).keys()
    assert names - known == set()


def test_every_form_of_both_services_belongs_to_an_act() -> None:
    templates = (ROOT / "src/ibi/web/templates").glob("*.html")
    found = {
        word
        for each in templates
        for word in re.findall(r'action="/-/admin/([\w-]+)', each.read_text("utf-8"))
    }
    assert found - {each.page for each in (*EVERY, *of_archives.OPERATIONS)} == NO_ACT.keys()


def test_every_button_of_a_page_does_an_act(browser: Librarian) -> None:
    words = {each.page for each in EVERY if each.page and each.name not in MADE_FROM_FIELDS}
    words.add(f"archives/{REGISTERED}")
    found = {
        text
        for word in words
        for form in forms_of(browser.look(f"/-/admin/{word}").text)
        for name, text in (*form.sent, *form.buttons)
        if name == "what"
    }
    # Asking an Archive and a preview change nothing; the identity is kept.
    assert found == {*WHAT.values(), "ask", "preview", "keep"}


@pytest.mark.parametrize(
    ("page", "name", "text", "words"),
    [
        ("log", "before", "soon", None), ("log", "at", "0", None), ("log", "limit", "201", None),
        ("log", "what", "w" * 101, ["log", "show", "--what", "w" * 101]),
        ("log", "ibi", "i" * 513, ["log", "show", "--ibi", "i" * 513]),
        ("alerts", "before", "-1", None), ("alerts", "word", "x", None),
        ("log/verify", "since", "9" * 101, ["log", "verify", "--since", "9" * 101]),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_is_refused_in_one_sentence(
    running: AdministeredResolver,
    browser: Librarian,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    name: str,
    text: str,
    words: list[str] | None,
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    reply = running.ask("GET", f"/{page}?{name}={text}", None, Scope.ADMIN, Scope.READ)
    over_json = json.loads(reply.body)["detail"]
    assert name in over_json
    own = "do/verify-log" if page == "log/verify" else page
    shown = problem_of(browser.look(f"/-/admin/{own}?{name}={text}"))
    assert shown in {over_json, over_json[:1].upper() + over_json[1:]}
    if words is not None:
        assert main(["resolver", *words, "--data", str(running.data)]) == 1
        assert capsys.readouterr().err.strip().removeprefix("ibi: ") == over_json


TYPED = {"absent": None, "empty": "", "blank": "  "}
# A list is absent, or has texts: none of the ways gives an empty one.
NEEDY = {
    f"{act.name} {needed.name} {word}": (act, needed.name, typed)
    for act in ACTS
    for needed in described(act.fields)
    if needed.required
    for word, typed in TYPED.items()
    if typed is None or not needed.is_list
}
WORDS = {
    "register ibi": ["register", "--archive-service", ""], "approve ibi": ["approve", ""],
    "refuse ibi": ["refuse", "", "--reason", "no"], "refuse reason": ["refuse", REGISTERED, "--reason", ""],
    "rotate ibi": ["rotate", ""], "allow-move ibi": ["allow-move", ""],
    "unregister ibi": ["unregister", "--archive-service", ""], "settle-alert ibi": ["settle-alert", ""],
    "add-account name": ["account", "add", "", "--role", "administrator", "--generate"],
    "set-password name": ["account", "password", "", "--generate"], "remove-account name": ["account", "remove", ""],
    "make-token name": ["token", "add", "", "--scope", "read"], "revoke-token name": ["token", "remove", ""],
}  # fmt: skip
"""Commands that leave a required text empty."""
GIVEN = {"ibi": REGISTERED, "name": "b", "role": "administrator", "scopes": "read", "reason": "no"}


@pytest.mark.parametrize("case", NEEDY)
def test_what_must_be_given_is_missed_by_every_way_alike(
    running: AdministeredResolver,
    browser: Librarian,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    operation, first, typed = NEEDY[case]
    problem = f"the field {first} is missing"
    given = {each.name: GIVEN[each.name] for each in described(operation.fields) if each.required}
    given = {name: text for name, text in given.items() if name != first}
    given |= {} if typed is None else {first: typed}
    form = _form(browser, operation)
    sent = {name: text for name, text in form.sent if name not in {"form_token", first}}
    word = {"what": WHAT[operation.name]} if operation.name in WHAT else {}
    on_page = browser.send(form.action, *{**sent, **given, **word, "sure": "yes"}.items())
    assert problem_of(on_page) == problem[:1].upper() + problem[1:]
    if first not in operation.place.split():
        in_path = operation.place.split()
        body = {
            name: [text] if name == "scopes" else text for name, text in given.items() if name not in in_path
        }
        path = operation.pattern
        for name in in_path:
            path = re.sub("<[a-z]+>", given[name], path, count=1)
        reply = running.ask(operation.method, path, body, Scope.ADMIN)
        assert json.loads(reply.body)["detail"] == problem
    words = WORDS.get(f"{operation.name} {first}") if typed == "" else None
    assert typed != "" or words is not None or first == "role"  # a choice of the command
    if words is not None:
        capsys.readouterr()
        assert main(["resolver", *words, "--data", str(running.data)]) == 1
        assert capsys.readouterr().err.strip() == f"ibi: {problem}"
