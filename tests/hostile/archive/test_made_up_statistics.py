"""Counts of readers that any client could make up: an Archive believes those of its own resolvers (threat T19)."""

from __future__ import annotations

import sqlite3
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope
from support.archive.messages import acknowledgment, request
from support.archive.running_archive import running_archive
from support.programs import Program

ITEM = "a.example/b/2010/01.01.00.00"
READERS = 50


def get(program: Program, target: str, client: str) -> bytes:
    return answer_to(program, target, client)[1]


def answer_to(program: Program, target: str, client: str) -> tuple[str | None, bytes]:
    """Why an acknowledgment was refused, None if it was not; and the body."""
    connection = HTTPConnection("127.0.0.1", program.port, timeout=10, source_address=(client, 0))
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.headers["ibi-acknowledgment-refused"], answer.read()
    finally:
        connection.close()


def acknowledge(program: Program, times: int, client: str) -> None:
    """Ask where an item is, and say of each answer that many readers have used it."""
    for _ in range(times):
        answer = get(program, request(ITEM), client).decode()
        key = answer.partition("urlkey ")[2].split()[0]
        for event in ("1", "2"):
            get(program, acknowledgment(key, READERS // 2, event), client)


def counted(program: Program, least: int) -> tuple[int, int]:
    """The acknowledgments and the unique investigations of the item, as soon as there are so many of each."""
    end = time.monotonic() + 5
    while True:
        with sqlite3.connect(program.data / "catalogue.sqlite") as database:
            (acknowledged,) = database.execute("SELECT sum(thanks) FROM item").fetchone()
            (unique,) = database.execute("SELECT sum(unique_investigations) FROM visits").fetchone()
        database.close()
        if min(acknowledged, unique or 0) >= least or time.monotonic() > end:
            return acknowledged, unique or 0
        time.sleep(0.1)


def deposit(program: Program) -> None:
    item = {"rep": ITEM, "url": "http://far.example/"}
    assert program.ask("POST", "/items", item, Scope.DEPOSIT, Scope.ADMIN).status == 201


@pytest.mark.proves("SVC-20")
def test_a_stranger_makes_one_reader_of_a_key(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        deposit(program)
        acknowledge(program, 100, "127.0.0.1")
        assert counted(program, 100) == (100, 100)
        time.sleep(1.5)
        assert counted(program, 100) == (100, 100)


@pytest.mark.proves("SVC-20")
def test_a_joined_resolver_is_believed_and_no_other_client(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive", resolver="http://127.0.0.2:1/") as program:
        deposit(program)
        acknowledge(program, 10, "127.0.0.1")
        acknowledge(program, 10, "127.0.0.2")
        assert counted(program, 10 + 10 * READERS) == (10 + 10 * READERS, 10 + 10 * READERS)


def test_a_refused_acknowledgment_is_told_why_with_the_body_of_the_standard(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        deposit(program)
        key = get(program, request(ITEM), "127.0.0.1").decode().partition("urlkey ")[2].split()[0]
        notice = b"notice {acknowledgment received}"
        refused = answer_to(program, acknowledgment("1234567890-1234567890"), "127.0.0.1")
        assert refused == ("unknown-key", notice)
        assert answer_to(program, acknowledgment(key, READERS, "1"), "127.0.0.1") == (None, notice)
        end = time.monotonic() + 10
        while (found := answer_to(program, acknowledgment(key, 1, "2"), "127.0.0.1")) == (None, notice):
            assert time.monotonic() < end
            time.sleep(0.1)
        assert found == ("used-up", notice)
        assert counted(program, 1) == (1, 1)
