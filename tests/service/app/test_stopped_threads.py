"""A cancelled task waits for its thread, so that nothing is removed while the thread changes something."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ibi.api.routes import in_waiting_thread
from ibi.archive.preservation.check import check
from ibi.archive.replication import copying
from ibi.archive.replication.copying import Copier, save_copy
from ibi.identifier.forms import parse_ibi
from ibi.minting.machine import this_machine
from ibi.runtime.tasks import run_to_completion
from support.archive.replication_fixture import FILES, LARGEST, NAME, make_archive


@pytest.mark.parametrize("wait", [run_to_completion, in_waiting_thread])
def test_a_task_that_is_cancelled_again_and_again_waits_for_its_thread(wait: Any) -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(60)
        done.set()

    async def act() -> None:
        task = asyncio.ensure_future(wait(work))
        for _ in range(3):
            await asyncio.wait([task], timeout=0.01)
            task.cancel()
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done.is_set()

    asyncio.run(act())


def test_what_a_thread_gives_or_raises_comes_through() -> None:
    assert asyncio.run(run_to_completion(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_to_completion(divmod, 7, 0))


@pytest.mark.proves("ARC-08")
def test_a_copy_that_is_stopped_while_it_is_written_down_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = (make_archive(tmp_path, number) for number in (1, 2))
    there.put()
    begun, go = threading.Event(), threading.Event()

    def slowly(*what: Any) -> Any:
        begun.set()
        go.wait(60)
        return save_copy(*what)

    monkeypatch.setattr(copying, "save_copy", slowly)

    async def act(copier: Copier) -> None:
        task = asyncio.ensure_future(copier.copy(parse_ibi(NAME), "otto", there.root, private=True))
        assert await asyncio.to_thread(begun.wait, 60)
        for _ in range(2):
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        assert not task.done()
        go.set()
        await asyncio.wait([task])

    with there.served(), here.directory.catalogue() as catalogue:
        asyncio.run(act(Copier(here.directory.item_store_over(catalogue, here.settings), "", LARGEST)))
    assert here.content() == FILES
    assert not list(check(here.directory, this_machine()))
