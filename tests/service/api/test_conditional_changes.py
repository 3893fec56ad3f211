"""A change that depends on a version is refused where another one comes between its check and its writing."""

from __future__ import annotations

import fcntl
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import accounts
from ibi.api.operations import Operation
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.chain import LogHead, NewEntry, write_line
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.operations.listed import OPERATIONS
from ibi.runtime.durable_files import locked_file, overwrite
from ibi.runtime.settings import ResolverSettings, settings_lock
from ibi.runtime.settings.institution import Institution
from support.concurrency.threads import until_waiting, waits_for
from support.programs import MADE
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver

ARCHIVE, APPLICANT = "a.example/b/2014/01.01.00.00", "c.example/d/2015/01.01.00.00"
Between = Callable[[Path], AbstractContextManager[None]]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[AdministeredResolver]:
    with administered_resolver(tmp_path) as made:
        yield made


@contextmanager
def settings_change(data: Path) -> Iterator[None]:
    """Change another setting, after what the block waits for."""
    with settings_lock(data):
        yield
        before = ResolverSettings.read(data)
        replace(before, hedge_seconds=before.hedge_seconds + 1).write(data)


@contextmanager
def institution_change(data: Path) -> Iterator[None]:
    """Give the institution another colour, after what the block waits for."""
    with settings_lock(data):
        yield
        Institution.of(data).changed({"colour": "#123456"}).write(data)


@contextmanager
def accounts_change(data: Path) -> Iterator[None]:
    """Make another account."""
    yield from list_change(data / "accounts.json")


@contextmanager
def tokens_change(data: Path) -> Iterator[None]:
    """Make another token."""
    yield from list_change(data / "tokens.json")


def list_change(path: Path) -> Iterator[None]:
    """Add a row to a JSON list."""
    word = path.stem
    with locked_file(path.with_suffix(".lock")):
        yield
        content = json.loads(path.read_text())
        content[word].append({**content[word][0], "name": "between", "sha256": "0" * 64}
                             if word == "tokens" else {**content[word][0], "name": "between"})  # fmt: skip
        path.write_text(json.dumps(content))


