"""Accounts, tokens, sessions and attempts to sign in, in files and in a store that nodes share (threat T44)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.sessions import MOST_SESSIONS, AttemptLimit, Sessions
from ibi.accounts.sign_in import Authentication
from ibi.accounts.tokens import Scope, Tokens
from ibi.errors import NotHeld, SetupError
from ibi.runtime.shared.store import close_store
from support.engines.postgresql import PostgreSQL
from support.engines.shared_store import data, new_store, on_both_stores, share

__all__ = ["data"]

MADE, NOW = "2026-11-22T10:00:00Z", 1_700_000_000.0
PASSWORD = "four words and a horse"
THREE = AttemptLimit("three", 3, 60.0)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both stores."""
    on_both_stores(metafunc)


@pytest.fixture
def nodes(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The data directories of two nodes with one store."""
    url = new_store(postgresql)
    first, second = (share(tmp_path / name, url) for name in ("first", "second"))
    yield first, second
    for each in (first, second):
        close_store(each)


def test_accounts_and_tokens_are_made_changed_and_removed(data: Path) -> None:
    accounts, tokens = Accounts(data), Tokens(data)
    assert accounts.find("Root") is None
    made = accounts.add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
    assert accounts.find("Root") == made
    with pytest.raises(SetupError, match="of the name ROOT already"):
        accounts.add("ROOT", Role.ADMINISTRATOR, PASSWORD, MADE)
    changed = accounts.set_password("root", "another horse of words")
    assert accounts.all() == [changed]
    assert changed.stamp != made.stamp
    accounts.remove("root")
    assert accounts.find("root") is None
    token = tokens.make("program", MADE, [Scope.READ])
    found = tokens.bearer(f"Bearer {token}")
    assert found is not None
    assert (found.name, found.scopes) == ("program", (Scope.READ,))
    tokens.revoke("program")
    assert tokens.find(token) is None
    with pytest.raises(NotHeld, match="no token of the name program"):
        tokens.revoke("program")


def test_a_change_whose_check_fails_is_none(data: Path) -> None:
    accounts = Accounts(data)
    accounts.add("root", Role.ADMINISTRATOR, PASSWORD, MADE)

    def refuse(_rows: object) -> None:
        raise SetupError("not now")

    with pytest.raises(SetupError, match="not now"):
        accounts.remove("root", refuse)
    assert [each.name for each in accounts.all()] == ["root"]


def test_a_session_begins_is_found_and_ends(data: Path) -> None:
    now = [NOW]
    sessions = Sessions(data / "sessions.sqlite", lambda: now[0])
    first = sessions.start("root", "stamp", "pt-BR")
    found = sessions.find(first)
    assert found is not None
    assert (found.account, found.stamp, found.language) == ("root", "stamp", "pt-BR")
    sessions.choose_language(first, "en")
    assert (known := sessions.find(first)) is not None
    assert known.language == "en"
    now[0] += 3_599
    assert sessions.find(first)
    now[0] += 3_599
    assert sessions.find(first), "its use is noted, so it has not been idle for an hour"
    now[0] += 3_600
    assert sessions.find(first) is None
    more = []
    for _ in range(MOST_SESSIONS + 1):
        now[0] += 1
        more.append(sessions.start("root", "stamp"))
    assert [sessions.find(each) is not None for each in more] == [False] + [True] * MOST_SESSIONS
    sessions.end_all("root")
    assert sessions.find(more[-1]) is None
    sessions.close()


def test_of_many_attempts_at_once_only_so_many_are_let_through(data: Path) -> None:
    sessions = Sessions(data / "sessions.sqlite", lambda: NOW)
    with ThreadPoolExecutor(8) as threads:
        attempts = list(threads.map(lambda _: sessions.attempt([(THREE, "root")]), range(12)))
    assert sum(each.wait == 0 for each in attempts) == 3
    assert {each.wait for each in attempts} == {0.0, 60.0}
    sessions.clear(next(each for each in attempts if not each.wait), THREE, "root")
    assert sessions.attempt([(THREE, "root")]).wait == 0
    sessions.close()


def test_who_has_signed_in_at_one_node_is_signed_in_at_the_other(nodes: tuple[Path, Path]) -> None:
    here, there = (Authentication(each, "service", lambda: NOW) for each in nodes)
    made = here.accounts.add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
    session = here.sessions.start(made.name, made.stamp)
    found, account = there.sessions.find(session), there.accounts.find("root")
    assert found is not None
    assert account == made
    assert found.stamp == made.stamp
    there.sessions.end(session)
    assert here.sessions.find(session) is None


def test_wrong_passwords_at_one_node_count_at_the_other(nodes: tuple[Path, Path]) -> None:
    here, there = (Sessions(each / "sessions.sqlite", lambda: NOW) for each in nodes)
    assert [each.attempt([(THREE, "root")]).wait for each in (here, there, here)] == [0.0, 0.0, 0.0]
    assert there.attempt([(THREE, "root")]).wait == 60.0


def test_no_id_of_a_session_and_no_password_is_in_the_store(
    nodes: tuple[Path, Path], postgresql: PostgreSQL
) -> None:
    accounts, tokens = Accounts(nodes[0]), Tokens(nodes[0])
    accounts.add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
    secrets = [
        PASSWORD,
        tokens.make("program", MADE),
        Sessions(nodes[0] / "s", lambda: NOW).start("root", "x"),
    ]
    name = (nodes[0] / "resolver.toml").read_text().rpartition("/")[2].strip('"\n')
    for statement in ("SELECT * FROM document", "SELECT * FROM session"):
        text = str(postgresql.execute(statement, name))
        assert not any(secret in text for secret in secrets)
    assert "$argon2id$" in str(postgresql.execute("SELECT * FROM document", name))
