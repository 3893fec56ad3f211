"""`ibi resolver init --store`: who makes a resolver in a store, who joins it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect

from ibi.cli import main
from ibi.resolver.registry.database import metadata
from ibi.runtime.database import open_engine
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.shared.store import close_store
from support.engines.postgresql import PostgreSQL

SERVICE = "J8LNKB5R7W/3FUQHC5"


def init(data: Path, *words: str) -> int:
    try:
        return main(["resolver", "init", "--data", str(data), *words])
    finally:
        close_store(data)


def test_the_first_node_makes_the_resolver_and_the_next_ones_join_it(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, first, second = postgresql.new_database(), tmp_path / "first", tmp_path / "second"
    assert init(first, "--store", url) == 1
    assert "--address is missing" in capsys.readouterr().err
    assert not first.exists()
    assert init(first, "--store", url, "--address", "resolver.example", "--service-ibi", SERVICE) == 0
    assert init(second, "--store", url) == 0
    assert capsys.readouterr().out == f"http://resolver.example/{SERVICE}\n" * 2
    for data in (first, second):
        assert (data / "resolver.toml").read_text() == f'store = "{url}"\n'
        assert (data / "resolver.toml").stat().st_mode & 0o777 == 0o600
        assert ResolverSettings.read(data).address == "resolver.example"
        close_store(data)
    assert init(second, "--store", url) == 1
    assert "already holds a resolver" in capsys.readouterr().err
    third = tmp_path / "third"
    assert init(third, "--store", url, "--service-ibi", "8JMKD3MGP8W/35MMLL8") == 1
    assert f"the store holds another resolver, whose service is {SERVICE}" in capsys.readouterr().err
    assert not third.exists()


def test_a_store_that_cannot_be_used_is_one_sentence_without_its_password(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--address", "resolver.example", "--service-ibi", SERVICE]
    assert init(tmp_path / "a", *words, "--store", "postgresql://u:SECRET@127.0.0.1:9/none") == 1
    assert init(tmp_path / "b", *words, "--store", "mysql://u:SECRET@127.0.0.1/none") == 1
    missing = postgresql.url("nosuch", user="ibi").replace("ibi@", "ibi:SECRET@")
    assert init(tmp_path / "c", *words, "--store", missing) == 1
    url = postgresql.new_database()
    postgresql.execute("CREATE TABLE of_another (a int)", url.rpartition("/")[2])
    assert init(tmp_path / "d", *words, "--store", url) == 1
    refused, odd, unknown, other = capsys.readouterr().err.strip().splitlines()
    assert "127.0.0.1:9/none cannot be used: " in refused
    assert "a store is a URL such as" in odd
    assert 'database "nosuch" does not exist' in unknown
    assert "holds something else: take a database of its own" in other
    assert "SECRET" not in refused + odd + unknown + other
    assert list(tmp_path.iterdir()) == []


def test_settings_beside_the_store_are_refused(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, url = tmp_path / "node", postgresql.new_database()
    assert init(data, "--store", url, "--address", "resolver.example", "--service-ibi", SERVICE) == 0
    with (data / "resolver.toml").open("a") as file:
        file.write('policy = "strict"\n')
    assert main(["resolver", "archives", "--data", str(data)]) == 1
    assert "beside `store`, all settings are in the store; take policy out" in capsys.readouterr().err
    close_store(data)


def test_a_node_starts_only_with_the_tables_of_this_version(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, url = tmp_path / "node", postgresql.new_database()
    assert init(data, "--store", url, "--address", "resolver.example", "--service-ibi", SERVICE) == 0
    postgresql.execute("UPDATE resolver_version SET version_num = 'resolver_9999'", url.rpartition("/")[2])
    assert main(["resolver", "serve", "--data", str(data), "--bind", "127.0.0.1:0"]) == 1
    assert (
        "has version resolver_9999, but this program needs version resolver_0001" in capsys.readouterr().err
    )
    close_store(data)


def test_the_tables_of_the_registry_are_those_that_its_statements_know(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    data, url = tmp_path / "node", postgresql.new_database()
    assert init(data, "--store", url, "--address", "resolver.example", "--service-ibi", SERVICE) == 0
    engine = open_engine(url)
    for name, table in metadata.tables.items():
        made = {each["name"]: each["nullable"] for each in inspect(engine).get_columns(name)}
        assert made == {column.name: column.nullable for column in table.columns}, name
    engine.dispose()


def test_the_doctor_checks_the_store_and_the_evidence_in_it(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, url = tmp_path / "node", postgresql.new_database()
    assert init(data, "--store", url, "--address", "resolver.example", "--service-ibi", SERVICE) == 0
    name = url.rpartition("/")[2]
    words = ["resolver", "register", "--data", str(data), "--archive-service", "8JMKD3MGP8W/35MMLL8"]
    assert main(words) == 0
    capsys.readouterr()
    # The node that made the resolver has the state of minting of its service, in files.
    (data / "minting").mkdir()
    (data / "minting/lock").touch()
    main(["doctor", "--data", str(data)])
    out = capsys.readouterr().out
    assert "relation" not in out
    assert f"/{name} is whole and of this version" in out
    assert "has 1 entries, all as they were written" in out
    postgresql.execute("UPDATE evidence SET line = replace(line, 'registered', 'approved')", name)
    main(["doctor", "--data", str(data)])
    assert "line 1 is not as it was written" in capsys.readouterr().out
    close_store(data)


def test_a_node_has_no_waiting_room_that_could_be_recovered(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, url = tmp_path / "first", tmp_path / "second", postgresql.new_database()
    assert init(first, "--store", url, "--address", "resolver.example.org") == 0
    assert init(second, "--store", url) == 0
    capsys.readouterr()
    assert main(["mint", "recover", "--data", str(second)]) == 1
    assert "there is nothing to recover" in capsys.readouterr().err
    assert not (second / "minting").exists()
    assert main(["mint", "recover", "--data", str(first)]) == 0
    assert "repaired" in capsys.readouterr().out
    for data in (first, second):
        close_store(data)
