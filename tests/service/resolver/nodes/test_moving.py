"""A resolver is moved from files into a store that nodes share, and back, with all it has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Tokens
from ibi.app.resolver import open_registry
from ibi.app.resolver_moving import move_to_files, move_to_store
from ibi.cli import main
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.store import SharedStore, close_store, store_of
from ibi.runtime.signing import public_key, signer
from proofs.common.environment import environment
from support.engines.postgresql import PostgreSQL

SERVICE = parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39")
MADE, MOMENT = "2026-11-22T10:00:00Z", 1_790_000_000.25


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Path]:
    """A resolver in files, with something of everything."""
    data = tmp_path / "resolver"
    words = "--address resolver.example --service-ibi J8LNKB5R7W/3FUQHC5 --policy strict"
    assert main(["resolver", "init", "--data", str(data), *words.split()]) == 0
    with closing(open_registry(data)) as registry:
        registry.register(SERVICE, "12345678901234567890", ["a.example"], "a@b.example")
        registry.hold_move(SERVICE, Move("new.example", "192.0.2.2", 1.5, None, 3))
    with closing(Evidence(data / EVIDENCE_FILE, lambda: MOMENT)) as evidence:
        for number in range(2_500):
            evidence.note("registered", ibi=f"item {number}", by="command")
    Accounts(data).add("root", Role.ADMINISTRATOR, "four words and a horse", MADE)
    Tokens(data).make("program", MADE)
    Institution(name="An institution").write(data)
    signer(data)
    yield data
    close_store(data)


def state(data: Path) -> dict[str, object]:
    """All that a resolver has."""
    with (
        closing(open_registry(data)) as registry,
        closing(Evidence(data / EVIDENCE_FILE, lambda: 0)) as evidence,
    ):
        return {
            "registry": registry.registered(),
            "keys": registry.check_key(SERVICE, "12345678901234567890"),
            "lines": list(evidence.lines()),
            "verified": evidence.verify(),
            "accounts": Accounts(data).all(),
            "tokens": Tokens(data).all(),
            "institution": Institution.of(data),
            "key": public_key(data),
            "settings": ResolverSettings.read(data).shared_text(),
        }


def test_a_resolver_is_moved_into_a_store_and_back_with_all_it_has(
    made: Path, postgresql: PostgreSQL
) -> None:
    before, url = state(made), postgresql.new_database()
    move_to_store(made, url)
    assert store_of(made) is not None
    assert (made / "resolver.toml").read_text() == f'store = "{url}"\n'
    assert state(made) == before
    with closing(Evidence(made / EVIDENCE_FILE, lambda: MOMENT)) as evidence:
        evidence.write("unregistered", ibi=str(SERVICE), by="command")
    later = state(made)
    with pytest.raises(SetupError, match=r"registry\.sqlite is in the way"):
        move_to_files(made)
    for name in ("registry.sqlite", "evidence.jsonl", "evidence.head"):
        (made / name).rename(made / f"{name}.before")
    for name in ("accounts.json", "tokens.json", "attestation.key", "institution.toml"):
        (made / name).unlink()
    move_to_files(made)
    assert store_of(made) is None
    assert state(made) == later


def test_a_store_is_moved_while_no_node_serves_and_is_no_resolver_then(
    made: Path, postgresql: PostgreSQL, capsys: pytest.CaptureFixture[str]
) -> None:
    before, url, other = state(made), postgresql.new_database(), made.with_name("other")
    move_to_store(made, url)
    assert main(["resolver", "init", "--data", str(other), "--store", url]) == 0
    for name in ("registry.sqlite", "evidence.jsonl", "evidence.head", "institution.toml"):
        (made / name).rename(made / f"{name}.before")
    with closing(SharedStore(url)) as serving:
        serving.watch(20.0)
        with pytest.raises(SetupError, match="a node serves from this store"):
            move_to_files(made)
        assert not (made / "registry.sqlite").exists()
        assert ResolverSettings.read(other).address == "resolver.example"
    move_to_files(made)
    assert state(made) == before
    capsys.readouterr()
    assert main(["resolver", "serve", "--data", str(other), "--bind", "127.0.0.1:0"]) == 1
    assert "holds nothing of ours" in capsys.readouterr().err
    close_store(other)
    (made / "institution.toml").unlink()
    without = state(made)
    move_to_store(made, url)
    assert state(made) == without != before


def test_files_that_are_being_served_are_not_moved(made: Path, postgresql: PostgreSQL) -> None:
    words = [sys.executable, "-m", "ibi", "resolver", "serve", "--data", str(made), "--bind", "127.0.0.1:0"]
    url = postgresql.new_database()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            with pytest.raises(SetupError, match="the resolver is being served: stop it"):
                move_to_store(made, url)
        finally:
            process.terminate()
    assert store_of(made) is None
    before = state(made)
    move_to_store(made, url)
    assert state(made) == before


def test_a_store_that_the_environment_names_is_not_left(
    made: Path, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.new_database()
    move_to_store(made, url)
    monkeypatch.setenv("IBI_RESOLVER_STORE", url)
    with pytest.raises(SetupError, match="store is decided by IBI_RESOLVER_STORE in the environment"):
        move_to_files(made)


def test_a_store_that_holds_another_resolver_is_left_as_it_is(made: Path, postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    words = ["--address", "other.example", "--service-ibi", "8JMKD3MGP8W/35MMLL8", "--store", url]
    other = made.with_name("other")
    assert main(["resolver", "init", "--data", str(other), *words]) == 0
    before = state(made)
    with pytest.raises(SetupError, match="the store holds a resolver already"):
        move_to_store(made, url)
    assert state(made) == before
    assert ResolverSettings.read(other).address == "other.example"
    close_store(other)


def test_a_move_that_broke_off_at_its_end_is_ended_by_the_same_command(
    made: Path, postgresql: PostgreSQL
) -> None:
    before, url = state(made), postgresql.new_database()
    move_to_store(made, url)
    close_store(made)
    (made / "resolver.toml.before-store").rename(made / "resolver.toml")
    move_to_store(made, url)
    assert state(made) == before
    (made / "resolver.toml.before-store").rename(made / "resolver.toml")
    with closing(Evidence(made / EVIDENCE_FILE, lambda: MOMENT)) as evidence:
        evidence.write("unregistered", ibi=str(SERVICE), by="command")
    with pytest.raises(SetupError, match="the store holds a resolver already"):
        move_to_store(made, url)


def test_a_log_that_was_changed_is_not_moved(made: Path, postgresql: PostgreSQL) -> None:
    log = made / EVIDENCE_FILE
    log.write_bytes(log.read_bytes().replace(b"item 7", b"item 8", 1))
    with pytest.raises(SetupError, match="line 8 is not as it was written"):
        move_to_store(made, postgresql.new_database())
    assert store_of(made) is None


def test_the_command_says_what_a_store_is(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resolver", "move-store", "--data", str(made), "--to", "mysql://far"]) == 1
    assert "a store is a URL such as postgresql://user:password@host/database" in capsys.readouterr().err
    for word in ("files", "file"):
        assert main(["resolver", "move-store", "--data", str(made), "--to", word]) == 1
        assert "names no store" in capsys.readouterr().err
