"""`ibi archive copy`, `refresh`, `transfer`, `peer`: what Archives take from each other and give to each other."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.api.fields import NoFields
from ibi.archive.operations import exchange, peers
from ibi.archive.replication.retiring import finish_transfer
from ibi.cli.archive.common import context_of, user_name
from ibi.cli.common import argument, flag, tell
from ibi.cli.operations import add_fields, add_operation, fields_of
from ibi.errors import HoldingError, SetupError
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.replication.copying import Copier
    from ibi.archive.replication.giving import Giver
    from ibi.archive.store.tables.copies import CopySource
    from ibi.archive.store.tables.transfers import OutgoingTransfer
    from ibi.cli.common import CommandGroup
    from ibi.identifier.forms import Name

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
    flag(add_operation(actions, exchange.COPY, _copy, _COPY), "--json", "one JSON document")
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


def copy(args: argparse.Namespace, fields: exchange.CopyFields) -> int:
    """Take a copy and show it."""
    item = exchange.copy(context_of(args), fields)
    if args.json:
        print(json.dumps(item))
        return 0
    print(item.get("rep") or item["ibip"])
    source = item.get("copy")
    if source and not source["compared"]:
        sentence = "nothing over there tells a digest, so the copy could not be compared: {url}"
        tell(sentence, url=source.get("url", "-"))
    return 0


def _copy(args: argparse.Namespace) -> int:
    return copy(args, fields_of(args, exchange.CopyFields))


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
    with _giver(args) as giver:
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
            print(json.dumps(each) if args.json else printable(line))
    elif args.remove:
        peers.remove(context, peers.PeerName(name=args.name))
    elif args.address is None:
        raise SetupError("say where it is: --address URL")
    else:
        peers.save(context, fields_of(args, peers.PeerFields))
    return 0


@contextmanager
def _copier(args: argparse.Namespace) -> Iterator[Copier]:
    context = context_of(args)
    with context.item_store() as item_store:
        yield exchange.copier_of(context, item_store)


@contextmanager
def _giver(args: argparse.Namespace) -> Iterator[Giver]:
    context = context_of(args)
    with context.item_store() as item_store:
        yield exchange.giver_of(context, item_store)
