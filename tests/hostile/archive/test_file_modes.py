"""Files of closed items on a machine that others use, too: only their owner, and a group that is named, reads them."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope
from support.archive.api_fixture import FORM, file_part, form, item_part
from support.archive.running_archive import running_archive
from support.programs import Program

CLOSED = {"access": "closed", "metadata": {"title": ["Not for all"]}}


def deposit(program: Program) -> None:
    body = form(item_part(CLOSED), file_part("secret.txt", b"secret"))
    assert program.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM).status == 201


def modes(data: Path, *names: str) -> dict[str, set[int]]:
    """The modes of the files of each kind, and of folders, below these folders of an Archive."""
    found: dict[str, set[int]] = {}
    for above, _, files in (step for name in names for step in os.walk(data / name)):
        for path in (Path(above), *(Path(above) / file for file in files)):
            kind = "folder" if path.is_dir() else path.name if path.name == "item.json" else "file"
            found.setdefault(kind, set()).add(stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_only_the_owner_reads_the_files_of_an_archive(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        deposit(program)
        found = modes(program.data, "col", "staging")
    assert found == {"folder": {0o700}, "file": {0o600}, "item.json": {0o600}}


def test_folders_of_an_older_archive_are_closed_when_it_is_written_to(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        for name in ("col", "staging"):
            (program.data / name).chmod(0o755)
        deposit(program)
        assert modes(program.data, "col", "staging")["folder"] == {0o700}


def test_a_web_server_of_a_named_group_reads_the_files_and_no_history(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid())
    with running_archive(tmp_path / "archive", files_group=group.gr_name) as program:
        deposit(program)
        found = modes(program.data, "col")
        owners = {path.stat().st_gid for path in (program.data / "col").rglob("secret.txt")}
    assert found == {"folder": {0o750}, "file": {0o640}, "item.json": {0o600}}
    assert owners == {group.gr_gid}
