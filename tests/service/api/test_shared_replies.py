"""Requests with an Idempotency-Key at nodes that share a store: each node repeats what another has done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ibi.api.idempotency import KEPT_SECONDS, Replies
from ibi.errors import SetupError
from ibi.http.response import Refusal, Response
from ibi.runtime.shared.store import close_store, store_of
from support.engines.postgresql import PostgreSQL
from support.engines.shared_store import new_store, share


@pytest.fixture
def nodes(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    url = new_store(postgresql)
    first, second = (share(tmp_path / name, url) for name in ("first", "second"))
    yield first, second
    for each in (first, second):
        close_store(each)


def reply_of(data: Path, key: str, body: bytes, request: str = "r", after: float = 0.0) -> bytes:
    with Replies(data, lambda: time.time() + after).reply_to("ada", key, request) as reply:
        if reply.known is None:
            reply.give(Response(201, body, "application/json"), is_secret=body == b"secret")
        return bytes(reply.response.body)


def status_of(data: Path, key: str, request: str = "r") -> int:
    with pytest.raises(Refusal) as refused:
        reply_of(data, key, b"another", request)
    return refused.value.status


def test_what_one_node_has_done_another_repeats(nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    assert reply_of(here, "k", b"first") == b"first"
    assert reply_of(there, "k", b"second") == b"first"
    assert reply_of(there, "other", b"second") == b"second"
    assert status_of(there, "k", "another request") == 422
    assert not (there / "replies").exists()


def test_what_one_node_is_doing_another_does_not_begin(nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    with Replies(here, time.time).reply_to("ada", "k", "r") as reply:
        assert status_of(there, "k") == 409
        reply.give(Response(200, b"done"), is_secret=False)
    assert reply_of(there, "k", b"again") == b"done"


def test_a_request_can_be_repeated_as_soon_as_it_has_its_reply(nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    for number in range(100):
        assert reply_of(here, f"k{number}", b"first") == reply_of(there, f"k{number}", b"second") == b"first"


def test_what_failed_is_done_again_at_any_node(nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    with suppress(ZeroDivisionError), Replies(here, time.time).reply_to("ada", "k", "r"):
        raise ZeroDivisionError
    assert reply_of(there, "k", b"again") == b"again"


def test_what_a_node_was_doing_when_it_died_is_not_done_twice(
    nodes: tuple[Path, Path], postgresql: PostgreSQL
) -> None:
    here, there = nodes
    with suppress(SetupError), Replies(here, time.time).reply_to("ada", "k", "r") as reply:
        # Its connection ends, as that of a node that is killed.
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        )
        reply.give(Response(200), is_secret=False)
    assert status_of(there, "k") == 409


def test_a_secret_is_not_kept_and_what_is_old_is_forgotten(
    nodes: tuple[Path, Path], postgresql: PostgreSQL
) -> None:
    here, there = nodes
    assert reply_of(here, "k", b"secret") == b"secret"
    assert status_of(there, "k") == 409
    store = store_of(here)
    assert store is not None
    name = str(store.engine.url.database)
    ((facts,),) = postgresql.execute("SELECT facts FROM reply", name)
    assert json.loads(facts)["body"] is None
    reply_of(there, "other", b"x", after=KEPT_SECONDS + 60)
    assert postgresql.execute("SELECT count(*) FROM reply", name) == [(1,)]
