"""A deposit whose commit was not answered, in PostgreSQL: refused for now, and held whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ibi.accounts.tokens import Scope
from support.archive.api_fixture import (
    FORM,
    TITLE,
    Asking,
    asking,
    file_part,
    form,
    item_part,
    json_of,
    refused,
)
from support.archive.archive_fixture import Answer, NewArchive
from support.archive.fixtures import let_clocks_differ
from support.engines.cut_commits import CommitCutter, Cut, way_to
from support.engines.postgresql import PostgreSQL

WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def way(postgresql: PostgreSQL) -> Iterator[CommitCutter]:
    with way_to(postgresql) as made:
        yield made


@pytest.fixture
def api(
    way: CommitCutter,
    postgresql: PostgreSQL,
    new_archive: Callable[..., NewArchive],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Asking]:
    let_clocks_differ(monkeypatch)
    with asking(new_archive, store=way.url(postgresql.new_database())) as made:
        yield made


def _deposit(api: Asking) -> Answer:
    body = form(item_part(TITLE), file_part("a.txt", b"one"))
    return api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM, idempotency_key="k")


@pytest.mark.proves("ARC-08")
@pytest.mark.parametrize(("cut", "then"), [("before", 201), ("after", 200), ("late", 200)])
def test_a_deposit_whose_commit_is_not_answered_is_whole_when_it_is_repeated(
    api: Asking, way: CommitCutter, postgresql: PostgreSQL, cut: Cut, then: int
) -> None:
    api.token(Scope.DEPOSIT)
    way.cut = cut
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(_deposit, api)
        if cut == "late":
            # Who cleans up after the deposit waits until it is known what has become of it.
            end = time.monotonic() + 20
            while not postgresql.execute(WAITING):
                assert time.monotonic() < end
                assert not under_way.done()
                time.sleep(0.01)
            way.arrive.set()
        first = under_way.result()
    assert (way.cut, first.headers.get("retry-after") is not None) == ("", True)
    assert refused(first, 503)
    again = _deposit(api)
    assert again.status == then
    held = [item for item in api.archive.catalogue.all() if item.files]
    assert [str(item.forms.main) for item in held] == [json_of(again)["rep"]]
    with api.archive.file_store.open(held[0].forms, held[0].files[0]) as file:
        assert file.read() == b"one"
    assert api.staging == []
