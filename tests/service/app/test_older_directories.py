"""Data directories that earlier versions of this program have written (tests/support/older/make.sh) go on with it."""

from __future__ import annotations

import json
import sqlite3
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts
from ibi.app.archive import archive_service
from ibi.app.resolver import resolver_service
from ibi.cli import main
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.ports import free_port
from support.served import served
from support.style.layers import ROOT

OLDER = {"first": ("catalogue_0001", "registry_0001"), "second": ("catalogue_0004", "registry_0003")}
"""The versions of the databases in each."""
FIRST, REMOVED = "old.archive.example/w/2009/07.21.13.23", "old.archive.example/w/2012/05.06.07.08"

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=OLDER)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    """The folders `archive` and `resolver` of an earlier version."""
    with tarfile.open(ROOT / f"tests/support/older/{version}.tar.xz") as kept:
        kept.extractall(tmp_path, filter="data")
    for name in ("archive", "resolver"):
        (tmp_path / name).chmod(0o700)
    return tmp_path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    monkeypatch.setenv("LANGUAGE", "en")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([*map(str, words)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


def databases(typed: Typed, data: Path) -> list[str]:
    """What the doctor finds about the databases of a directory."""
    found = json.loads(typed("doctor", "--data", data, "--json")[1])["findings"]
    return [f"{each['verdict']}: {each['sentence']}" for each in found if each["name"] == "database"]


def test_the_doctor_tells_what_will_be_upgraded_and_changes_nothing(
    typed: Typed, folder: Path, version: str
) -> None:
    for name, kept in zip(("archive", "resolver"), OLDER[version], strict=True):
        for _ in range(2):
            sentence = databases(typed, folder / name)[0]
            assert sentence.startswith("warning: ")
            assert f"has version {kept}; it is brought to version" in sentence
            assert "an earlier version of this program cannot open it then" in sentence


def test_a_network_goes_on_where_an_earlier_version_left_it(typed: Typed, folder: Path, version: str) -> None:
    archive, resolver = folder / "archive", folder / "resolver"
    port = free_port(2)
    addresses = [f"127.0.0.1:{each}" for each in (port, port + 1)]
    replace(ResolverSettings.read(resolver), address=addresses[0]).write(resolver)
    moved = replace(ArchiveSettings.read(archive), address=addresses[1], resolver=f"http://{addresses[0]}")
    moved.write(archive)
    with (
        served(lambda: resolver_service(resolver), addresses[0]),
        served(lambda: archive_service(archive), addresses[1]),
    ):
        end = time.monotonic() + 30
        while (location := get(addresses[0], f"/{FIRST}")[1]) == "":
            assert time.monotonic() < end
            time.sleep(0.2)
        host, _, path = location.removeprefix("http://").partition("/")
        assert get(host, f"/{path}") == (200, "", b"The first text.\n")
        assert get(addresses[0], f"/{REMOVED}")[0] == 410
        assert get(addresses[1], f"/-/item/{FIRST}")[0] == 200
    # The fixture is a copy, so nothing else may mint from it; and this machine may not run as long as it is old.
    assert typed("mint", "recover", "--data", archive, "--moved", "--accept-clock")[0] == 0
    assert typed("archive", "check", "--data", archive)[:2] == (0, "0 differences\n")
    for name in ("archive", "resolver"):
        assert databases(typed, folder / name) == [
            f"ok: {folder}/{name}/{DATABASE[name]} is whole and of this version"
        ]
    if version == "second":
        assert [account.name for account in Accounts(archive).all()] == ["maria"]


DATABASE = {"archive": "catalogue.sqlite", "resolver": "registry.sqlite"}


def get(address: str, target: str) -> tuple[int, str, bytes]:
    """One GET: status, Location, body."""
    with closing(HTTPConnection(address, timeout=30)) as connection:
        connection.request("GET", target)
        reply = connection.getresponse()
        body = reply.read()
        return reply.status, reply.getheader("Location") or "", body


def test_new_items_join_the_old_ones(typed: Typed, folder: Path) -> None:
    archive = folder / "archive"
    before = {line.split()[1] for line in typed("archive", "list", "--data", archive)[1].splitlines()}
    assert len(before) == 6
    assert typed("mint", "recover", "--data", archive, "--moved", "--accept-clock")[0] == 0
    (folder / "new.txt").write_text("new")
    status, out, _ = typed(
        "archive", "deposit", "--data", archive, folder / "new.txt", "--title", "A new text"
    )
    assert status == 0
    after = {line.split()[1] for line in typed("archive", "list", "--data", archive)[1].splitlines()}
    assert after == before | {out.split()[0]}
    assert typed("archive", "search", "--data", archive, "text")[0] == 0


def test_a_directory_of_a_later_version_is_refused_and_no_way_back_is_promised(
    typed: Typed, folder: Path
) -> None:
    for name, database in DATABASE.items():
        with closing(sqlite3.connect(folder / name / database)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = 'later_0099'")
        [found] = [
            each
            for each in json.loads(typed("doctor", "--data", folder / name, "--json")[1])["findings"]
            if each["name"] == "database" and each["verdict"] == "fault"
        ]
        assert "has version later_0099, but this program needs version" in found["sentence"]
        assert "no database goes back" in found["advice"]
    assert "written by another version" in typed("archive", "list", "--data", folder / "archive")[2]
