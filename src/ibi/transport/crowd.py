"""Places: so many at once, and who comes when none is free waits in turn; pure."""

from __future__ import annotations

from typing import Generic, TypeVar

_Who = TypeVar("_Who")


class Crowd(Generic[_Who]):
    """`most` places. Whoever has one gives it back with `leave`; who waits may go away with `forget`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: dict[_Who, None] = {}

    def enter(self, who: _Who) -> bool:
        """Take a place; False where none is free: then he waits, and `leave` will name him."""
        if self._taken < self._most:
            self._taken += 1
            return True
        self._waiting[who] = None
        return False

    def leave(self) -> _Who | None:
        """Give a place back; who has it now, if somebody waited."""
        for who in self._waiting:
            del self._waiting[who]
            return who
        self._taken -= 1
        return None

    def forget(self, who: _Who) -> None:
        """He waits no longer."""
        self._waiting.pop(who, None)

    @property
    def waiting(self) -> list[_Who]:
        """Those that wait, the first one first."""
        return list(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether who comes now must wait."""
        return self._taken >= self._most

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a place; then nobody waits for one either."""
        return not self._taken
