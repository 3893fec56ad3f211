"""What a mirror writes into the log: each change, and each problem once until it is another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ibi.errors import BadItem, IbiError
from ibi.resolver.registry.mirror import REFRESH_SECONDS, Mirror, MirrorChanges
from support.clock import run_with_false_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

STEPS: list[tuple[MirrorChanges | IbiError, str]] = [
    (MirrorChanges(), ""),
    (MirrorChanges(added=1), "mirrored Archives: 1 new, 0 changed, 0 gone"),
    (MirrorChanges(changed=2), "mirrored Archives: 0 new, 2 changed, 0 gone"),
    (MirrorChanges(gone=3), "mirrored Archives: 0 new, 0 changed, 3 gone"),
    (MirrorChanges(elsewhere=4), ""),
    (BadItem("it is late"), "the list of Archives to mirror was not taken: it is late"),
    (BadItem("it is late"), ""),
    (BadItem("it is wrong"), "the list of Archives to mirror was not taken: it is wrong"),
    (MirrorChanges(), ""),
    (BadItem("it is wrong"), "the list of Archives to mirror was not taken: it is wrong"),
]


class ScriptedMirror(Mirror):
    """It takes the lists of STEPS, one after the other."""

    __slots__ = ("steps",)
    steps: Iterator[tuple[MirrorChanges | IbiError, str]]

    async def refresh(self) -> MirrorChanges:
        result, _ = next(self.steps)
        if isinstance(result, IbiError):
            raise result
        return result


def test_each_change_is_logged_and_each_problem_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ibi.resolver.registry.mirror")

    async def main() -> None:
        mirror = ScriptedMirror(None, "", None, (), None, None)  # type: ignore[arg-type]  # none of these is used
        mirror.steps = iter(STEPS)
        running = asyncio.create_task(mirror.run())
        for result, line in STEPS:
            await asyncio.sleep(0.1)
            assert [each.getMessage() for each in caplog.records] == ([line] if line else [])
            assert mirror.problem is (result if isinstance(result, IbiError) else None)
            await asyncio.sleep(REFRESH_SECONDS - 0.2)
            assert len(caplog.records) == bool(line)
            caplog.clear()
            await asyncio.sleep(0.1)
        running.cancel()

    run_with_false_clock(main())
