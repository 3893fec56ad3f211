"""A request to the JSON interface that gets nothing else than a status and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibi.errors import HoldingError

if TYPE_CHECKING:
    from ibi.archive.holding import Holding
    from ibi.errors import IbiError


class Refusal(Exception):
    """A request that gets nothing else: the status, why, further headers, and further members of the problem."""

    def __init__(self, status: int, why: IbiError, *headers: tuple[str, str], **members: Any) -> None:
        super().__init__(str(why))
        self.status = status
        self.why = why
        self.headers = headers
        self.members = members


def removed(holding: Holding) -> HoldingError:
    """What is said of a removed item: when, and why if somebody has said so."""
    problem = "{name} was removed on {date}: {reason}" if holding.reason else "{name} was removed on {date}"
    return HoldingError(problem, name=holding.forms.main, date=holding.timestamp, reason=holding.reason)
