"""Evidence that readers or a broken disk would make too long, or leave out (threat T42)."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from ibi.cli import main
from ibi.resolver.evidence import daily_limit
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from support.resolver.one_item import IBI, M16C, M16D, body, item, m16d, play
from support.resolver.process import make, serving
from support.resolver.running_resolver import Running, until
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive, ScriptedArchives

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.resolver.evidence.chain import Entry

A_DAY = 86_400
MOST = 20
SERVICE = "archive.example/w/2020/01.01.00.00"


class Claimant(ScriptedArchive):
    """Says of every name that it has the original."""

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        ibi = request.question[0]
        if ibi == IBI.lower():
            return Behaviour(item(M16C))
        return Behaviour(
            body(M16C, f"{{rep {ibi}}}", state="Original", contenttype="Data", url="http://l.example/x")
        )


def entries(data: Path, what: str) -> list[Entry]:
    return [entry for entry in Evidence(data / EVIDENCE_FILE, float).entries() if entry.what == what]


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


async def ask(running: Running, begin: int, end: int) -> None:
    for number in range(begin, end):
        answer = await running.ask(f"/made.up/x/2020/01.01.{number // 60:02d}.{number % 60:02d}")
        assert answer.status == 302


def test_made_up_names_of_a_liar_come_to_an_end_each_day_and_hide_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(daily_limit, "MOST_A_DAY", MOST)
    now = [1_790_000_000.0]
    liar = Claimant("m16c", "mtc-m16c.sid.inpe.br", M16C)
    honest = m16d(item(M16D))
    honest.manner = Behaviour(b"")

    async def scene(running: Running) -> None:
        await ask(running, 0, MOST)
        await until(lambda: len(entries(tmp_path, "original")) == MOST)
        await ask(running, MOST, 150)
        await until(lambda: [entry.facts["count"] for entry in entries(tmp_path, "left-out")] == [1, 10, 100])
        written = len(entries(tmp_path, "original"))
        assert written < MOST + 10  # what was under way when the limit was reached
        # Another Archive's sight and an alert about both are written all the same.
        assert (await running.ask(f"/{IBI}?ibiurl.requireditemstatus=Original")).status == 409
        await until(lambda: len(entries(tmp_path, "alert")) == 1)
        # What was left out is seen again the next day.
        now[0] += A_DAY
        await ask(running, 149, 150)
        await until(lambda: len(entries(tmp_path, "original")) > written)

    play(tmp_path, [liar, honest], scene, now=lambda: now[0], request_rate=0.0)
    assert main(["resolver", "log", "show", "--data", str(tmp_path), "--what", "left-out"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition("left-out  ")[2] for line in shown] == [
        f"entries=original  archive={M16C}  count={count}" for count in (1, 10, 100)
    ]
    assert Evidence(tmp_path / EVIDENCE_FILE, float).verify().fault is None


def test_a_sight_that_could_not_be_written_is_tried_again(tmp_path: Path) -> None:
    make(tmp_path)
    archive = ScriptedArchive("a", "a.example", SERVICE, manner=Behaviour(item(SERVICE)))
    log = tmp_path / EVIDENCE_FILE

    def broken(end: signal.Signals) -> None:
        with serving(tmp_path) as running:
            if end is signal.SIGKILL:  # the first one
                running.include(SERVICE, f"127.0.0.1:{archive.port}")
            log.rename(tmp_path / "aside")
            log.mkdir()  # no disk could refuse a writer more plainly
            assert running.get(f"/{IBI}").status == 302
            wait_for(lambda: "cannot be written" in running.written.read_text())
            assert running.get(f"/{IBI}").status == 302
            running.stop(end)
        log.rmdir()
        (tmp_path / "aside").rename(log)
        assert entries(tmp_path, "original") == []

    def mended() -> None:
        with serving(tmp_path) as running:
            assert running.get(f"/{IBI}").status == 302
        assert [entry.facts["archive"] for entry in entries(tmp_path, "original")] == [SERVICE]

    async def scene() -> None:
        async with ScriptedArchives((archive,)):
            await asyncio.to_thread(broken, signal.SIGKILL)
            await asyncio.to_thread(broken, signal.SIGTERM)
            await asyncio.to_thread(mended)

    asyncio.run(scene())
