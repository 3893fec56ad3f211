"""`ibi archive init --store`: who makes an Archive in a store, who joins it, and what is refused."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Tokens
from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.postgresql.nodes import bring_in
from ibi.cli import main
from ibi.errors import SetupError
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.store import TABLES, store_of
from ibi.runtime.signing import public_key
from support.cli.in_process import ibi
from support.engines.postgresql import PostgreSQL
from support.engines.seaweedfs import BUCKET, SeaweedFS

SERVICE = "archive.example/w/2020/01.01.00.00"
MADE = "2026-11-22T10:00:00Z"
FIRST = (
    "--address", "archive.example", "--ip", "127.0.0.1", "--service-ibi", SERVICE, "--mint-host",
    "mint.archive.example", "--mint-ip", "127.0.0.1", "--for-trying", "--admin", "admin@archive.example",
)  # fmt: skip


@pytest.fixture
def place(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place for files that every node reaches."""
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(6)}"


def init(data: Path, *words: str) -> tuple[int, str, str]:
    """Status, output and errors of `ibi archive init`."""
    done = ibi("archive", "init", "--data", data, *words)
    return done.returncode, done.stdout, done.stderr


def test_the_first_node_makes_the_archive_and_the_next_ones_join_it(
    postgresql: PostgreSQL, place: str, tmp_path: Path
) -> None:
    url, first, second = postgresql.new_database(), tmp_path / "first", tmp_path / "second"
    assert init(first, "--store", url)[0] == 2  # it asks for the address, as without a store
    assert init(first, "--store", url, "--files", place, *FIRST)[0] == 0
    status, out, _ = init(second, "--store", url)
    assert (status, out) == (0, f"http://archive.example/{SERVICE}\n")
    for data in (first, second):
        assert (data / "archive.toml").read_text() == f'store = "{url}"\n'
        assert (data / "archive.toml").stat().st_mode & 0o777 == 0o600
    assert ArchiveSettings.read(first) == ArchiveSettings.read(second)
    assert public_key(first) == public_key(second) != ""
    Accounts(first).add("root", Role.ADMINISTRATOR, "four words and a horse", MADE)
    Peer.write_tables(first, {"b": Peer(address="http://b.example", token="t")})
    further = JoinedResolver(url="http://resolver.example", key="1234567890")
    JoinedResolver.write_tables(second, {"resolver.example": further})
    Institution(name="An institution").write(second)
    assert [each.name for each in Accounts(second).all()] == ["root"]
    assert Peer.read_tables(second) == Peer.read_tables(first) != {}
    assert JoinedResolver.read_tables(first) == {"resolver.example": further}
    assert Institution.of(first).name == "An institution"
    assert main(["archive", "set", "--data", str(second), "--audit-days", "7"]) == 0
    assert ArchiveSettings.read(first).audit_days == 7
    assert sorted(path.name for path in second.iterdir() if path.suffix != ".lock") == ["archive.toml"]
    assert "there is already an Archive in" in init(second, "--store", url)[2]


