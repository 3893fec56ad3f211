"""The guard against takeovers: a stolen key alone does not move an Archive that is alive elsewhere.

    the new address is on the machine of the old one, or the request comes from there      moves
    the administrator has allowed it (`ibi resolver allow-move`)                            moves, once
    the old address confirms at this moment                                                 held
    it is silent, and the Archive said goodbye from there: its last accepted request came
        from the old address and was an exclusion without a moment of return                moves
    the old address is silent: held, and checked again with every further request; silent
        three times in a row, over a minute or more                                         moves

"In a row" ends where the Archive confirms at the old address, whether for a check or for a request of its own
(`Registry.include`, `Registry.confirm_again`).

An Archive repeats its inclusion request every minute, so an honest move needs one or two minutes, no person.

See T17: replayed inclusions.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.resolver.members.confirmation import same_address
from ibi.resolver.model.archive import Move
from ibi.resolver.registry.registry import REPORT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.protocol.messages import InclusionRequest
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.confirmation import ConfirmationClient
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.registry.registry import Registry

SILENT_CHECKS: Final = 3
"""How often the old address must be found silent before an Archive moves away from it."""
SILENT_SECONDS: Final = 60.0
"""Seconds for which the old address must be silent before an Archive moves away from it."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class TakeoverGuard:
    """Decides whether an Archive that asks with the right key may answer at another address than before."""

    _registry: Registry
    _confirmation: ConfirmationClient
    _now: Callable[[], float]  # POSIX seconds
    _evidence: Evidence
    _mail: MailSender

    async def hold_unproven(self, request: InclusionRequest, known: RegisteredArchive, source: str) -> bool:
        """Store and report a move that must wait; return whether this one must. Raises SetupError."""
        old = known.confirmed_address
        if old is None or same_address(old, request.address) or known.move_allowed:
            return False
        if await self._is_neighbour(old, request.address, source):
            return False
        answers = await self._confirmation.still_confirms(known.service_ibi, old)
        if not answers and await self._has_left(known, old):
            return False
        move = self._checked_move(request, known.move, answers=answers)
        if move is None:
            return False
        # Before the move is stored: once it is stored as reported, it is not reported again for an hour.
        move = await self._report(known, move, source, answers=answers)
        if move != known.move:
            await asyncio.to_thread(self._registry.hold_move, known.service_ibi, move)
        return True

    async def _is_neighbour(self, old: str, new: str, source: str) -> bool:
        """Whether the sender, or each IP of the new address, is on the machine of the old address."""
        there, here = await asyncio.gather(
            self._confirmation.ip_addresses(old), self._confirmation.ip_addresses(new)
        )
        return source in there or bool(here and here <= there)

    async def _has_left(self, known: RegisteredArchive, old: str) -> bool:
        """Whether the last accepted request of an Archive was an exclusion from there, without a moment of return."""
        # An Archive that restarts says when it will be back. If that were a goodbye, a thief of its key could
        # move it at each restart, by asking every second.
        if known.included is not None or known.back_at is not None:
            return False
        return known.source in await self._confirmation.ip_addresses(old)

    def _checked_move(self, request: InclusionRequest, held: Move | None, *, answers: bool) -> Move | None:
        """Return the held move after this check; None if the move may be carried out."""
        now = self._now()
        if held is None:
            held = Move(request.address, request.ip, now)
        elif not same_address(held.address, request.address):
            held = Move(request.address, request.ip, held.reported_at)
        if answers:
            return replace(held, silent_since=None, checks=0)
        silent_since = now if held.silent_since is None else held.silent_since
        checks = min(held.checks + 1, SILENT_CHECKS)
        if checks >= SILENT_CHECKS and now - silent_since >= SILENT_SECONDS:
            return None
        return replace(held, silent_since=silent_since, checks=checks)

    async def _report(self, known: RegisteredArchive, move: Move, source: str, *, answers: bool) -> Move:
        """Record a held move and mail the administrator of the Archive, once an hour; return the move as reported.

        A further address within the hour is only recorded.
        """
        facts: dict[str, str | int] = {
            "ibi": str(known.service_ibi),
            "outcome": "held",
            "before": known.confirmed_address or "",
            "address": move.address,
            "source": source,
            "old_answers": int(answers),
        }
        now, held = self._now(), known.move
        if held is not None and 0 <= now - held.reported_at < REPORT_SECONDS:
            if not same_address(held.address, move.address):
                # Limited, because a thief could name another address with each request (T42: missing evidence).
                self._evidence.note("moved-address", **facts)
            return move
        _log.warning(
            "held: %s wants to move from %s to %s", known.service_ibi, known.confirmed_address, move.address
        )
        await asyncio.to_thread(partial(self._evidence.write, "moved-address", **facts))
        self._mail.held(known, move, answers=answers)
        return replace(move, reported_at=now)