@contextmanager
def registry_change(data: Path) -> Iterator[None]:
    """Give all Archives another contact."""
    with closing(sqlite3.connect(data / "registry.sqlite", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("UPDATE archives SET contact = 'between@a.example'")
        connection.execute("COMMIT")


@contextmanager
def evidence_change(data: Path) -> Iterator[None]:
    """Write another alert, as another process does, after what the block waits for."""
    path = data / EVIDENCE_FILE
    head_path = path.with_suffix(".head")
    with head_path.open("r+b") as head:
        fcntl.flock(head, fcntl.LOCK_EX)
        yield
        known = LogHead.read(head.read())
        assert known is not None
        facts = {"kind": "suspect-originals", "ibi": APPLICANT, "archives": f"{ARCHIVE} {APPLICANT}"}
        line, last = write_line(known.anchor, NewEntry("2030-01-01T00:00:00.000Z", "alert", facts))
        with path.open("ab") as log:
            log.write(line)
        overwrite(head.fileno(), LogHead(last, known.size + len(line)).line())


def prepared(running: AdministeredResolver) -> None:
    """What the cases change."""
    Accounts(running.data).add("ada", Role.ADMINISTRATOR, "four words and a horse", MADE)
    Tokens(running.data).make("two", MADE, [Scope.READ])
    running.registry.register(parse_ibi(ARCHIVE))
    with closing(Evidence(running.data / EVIDENCE_FILE, time.time)) as evidence:
        evidence.write("alert", kind="suspect-originals", ibi=ARCHIVE, archives=f"{ARCHIVE} {APPLICANT}")
    running.registry.apply(parse_ibi(APPLICANT), "c.example", "ada@c.example", "Ada", [])


REASON = {"reason": "Not ours."}
CASES: list[tuple[str, str, Any, str, str, Between]] = [
    ("PATCH", "/settings", {"grace_seconds": 1.5}, "/settings", ".", settings_change),
    ("PATCH", "/institution", {"name": "A network"}, "/institution", ".", institution_change),
    ("POST", "/accounts", {"name": "bob", "role": "administrator"}, "/accounts", "accounts.lock", accounts_change),
    ("POST", "/accounts/ada/password", None, "/accounts", "accounts.lock", accounts_change),
    ("PATCH", "/accounts/ada", {"role": "administrator"}, "/accounts", "accounts.lock", accounts_change),
    ("DELETE", "/accounts/ada", None, "/accounts", "accounts.lock", accounts_change),
    ("POST", "/tokens", {"name": "three", "scopes": ["read"]}, "/tokens", "tokens.lock", tokens_change),
    ("DELETE", "/tokens/two", None, "/tokens", "tokens.lock", tokens_change),
    ("POST", f"/alerts/{ARCHIVE}/settle", None, "/alerts", "evidence.head", evidence_change),
    ("POST", "/registrations", {"ibi": "e.example/f/2016/01.01.00.00"}, "/registrations", "", registry_change),
    ("POST", f"/registrations/{APPLICANT}/approve", None, f"/registrations/{APPLICANT}", "", registry_change),
    ("POST", f"/registrations/{APPLICANT}/refuse", REASON, f"/registrations/{APPLICANT}", "", registry_change),
    ("POST", f"/registrations/{ARCHIVE}/allow-move", None, f"/registrations/{ARCHIVE}", "", registry_change),
    ("POST", f"/registrations/{ARCHIVE}/rotate", None, f"/registrations/{ARCHIVE}", "", registry_change),
    ("DELETE", f"/registrations/{ARCHIVE}", None, f"/registrations/{ARCHIVE}", "", registry_change),
]  # fmt: skip


def test_every_act_of_a_resolver_is_here() -> None:
    every: tuple[Operation[Any, Any], ...] = (*OPERATIONS, *accounts.OPERATIONS)
    acts = [each for each in every if each.changes]
    missed = [
        each.name
        for each in acts
        if not any(
            (each.method, bool(re.fullmatch(re.sub("<[a-z]+>", ".+?", each.pattern), path))) == (method, True)
            for method, path, *_ in CASES
        )
    ]
    assert missed == []
    assert len(CASES) == len(acts)


@pytest.mark.parametrize(
    ("method", "path", "body", "seen", "lock", "between"),
    CASES,
    ids=[f"{method} {path}" for method, path, *_ in CASES],
)
def test_a_change_that_another_one_overtakes_is_a_conflict(
    running: AdministeredResolver, method: str, path: str, body: Any, seen: str, lock: str, between: Between
) -> None:
    prepared(running)
    token = running.token(Scope.ADMIN)
    etag = running.ask("GET", seen, None, token=token).headers["etag"]
    with ThreadPoolExecutor(1) as threads:
        with between(running.data):
            # It finds the version that it wants, and then waits for the lock that we hold.
            sent = threads.submit(running.ask, method, path, body, token=token, if_match=etag)
            if lock:
                until_waiting(running.data / lock, sent.done)
            else:
                time.sleep(0.5)  # a wait for the database leaves no trace
        answer = sent.result()
    assert answer.status == 412, answer.text
    etag = running.ask("GET", seen, None, token=token).headers["etag"]
    again = running.ask(method, path, body, token=token, if_match=etag)
    assert again.status in {200, 201, 204}, again.text


def test_two_changes_that_depend_on_a_version_take_turns(running: AdministeredResolver) -> None:
    token, wanted = running.token(Scope.ADMIN), {"grace_seconds": 1.5}
    etag = running.ask("GET", "/settings", None, token=token).headers["etag"]

    def change() -> int:
        return running.ask("PATCH", "/settings", wanted, token=token, if_match=etag).status

    assert waits_for(running.data / "operations.lock", change) == 200
    assert change() == 412
