"""A running Archive follows its settings, and requests that are under way meanwhile lose nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archive.world import settings_for
from ibi import renewing
from ibi.archive.networking.renewal import Renewing, Watched
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.settings import ArchiveSettings, JoinedResolver

OTHER_SERVICE = IBIForms.parse("rep archive.example/w/2021/01.01.00.00")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArchiveSettings:
    monkeypatch.setattr(renewing, "LOOK_EVERY", 0.0)
    made = settings_for("archive.example")
    made.write(tmp_path)
    return made


def test_what_is_written_is_seen_at_the_next_look(tmp_path: Path, settings: ArchiveSettings) -> None:
    watched = Watched(tmp_path)
    assert watched.look() is watched.look()
    replace(settings, admin="b@c.example").write(tmp_path)
    assert watched.look().settings.admin == "b@c.example"
    JoinedResolver.write_tables(tmp_path, {"r": JoinedResolver(url="http://r.example", key="1234567890")})
    assert list(watched.look().keys) == ["http://r.example"]


@pytest.mark.proves("ARC-10")
@pytest.mark.parametrize("fault", ["nonsense", "service", "gone"])
def test_settings_that_cannot_be_used_change_nothing_and_are_said_once(
    fault: str, tmp_path: Path, settings: ArchiveSettings, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path)
    path = tmp_path / ArchiveSettings.FILE
    if fault == "nonsense":
        path.write_text("address = ")
    elif fault == "gone":
        path.unlink()
    else:
        replace(settings, service=OTHER_SERVICE).write(tmp_path)
    for _ in range(3):
        assert watched.look().settings == settings
    assert len(caplog.records) == 1
    replace(settings, reuse_seconds=7).write(tmp_path)
    assert watched.look().settings.reuse_seconds == 7


class Slow:
    """A service that answers when it is let, and says with which settings it was made."""

    def __init__(self, settings: ArchiveSettings) -> None:
        self.settings = settings
        self.gate = asyncio.Event()
        self.closed = False

    async def __call__(self, _scope: Mapping[str, Any], _receive: object, send: Any) -> None:
        await self.gate.wait()
        assert not self.closed
        await send(self.settings.admin)

    async def close(self) -> None:
        self.closed = True


def test_requests_under_way_are_ended_as_they_began_and_then_it_is_closed(
    tmp_path: Path, settings: ArchiveSettings
) -> None:
    async def run() -> None:
        made: list[Slow] = []

        def make(now: ArchiveSettings) -> Any:
            made.append(Slow(now))
            return made[-1]

        said: list[str] = []

        async def send(what: str) -> None:
            said.append(what)

        renewing: Any = Renewing(Watched(tmp_path), make)
        first = asyncio.create_task(renewing({}, None, send))
        await asyncio.sleep(0.01)
        replace(settings, admin="new@archive.example").write(tmp_path)
        second = asyncio.create_task(renewing({}, None, send))
        await asyncio.sleep(0.01)
        made[1].gate.set()
        await second
        assert [each.closed for each in made] == [False, False]
        made[0].gate.set()
        await first
        await asyncio.sleep(0.01)
        assert [each.closed for each in made] == [True, False]
        assert said == ["new@archive.example", "admin@archive.example"]
        await renewing.close()
        assert [each.closed for each in made] == [True, True]

    asyncio.run(run())


def test_the_end_closes_what_still_answers_as_the_settings_were(
    tmp_path: Path, settings: ArchiveSettings
) -> None:
    async def run() -> None:
        made: list[Slow] = []

        def make(now: ArchiveSettings) -> Any:
            made.append(Slow(now))
            return made[-1]

        async def send(_what: str) -> None: ...

        renewing: Any = Renewing(Watched(tmp_path), make)
        first = asyncio.create_task(renewing({}, None, send))
        await asyncio.sleep(0.01)
        replace(settings, reuse_seconds=1).write(tmp_path)
        second = asyncio.create_task(renewing({}, None, send))
        await asyncio.sleep(0.01)
        await renewing.close()
        assert [each.closed for each in made] == [True, True]
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(run())


def test_settings_with_which_nothing_can_be_made_leave_what_is_there(
    tmp_path: Path, settings: ArchiveSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        def make(now: ArchiveSettings) -> Any:
            if now.relations:
                raise SetupError("no such relation")
            made = Slow(now)
            made.gate.set()
            return made

        said: list[str] = []

        async def send(what: str) -> None:
            said.append(what)

        renewing: Any = Renewing(Watched(tmp_path), make)
        replace(settings, relations=("nonsense",), admin="new@archive.example").write(tmp_path)
        for _ in range(3):
            await renewing({}, None, send)
        assert set(said) == {"admin@archive.example"}
        await renewing.close()

    asyncio.run(run())
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
