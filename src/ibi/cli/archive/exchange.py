"""`ibi archive copy`, `refresh`, `transfer`, `peer`: copies from other Archives, and hand-overs to them."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.api.fields import NoFields
from ibi.archive.model.handover import GiverStage
from ibi.archive.operations import exchange, peers
from ibi.cli.archive.common import context_of, user_name
from ibi.cli.common import argument, flag, remark, tell
from ibi.cli.operations import add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import HoldingError, SetupError
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.api.operations import Operation
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.replication.copying import Copier
    from ibi.archive.store.tables.copies import CopySource
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
_PEER: Final = """\
Without --name, the peers are listed.
"""


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    flag(add_operation(actions, exchange.COPY, _copy, _COPY), "--json", "one JSON document")
    refreshing = actions.add("refresh", "make copies equal to their originals", _refresh)
    argument(refreshing, "ibi IBI", "one copy; without it, all", nargs="?")
    flag(refreshing, "--json", "one JSON object a line")
    hand_over = exchange.HAND_OVER
    transfer = add_operation(actions, hand_over, _transfer, _TRANSFER, name="transfer", optional=True)
    flag(transfer, "--cancel", "take it back, unless the other Archive is the owner by now")
    flag(transfer, "--json", "one JSON object for each hand-over")
    peer = add_operation(actions, peers.SAVE, _peer, _PEER, optional=True)
    flag(peer, "--remove", "forget it")
    flag(peer, "--json", "one JSON object a line")


def copy(args: argparse.Namespace, fields: exchange.CopyFields) -> int:
    """Take a copy and show it."""
    context = context_of(args)
    with Progress(say("copying {ibi}", ibi=fields.ibi), in_bytes=True) as progress:
        context.progress = progress.at
        item = exchange.copy(context, fields)
    if args.json:
        print(json.dumps(item))
        return 0
    print(item.get("rep") or item["ibip"])
    source = item.get("copy")
    if source and not source["compared"]:
        sentence = "nothing there gives a digest, so the copy could not be compared: {url}"
        tell(sentence, url=source.get("url", "-"))
    return 0


def _copy(args: argparse.Namespace) -> int:
    return copy(args, fields_of(args, exchange.CopyFields))


def _refresh(args: argparse.Namespace) -> int:
    from ibi.archive.replication.refreshing import refresh
    from ibi.archive.store.tables import copies

    status = 0
    with _copier(args) as copier:
        names = [args.ibi]
        if not args.ibi:
            with copier.item_store.catalogue.reading() as run:
                names = copies.due_copies(run, "~", _ALL)
        with Progress(say("copies compared"), len(names)) as progress:
            for number, name in enumerate(map(parse_name, names), 1):
                source = asyncio.run(refresh(copier, name, user_name()))
                progress.at(number)
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
    context = context_of(args)
    if args.cancel:
        begun = exchange.under_way(context, args.ibi)
        if not begun:
            raise HoldingError("{name} is not being handed over", name=parse_name(args.ibi))
        taken_back = exchange.cancel(context, exchange.TransferFields(transfer=begun[0]))
        return _print_transfer(taken_back, GiverStage.ENDED, as_json=args.json)
    if args.ibi is None:
        begun = exchange.under_way(context)
    else:
        begun = [exchange.offer(context, fields_of(args, exchange.OfferFields))["transfer"]]
    status = 0
    with Progress(say("originals handed over"), len(begun)) as progress:
        for number, each in enumerate(begun, 1):
            end = exchange.finish(context, exchange.TransferFields(transfer=each))
            progress.at(number)
            status |= _print_transfer(end, GiverStage.DONE, as_json=args.json)
    return status


def _print_transfer(facts: dict[str, Any], wanted: GiverStage, *, as_json: bool) -> int:
    """Print the stage of a transfer; return 0 if it is the wanted stage, else 1."""
    name, archive, problem = facts["item"], facts["to"], facts["problem"]
    if as_json:
        members = ("transfer", "to", "stage", "state", "problem")
        print(json.dumps({"ibi": name, **{each: facts[each] for each in members}}))
    elif facts["stage"] == GiverStage.DONE:
        remark("{name} is held by {archive} now", name=name, archive=archive)
    elif facts["stage"] == GiverStage.ENDED:
        tell("{name} stays here. {problem}", name=name, problem=problem)
    else:
        sentence = "the hand-over of {name} to {archive} is not finished. {problem}"
        tell(sentence, name=name, archive=archive, problem=problem)
        remark("The running Archive goes on with it, or the same command does.")
    return 0 if facts["stage"] == wanted else 1


def _peer(args: argparse.Namespace) -> int:
    context = context_of(args)
    if args.name is None:
        for each in peers.show(context, NoFields())["peers"]:
            line = f"{each['name']}  {each['address']}  {'token' if each['token'] else '-'}"
            print(json.dumps(each) if args.json else printable(line))
        return 0
    operation: Operation[ArchiveContext, Any] = peers.REMOVE if args.remove else peers.SAVE
    operation.run(context, fields_of(args, operation.fields))
    return 0


@contextmanager
def _copier(args: argparse.Namespace) -> Iterator[Copier]:
    context = context_of(args)
    with context.item_store() as item_store:
        yield exchange.copier_of(context, item_store)
