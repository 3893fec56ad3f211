"""When Archives were heard is written once a minute; and of those that were excluded, only so many are asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.members.confirmation import Probation

ONE, OTHER = (parse_ibi(f"{name}.example/w/2020/01.01.00.00") for name in "ab")


class Registry:
    """Notes when Archives were heard, or fails."""

    def __init__(self) -> None:
        self.written: list[dict[str, float]] = []
        self.fails = False

    def heard(self, moments: dict[str, float]) -> None:
        if self.fails:
            raise SetupError("the registry cannot be written now")
        self.written.append(moments)

    def entry(self, _service: object) -> None:
        return None


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def probation(registry: Registry, clock: Clock) -> Probation:
    absent: Any = None
    return Probation(registry, absent, clock, absent)  # type: ignore[arg-type]  # no more is asked of it


def test_when_archives_were_heard_is_written_once_a_minute_and_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, clock = Registry(), Clock()

    async def main() -> None:
        known = probation(registry, clock)
        for seconds, service in ((0.0, ONE), (59.9, OTHER), (0.1, OTHER), (59.9, ONE)):
            clock.now += seconds
            await known.heard(service)
        assert registry.written == [{ONE.canonical: 1000.0, OTHER.canonical: 1060.0}]
        registry.fails = True
        clock.now += 0.1
        await known.heard(OTHER)
        registry.fails = False
        await known.heard(ONE)
        await known.close()
        assert registry.written[1:] == [{ONE.canonical: 1120.0}]

    asyncio.run(main())
    assert caplog.messages == [
        "when Archives were last heard was not kept: the registry cannot be written now"
    ]


def test_so_many_archives_wait_to_be_asked_whether_they_are_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ibi.resolver.members.confirmation._MOST_CHECKS", 2)

    async def main() -> None:
        known, before = probation(Registry(), Clock()), len(asyncio.all_tasks())
        for _ in range(3):
            known.check_excluded(ONE, 1)
        assert len(asyncio.all_tasks()) - before == 2
        await known.close()
        assert len(asyncio.all_tasks()) == before
        known.check_excluded(ONE, 1)
        assert len(asyncio.all_tasks()) - before == 1
        await known.close()

    asyncio.run(main())
