"""An Archive is moved into a store with its accounts and settings, and back; not while a node serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Tokens
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.postgresql.moving import move_store
from ibi.errors import SetupError
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings, Peer
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.store import close_store, store_of
from ibi.runtime.signing import public_key, signer
from support.cli.archive_commands import make_archive
from support.cli.in_process import ibi
from support.engines.postgresql import PostgreSQL
from support.ports import free_port

MADE = "2026-11-22T10:00:00Z"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[DataDirectory]:
    """An Archive of one machine, with something of everything."""
    data = tmp_path / "archive"
    make_archive(data, free_port())
    Accounts(data).add("root", Role.ADMINISTRATOR, "four words and a horse", MADE)
    Tokens(data).make("program", MADE)
    Institution(name="An institution").write(data)
    Peer.write_tables(data, {"b": Peer(address="http://b.example", token="t")})
    settings = data / "archive.toml"
    settings.write_text("# kept\n" + settings.read_text())
    signer(data)
    yield DataDirectory(data, this_machine())
    close_store(data)


def state(data: Path) -> dict[str, object]:
    """All that an Archive has beside its catalogue."""
    settings = ArchiveSettings.read(data)
    return {
        "settings": settings.shared_text(),
        "accounts": list(Accounts(data).all()),
        "tokens": list(Tokens(data).all()),
        "institution": Institution.of(data),
        "peers": Peer.read_tables(data),
        "key": public_key(data),
    }


@pytest.mark.one_store("sqlite", "begins with an Archive in files")
def test_an_archive_is_moved_into_a_store_to_another_and_back_with_all_it_has(
    made: DataDirectory, postgresql: PostgreSQL
) -> None:
    data, before = made.path, state(made.path)
    one, other = postgresql.new_database(), postgresql.new_database()
    move_store(made, one)
    assert (data / "archive.toml").read_text() == f'store = "{one}"\n'
    assert not (data / "accounts.json").exists()
    assert len(list((data / "lost+found").rglob("accounts.json"))) == 1
    assert state(data) == before
    Accounts(data).add("maria", Role.KEEPER, "four words and a horse", MADE)
    later = state(data)
    move_store(made, other)
    assert state(data) == later
    # Another node of the first store does not start any more.
    (data.parent / "node").mkdir()
    (data.parent / "node" / "archive.toml").write_text(f'store = "{one}"\n')
    assert "holds nothing of ours" in ibi("archive", "serve", "--data", data.parent / "node").stderr
    move_store(made, "")
    assert store_of(data) is None
    assert (data / "archive.toml").read_text().startswith("# kept\n")
    assert (data / "accounts.json").stat().st_mode & 0o777 == 0o600
    assert state(data) == later


def test_no_store_is_moved_while_a_node_serves_from_it(made: DataDirectory, postgresql: PostgreSQL) -> None:
    move_store(made, postgresql.new_database())
    node = made.path.parent / "node"
    node.mkdir()
    (node / "archive.toml").write_bytes((made.path / "archive.toml").read_bytes())
    store = store_of(node)
    assert store is not None
    store.watch()
    try:
        with pytest.raises(SetupError, match="a node serves from this store: stop all its nodes first"):
            move_store(made, "")
    finally:
        close_store(node)
    move_store(made, "")
    assert ArchiveSettings.read(made.path).store == ""
