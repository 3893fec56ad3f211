"""`ibi archive attest`, `verify`, `export`, `import-bag`: signed receipts, and items as BagIt bags."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item_json import write_item
from ibi.archive.operations import packages as operations
from ibi.cli.archive.common import context_of, directory, held, user_name
from ibi.cli.common import argument, flag, remark, tell, tell_line
from ibi.cli.operations import add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import AlreadyHeld, BadItem, HoldingError, ParseError, SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse

    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.preservation.attestation import Receipt
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.cli.common import CommandGroup

_LISTING: Final = "items.jsonl"


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    attest = add_operation(actions, operations.ATTEST, _attest)
    argument(attest, "--out FILE", "where to write it (default: stdout)", type=Path)
    verify = actions.add("verify", "check a receipt, offline and without an Archive", _verify, has_data=False)
    argument(verify, "receipt RECEIPT", "the file", type=Path)
    argument(verify, "--key KEY", "the Archive's key as its operators publish it: 64 hexadecimal digits")
    argument(verify, "--files DIR", "a folder whose files are compared with the attested ones", type=Path)
    flag(verify, "--json", "one JSON document")
    export = actions.add("export", "write an item, or all items, as BagIt bags", _export)
    argument(export, "ibi IBI", "the item", nargs="?")
    flag(export, "--all", "every item, one bag each, and a list of them; in place of IBI")
    text = "a folder that is not there yet, or a file .zip; with --all an empty or absent folder"
    argument(export, "--to PATH", text, type=Path, required=True)
    flag(export, "--zip", "with --all: each bag as a zip file")
    take = actions.add("import-bag", "take in a BagIt bag as an item: a folder, a zip or a tar file", _take)
    argument(take, "file FILE", "the bag; with --all a folder of bags", type=Path)
    flag(take, "--all", "every bag that `export --all` has put into a folder")
    flag(take, "--json", "one JSON document: the item, or how many were taken in")


def _attest(args: argparse.Namespace) -> int:
    receipt = operations.attest(context_of(args), fields_of(args, operations.ItemFields))
    if args.out is None:
        sys.stdout.buffer.write(receipt.content)
        return 0
    args.out.write_bytes(receipt.content)
    remark("the receipt is in {path}", path=args.out)
    return 0


def _verify(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.attestation import LONGEST, compare_files, is_signed_by, read_receipt

    # A receipt comes from a stranger: read at most one byte more than a receipt can have (T10: huge answers).
    with args.receipt.open("rb") as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise BadItem("this is not a receipt")
    receipt = read_receipt(text)
    trusted = is_signed_by(receipt, args.key.strip().lower()) if args.key else None
    with Progress(say("comparing the files")):
        files = list(compare_files(receipt, args.files)) if args.files else []
    wrong = [problem for _, problem in files if problem]
    right = trusted is not False and not wrong
    if args.json:
        print(json.dumps({
            "valid": trusted is not False,
            "key": receipt.key,
            "key_is": {True: "the one given", False: "another one", None: "not compared"}[trusted],
            "receipt": receipt.content,
            "files": {name: say(problem) if problem else "ok" for name, problem in files},
        }))  # fmt: skip
        return 0 if right else 1
    _say_receipt(receipt, trusted=trusted)
    for name, problem in files:
        print(_on_one_line(f"{name}: {say(problem) if problem else say('as attested')}"))
    return 0 if right else 1


def _on_one_line(text: str) -> str:
    """Replace the characters of a stranger's text that could control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _say_receipt(receipt: Receipt, *, trusted: bool | None) -> None:
    if trusted is False:
        print(say("not valid: it was signed with another key than the one given"))
        return
    content = receipt.content
    holder, item = content["holder"], content["item"]
    sentence = "valid: {holder} ({address}) says of {item} on {date}: {state}, deposited by {who} on {when}"
    details = {
        "holder": holder["service"].get("rep") or holder["service"].get("ibip"),
        "address": holder.get("address"),
        "item": item.get("rep") or item.get("ibip"),
        "date": content.get("issued"),
        "state": content.get("state"),
        "who": content.get("depositor") or "-",
        "when": content.get("deposited") or "-",
    }
    print(_on_one_line(say(sentence, **details)))
    if trusted is None:
        sentence = (
            "the key {key} is only the receipt's own word: compare it with the Archive's, or give --key"
        )
        tell(sentence, key=receipt.key)


