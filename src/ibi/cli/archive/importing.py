"""`ibi archive import` and `ibi archive harvest`: items from files, and from other repositories."""

from __future__ import annotations

import gc
import json
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.operations import ingest
from ibi.cli.archive.common import context_of, directory, user_name
from ibi.cli.common import argument, flag, tell, tell_line, with_remedy
from ibi.cli.operations import add_fields, add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from ibi.archive.ingest.batch import RecordNotice, RefusedRecord
    from ibi.cli.common import CommandGroup
    from ibi.errors import IbiError

_FIELDS: Final = """\
FILE is JSON lines, BibTeX (.bib), RIS (.ris) or CSV (.csv, .tsv), told by the end of its name, or a folder that DSpace
has exported.

JSON lines: one JSON object a line. All fields are optional:

  rep, ibip            the names; without any, the item is given both
  key                  your own key for an item without names: it is not named twice
  timestamp            such as 2009-07-21T13:23:45Z (default: now)
  files                {{"name": "path relative to FILE"}}, names percent-encoded
{fields}

BibTeX: url, or else doi, is where the item lives; an IBI in ibi, rep, repository, ibip or identifier is its name,
otherwise the citation key is its key. All else becomes Dublin Core.

RIS: UR, or else DO, is where the item lives; an IBI in ID, AN or UR is its name. All else becomes Dublin Core.

CSV: the first line names the columns: the fields above, ibi, Dublin Core (title, creator, title.pt ...),
translations.pt, formats.oai_dc. Several values in a cell have ";" between them. files: paths, each file called as the
last part of its path. A column language is the item's, metadata.language is Dublin Core's.

A folder of DSpace (Simple Archive Format) has a folder for each item. Its handle is its key, or that of the item that
was harvested from the same DSpace before: with --update its files take the place of the URL, and its names stay.
"""


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    fields = "\n".join(f"  {each.name:<20} {say(each.meaning)}" for each in ITEM_FIELDS)
    text = "take in items from JSON lines, BibTeX, RIS, CSV, or a folder of DSpace"
    fill = actions.add("import", text, _import, epilog=say(_FIELDS, fields=fields))
    argument(fill, "file FILE", "the file: an item a line, an entry or a row; or a folder", type=Path)
    add_fields(fill, ingest.ImportFields)
    harvest = add_operation(actions, ingest.HARVEST, _harvest)
    for parser in (fill, harvest):
        argument(parser, "--report FILE", "write a JSON line for each refused item into FILE", type=Path)
        flag(parser, "--json", "a JSON line for each refused item, then one with the totals")


def _import(args: argparse.Namespace) -> int:
    from ibi.archive.ingest.importing import FileImporter

    fields = fields_of(args, ingest.ImportFields)
    gc.freeze()  # else garbage collection visits all objects of the program again and again, batch after batch
    # The progress bar needs the size of the file; a pipe has none.
    size = args.file.stat().st_size if args.file.is_file() else None
    with (
        directory(args).item_store() as item_store,
        _refusals(args, args.file) as refused,
        Progress(say("read from {name}", name=args.file.name), size, in_bytes=True) as progress,
    ):
        noticed = partial(_print_notice, as_json=args.json)
        importer = FileImporter(item_store, user_name(), refused, progress.at, noticed)
        report = importer.run(args.file, fields.format, dry=fields.dry, update=fields.update)
    return _print_totals(args, asdict(report), _sentence(dry=fields.dry, update=fields.update))


def _sentence(*, dry: bool, update: bool) -> str:
    if update and dry:
        return "would be: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged, {refused} refused"
    if update:
        return "{added} added, {changed} changed, {removed} removed, {unchanged} unchanged, {refused} refused"
    if dry:
        return "would be: {added} added, {unchanged} unchanged, {refused} refused"
    return "{added} added, {unchanged} unchanged, {refused} refused"


def _harvest(args: argparse.Namespace) -> int:
    fields, context = fields_of(args, ingest.HarvestFields), context_of(args)
    with _refusals(args, None) as refused, Progress(say("records from {url}", url=fields.url)) as progress:
        context.progress = progress.at
        report = ingest.harvested(context, fields, refused)
    sentence = "{added} added, {changed} changed, {removed} removed, {unchanged} unchanged, {refused} refused"
    return _print_totals(args, asdict(report), sentence)


def _print_totals(args: argparse.Namespace, totals: dict[str, Any], sentence: str) -> int:
    print(json.dumps(totals) if args.json else say(sentence, **totals))
    return 1 if totals["refused"] else 0


@contextmanager
def _refusals(args: argparse.Namespace, source: Path | None) -> Iterator[Callable[[RefusedRecord], None]]:
    """Yield what prints a refused record, and also writes it into the report. Raises SetupError, OSError."""
    path: Path | None = args.report
    if path is None:
        yield lambda refusal: _print_refusal(refusal, as_json=args.json)
        return
    # Opening the report would empty the file before anything is read from it.
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise SetupError("{path} is the file to be imported, and cannot be its report", path=path)
    with path.open("w", encoding="utf-8") as report:

        def both(refusal: RefusedRecord) -> None:
            _print_refusal(refusal, as_json=args.json)
            report.write(f"{_json_line(refusal)}\n")

        yield both


def _print_refusal(refusal: RefusedRecord, *, as_json: bool) -> None:
    if as_json:
        print(_json_line(refusal))
    else:
        _tell_record(refusal.line, refusal.name, with_remedy(refusal.why))


def _print_notice(notice: RecordNotice, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**_place(notice.line, notice.name), "notice": say(notice.note)}))
    else:
        _tell_record(notice.line, notice.name, notice.note)


def _tell_record(line: int, name: str, problem: IbiError) -> None:
    if line and name:
        tell("line {number}, {name}: {problem}", number=line, name=name, problem=problem)
    elif line:
        tell("line {number}: {problem}", number=line, problem=problem)
    else:
        tell_line(f"{name or '-'}: {say(problem)}")


def _json_line(refusal: RefusedRecord) -> str:
    return json.dumps({**_place(refusal.line, refusal.name), "problem": say(with_remedy(refusal.why))})


def _place(line: int, name: str) -> dict[str, Any]:
    return ({"line": line} if line else {}) | ({"record": name} if name else {})
