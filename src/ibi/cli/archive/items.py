"""`ibi archive deposit`, `edit`, `delete`, `list`, `show`: the items of an Archive.

`ibi archive show IBI --format NAME`: an item in a format for programs or for citing.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ibi.api.fields import read, read_texts
from ibi.archive.model.item_json import CONTENT_KEY, write_item
from ibi.archive.operations import items
from ibi.cli.archive.common import context_of, directory, held
from ibi.cli.common import argument, flag, remark, tell
from ibi.cli.operations import add_operation, fields_of, result_of, values_of_options
from ibi.cli.progress import Progress
from ibi.errors import BadItem, NotHeld, Unsettled
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import printable, say
from ibi.runtime.settings.institution import Institution

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.api.fields import Fields
    from ibi.api.operations import Operation
    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.operations.context import ArchiveContext
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
    edit = add_operation(actions, items.EDIT, _edit, _FIELDS)
    _add_facts(edit)
    argument(edit, "--file FILE", "a file that comes, or anew", type=Path, action="append", default=[])
    add_operation(actions, items.REMOVE, _delete)
    listing = actions.add("list", "list the items", _list)
    flag(listing, "--json", "one JSON object a line")
    flag(listing, "--csv", "a table with the persistent URLs, which an import reads again")
    show = actions.add("show", "show the Archive, or all that is known of an item", _show)
    argument(show, "ibi IBI", "one of its names; without it, the Archive", nargs="?")
    flag(show, "--json", "one JSON document")
    argument(show, "--format NAME", "as it is given to readers: bibtex, ris, csl, citation and others")
    argument(show, "--style NAME", "of a citation: abnt or apa (by default)")
    argument(show, "--locale TAG", "of a citation: en (by default) or pt-BR")


def _add_deposit(actions: CommandGroup) -> None:
    deposit = add_operation(actions, items.DEPOSIT, _deposit, _FIELDS)
    argument(deposit, "files FILE", "its files; folders as a whole", type=Path, nargs="*", default=[])
    argument(deposit, "--copy-of IBI", "no new item but a copy of this one, as `ibi archive copy` makes it")
    flag(deposit, "--not-transferable", "it must stay in this Archive")
    _add_facts(deposit)


def _add_facts(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--title", "its title")
    argument(parser, "--field NAME=VALUE", "any other fact; may be repeated", action="append", default=[])
    flag(parser, "--json", "one JSON document")


def _facts(args: argparse.Namespace, kind: type[Fields]) -> dict[str, Any]:
    """Return the fields that the options give, as in JSON."""
    from ibi.archive.model.item import ELEMENTS

    value: dict[str, Any] = {}
    metadata: dict[str, list[Any]] = {}
    for field in args.field:
        name, equals, text = field.partition("=")
        if not equals:
            raise BadItem("a field is given as NAME=VALUE, not {text}", text=field)
        # `language` and `rights` are also fields of the item itself, and that is what is meant here.
        if name in ELEMENTS and name not in {"language", "rights"}:
            metadata.setdefault(name, []).append(_plain(text))
        else:
            value[name] = _json_or_text(text)
    if args.title is not None:
        metadata.setdefault("title", []).insert(0, _plain(args.title))
    if metadata:
        value["metadata"] = metadata
    value |= values_of_options(args, kind)
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
    if args.copy_of is not None:
        # Imported late, as in `_show`: they are slow, and hardly any of these commands needs them.
        from ibi.archive.operations.exchange import CopyFields
        from ibi.cli.archive.exchange import copy

        return copy(args, read_texts(CopyFields, {"ibi": [args.copy_of]}))
    value = _facts(args, items.DepositFields)
    if args.not_transferable:
        value["transferable"] = False
    return _print_item(args, items.DEPOSIT, {**value, "uploads": _named(args.files)})


def _edit(args: argparse.Namespace) -> int:
    value = _facts(args, items.EditFields)
    if "metadata" in value:  # a given element replaces all its old values; other elements stay
        with directory(args).catalogue() as catalogue:
            before = catalogue.holding(parse_name(args.ibi))
        elements = write_item(before).get("metadata", {}) if before else {}
        value["metadata"] = {**elements, **value["metadata"]}
    return _print_item(args, items.EDIT, {**value, "uploads": _named(args.file)})


def _named(paths: list[Path]) -> dict[str, str]:
    """Return files by their percent-encoded names in the item; files of a folder keep their places in it."""
    named: dict[str, str] = {}
    for path in paths:
        inside = (
            sorted(each for each in path.rglob("*") if each.is_symlink() or not each.is_dir())
            if path.is_dir()
            else [path]
        )
        for each in inside:
            # A symbolic link may lead out of the folder, to a file that is not to be published (T23: hostile
            # uploads).
            if path.is_dir() and each.is_symlink():
                raise BadItem("{path} is a link; give its target instead", path=each)
            relative = each.relative_to(path) if path.is_dir() else Path(each.name)
            name = quote(bytes(relative), safe="/!$&'()*+,;=:@~")
            if name in named:
                raise BadItem("two files have the name {name}", name=name)
            named[name] = str(each)
    return named


def _print_item(
    args: argparse.Namespace, operation: Operation[ArchiveContext, Any], value: dict[str, Any]
) -> int:
    with Progress(say("taking in the files")):
        item = result_of(operation, context_of(args), read(operation.fields, value))
    names = [*(item[form] for form in ("rep", "ibip") if form in item), *item.get("aliases", ())]
    print(json.dumps(item) if args.json else " ".join(names))
    return 0


def _list(args: argparse.Namespace) -> int:
    here = directory(args)
    settings = here.settings()
    with here.catalogue() as catalogue:
        if args.csv:
            _print_csv(catalogue, settings)
            return 0
        for holding in catalogue.all():
            if args.json:
                print(json.dumps(write_item(holding)))
            else:
                where = holding.url or ", ".join(file.readable for file in holding.files[:3]) or "-"
                print(f"{holding.state:8}  {holding.forms.main}  {holding.timestamp}  {where}")
    return 0


def _print_csv(catalogue: Catalogue, settings: ArchiveSettings) -> None:
    """Print the items but the Archive itself as a table, with their persistent URLs as names."""
    from ibi.archive.store.data_directory import identity_of

    own = settings.service

    def items_of_readers() -> Iterator[Holding]:
        return (item for item in catalogue.all() if not item.forms.shares(own))

    tags = list(dict.fromkeys(title.language or "" for item in items_of_readers() for title in _titles(item)))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("ibi", "key", "state", "url", *(f"title.{tag}".rstrip(".") for tag in tags)))
    resolver = (settings.resolver or identity_of(settings).base).rstrip("/")
    for item in items_of_readers():
        key = "" if item.key.startswith(CONTENT_KEY) else item.key
        writer.writerow(
            (f"{resolver}/{item.forms.main}", key, item.state, item.url, *_title_cells(item, tags))
        )


def _title_cells(item: Holding, tags: list[str]) -> list[str]:
    """Return the titles by language; "" for all if an import would read others: in another order, or cut at ";"."""
    titles = _titles(item)
    order = [tags.index(title.language or "") for title in titles]
    if order != sorted(order) or any(";" in title.value for title in titles):
        return [""] * len(tags)
    return [";".join(title.value for title in titles if (title.language or "") == tag) for tag in tags]


def _titles(item: Holding) -> tuple[MetadataValue, ...]:
    return (item.metadata or {}).get("title", ())


def _show(args: argparse.Namespace) -> int:
    if args.format != "citation" and (args.style or args.locale):
        raise BadItem("--style and --locale are used only with --format citation")
    if args.ibi is None:
        if args.format is not None:
            raise BadItem("a format is that of an item: its IBI must be given")
        from ibi.cli.archive.membership import show_archive

        return show_archive(args)
    from ibi.archive.store.tables import copies, history

    here = directory(args)
    settings = here.settings()
    with here.catalogue() as catalogue, catalogue.reading() as run:
        holding = held(catalogue, args.ibi)
        if args.format is not None:
            return _print_format(args, settings, catalogue, holding)
        value = {**write_item(holding), "thanks": catalogue.acknowledgments(holding.number)}
        if holding.unsettled:
            value["unsettled"] = holding.unsettled
        source = copies.source_of(run, holding.number)
        if source is not None:
            value["copy"] = source.facts()
        value["history"] = [
            {"moment": event.moment, "who": event.who, "what": event.what, **event.detail}
            for event in history.events_of(run, holding.number)
        ]
    if args.json:
        print(json.dumps(value))
    else:
        _print_whole(value, holding)
    return 0


def _print_whole(value: dict[str, Any], holding: Holding) -> None:
    """Print the members of an item and its history, and a note if the item is unsettled."""
    for field, each in value.items():
        if field != "history":
            text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            print(printable(f"{field}: {text}"))
    for event in value["history"]:
        print(printable(f"{event['moment']}  {event['who']}  {event['what']}"))
    try:
        holding.check_settled()
    except Unsettled as why:
        tell(why)


def _print_format(
    args: argparse.Namespace, settings: ArchiveSettings, catalogue: Catalogue, holding: Holding
) -> int:
    """Write the document to standard output, byte for byte. Raises NotHeld if no such format exists."""
    from ibi.archive.model.access import day_of
    from ibi.archive.model.formats import described
    from ibi.archive.store.data_directory import identity_of
    from ibi.archive.store.links import with_links
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
    item = replace(item, publisher=Institution.of(args.data).as_publisher)
    options = {"style": args.style, "locale": args.locale}
    given = {option: value for option, value in options.items() if value}
    document = formats[args.format].write(with_links(catalogue, item), given)
    sys.stdout.buffer.write(document if document.endswith(b"\n") else document + b"\n")
    return 0


def _delete(args: argparse.Namespace) -> int:
    left = items.remove(context_of(args), fields_of(args, items.RemoveFields)).holding
    remark("{name} was removed on {date}", name=left.forms.main, date=left.timestamp)
    return 0
