"""Places: so many at once, and who comes when none is free waits in turn; pure."""

from __future__ import annotations

from typing import Generic, TypeVar

_Who = TypeVar("_Who")


class Crowd(Generic[_Who]):
    """`most` places, of which so many are `taken`; those that are `waiting` come in this order.

    Whoever has one gives it back with `leave`; who waits may go away with `forget`.
    """

    __slots__ = ("most", "taken", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.waiting: dict[_Who, None] = {}

    def enter(self, who: _Who) -> bool:
        """Take a place; False where none is free: then he waits, and `leave` will name him."""
        if self.taken < self.most:
            self.taken += 1
            return True
        self.waiting[who] = None
        return False

    def leave(self) -> _Who | None:
        """Give a place back; who has it now, if somebody waited."""
        for who in self.waiting:
            del self.waiting[who]
            return who
        self.taken -= 1
        return None

    def forget(self, who: _Who) -> None:
        """He waits no longer."""
        self.waiting.pop(who, None)
