"""A request to the JSON interface that gets nothing else than a status and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ibi.errors import IbiError


class Refusal(Exception):
    """A request that gets nothing else: the status, why, further headers, and further members of the problem."""

    def __init__(self, status: int, why: IbiError, *headers: tuple[str, str], **members: Any) -> None:
        super().__init__(str(why))
        self.status = status
        self.why = why
        self.headers = headers
        self.members = members
