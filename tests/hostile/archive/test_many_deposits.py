"""Many deposits at once: their labels come together, and neither they nor others wait long for them (threat T37)."""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from support.archive.api_fixture import path_of
from support.archive.running_archive import running_archive
from support.programs import MADE, Program, Reply

TITLE = {"metadata": {"title": ["A title"]}}
TOKENS, EACH = 4, 25


def _tokens(data: Path, count: int) -> list[str]:
    return [Tokens(data).make(f"depositor-{number}", MADE, [Scope.DEPOSIT]) for number in range(count)]


def _at_once(program: Program, tokens: list[str], each: int) -> tuple[list[Reply], float]:
    """Deposit so many items with each token, all at the same time; the answers, and seconds until the last one."""
    together = threading.Barrier(len(tokens) * each + 1)

    def one(token: str) -> Reply:
        together.wait()
        return program.ask("POST", "/items", TITLE, token=token)

    with ThreadPoolExecutor(len(tokens) * each) as clients:
        answers = [clients.submit(one, token) for token in tokens for _ in range(each)]
        together.wait()
        began = time.monotonic()
        return [answer.result() for answer in answers], time.monotonic() - began


@pytest.mark.alone
@pytest.mark.proves("GEN-43")
def test_a_hundred_deposits_at_once_come_within_seconds_and_no_edit_waits_for_them(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        first = program.ask("POST", "/items", TITLE, Scope.DEPOSIT)
        item, edits = path_of(first), list[float]()
        ended = threading.Event()

        def edit() -> None:
            while not ended.wait(0.05):
                began = time.monotonic()
                value = {"metadata": {"title": [f"Title {began}"]}}
                assert program.ask("PATCH", item, value, Scope.EDIT, if_match="*").status == 200
                edits.append(time.monotonic() - began)

        program.token(Scope.EDIT)
        with ThreadPoolExecutor(1) as editor:
            editing = editor.submit(edit)
            answers, seconds = _at_once(program, _tokens(program.data, TOKENS), EACH)
            ended.set()
            editing.result()
    assert len({path_of(answer) for answer in answers}) == TOKENS * EACH
    assert seconds < 5
    assert max(edits) < 0.5


def test_deposits_that_no_label_could_reach_in_time_are_told_at_once_when_to_come_again(
    tmp_path: Path,
) -> None:
    with running_archive(tmp_path / "archive", granularity="1") as program, ExitStack() as connections:
        waiting = [connections.enter_context(_deposit(program)) for _ in range(30)]
        refused, end = list[str](), time.monotonic() + 5
        # One label a second, and none waits longer than ten.
        while len(refused) < 15 and (left := end - time.monotonic()) > 0:
            for connection in select.select(waiting, [], [], left)[0]:
                waiting.remove(connection)
                answer = connection.recv(4096).decode()
                refused += [answer] if answer.startswith("HTTP/1.1 503 ") else []
    assert len(refused) >= 15
    assert all(re.search(r"\r\nretry-after: ([1-9]|10)\r\n", answer) for answer in refused)


def _deposit(program: Program) -> socket.socket:
    """Send a deposit, and do not wait for the answer."""
    body = json.dumps(TITLE)
    head = f"Authorization: Bearer {program.token(Scope.DEPOSIT)}\r\nContent-Type: application/json"
    connection = socket.create_connection(("127.0.0.1", program.port))
    length = f"Content-Length: {len(body)}"
    connection.sendall(f"POST /-/api/items HTTP/1.1\r\nHost: x\r\n{head}\r\n{length}\r\n\r\n{body}".encode())
    return connection
