"""What a running Archive does by itself: one duty after the other, for as long as it runs.

Only the first of several processes has duties. Taking part at resolvers is none of them: that must not wait for a disk
(`membership`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

LONGEST: Final = 600.0
"""Seconds after which a duty is ended: it goes on where it was when its turn comes again."""

LOOK_EVERY = 0.5
"""Seconds between two looks at what is due."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to be done again and again, `every` so many seconds, counted from its end.

    `do` does a portion of the work and returns; it may be ended at every await, so a thread that it waits for has no
    more than a second's work: nobody can end a thread. `longest` is in seconds. `close` gives up what it holds between
    two portions.
    """

    name: str
    every: float
    do: Callable[[], Awaitable[None]]
    longest: float = LONGEST
    close: Callable[[], None] | None = None


class Duties:
    """The duties of one Archive, as `duties` lists them now. They never overlap, so none is ever done twice at once."""

    def __init__(self, duties: Callable[[], Sequence[Duty]]) -> None:
        self._duties = duties
        self._listed: Sequence[Duty] = ()
        self._complaints: dict[str, str] = {}

    async def run(self) -> None:
        """Do each whenever its time has come, until cancelled; new ones are due at once, in their order."""
        clock = asyncio.get_running_loop().time
        due: dict[str, float] = {}
        try:
            while True:
                self._list(self._duties())
                due = {duty.name: due.get(duty.name, clock()) for duty in self._listed}
                duty = min(self._listed, key=lambda each: due[each.name], default=None)
                if duty is None or due[duty.name] > clock():
                    await asyncio.sleep(LOOK_EVERY)
                    continue
                await self._do(duty)
                due[duty.name] = clock() + duty.every
        finally:
            self._list(())

    def _list(self, duties: Sequence[Duty]) -> None:
        """These are the duties from now on; those that are none any more give up what they hold."""
        if duties is self._listed:
            return
        for duty in self._listed:
            if duty.close is not None:
                duty.close()
        self._listed = duties

    async def _do(self, duty: Duty) -> None:
        """Do it once; what goes wrong is said once, until something else does or it goes well again."""
        try:
            async with asyncio.timeout(duty.longest):
                await duty.do()
        except TimeoutError:
            self._complain(duty, f"it took longer than {duty.longest:g} s")
        except (IbiError, OSError) as error:
            self._complain(duty, str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours in one duty must not end the others
            self._complain(duty, f"{type(error).__name__}: {error}", error)
        else:
            if self._complaints.pop(duty.name, None) is not None:
                _log.info("%s: well again", duty.name)

    def _complain(self, duty: Duty, problem: str, fault: Exception | None = None) -> None:
        if self._complaints.get(duty.name) != problem:
            self._complaints[duty.name] = problem
            _log.warning("%s: %s", duty.name, problem, exc_info=fault)
