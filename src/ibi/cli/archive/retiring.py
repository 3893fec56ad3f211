"""`ibi archive retire`: everything that may go moves to another Archive, and this one leaves its networks for good."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import directory, tell, whoever
from ibi.cli.archive.membership import nobody_serving, say_goodbye, tell_news
from ibi.errors import HoldingError, IbiError, PeerSilent
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import State
from ibi.texts import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.ledgers.transfers import Giving
    from ibi.archive.sharing.giving import Giver
    from ibi.cli.archive.common import Actions

_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between two tries while the other Archive fails; while it fetches, it has all the time it needs."""

_MOST_PROBLEMS: Final = 5
"""After so many items that could not go, something is wrong with the other Archive."""

_ABOUT: Final = """\
Each original is handed over as `ibi archive transfer` does it; what is interrupted goes on when the command is given
again. When nothing is left that may go, the Archive says goodbye to its resolvers and takes part nowhere any more. It
may still be served: removed items, copies, and old links to its own address go on being answered.
"""


def add(actions: Actions) -> None:
    """Add the subcommand."""
    parser = actions.add("retire", "move everything elsewhere, and leave for good", _retire, epilog=_ABOUT)
    parser.add_argument(
        "--to", required=True, metavar="PEER", help="the other Archive: its name as a peer, or its root URL"
    )
    parser.add_argument("--token", help="what it gave us, if it is no peer yet")
    parser.add_argument(
        "--leave-them", action="store_true", help="although some originals must stay: they stay behind"
    )


def _retire(args: argparse.Namespace) -> int:
    from ibi.archive.sharing.giving import Giver

    here = directory(args)
    settings = here.settings()
    to = _peer(args) if args.token else args.to
    with here.keeper() as keeper:
        own = settings.service.canonicals  # the service item goes nowhere (ARC-11)
        staying = [name for name in _originals(keeper.catalogue, transferable=False) if name not in own]
        if staying and not args.leave_them:
            problem = "{count} originals must stay, such as {name}; --leave-them leaves them behind"
            raise HoldingError(problem, count=len(staying), name=staying[0])
        moved, problems = _move(Giver(keeper, here.path, f"http://{settings.address}"), to)
    for name, why in problems:
        tell(say("{name} stays here. {problem}", name=name, problem=say(why)))
    print(say("{moved} handed over, {left} left here", moved=moved, left=len(problems) + len(staying)))
    if problems:
        tell(say("the Archive has not retired yet; the same command goes on where it was"))
        return 1
    return _leave_for_good(args)


def _peer(args: argparse.Namespace) -> str:
    """Note the token of a new peer; returns what it is called."""
    from ibi.settings import Peer
    from ibi.transport.download import Place

    place = Place.parse(args.to)
    name = place.root.removeprefix("http://").removeprefix("https://")
    peers = {**Peer.read_tables(args.data), name: Peer(address=place.root, token=args.token)}
    Peer.write_tables(args.data, peers)
    return name


def _originals(catalogue: Catalogue, *, transferable: bool) -> Iterator[str]:
    """The canonical names of originals that may go, or must stay."""
    from ibi.archive.ledgers.inventory import originals

    after = ""
    while True:
        with catalogue.reading() as run:
            page = originals(run, after, transferable=transferable)
        if not page:
            return
        yield from page
        after = page[-1]


def _move(giver: Giver, to: str) -> tuple[int, list[tuple[str, IbiError]]]:
    """Hand over whatever may go; how many went, and which did not, and why."""
    from ibi.cli.progress import Progress

    moved, problems = 0, list[tuple[str, IbiError]]()
    with Progress(to, None) as progress:
        for name in _originals(giver.keeper.catalogue, transferable=True):
            problem = _hand_over(giver, name, to)
            if problem is None:
                moved += 1
                progress.at(moved)
            else:
                problems.append((name, problem))
            if len(problems) >= _MOST_PROBLEMS or isinstance(problem, PeerSilent):
                return moved, problems
        for giving in giver.open():  # begun before, or by somebody else
            if asyncio.run(_carry(giver, giving)).stage.open:
                name = str(giver.find(giving.id)[1].forms.main)
                problems.append((name, giving.problem or IbiError("the hand-over is not finished")))
    return moved, problems


def _hand_over(giver: Giver, name: str, to: str) -> IbiError | None:
    """Hand one original over; None if it is one no more, else why it is."""
    from ibi.archive.sharing.handover import Given

    try:
        giving = asyncio.run(_carry(giver, giver.offer(parse_name(name), to, whoever())))
    except HoldingError as error:
        held = giver.keeper.catalogue.holding(parse_name(name))
        gone = held is None or held.state is not State.ORIGINAL  # the running Archive has just finished it
        return None if gone else error
    if giving.stage is Given.DONE:
        return None
    return giving.problem or IbiError("the hand-over is not finished")


async def _carry(giver: Giver, giving: Giving) -> Giving:
    """Go on with a hand-over until it is at its end, or the other Archive has failed for a while."""
    from ibi.archive.sharing.handover import Reply

    failures = 0
    while True:
        giving, reply = await giver.advance(giving)
        failures = 0 if reply is Reply.FETCHING else failures + 1
        if not giving.stage.open or failures > len(_PAUSES):
            return giving
        await asyncio.sleep(_PAUSES[max(0, failures - 1)])


def _leave_for_good(args: argparse.Namespace) -> int:
    """Switch off for ever; first nothing is taken in any more, then it is seen whether something just was."""
    from ibi.archive.networking.joining import Resolvers
    from ibi.settings import changing

    here = directory(args)
    with nobody_serving(here) as nobody:
        with changing(args.data):
            resolvers = Resolvers.read(args.data)
            replace(resolvers.settings, switched_on=False, retired=True).write(args.data)
        if nobody:
            say_goodbye(here, resolvers, list(resolvers.keys))
        else:
            tell_news(here, resolvers, on=False)
    with here.catalogue() as catalogue:
        late = next(_originals(catalogue, transferable=True), None)
    if late is not None:
        tell(say("{name} came in meanwhile; give the same command again", name=late))
        return 1
    tell(say("the Archive has retired; what it remembers can still be served"))
    return 0
