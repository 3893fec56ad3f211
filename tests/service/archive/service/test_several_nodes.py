"""Two nodes of one Archive with one store: labels from one waiting room, duties done by one node at a time."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from support.cli.archive_commands import get, make_archive, serving, until
from support.cli.in_process import ibi
from support.engines.postgresql import PostgreSQL
from support.ports import free_port

FORM = (
    b'--x\r\nContent-Disposition: form-data; name="item"\r\n\r\n{"key": "%s"}\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nbytes\r\n--x--\r\n'
)
ONCE, EVERYWHERE = "hand-overs", "search index"
DEPOSITS = 12


@dataclass
class Node:
    """One of the nodes: its own data directory and port, and the store of all."""

    data: Path
    port: int
    token: str = ""
    process: subprocess.Popen[str] | None = None

    def runs(self, task: str) -> float:
        """How often this node has done a periodic task."""
        status, page = get(self.port, "/-/metrics")
        assert status == 200
        line = f'ibi_archive_tasks_total{{outcome="done",task="{task}"}} '
        found = [text for text in page.decode().splitlines() if text.startswith(line)]
        return float(found[0].removeprefix(line)) if found else 0.0

    def deposit(self, title: str) -> str:
        """Deposit an item; return its name."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "multipart/form-data; boundary=x"}
        try:
            connection.request("POST", "/-/api/items", FORM % title.encode(), head)
            reply = connection.getresponse()
            body = reply.read()
            assert reply.status == 201, body
            return str(json.loads(body)["rep"])
        finally:
            connection.close()


@pytest.fixture
def nodes(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[list[Node]]:
    """Two served nodes; the second began later."""
    first, second = (Node(tmp_path / name, free_port()) for name in ("first", "second"))
    make_archive(first.data, first.port, "--store", postgresql.new_database())
    second.data.mkdir()
    shutil.copy2(first.data / "archive.toml", second.data)
    with ExitStack() as stack:
        token = Tokens(first.data).make("t", "2026-01-01T00:00:00Z", [Scope.DEPOSIT])
        for node in (first, second):
            node.token = token
            node.process = stack.enter_context(
                serving("--data", node.data, "--bind", f"127.0.0.1:{node.port}")
            )
            until(lambda: first.runs(ONCE) > 0)
        yield [first, second]


@pytest.mark.long
def test_duties_are_done_by_one_node_and_by_the_other_when_that_is_killed(nodes: list[Node]) -> None:
    first, second = nodes
    begun = first.runs(ONCE)
    until(lambda: first.runs(ONCE) > begun)
    assert second.runs(ONCE) == 0
    until(lambda: second.runs(EVERYWHERE) > 0)
    assert first.process is not None
    first.process.kill()
    first.process.wait()
    until(lambda: second.runs(ONCE) > 0)


@pytest.mark.proves("GEN-02", "GEN-41")
def test_both_nodes_give_labels_and_none_comes_twice(nodes: list[Node]) -> None:
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(nodes[number % 2].deposit, f"item {number}") for number in range(DEPOSITS)]
        names = [each.result() for each in waiting]
    assert len(set(names)) == DEPOSITS
    for node in nodes:
        assert not (node.data / "minting/state").exists()
        for name in names:
            assert get(node.port, f"/{name}")[0] in {200, 302}


def test_check_doctor_and_repair_look_at_the_row(postgresql: PostgreSQL, tmp_path: Path) -> None:
    data, store = tmp_path / "a", postgresql.new_database()
    make_archive(data, free_port(), "--store", store)
    database = store.rpartition("/")[2]
    (tmp_path / "file.txt").write_text("bytes")
    deposit = ("archive", "deposit", "--data", data, "--title", "one", tmp_path / "file.txt")
    assert ibi(*deposit).returncode == 0
    assert "labels given: 1" in ibi("doctor", "--data", data).stdout
    assert ibi("archive", "check", "--data", data).returncode == 0

    postgresql.execute("UPDATE waiting_room SET record = record", database)
    refused = ibi(*deposit)
    assert refused.returncode == 1
    assert "was touched from outside since the last label" in refused.stderr
    for shown in (ibi("archive", "check", "--data", data), ibi("doctor", "--data", data)):
        assert shown.returncode == 1
        assert f"ibi mint recover --data {data}" in shown.stdout + shown.stderr
    repaired = ibi("mint", "recover", "--data", data)
    assert repaired.returncode == 0, repaired.stderr
    assert "repaired: the next label is later than" in repaired.stdout
    assert ibi(*deposit).returncode == 0

    postgresql.execute("DELETE FROM waiting_room", database)
    refused = ibi(*deposit)
    assert "is missing, so the next label might be a second one" in refused.stderr
    assert ibi("mint", "recover", "--data", data).returncode == 0
    assert ibi(*deposit).returncode == 0


def test_an_archive_whose_store_is_taken_out_of_its_settings_mints_nothing_from_its_files(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    data = tmp_path / "a"
    make_archive(data, free_port(), "--store", postgresql.new_database())
    settings = data / "archive.toml"
    kept = [line for line in settings.read_text().splitlines() if not line.startswith("store")]
    settings.write_text("\n".join(kept) + "\n")
    from ibi.errors import LostState
    from ibi.minting import WaitingRoom
    from ibi.minting.machine import this_machine

    with pytest.raises(LostState, match="missing"), WaitingRoom(data, this_machine()):
        pass
