"""Hand over all transferable originals before an Archive retires."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.handover import GiverStage, ReceiverReply
from ibi.archive.store.tables.listings import originals
from ibi.errors import HoldingError, IbiError, PeerSilent
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.archive.replication.giving import Giver
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.transfers import OutgoingTransfer

PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0)
"""Seconds between two attempts. While the other Archive is fetching, there is no limit on the attempts."""

_MOST_PROBLEMS: Final = 5
"""After so many items that could not be handed over, the fault is the other Archive's: no more are tried."""


class Moved(NamedTuple):
    """How many originals were handed over, and the names of those that were not, each with the reason."""

    moved: int
    problems: list[tuple[str, IbiError]]


def originals_of(catalogue: Catalogue, *, transferable: bool) -> Iterator[str]:
    """Yield the canonical names of the originals that are transferable, or of those that are not."""
    after = ""
    while True:
        with catalogue.reading() as run:
            page = originals(run, after, transferable=transferable)
        if not page:
            return
        yield from page
        after = page[-1]


def move_all(giver: Giver, to: str, who: str, progress: Callable[[int, int | None], None]) -> Moved:
    """Hand over all transferable originals; stop if the other Archive is silent or refuses several."""
    moved, problems = 0, list[tuple[str, IbiError]]()
    for name in originals_of(giver.item_store.catalogue, transferable=True):
        problem = _hand_over(giver, name, to, who)
        if problem is None:
            moved += 1
            progress(moved, None)
        else:
            problems.append((name, problem))
        # An Archive that is silent now will not answer for the other items either.
        if len(problems) >= _MOST_PROBLEMS or isinstance(problem, PeerSilent):
            return Moved(moved, problems)
    for transfer in giver.open():  # started before, or by another process
        if finish_transfer(giver, transfer).stage.open:
            name = str(giver.find(transfer.id)[1].forms.main)
            problems.append((name, transfer.problem or IbiError("the hand-over is not finished")))
    return Moved(moved, problems)


def finish_transfer(giver: Giver, transfer: OutgoingTransfer) -> OutgoingTransfer:
    """Advance a transfer until it ends, or more attempts in a row have failed than there are `PAUSES`."""

    async def finish(transfer: OutgoingTransfer) -> OutgoingTransfer:
        failures = waits = 0
        while True:
            transfer, reply = await giver.advance(transfer)
            failed = reply is not ReceiverReply.FETCHING
            failures, waits = (failures + 1, 0) if failed else (0, waits + 1)
            if not transfer.stage.open or failures > len(PAUSES):
                return transfer
            await asyncio.sleep(PAUSES[min(max(failures, waits), len(PAUSES)) - 1])

    return asyncio.run(finish(transfer))


def _hand_over(giver: Giver, name: str, to: str, who: str) -> IbiError | None:
    """Hand one original over; return the reason if it is still an original here, else None."""
    try:
        transfer = finish_transfer(giver, giver.offer(parse_name(name), to, who))
    except HoldingError as error:
        held = giver.item_store.catalogue.holding(parse_name(name))
        # The running Archive may just have finished the transfer: then the item is no original any more.
        return None if held is None or held.state is not ItemState.ORIGINAL else error
    if transfer.stage is GiverStage.DONE:
        return None
    return transfer.problem or IbiError("the hand-over is not finished")
