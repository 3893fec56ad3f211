"""The guard of addresses (threat T17): whoever has a key still cannot move an Archive that is alive elsewhere.

    the new address lies on the machine of the old one, or the request comes from there     moves
    the administrator has allowed it (`ibi resolver allow-move`)                            moves, once
    the old address confirms at this moment                                                 held
    the old address is silent: held, and asked again with every further request; silent
        three times in a row, over a minute or more                                         moves

An Archive asks for inclusion anew every minute, so an honest move needs no hand and one to two minutes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.resolver.confirming import same_address
from ibi.resolver.registry import Move

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.protocol.messages import InclusionRequest
    from ibi.resolver.confirming import Confirming
    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import RegisteredArchive, Registry
    from ibi.resolver.witness import Witness

SILENT_CHECKS: Final = 3
SILENT_SECONDS: Final = 60.0
"""How often, and over how long, the old address must be silent before an Archive moves away from it."""

TOLD_EVERY: Final = 3600.0
"""Seconds between two letters about held moves of one Archive; a move of another name within them tells nothing."""

_log = logging.getLogger(__name__)


class Takeover:
    """Decides whether an Archive that asks with the right key may answer at another address than before.

    `now` gives POSIX seconds.
    """

    def __init__(
        self,
        registry: Registry,
        confirming: Confirming,
        now: Callable[[], float],
        witness: Witness,
        mail: Mail,
    ) -> None:
        self._registry = registry
        self._confirming = confirming
        self._now = now
        self._witness = witness
        self._mail = mail

    async def holds(self, request: InclusionRequest, known: RegisteredArchive, source: str) -> bool:
        """Whether this request must wait; what came of it is kept. Raises SetupError."""
        old = known.confirmed_address
        if old is None or same_address(old, request.address) or known.move_allowed:
            return False
        if await self._is_neighbour(old, request.address, source):
            return False
        answers = await self._confirming.still_confirms(known.service_ibi, old)
        if not answers and known.included is None and known.source in await self._confirming.places(old):
            return False  # it said goodbye from there itself
        move = self._judged(request, known.move, answers=answers)
        if move is None:
            return False
        if move != known.move:
            await asyncio.to_thread(self._registry.hold_move, known.service_ibi, move)
        await self._tell(known, move, source, answers=answers)
        return True

    async def _is_neighbour(self, old: str, new: str, source: str) -> bool:
        """Whether all that the new address leads to, or the sender, is where the old address leads."""
        there, here = await asyncio.gather(self._confirming.places(old), self._confirming.places(new))
        return source in there or bool(here and here <= there)

    def _judged(self, request: InclusionRequest, held: Move | None, *, answers: bool) -> Move | None:
        """The move as it stands after this check; None if it may be carried out."""
        now = self._now()
        if held is None or not same_address(held.address, request.address):
            held = Move(request.address, request.ip, now)
        if answers:
            return replace(held, silent_since=None, checks=0)
        silent_since = now if held.silent_since is None else held.silent_since
        checks = min(held.checks + 1, SILENT_CHECKS)
        if checks >= SILENT_CHECKS and now - silent_since >= SILENT_SECONDS:
            return None
        return replace(held, silent_since=silent_since, checks=checks)

    async def _tell(self, known: RegisteredArchive, move: Move, source: str, *, answers: bool) -> None:
        """Write it down, and to the administrator, where it is news: not with every request."""
        before = known.move
        if before is not None and (
            same_address(before.address, move.address) or move.since - before.since < TOLD_EVERY
        ):
            return
        _log.warning(
            "held: %s wants to move from %s to %s", known.service_ibi, known.confirmed_address, move.address
        )
        await asyncio.to_thread(
            self._witness.write,
            "moved-address",
            ibi=str(known.service_ibi),
            outcome="held",
            before=known.confirmed_address or "",
            address=move.address,
            source=source,
            old_answers=int(answers),
        )
        self._mail.held(known, move, answers=answers)
