"""The address of files, as an operator gives it: by option or by setting (note 32)."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope
from support.archive.running_archive import running_archive
from support.programs import Program
from support.resolver.shared_files import until

FILES = "files.example"
NOTHING_ELSE = b"there is nothing but files at this address\n"


def front(program: Program, host: str) -> tuple[int, bytes]:
    """What is at the root under a host name."""
    connection = HTTPConnection("127.0.0.1", program.port, timeout=30)
    connection.request("GET", "/", headers={"Host": host})
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


def test_the_option_holds_for_all_processes_and_goes_before_the_setting(tmp_path: Path) -> None:
    data = tmp_path / "archive"
    with running_archive(
        data, "--files-address", FILES, "--workers", "2", files_address="other.example"
    ) as program:
        assert {front(program, FILES) for _ in range(20)} == {(404, NOTHING_ELSE)}
        assert front(program, "other.example")[0] == 421
        assert front(program, "127.0.0.1")[0] == 200


def test_a_running_server_follows_the_setting(
    tmp_path: Path, typed: Callable[..., tuple[int, str, str]]
) -> None:
    data = tmp_path / "archive"
    with running_archive(data) as program:
        assert front(program, FILES)[0] == 421
        assert typed("archive", "set", "--data", data, "--files-address", FILES)[0] == 0
        until(lambda: front(program, FILES) == (404, NOTHING_ELSE))
        changed = program.ask("PATCH", "/settings", {"files_address": ""}, Scope.ADMIN).content()
        assert (changed["changed"], changed["settings"]["files_address"]) == (["files_address"], "")
        until(lambda: front(program, FILES)[0] == 421)
        refused = program.ask(
            "PATCH", "/settings", {"files_address": f"127.0.0.1:{program.port}"}, Scope.ADMIN
        )
        assert "such as files.example.org, and not 127.0.0.1" in refused.content(422)["detail"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["a.example", "--files-address", "b.example"], "each Archive needs a --files-address of its own"),
        (["archive.example"], "archive.example is one under which the Archive itself answers"),
        (["files"], "files need a whole host name of their own"),
        (["a b"], "a b"),
    ],
)
def test_an_address_that_cannot_be_is_complaint_before_anything_is_served(
    tmp_path: Path, typed: Callable[..., tuple[int, str, str]], words: list[str], problem: str
) -> None:
    data = tmp_path / "archive"
    made = "--address archive.example --ip 127.0.0.1 --for-trying --admin a@archive.example"
    assert typed("archive", "init", "--data", data, *made.split())[0] == 0
    status, printed, complaint = typed(
        "archive", "serve", "--data", data, "--bind", "127.0.0.1:0", "--files-address", *words
    )
    assert (status, printed) == (1, "")
    assert problem in complaint
    assert len(complaint.splitlines()) == 1
