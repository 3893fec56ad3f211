"""`ibi archive deposit`, `edit`, `delete`, `list`, `show`: the items of an Archive.

`ibi archive show IBI --format NAME`: an item as a format for machines or for citing has it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ibi.api.fields import read_texts
from ibi.archive.model.item_fields import EDITED
from ibi.archive.model.item_json import read_item, write_item
from ibi.archive.operations.exchange import CopyFields
from ibi.cli.archive.common import directory, held, user_name
from ibi.cli.archive.exchange import copy
from ibi.cli.archive.membership import show_archive
from ibi.cli.common import argument, flag, tell
from ibi.errors import BadItem, NotHeld
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import printable

if TYPE_CHECKING:
    import argparse

    from ibi.archive.model.item import Holding
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.cli.common import CommandGroup
    from ibi.runtime.settings import ArchiveSettings


_FIELDS = """\
Facts beyond the options are given as --field NAME=VALUE, as in JSON lines: VALUE is JSON, or else a plain text;
--field NAME= takes a fact away. Dublin Core elements stand for themselves: --field creator="Silva, Maria".
"""


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    _add_deposit(actions)
    edit = actions.add("edit", "change facts or files of an original", _edit, epilog=_FIELDS)
    argument(edit, "ibi IBI", "one of its names")
    _add_facts(edit)
    argument(edit, "--file FILE", "a file that comes, or anew", type=Path, action="append", default=[])
    argument(edit, "--without NAME", "a file that goes, by its name in the item", action="append", default=[])
    flag(edit, "--json", "one JSON document")
    text = "remove an item for ever; its names stay known as those of a removed item"
    delete = actions.add("delete", text, _delete)
    argument(delete, "ibi IBI", "one of its names")
    argument(delete, "--reason TEXT", "why, for those who look for it later", default="")
    listing = actions.add("list", "list the items", _list)
    flag(listing, "--json", "one JSON object a line")
    show = actions.add("show", "show the Archive, or all that is known of an item", _show)
    argument(show, "ibi IBI", "one of its names; without it, the Archive", nargs="?")
    flag(show, "--json", "one JSON document")
    argument(show, "--format NAME", "as it is given to readers: bibtex, ris, csl, citation and others")
    argument(show, "--style NAME", "of a citation: abnt or apa (by default)")
    argument(show, "--locale TAG", "of a citation: en (by default) or pt-BR")


def _add_deposit(actions: CommandGroup) -> None:
    deposit = actions.add("deposit", "take in a new original, and give it names", _deposit, epilog=_FIELDS)
    argument(deposit, "files FILE", "its files; folders as a whole", type=Path, nargs="*", default=[])
    argument(deposit, "--url", "the item lives at this URL, instead of files")
    argument(deposit, "--target NAME", "the file that stands for the item")
    argument(deposit, "--edition-of IBI", "the item whose next edition it becomes; that must be the last one")
    argument(deposit, "--translation-of IBI", "the item that it is a translation of")
    argument(deposit, "--metadata-of IBI", "the item that it is the metadata of")
    flag(deposit, "--metadata-item", "make its metadata an item with names of its own")
    argument(deposit, "--copy-of IBI", "no new item but a copy of this one, as `ibi archive copy` makes it")
    argument(deposit, "--key", "your own key for it: a second deposit with it gives the same item")
    flag(deposit, "--not-transferable", "it must stay in this Archive")
    _add_facts(deposit)
    flag(deposit, "--json", "one JSON document")


def _add_facts(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--title", "its title")
    for each in EDITED:
        if each.option:
            argument(parser, each.option, each.meaning, choices=each.schema.get("enum"))
    argument(parser, "--field NAME=VALUE", "any other fact; may be repeated", action="append", default=[])


def _facts(args: argparse.Namespace) -> dict[str, Any]:
    """The facts that the options give, as in JSON lines."""
    from ibi.archive.model.item import ELEMENTS

    value: dict[str, Any] = {}
    metadata: dict[str, list[Any]] = {}
    for field in args.field:
        name, equals, text = field.partition("=")
        if not equals:
            raise BadItem("a field is given as NAME=VALUE, not {text}", text=field)
        # These two are facts of an item besides, and meant as such here.
        if name in ELEMENTS and name not in {"language", "rights"}:
            metadata.setdefault(name, []).append(_plain(text))
        else:
            value[name] = _json_or_text(text)
    if args.title is not None:
        metadata.setdefault("title", []).insert(0, _plain(args.title))
    if metadata:
        value["metadata"] = metadata
    for each in EDITED:
        if each.option and getattr(args, each.name) is not None:
            value[each.name] = getattr(args, each.name)
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
    from ibi.archive.store.deposit import ItemPlacement, deposit

    if args.copy_of is not None:
        return copy(args, read_texts(CopyFields, {"ibi": [args.copy_of]}))
    value = _facts(args)
    for name in ("url", "target", "key"):
        if getattr(args, name) is not None:
            value[name] = getattr(args, name)
    if args.not_transferable:
        value["transferable"] = False
    files = _named(args.files)
    draft = read_item({**value, "files": {name: str(path) for name, path in files.items()}})
    place = ItemPlacement(
        edition_of=_name(args.edition_of),
        translation_of=_name(args.translation_of),
        metadata_of=_name(args.metadata_of),
        metadata_as_item=args.metadata_item,
    )
    with directory(args).item_store() as item_store:
        staged = [item_store.file_store.stage(name, path) for name, path in files.items()]
        holding = deposit(item_store, draft, staged, user_name(), place)
        _print_item(item_store, holding, as_json=args.json)
    return 0


def _edit(args: argparse.Namespace) -> int:
    from ibi.archive.store.deposit import edit

    name, value, files = parse_name(args.ibi), _facts(args), _named(args.file)
    with directory(args).item_store() as item_store:
        if "metadata" in value:  # an element that is given takes the place of its old values; the others stay
            before = item_store.catalogue.holding(name)
            elements = write_item(before).get("metadata", {}) if before else {}
            value["metadata"] = {**elements, **value["metadata"]}
        staged = [item_store.file_store.stage(each, path) for each, path in files.items()]
        holding = edit(item_store, name, value, user_name(), staged=staged, without=args.without)
        _print_item(item_store, holding, as_json=args.json)
    return 0


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
            # A link may lead out of the folder, to what was not meant to be published (T23).
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


def _print_item(item_store: ItemStore, holding: Holding, *, as_json: bool) -> None:
    item = item_store.catalogue.holding(holding.forms.main) or holding
    print(json.dumps(write_item(item)) if as_json else " ".join(map(str, item.names)))


def _list(args: argparse.Namespace) -> int:
    here = directory(args)
    here.settings()
    with here.catalogue() as catalogue:
        for holding in catalogue.all():
            if args.json:
                print(json.dumps(write_item(holding)))
            else:
                where = holding.url or ", ".join(file.readable for file in holding.files[:3]) or "-"
                print(f"{holding.state:8}  {holding.forms.main}  {holding.timestamp}  {where}")
    return 0


def _show(args: argparse.Namespace) -> int:
    if args.format != "citation" and (args.style or args.locale):
        raise BadItem("--style and --locale belong to --format citation")
    if args.ibi is None:
        if args.format is not None:
            raise BadItem("a format is that of an item: its IBI must be given")
        return show_archive(args)
    from ibi.archive.store.tables import copies, history

    here = directory(args)
    settings = here.settings()
    with here.catalogue() as catalogue, catalogue.reading() as run:
        holding = held(catalogue, args.ibi)
        if args.format is not None:
            return _print_format(args, settings, catalogue, holding)
        value = {**write_item(holding), "thanks": catalogue.acknowledgments(holding.number)}
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
            text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            print(printable(f"{field}: {text}"))
    for event in value["history"]:
        print(printable(f"{event['moment']}  {event['who']}  {event['what']}"))
    return 0


def _print_format(
    args: argparse.Namespace, settings: ArchiveSettings, catalogue: Catalogue, holding: Holding
) -> int:
    """Write the document to standard output, byte for byte. Raises NotHeld for a format that there is not."""
    from ibi.archive.model.access import day_of
    from ibi.archive.model.formats import described
    from ibi.archive.store.data_directory import identity_of
    from ibi.web.formats import FORMATS

    formats = {each.name: each for each in FORMATS}
    name = holding.forms.main
    if args.format not in formats:
        problem = "there are no metadata of {name} in this format; there are: {formats}"
        raise NotHeld(problem, name=name, formats=", ".join(formats))
    base, today = identity_of(settings).base, day_of(time.time())
    item = described(catalogue.holding, holding, base, settings.resolver, settings.address, today)
    if item is None:
        raise NotHeld("this Archive keeps no metadata of {name} itself", name=name)
    options = {"style": args.style, "locale": args.locale}
    given = {option: value for option, value in options.items() if value}
    document = formats[args.format].write(item, given)
    sys.stdout.buffer.write(document if document.endswith(b"\n") else document + b"\n")
    return 0


def _delete(args: argparse.Namespace) -> int:
    from ibi.archive.store.deposit import remove

    name = parse_name(args.ibi)
    with directory(args).item_store() as item_store:
        left = remove(item_store, name, args.reason, user_name())
    tell("{name} was removed on {date}", name=left.forms.main, date=left.timestamp)
    return 0