def test_a_store_that_cannot_be_joined_is_one_sentence_without_its_password(
    postgresql: PostgreSQL, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--files", place, *FIRST)

    def refused(name: str, url: str, *more: str) -> str:
        status, _, errors = init(tmp_path / name, "--store", url, *more)
        assert status == 1, errors
        assert "SECRET" not in errors
        assert not (tmp_path / name / "archive.toml").exists()
        (line,) = errors.strip().splitlines()
        return line

    assert "127.0.0.1:9/none cannot be used: " in refused(
        "a", "postgresql://u:SECRET@127.0.0.1:9/none", *words
    )
    assert "a store is a URL such as" in refused("b", "mysql://u:SECRET@127.0.0.1/none", *words)
    url = postgresql.new_database()
    postgresql.execute("CREATE TABLE of_another (a int)", url.rpartition("/")[2])
    assert "holds something else: take a database of its own" in refused("c", url, *words)
    url = postgresql.new_database()
    resolver = ["resolver", "init", "--data", str(tmp_path / "resolver"), "--store", url]
    assert main([*resolver, "--address", "r.example", "--service-ibi", "J8LNKB5R7W/3FUQHC5"]) == 0
    assert "holds a resolver: an Archive needs a database of its own" in refused("d", url, *words)
    url = postgresql.new_database()
    assert init(tmp_path / "first", "--store", url, *FIRST)[0] == 0
    assert "are in a folder of one machine: move them into an S3 store first" in refused("e", url)
    other = "other.example/w/2020/01.01.00.00"
    assert f"holds another Archive, whose service is {SERVICE}" in refused("f", url, "--service-ibi", other)
    monkeypatch.setenv("IBI_ARCHIVE_STORE", postgresql.new_database())
    assert "store is decided by IBI_ARCHIVE_STORE in the environment" in refused("g", url)
    monkeypatch.undo()
    resolver[3] = str(tmp_path / "second")
    assert main([*resolver[:5], url, "--address", "r.example", "--service-ibi", "J8LNKB5R7W/3FUQHC5"]) == 1


def test_settings_beside_the_store_and_a_store_of_another_version_are_refused(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    data, url = tmp_path / "node", postgresql.new_database()
    assert init(data, "--store", url, *FIRST)[0] == 0
    own = (data / "archive.toml").read_text()
    (data / "archive.toml").write_text(f"{own}audit_days = 3\n")
    errors = ibi("archive", "list", "--data", data).stderr
    assert "beside `store`, all settings are in the store; take audit_days out" in errors
    (data / "archive.toml").write_text(own)
    name = url.rpartition("/")[2]
    for chain in ("shared", "catalogue"):
        postgresql.execute(f"UPDATE {chain}_version SET version_num = '{chain}_9999'", name)  # noqa: S608 - ours
        errors = ibi("archive", "serve", "--data", data, "--bind", "127.0.0.1:0").stderr
        assert f"has version {chain}_9999, but this program needs version {chain}_00" in errors
        assert f"has version {chain}_9999" in ibi("doctor", "--data", data).stdout
        newest = "0002" if chain == "shared" else "0010"
        postgresql.execute(f"UPDATE {chain}_version SET version_num = '{chain}_{newest}'", name)  # noqa: S608 - ours
    postgresql.execute("DELETE FROM document WHERE name = 'archive.toml'", name)
    assert "holds nothing of ours: was it made with `init`?" in ibi("archive", "list", "--data", data).stderr


def test_a_backup_of_a_node_is_one_of_an_archive_without_nodes(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    data, back, url = tmp_path / "node", tmp_path / "back", postgresql.new_database()
    assert init(data, "--store", url, *FIRST)[0] == 0
    Accounts(data).add("root", Role.ADMINISTRATOR, "four words and a horse", MADE)
    Tokens(data).make("program", MADE)
    Peer.write_tables(data, {"b": Peer(address="http://b.example", token="t")})
    store = BackupStore(tmp_path / "backups")
    saved = Backup(DataDirectory(data, this_machine()), store).run(3)
    assert restore(store, saved.name, back) == []
    assert store_of(back) is None
    assert ArchiveSettings.read(back).service == ArchiveSettings.read(data).service
    assert Accounts(back).all() == Accounts(data).all() != ()
    assert [each.name for each in Tokens(back).all()] == ["program"]
    assert Peer.read_tables(back) == Peer.read_tables(data)
    assert public_key(back) == public_key(data)
    for name in ("archive.toml", "accounts.json", "tokens.json", "peers.toml", "attestation.key"):
        assert (back / name).stat().st_mode & 0o777 == 0o600


def test_an_archive_with_only_its_catalogue_in_a_store_is_brought_in_once(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    data, late = tmp_path / "a", tmp_path / "late"
    assert init(data, *FIRST)[0] == 0
    Accounts(data).add("root", Role.ADMINISTRATOR, "four words and a horse", MADE)
    url = postgresql.new_database()
    assert main(["archive", "move-store", "--data", str(data), "--to", url]) == 0
    # As an earlier version had it: settings and accounts in files, beside the name of the store.
    name = url.rpartition("/")[2]
    text, accounts = (
        postgresql.execute(f"SELECT content FROM document WHERE name = '{each}'", name)[0][0]  # noqa: S608 - ours
        for each in ("archive.toml", "accounts.json")
    )
    for table in sorted(TABLES):
        postgresql.execute(f"DROP TABLE {table} CASCADE", name)
    postgresql.execute("DROP FUNCTION count_change", name)
    for folder in (data, late):
        folder.mkdir(exist_ok=True)
        (folder / "archive.toml").write_text(f'{text}store = "{url}"\n')
    (data / "accounts.json").write_text(accounts)
    before = ArchiveSettings.read(data)
    assert store_of(data) is None
    assert ibi("archive", "list", "--data", data).returncode == 0, "commands go on before"
    assert bring_in(data, 1.0)
    assert not bring_in(data, 1.0)
    assert (data / "archive.toml").read_text() == f'store = "{url}"\n'
    assert ArchiveSettings.read(data) == before
    assert [each.name for each in Accounts(data).all()] == ["root"]
    assert not (data / "accounts.json").exists()
    with pytest.raises(SetupError, match="has settings of its own, but the store has them already"):
        bring_in(late, 1.0)
