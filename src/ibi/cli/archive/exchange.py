"""`ibi archive copy`, `refresh`, `transfer`, `peer`: what Archives take from each other and give to each other."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.archive.common import directory, tell, user_name
from ibi.errors import HoldingError, SetupError
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.replication.copying import Copier
    from ibi.archive.replication.giving import Giver
    from ibi.archive.store.tables.copies import CopySource
    from ibi.archive.store.tables.transfers import OutgoingTransfer
    from ibi.cli.archive.common import Actions
    from ibi.identifier.forms import Name

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0
_MOST_FAILURES: Final = 6
"""After so many in a row the rest is left to the running Archive, or to another try."""

_ALL: Final = 1 << 31

_COPY: Final = """\
Without --from, the resolver that the Archive has joined is asked for the original. Every file is compared with the
SHA-256 that the other Archive tells; from a place that describes no items, the one file that the persistent URL leads
to is taken. A copy keeps the folders of its original, so that relative links between items go on working.
"""
_TRANSFER: Final = """\
The other Archive first takes a copy of everything; then this one becomes a copy; then the other becomes the original.
There are never two originals, and always one Archive that has the item. Whatever is interrupted is taken up by the
running Archive, or by the same command. Without IBI, every hand-over that is under way is taken up.
"""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    copying = actions.add(
        "copy", "take a copy of an item from the Archive of its original", _copy, epilog=_COPY
    )
    copying.add_argument("ibi", metavar="IBI")
    copying.add_argument("--from", dest="archive", default="", metavar="URL", help="the root of that Archive")
    copying.add_argument(
        "--allow-private", action="store_true", help="it may be at an address of a private network"
    )
    copying.add_argument("--json", action="store_true", help="one JSON document")
    refreshing = actions.add("refresh", "make copies equal to their originals", _refresh)
    refreshing.add_argument("ibi", metavar="IBI", nargs="?", help="one copy (default: all)")
    refreshing.add_argument("--json", action="store_true", help="one JSON object a line")
    transfer = actions.add(
        "transfer", "hand an original over to another Archive", _transfer, epilog=_TRANSFER
    )
    transfer.add_argument("ibi", metavar="IBI", nargs="?")
    transfer.add_argument("--to", metavar="PEER", help="the name or the root URL of a peer")
    transfer.add_argument(
        "--remove", action="store_true", help="keep no files of it, only a pointer to the other Archive"
    )
    transfer.add_argument(
        "--cancel", action="store_true", help="take it back, unless the other Archive is the owner by now"
    )
    transfer.add_argument("--json", action="store_true", help="one JSON object for each hand-over")
    peer = actions.add("peer", "name an Archive that originals go to or come from, or list them", _peer)
    peer.add_argument(
        "--name", metavar="NAME", help="what to call it; of one that gives: the name of its token"
    )
    peer.add_argument("--address", metavar="URL", help="its root, such as http://archive.example")
    peer.add_argument("--token", default="", metavar="TOKEN", help="what it gave us, to give originals to it")
    peer.add_argument("--remove", action="store_true", help="forget it")
    peer.add_argument("--json", action="store_true", help="one JSON object a line")


def copy(args: argparse.Namespace, name: Name, archive: str = "", *, private: bool = False) -> int:
    """Take a copy and show it."""
    from ibi.archive.model.item_json import write_item

    with _copier(args) as copier:
        held = asyncio.run(copier.copy(name, user_name(), archive, private=private))
        source = _source(copier, held.number)
    if args.json:
        print(json.dumps({**write_item(held), "copy": source.facts() if source else {}}))
        return 0
    print(held.forms.main)
    if source is not None and not source.compared:
        tell(
            say("nothing over there tells a digest, so the copy could not be compared: {url}", url=source.url)
        )
    return 0


def _copy(args: argparse.Namespace) -> int:
    return copy(args, parse_name(args.ibi), args.archive, private=args.allow_private)


def _refresh(args: argparse.Namespace) -> int:
    from ibi.archive.replication.refreshing import refresh

    status = 0
    with _copier(args) as copier:
        for name in [parse_name(args.ibi)] if args.ibi else _all_copies(copier):
            source = asyncio.run(refresh(copier, name, user_name()))
            status |= int(bool(source.since))
            _show_source(name, source, as_json=args.json)
    return status


def _show_source(name: Name, source: CopySource, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"ibi": str(name), **source.facts()}))
    elif not source.since:
        print(say("{name} equals its original of {date}", name=name, date=source.original))
    else:
        problem = say(source.problem) if source.problem else ""
        print(
            say(
                "{name} may lag behind since {since}: {problem}",
                name=name,
                since=source.since,
                problem=problem,
            )
        )


def _transfer(args: argparse.Namespace) -> int:
    if args.ibi is None:
        if args.to or args.cancel or args.remove:
            raise SetupError("say which item: ibi archive transfer --data DIR IBI")
        with _giver(args) as giver:
            return max((_carry_on(giver, giving, as_json=args.json) for giving in giver.open()), default=0)
    name = parse_name(args.ibi)
    with _giver(args) as giver:
        if args.cancel:
            return _cancel(giver, name, as_json=args.json)
        if args.to is None:
            raise SetupError("say where to: --to PEER")
        giving = giver.offer(name, args.to, user_name(), remove=args.remove)
        return _carry_on(giver, giving, as_json=args.json)


def _cancel(giver: Giver, name: Name, *, as_json: bool) -> int:
    for giving in giver.open():
        if name in giver.find(giving.id)[1].names:
            return _show_giving(giver, asyncio.run(giver.withdraw(giving)), as_json=as_json, cancelled=True)
    raise HoldingError("{name} is not being handed over", name=name)


def _carry_on(giver: Giver, giving: OutgoingTransfer, *, as_json: bool) -> int:
    """Go on with a hand-over until it is at its end, or the other Archive fails too often."""
    return _show_giving(giver, asyncio.run(_until_done(giver, giving)), as_json=as_json)


async def _until_done(giver: Giver, giving: OutgoingTransfer) -> OutgoingTransfer:
    from ibi.archive.model.handover import ReceiverReply

    pause, failures = _FIRST_PAUSE, 0
    while True:
        giving, reply = await giver.advance(giving)
        failures = 0 if reply is ReceiverReply.FETCHING else failures + 1
        if not giving.stage.open or failures >= _MOST_FAILURES:
            return giving
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _show_giving(giver: Giver, giving: OutgoingTransfer, *, as_json: bool, cancelled: bool = False) -> int:
    """Print how far a transfer is; return 0 if it is where the command was to bring it."""
    from ibi.archive.model.handover import GiverStage

    holding = giver.find(giving.id)[1]
    name = holding.forms.main
    problem = say(giving.problem) if giving.problem else ""
    if as_json:
        facts = {"ibi": str(name), "transfer": giving.id, "to": giving.address, "stage": giving.stage.value,
                "state": holding.state.value, "problem": problem}  # fmt: skip
        print(json.dumps(facts))
    elif giving.stage is GiverStage.DONE:
        tell(say("{name} is held by {archive} now", name=name, archive=giving.address))
    elif giving.stage is GiverStage.ENDED:
        tell(say("{name} stays here. {problem}", name=name, problem=problem))
    else:
        tell(say("the hand-over of {name} to {archive} is not finished. {problem}", name=name,
                 archive=giving.address, problem=problem))  # fmt: skip
        tell(say("The running Archive goes on with it, or the same command does."))
    return 0 if giving.stage is (GiverStage.ENDED if cancelled else GiverStage.DONE) else 1


def _peer(args: argparse.Namespace) -> int:
    from ibi.http.client.download import CheckedURL
    from ibi.runtime.settings import Peer

    directory(args).settings()
    peers = Peer.read_tables(args.data)
    if args.name is None:
        for name, peer in peers.items():
            facts: dict[str, Any] = {"name": name, "address": peer.address, "token": bool(peer.token)}
            print(
                json.dumps(facts)
                if args.json
                else f"{name}  {peer.address}  {'token' if peer.token else '-'}"
            )
        return 0
    if args.remove:
        if peers.pop(args.name, None) is None:
            raise SetupError("there is no peer {name}", name=args.name)
    elif args.address is None:
        raise SetupError("say where it is: --address URL")
    else:
        peers[args.name] = Peer(address=CheckedURL.parse(args.address).root, token=args.token)
    Peer.write_tables(args.data, peers)
    return 0


@contextmanager
def _copier(args: argparse.Namespace) -> Iterator[Copier]:
    from ibi.archive.replication.copying import Copier

    data = directory(args)
    settings = data.settings()
    with data.item_store() as item_store:
        yield Copier(item_store, settings.resolver, settings.largest_upload)


@contextmanager
def _giver(args: argparse.Namespace) -> Iterator[Giver]:
    from ibi.archive.replication.giving import Giver

    data = directory(args)
    settings = data.settings()
    with data.item_store() as item_store:
        yield Giver(item_store, data.path, f"http://{settings.address}")


def _all_copies(copier: Copier) -> Iterator[Name]:
    """Every copy that came from another Archive, the one that was looked at longest ago first."""
    from ibi.archive.store.tables import copies

    with copier.item_store.catalogue.reading() as run:
        names = copies.due_copies(run, "~", _ALL)
    yield from map(parse_name, names)


def _source(copier: Copier, number: int) -> CopySource | None:
    from ibi.archive.store.tables import copies

    with copier.item_store.catalogue.reading() as run:
        return copies.source_of(run, number)
