"""A running Archive follows its settings, and requests that are under way meanwhile lose nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.membership.joining import WatchedArchiveSettings
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime import reload
from ibi.runtime.reload import ReloadingApp
from ibi.runtime.settings import ArchiveSettings, JoinedResolver
from support.archive.archive_fixture import settings_for

OTHER_SERVICE = IBIForms.parse("rep archive.example/w/2021/01.01.00.00")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArchiveSettings:
    monkeypatch.setattr(reload, "LOOK_EVERY", 0.0)
    made = settings_for("archive.example")
    made.write(tmp_path)
    return made


def test_what_is_written_is_seen_at_the_next_look(tmp_path: Path, settings: ArchiveSettings) -> None:
    watched = WatchedArchiveSettings(tmp_path)
    assert watched.current() is watched.current()
    replace(settings, admin="b@c.example").write(tmp_path)
    assert watched.current().settings.admin == "b@c.example"
    JoinedResolver.write_tables(tmp_path, {"r": JoinedResolver(url="http://r.example", key="1234567890")})
    assert list(watched.current().keys) == ["http://r.example"]


@pytest.mark.proves("ARC-10")
@pytest.mark.parametrize("fault", ["nonsense", "service", "gone"])
def test_settings_that_cannot_be_used_change_nothing_and_are_said_once(
    fault: str, tmp_path: Path, settings: ArchiveSettings, caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedArchiveSettings(tmp_path)
    path = tmp_path / ArchiveSettings.FILE
    if fault == "nonsense":
        path.write_text("address = ")
    elif fault == "gone":
        path.unlink()
    else:
        replace(settings, service=OTHER_SERVICE).write(tmp_path)
    for _ in range(3):
        assert watched.current().settings == settings
    assert len(caplog.records) == 1
    path.unlink(missing_ok=True)
    replace(settings, reuse_seconds=7).write(tmp_path)
    assert watched.current().settings.reuse_seconds == 7


def reloading_app(folder: Path, make: Any) -> ReloadingApp[ArchiveSettings, Any]:
    """Return an application that is made again when the settings in a folder change."""
    watched = WatchedArchiveSettings(folder)
    return ReloadingApp(lambda: watched.current().settings, make)


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

        answers: list[str] = []

        async def send(what: str) -> None:
            answers.append(what)

        app: Any = reloading_app(tmp_path, make)
        first = asyncio.create_task(app({}, None, send))
        await asyncio.sleep(0.01)
        replace(settings, admin="new@archive.example").write(tmp_path)
        second = asyncio.create_task(app({}, None, send))
        await asyncio.sleep(0.01)
        made[1].gate.set()
        await second
        assert [each.closed for each in made] == [False, False]
        made[0].gate.set()
        await first
        await asyncio.sleep(0.01)
        assert [each.closed for each in made] == [True, False]
        assert answers == ["new@archive.example", "admin@archive.example"]
        await app.close()
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

        app: Any = reloading_app(tmp_path, make)
        first = asyncio.create_task(app({}, None, send))
        await asyncio.sleep(0.01)
        replace(settings, reuse_seconds=1).write(tmp_path)
        second = asyncio.create_task(app({}, None, send))
        await asyncio.sleep(0.01)
        await app.close()
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

        answers: list[str] = []

        async def send(what: str) -> None:
            answers.append(what)

        app: Any = reloading_app(tmp_path, make)
        replace(settings, relations=("nonsense",), admin="new@archive.example").write(tmp_path)
        for _ in range(3):
            await app({}, None, send)
        assert set(answers) == {"admin@archive.example"}
        await app.close()

    asyncio.run(run())
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
