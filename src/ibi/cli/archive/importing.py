"""`ibi archive import` and `ibi archive harvest`: items from files, and from other repositories."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.cli.archive.common import directory, tell, user_name
from ibi.errors import SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from ibi.archive.ingest.batch import ImportReport, RefusedRecord
    from ibi.cli.archive.common import Actions

_FIELDS = """\
FILE is JSON lines, BibTeX (.bib), RIS (.ris) or CSV (.csv, .tsv), told by the end of its name.

JSON lines: one JSON object a line. All fields are optional:

  rep, ibip            the names; without any, the item is given both
  aliases              list of older opaque ids of the same item
  key                  your own key for an item without names: it is not named twice
  state                Original (default), Copy or Deleted
  contenttype          Data (default) or Metadata
  timestamp            such as 2009-07-21T13:23:45Z (default: now)
  language             such as en or pt-BR
  transferable         true (default) or false
  url                  a linked item: where it lives
  files, target        {"name": "path relative to FILE"}, names percent-encoded; the one served by default
  file_list_public     true (default) or false
  next_edition         IBI of the next edition
  translations         {"pt": IBI}; "" where the language is not stated
  metadata_item        IBI of the item that is this one's metadata
  metadata             Dublin Core: {"title": ["...", {"value": "...", "lang": "pt"}]}
  formats              {"oai_dc": URL}: where the metadata lie in a format; on the item that is the metadata
  access, embargo      open (default), embargoed, restricted or closed; the day on which an embargo ends
  rights, licence      what may be done with it; URL of a licence
  reason               why a removed item was removed

BibTeX: url, or else doi, is where the item lives; an IBI in ibi, rep, repository, ibip or identifier is its name,
otherwise the citation key is its key. All else becomes Dublin Core.

RIS: UR, or else DO, is where the item lives; an IBI in ID, AN or UR is its name. All else becomes Dublin Core.

CSV: the first line names the columns: the fields above, ibi, Dublin Core (title, creator, title.pt ...),
translations.pt, formats.oai_dc. Several values in a cell have ";" between them. files: paths, each file called as the
last part of its path. A column language is the item's, metadata.language is Dublin Core's.
"""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    fill = actions.add("import", "take in items from JSON lines, BibTeX, RIS or CSV", _import, epilog=_FIELDS)
    fill.add_argument("file", type=Path, metavar="FILE", help="an item a line, an entry or a row")
    fill.add_argument(
        "--format",
        choices=("jsonl", "bibtex", "ris", "csv"),
        help="the format of the file (default: as the end of its name tells)",
    )
    fill.add_argument(
        "--dry-run", action="store_true", help="only say what would come of it; nothing is taken in"
    )
    _add_report(fill)
    harvest = actions.add("harvest", "take in another repository's records by OAI-PMH", _harvest)
    harvest.add_argument("url", metavar="URL", help="the base URL of the OAI-PMH repository")
    harvest.add_argument("--set", default="", metavar="S", help="only the records of this set")
    harvest.add_argument(
        "--from",
        dest="since",
        default="",
        metavar="DATE",
        help="only what is new or changed since (default: since the last harvest)",
    )
    harvest.add_argument(
        "--prefix",
        default="oai_dc",
        metavar="P",
        help="the metadata format, which must have Dublin Core in it (default: oai_dc)",
    )
    harvest.add_argument(
        "--allow-private",
        action="store_true",
        help="the repository may be on this machine or in a private network",
    )
    _add_report(harvest)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write a JSON line for each refused item into FILE"
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON line for each refused item, then one with the totals"
    )


def _import(args: argparse.Namespace) -> int:
    from ibi.archive.ingest.importing import FileImporter
    from ibi.cli.arguments import Progress

    size = args.file.stat().st_size if args.file.is_file() else None
    with (
        directory(args).item_store() as item_store,
        _refusals(args, args.file) as refused,
        Progress(args.file.name, size) as progress,
    ):
        importer = FileImporter(item_store, user_name(), refused, progress.at)
        report = importer.run(args.file, args.format, dry=args.dry_run)
    totals = {"added": report.added, "unchanged": report.unchanged, "refused": report.refused}
    sentence = "{added} added, {unchanged} unchanged, {refused} refused"
    if args.dry_run:
        sentence = "would be: {added} added, {unchanged} unchanged, {refused} refused"
    _print_totals(totals, sentence, as_json=args.json)
    return 1 if report.refused else 0


def _harvest(args: argparse.Namespace) -> int:
    import asyncio

    from ibi.archive.ingest.harvesting import Harvester
    from ibi.cli.arguments import Progress
    from ibi.http.client.address import AddressPolicy
    from ibi.http.client.download import Downloads

    async def harvested() -> ImportReport:
        async with Downloads(AddressPolicy(allow_private=args.allow_private)) as downloads:
            harvester = Harvester(item_store, downloads, user_name(), refused, asyncio.sleep, progress.at)
            return await harvester.run(args.url, args.set, args.since, args.prefix)

    with (
        directory(args).item_store() as item_store,
        _refusals(args, None) as refused,
        Progress(args.url, None) as progress,
    ):
        report = asyncio.run(harvested())
    sentence = "{added} added, {changed} changed, {removed} removed, {unchanged} unchanged, {refused} refused"
    _print_totals(asdict(report), sentence, as_json=args.json)
    return 1 if report.refused else 0


def _print_totals(totals: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    print(json.dumps(totals) if as_json else say(sentence, **totals))


@contextmanager
def _refusals(args: argparse.Namespace, source: Path | None) -> Iterator[Callable[[RefusedRecord], None]]:
    """What is told every refused record: it shows it, and writes it into the report. Raises SetupError, OSError."""
    path: Path | None = args.report
    if path is None:
        yield lambda refusal: _show(refusal, as_json=args.json)
        return
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise SetupError("{path} is the file to be imported, and cannot be its report", path=path)
    with path.open("w", encoding="utf-8") as report:

        def both(refusal: RefusedRecord) -> None:
            _show(refusal, as_json=args.json)
            report.write(f"{_written(refusal)}\n")

        yield both


def _show(refusal: RefusedRecord, *, as_json: bool) -> None:
    problem = say(refusal.why)
    if as_json:
        print(_written(refusal))
    elif refusal.line and refusal.name:
        sentence = "line {number}, {name}: {problem}"
        tell(say(sentence, number=refusal.line, name=refusal.name, problem=problem))
    elif refusal.line:
        tell(say("line {number}: {problem}", number=refusal.line, problem=problem))
    else:
        tell(f"{refusal.name or '-'}: {problem}")


def _written(refusal: RefusedRecord) -> str:
    """A refused record as a line of JSON."""
    where = {"line": refusal.line} if refusal.line else {}
    name = {"record": refusal.name} if refusal.name else {}
    return json.dumps({**where, **name, "problem": say(refusal.why)})
