"""Nodes of two versions of the program on one database: while the newer one only adds, the older one goes on."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.store import schema
from ibi.errors import SetupError
from ibi.resolver.shared.tables import MIGRATIONS as RESOLVER
from ibi.runtime.database import check_version, migrate, open_engine, upgrade
from ibi.runtime.shared.store import MIGRATIONS as SHARED
from support.cli.archive_commands import get, make_archive, serving
from support.cli.in_process import ibi
from support.engines.newer_program import add_migration, newer_program, python_path
from support.engines.postgresql import PostgreSQL
from support.ports import free_port

MADE = "2026-11-22T10:00:00Z"


def versions(postgresql: PostgreSQL, url: str) -> set[str]:
    """The versions of all chains of a database."""
    name = url.rpartition("/")[2]
    tables = postgresql.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE '%\\_version'", name)
    return {postgresql.execute(f"SELECT version_num FROM {table}", name)[0][0] for (table,) in tables}  # noqa: S608 - ours


def deposit(port: int, token: str, key: str) -> str:
    """Deposit a link; return the name of its item."""
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        facts = json.dumps({"key": key, "url": f"http://far.example/{key}"})
        connection.request("POST", "/-/api/items", facts, head)
        reply = connection.getresponse()
        body = reply.read()
        assert reply.status == 201, body
        return str(json.loads(body)["rep"])
    finally:
        connection.close()


@pytest.mark.long
def test_a_node_goes_on_and_starts_again_while_another_runs_a_version_that_only_adds(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    url, port, newer_port = postgresql.new_database(), free_port(), free_port()
    make_archive(old, port, "--store", url)
    before = versions(postgresql, url)
    new.mkdir()
    (new / "archive.toml").write_bytes((old / "archive.toml").read_bytes())
    token = Tokens(old).make("t", MADE, list(Scope))
    program = newer_program(tmp_path / "program")
    names = list[str]()

    def seen_by_both() -> bool:
        return {get(each, f"/{name}")[0] for each in (port, newer_port) for name in names} == {302}

    with ExitStack() as newer, pytest.MonkeyPatch.context() as patch:
        with serving("--data", old, "--bind", f"127.0.0.1:{port}"):
            names.append(deposit(port, token, "one"))
            patch.setenv("PYTHONPATH", python_path(program))
            newer.enter_context(serving("--data", new, "--bind", f"127.0.0.1:{newer_port}"))
            patch.undo()
            assert {each.rpartition("_")[0] for each in versions(postgresql, url) - before} == {
                "catalogue", "shared",
            }  # fmt: skip
            names += [deposit(port, token, "two"), deposit(newer_port, token, "three")]
            assert seen_by_both()
            # New settings, so that it opens the catalogue anew.
            assert ibi("archive", "set", "--data", old, "--admin", "new@archive.example").returncode == 0
            names.append(deposit(port, token, "four"))
        with serving("--data", old, "--bind", f"127.0.0.1:{port}"):
            names.append(deposit(port, token, "five"))
            assert seen_by_both()
        assert "has version" not in ibi("doctor", "--data", old).stdout


@pytest.mark.parametrize(
    "chain", [schema.MIGRATIONS, SHARED, RESOLVER], ids=["catalogue", "shared", "resolver"]
)
def test_a_version_that_does_more_than_add_is_refused_also_when_others_only_add_after_it(
    postgresql: PostgreSQL, tmp_path: Path, chain: Path
) -> None:
    engine = open_engine(postgresql.new_database())
    if chain == RESOLVER:
        migrate(engine, SHARED)
    migrate(engine, chain)
    check_version(engine, chain)
    later, _ = _next_program(chain, tmp_path / "later", only_adds=True)
    migrate(engine, later)
    upgrade(engine, chain)
    check_version(engine, chain)
    later, second = _next_program(later, tmp_path / "second", only_adds=False)
    migrate(engine, later)
    with pytest.raises(SetupError, match=f"has version {second}, but this program needs version"):
        check_version(engine, chain)
    later, third = _next_program(later, tmp_path / "third", only_adds=True)
    migrate(engine, later)
    with pytest.raises(SetupError, match=f"has version {third}, but this program needs version"):
        check_version(engine, chain)
    check_version(engine, later)
    engine.dispose()


def _next_program(migrations: Path, folder: Path, *, only_adds: bool) -> tuple[Path, str]:
    """The migrations of a program with one more, which adds other tables and columns; and its version."""
    shutil.copytree(migrations, folder, ignore=shutil.ignore_patterns("__pycache__"))
    version = add_migration(folder, only_adds=only_adds)
    path = max((folder / "versions").glob("[0-9]*.py"))
    path.write_text(path.read_text().replace("later", f"later_{path.name[:4]}"))
    return folder, version
