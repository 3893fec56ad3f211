"""`ibi archive deposit`, `edit`, `delete`, `list`, `show`: the items of an Archive."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ibi.cli.archive import formats
from ibi.cli.archive.common import directory, tell, whoever
from ibi.errors import BadItem, NotHeld
from ibi.identifier.forms import parse_name
from ibi.texts import printable, say

if TYPE_CHECKING:
    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Keeper
    from ibi.cli.archive.common import Actions

_FIELDS = """\
Facts beyond the options are given as --field NAME=VALUE, as in JSON lines: VALUE is JSON, or else a plain text;
--field NAME= takes a fact away. Dublin Core elements stand for themselves: --field creator="Silva, Maria".
"""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    _add_deposit(actions)
    edit = actions.add("edit", "change facts or files of an original", _edit, epilog=_FIELDS)
    edit.add_argument("ibi", metavar="IBI")
    _add_facts(edit)
    edit.add_argument(
        "--file", type=Path, action="append", default=[], metavar="FILE", help="a file that comes, or anew"
    )
    edit.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="a file that goes, by its name in the item",
    )
    edit.add_argument("--json", action="store_true", help="one JSON document")
    delete = actions.add(
        "delete", "remove an item for ever; its names stay known as those of a removed item", _delete
    )
    delete.add_argument("ibi", metavar="IBI")
    delete.add_argument("--reason", default="", metavar="TEXT", help="why, for whoever looks for it later")
    listing = actions.add("list", "list the items", _list)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = actions.add("show", "show the Archive, or all that is known of an item", _show)
    show.add_argument("ibi", metavar="IBI", nargs="?")
    show.add_argument("--json", action="store_true", help="one JSON document")
    formats.add(show)


def _add_deposit(actions: Actions) -> None:
    deposit = actions.add("deposit", "take in a new original, and give it names", _deposit, epilog=_FIELDS)
    deposit.add_argument(
        "files", type=Path, nargs="*", default=[], metavar="FILE", help="its files; folders as a whole"
    )
    deposit.add_argument("--url", help="the item lives at this URL, instead of files")
    deposit.add_argument("--target", metavar="NAME", help="the file that stands for the item")
    deposit.add_argument("--edition-of", metavar="IBI", help="the item whose next edition it is")
    deposit.add_argument("--translation-of", metavar="IBI", help="the item that it is a translation of")
    deposit.add_argument("--metadata-of", metavar="IBI", help="the item that it is the metadata of")
    deposit.add_argument(
        "--metadata-item", action="store_true", help="make its metadata an item with names of its own"
    )
    deposit.add_argument(
        "--copy-of", metavar="IBI", help="no new item but a copy of this one, as `ibi archive copy` makes it"
    )
    deposit.add_argument("--key", help="your own key for it: a second deposit with it gives the same item")
    deposit.add_argument("--not-transferable", action="store_true", help="it must stay in this Archive")
    _add_facts(deposit)
    deposit.add_argument("--json", action="store_true", help="one JSON document")


def _add_facts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--title", help="its title")
    parser.add_argument("--language", metavar="TAG", help="such as en or pt-BR")
    parser.add_argument(
        "--access", choices=("open", "embargoed", "restricted", "closed"), help="who may have it"
    )
    parser.add_argument("--embargo", metavar="DAY", help="until which day nobody may have it: 2027-01-31")
    parser.add_argument("--rights", metavar="TEXT", help="what may be done with it")
    parser.add_argument("--licence", metavar="URL", help="its licence")
    parser.add_argument(
        "--field", action="append", default=[], metavar="NAME=VALUE", help="any other fact; may be repeated"
    )


def _facts(args: argparse.Namespace) -> dict[str, Any]:
    """The facts that the options give, as in JSON lines."""
    from ibi.archive.dublin_core import ELEMENTS

    value: dict[str, Any] = {}
    metadata: dict[str, list[Any]] = {}
    for field in args.field:
        name, equals, text = field.partition("=")
        if not equals:
            raise BadItem("a field is given as NAME=VALUE, not {text}", text=field)
        if name in ELEMENTS and name not in {"language", "rights"}:
            metadata.setdefault(name, []).append(_plain(text))
        else:
            value[name] = _json_or_text(text)
    if args.title is not None:
        metadata.setdefault("title", []).insert(0, _plain(args.title))
    if metadata:
        value["metadata"] = metadata
    for name in ("language", "access", "embargo", "rights", "licence"):
        if getattr(args, name) is not None:
            value[name] = getattr(args, name)
    if args.embargo is not None and args.access is None:
        value["access"] = "embargoed"
    return value


def _plain(text: str) -> Any:
    value = _json_or_text(text)
    return value if isinstance(value, str | dict) else text


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _deposit(args: argparse.Namespace) -> int:
    from ibi.archive.deposit import Place, deposit
    from ibi.archive.item_lines import read_item

    if args.copy_of is not None:
        from ibi.cli.archive.exchange import copy

        return copy(args, parse_name(args.copy_of))
    value = _facts(args)
    for name in ("url", "target", "key"):
        if getattr(args, name) is not None:
            value[name] = getattr(args, name)
    if args.not_transferable:
        value["transferable"] = False
    files = _named(args.files)
    draft = read_item({**value, "files": {name: str(path) for name, path in files.items()}})
    place = Place(
        edition_of=_name(args.edition_of),
        translation_of=_name(args.translation_of),
        metadata_of=_name(args.metadata_of),
        metadata_as_item=args.metadata_item,
    )
    with directory(args).keeper() as keeper:
        staged = [keeper.storage.stage(name, path) for name, path in files.items()]
        holding = deposit(keeper, draft, staged, whoever(), place)
        _print_item(keeper, holding, as_json=args.json)
    return 0


def _edit(args: argparse.Namespace) -> int:
    from ibi.archive.editing import edit

    name, value, files = parse_name(args.ibi), _facts(args), _named(args.file)
    with directory(args).keeper() as keeper:
        if "metadata" in value:  # an element that is given takes the place of its old values; the others stay
            held = keeper.catalogue.holding(name)
            value["metadata"] = {**_metadata_of(held), **value["metadata"]}
        staged = [keeper.storage.stage(each, path) for each, path in files.items()]
        holding = edit(keeper, name, value, whoever(), staged=staged, without=args.without)
        _print_item(keeper, holding, as_json=args.json)
    return 0


def _metadata_of(held: Holding | None) -> dict[str, Any]:
    from ibi.archive.item_lines import write_item

    return dict(write_item(held).get("metadata", {})) if held else {}


def _named(paths: list[Path]) -> dict[str, Path]:
    """Files by their names in the item, percent-encoded: those of a folder keep their places in it."""
    named: dict[str, Path] = {}
    for path in paths:
        inside = (
            sorted(each for each in path.rglob("*") if each.is_symlink() or not each.is_dir())
            if path.is_dir()
            else [path]
        )
        for each in inside:
            if path.is_dir() and each.is_symlink():
                raise BadItem("{path} is a link; give what it leads to by itself", path=each)
            relative = each.relative_to(path) if path.is_dir() else Path(each.name)
            name = quote(bytes(relative), safe="/!$&'()*+,;=:@~")
            if name in named:
                raise BadItem("two files have the name {name}", name=name)
            named[name] = each
    return named


def _name(text: str | None) -> Any:
    return parse_name(text) if text is not None else None


def _print_item(keeper: Keeper, holding: Holding, *, as_json: bool) -> None:
    from ibi.archive.item_lines import write_item

    held = keeper.catalogue.holding(holding.forms.main) or holding
    print(json.dumps(write_item(held)) if as_json else " ".join(map(str, held.names)))


def _list(args: argparse.Namespace) -> int:
    from ibi.archive.item_lines import write_item

    here = directory(args)
    here.settings()
    with here.catalogue() as catalogue:
        for holding in catalogue.all():
            if args.json:
                print(json.dumps(write_item(holding)))
            else:
                where = holding.url or ", ".join(file.name for file in holding.files[:3]) or "-"
                print(f"{holding.state:8}  {holding.forms.main}  {holding.timestamp}  {where}")
    return 0


def _show(args: argparse.Namespace) -> int:
    formats.check(args)
    if args.ibi is None:
        if args.format is not None:
            raise BadItem("a format is that of an item: its IBI must be given")
        from ibi.cli.archive.membership import show_archive

        return show_archive(args)
    from ibi.archive.item_lines import write_item
    from ibi.archive.ledgers import copies, history

    name = parse_name(args.ibi)
    here = directory(args)
    settings = here.settings()
    with here.catalogue() as catalogue, catalogue.reading() as run:
        holding = catalogue.holding(name)
        if holding is None:
            raise NotHeld("{name} is not held here", name=name)
        if args.format is not None:
            return formats.print_format(args, settings, catalogue, holding)
        value = {**write_item(holding), "thanks": catalogue.thanks(holding.number)}
        source = copies.source_of(run, holding.number)
        if source is not None:
            value["copy"] = source.facts()
        value["history"] = [
            {"moment": event.moment, "who": event.who, "what": event.what, **event.detail}
            for event in history.events_of(run, holding.number)
        ]
    if args.json:
        print(json.dumps(value))
        return 0
    for field, each in value.items():
        if field != "history":
            said = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            print(printable(f"{field}: {said}"))
    for event in value["history"]:
        print(printable(f"{event['moment']}  {event['who']}  {event['what']}"))
    return 0


def _delete(args: argparse.Namespace) -> int:
    from ibi.archive.editing import remove

    name = parse_name(args.ibi)
    with directory(args).keeper() as keeper:
        left = remove(keeper, name, args.reason, whoever())
    tell(say("{name} was removed on {date}", name=left.forms.main, date=left.timestamp))
    return 0