def _export(args: argparse.Namespace) -> int:
    context = context_of(args)
    if bool(args.ibi) == args.all:
        raise SetupError("export needs one IBI, or --all")
    if args.zip and not args.all:
        raise SetupError("--zip is used only with --all; a single bag is a zip file if its name ends in .zip")
    with context.catalogue() as catalogue:
        if args.all:
            return _export_all(context, catalogue, args)
        holding = held(catalogue, args.ibi)
        with Progress(say("writing the bag")):
            operations.write_bag_at(context, catalogue, holding, args.to)
    remark("{name} is in {path}", name=holding.forms.main, path=args.to)
    return 0


def _export_all(context: ArchiveContext, catalogue: Catalogue, args: argparse.Namespace) -> int:
    """Write every item into its own bag."""
    from ibi.archive.preservation.bagging import bag_name

    args.to.mkdir(parents=True, exist_ok=True)
    if any(args.to.iterdir()):
        raise SetupError("{path} is not empty", path=args.to)
    failed = done = 0
    with (
        (args.to / _LISTING).open("w", encoding="utf-8") as listing,
        Progress(say("items written"), catalogue.count()) as progress,
    ):
        for holding in catalogue.all():
            target = args.to / (bag_name(holding) + (".zip" if args.zip else ""))
            try:
                operations.write_bag_at(context, catalogue, holding, target)
                done += 1
            except SetupError as error:
                failed += 1
                tell_line(f"{holding.forms.main}: {say(error)}")
                continue
            progress.at(done)
            print(json.dumps({**write_item(holding), "bag": target.name}), file=listing)
    print(say("{count} bags, {failed} items left out", count=done, failed=failed))
    return 1 if failed else 0


def _take(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.bag_ingest import take_bag

    if args.all:
        return _take_all(args)
    with directory(args).item_store() as item_store:
        taken = take_bag(item_store, args.file, user_name())
    print(json.dumps(write_item(taken)) if args.json else taken.forms.main)
    return 0


def _take_all(args: argparse.Namespace) -> int:
    """Ingest every bag of an export, in its order; items that are already held stay unchanged."""
    from ibi.archive.preservation.bag_ingest import take_bag

    bags = _listed(args.file)
    counts = {"taken": 0, "held": 0, "refused": 0}
    with directory(args).item_store() as item_store, Progress(say("bags read"), len(bags)) as progress:
        for number, bag in enumerate(bags, 1):
            try:
                take_bag(item_store, bag, user_name())
                counts["taken"] += 1
            except AlreadyHeld:
                counts["held"] += 1
            except (HoldingError, ParseError) as error:
                counts["refused"] += 1
                tell_line(f"{bag.name}: {say(error)}")
            progress.at(number)
    sentence = "{taken} bags imported, {held} were here already, {refused} refused"
    print(json.dumps(counts) if args.json else say(sentence, None, **counts))
    return 1 if counts["refused"] else 0


def _listed(folder: Path) -> list[Path]:
    """Return the bags of an export. Raises BadItem if the folder is no export."""
    listing = folder / _LISTING
    try:
        names = [json.loads(line)["bag"] for line in listing.read_bytes().splitlines()]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadItem("{path} cannot be read: {reason}", path=listing, reason=reason) from None
    # A stranger may have written the list, so it must not name files outside the folder (T21: paths out of the
    # store).
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise BadItem("{name} is not in this folder", name=name)
    return [folder / name for name in names]
