"""`ibi archive copy`, `refresh`, `transfer`, `peer`: what Archives take from each other and give to each other."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.api.fields import NoFields
from ibi.archive.model.item_json import write_item
from ibi.archive.operations import peers
from ibi.cli.archive.common import context_of, directory, user_name
from ibi.cli.common import argument, flag, tell
from ibi.cli.operations import add_fields, fields_of
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
    from ibi.cli.common import CommandGroup
    from ibi.identifier.forms import Name

PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0)
"""Seconds between two tries. While the other Archive fetches, it has all the time it needs."""

_ALL: Final = 1 << 31  # more copies than an Archive can have

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


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    copying = actions.add("copy", "take a copy of an item from the Archive of its original", _copy, _COPY)
    argument(copying, "ibi IBI", "the item")
    argument(copying, "--from URL", "the root URL of the Archive to copy from", dest="archive", default="")
    flag(copying, "--allow-private", "it may be at an address of a private network")
    flag(copying, "--json", "one JSON document")
    refreshing = actions.add("refresh", "make copies equal to their originals", _refresh)
    argument(refreshing, "ibi IBI", "one copy; without it, all", nargs="?")
    flag(refreshing, "--json", "one JSON object a line")
    transfer = actions.add("transfer", "hand an original over to another Archive", _transfer, _TRANSFER)
    argument(transfer, "ibi IBI", "the item; without it, all that are under way", nargs="?")
    argument(transfer, "--to PEER", "the name or the root URL of a peer")
    flag(transfer, "--remove", "keep no files of it, only a pointer to the other Archive")
    flag(transfer, "--cancel", "take it back, unless the other Archive is the owner by now")
    flag(transfer, "--json", "one JSON object for each hand-over")
    peer = actions.add("peer", "name an Archive that originals go to or come from, or list them", _peer)
    add_fields(peer, peers.PeerFields, optional=True)
    flag(peer, "--remove", "forget it")
    flag(peer, "--json", "one JSON object a line")


def copy(args: argparse.Namespace, name: Name, archive: str = "", *, private: bool = False) -> int:
    """Take a copy and show it."""
    from ibi.archive.store.tables import copies

    with _copier(args) as copier:
        held = asyncio.run(copier.copy(name, user_name(), archive, private=private))
        with copier.item_store.catalogue.reading() as run:
            source = copies.source_of(run, held.number)
    if args.json:
        print(json.dumps({**write_item(held), "copy": source.facts() if source else {}}))
        return 0
    print(held.forms.main)
    if source is not None and not source.compared:
        tell("nothing over there tells a digest, so the copy could not be compared: {url}", url=source.url)
    return 0


def _copy(args: argparse.Namespace) -> int:
    return copy(args, parse_name(args.ibi), args.archive, private=args.allow_private)


def _refresh(args: argparse.Namespace) -> int:
    from ibi.archive.replication.copying import refresh
    from ibi.archive.store.tables import copies

    status = 0
    with _copier(args) as copier:
        names = [args.ibi]
        if not args.ibi:
            with copier.item_store.catalogue.reading() as run:
                names = copies.due_copies(run, "~", _ALL)
        for name in map(parse_name, names):
            source = asyncio.run(refresh(copier, name, user_name()))
            status |= int(bool(source.since))
            _print_source(name, source, as_json=args.json)
    return status


def _print_source(name: Name, source: CopySource, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"ibi": str(name), **source.facts()}))
    elif not source.since:
        print(say("{name} equals its original of {date}", name=name, date=source.original))
    else:
        sentence = "{name} may lag behind since {since}: {problem}"
        print(say(sentence, name=name, since=source.since, problem=source.problem or ""))


def _transfer(args: argparse.Namespace) -> int:
    if args.ibi is None and (args.to or args.cancel or args.remove):
        raise SetupError("say which item: ibi archive transfer --data DIR IBI")
    name = None if args.ibi is None else parse_name(args.ibi)
    with giver_of(args) as giver:
        if name is None:
            ends = [
                _print_transfer(giver, finish_transfer(giver, giving), as_json=args.json)
                for giving in giver.open()
            ]
            return max(ends, default=0)
        if args.cancel:
            return _cancel(giver, name, as_json=args.json)
        if args.to is None:
            raise SetupError("say where to: --to PEER")
        giving = giver.offer(name, args.to, user_name(), remove=args.remove)
        return _print_transfer(giver, finish_transfer(giver, giving), as_json=args.json)


def _cancel(giver: Giver, name: Name, *, as_json: bool) -> int:
    for giving in giver.open():
        if name in giver.find(giving.id)[1].names:
            withdrawn = asyncio.run(giver.withdraw(giving))
            return _print_transfer(giver, withdrawn, as_json=as_json, cancelled=True)
    raise HoldingError("{name} is not being handed over", name=name)


def finish_transfer(giver: Giver, giving: OutgoingTransfer) -> OutgoingTransfer:
    """Go on with a transfer until it ends, or the other Archive has failed for a while."""
    from ibi.archive.model.handover import ReceiverReply

    async def finish(giving: OutgoingTransfer) -> OutgoingTransfer:
        failures = waits = 0
        while True:
            giving, reply = await giver.advance(giving)
            failed = reply is not ReceiverReply.FETCHING
            failures, waits = (failures + 1, 0) if failed else (0, waits + 1)
            if not giving.stage.open or failures > len(PAUSES):
                return giving
            await asyncio.sleep(PAUSES[min(max(failures, waits), len(PAUSES)) - 1])

    return asyncio.run(finish(giving))


def _print_transfer(giver: Giver, giving: OutgoingTransfer, *, as_json: bool, cancelled: bool = False) -> int:
    """Print how far a transfer is; return 0 if it is where the command was to bring it."""
    from ibi.archive.model.handover import GiverStage

    holding = giver.find(giving.id)[1]
    name, archive, problem = holding.forms.main, giving.address, giving.problem or ""
    if as_json:
        facts = {"ibi": str(name), "transfer": giving.id, "to": archive, "stage": giving.stage.value,
                "state": holding.state.value, "problem": say(problem)}  # fmt: skip
        print(json.dumps(facts))
    elif giving.stage is GiverStage.DONE:
        tell("{name} is held by {archive} now", name=name, archive=archive)
    elif giving.stage is GiverStage.ENDED:
        tell("{name} stays here. {problem}", name=name, problem=problem)
    else:
        sentence = "the hand-over of {name} to {archive} is not finished. {problem}"
        tell(sentence, name=name, archive=archive, problem=problem)
        tell("The running Archive goes on with it, or the same command does.")
    return 0 if giving.stage is (GiverStage.ENDED if cancelled else GiverStage.DONE) else 1


def _peer(args: argparse.Namespace) -> int:
    context = context_of(args)
    if args.name is None:
        for each in peers.show(context, NoFields())["peers"]:
            line = f"{each['name']}  {each['address']}  {'token' if each['token'] else '-'}"
            print(json.dumps(each) if args.json else line)
    elif args.remove:
        peers.remove(context, peers.PeerName(name=args.name))
    elif args.address is None:
        raise SetupError("say where it is: --address URL")
    else:
        peers.save(context, fields_of(args, peers.PeerFields))
    return 0


@contextmanager
def _copier(args: argparse.Namespace) -> Iterator[Copier]:
    from ibi.archive.replication.copying import Copier

    data = directory(args)
    settings = data.settings()
    with data.item_store() as item_store:
        yield Copier(item_store, settings.resolver, settings.largest_upload)


@contextmanager
def giver_of(args: argparse.Namespace) -> Iterator[Giver]:
    """Open what hands over the originals of the Archive that the command line names."""
    from ibi.archive.replication.giving import Giver

    data = directory(args)
    settings = data.settings()
    with data.item_store() as item_store:
        yield Giver(item_store, data.path, f"http://{settings.address}")
