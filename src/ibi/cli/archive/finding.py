"""`ibi archive search` and `ibi archive index`: items by their words, and the index in which they are looked up."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from ibi.cli.archive.common import directory, tell
from ibi.cli.progress import Progress
from ibi.errors import IbiError
from ibi.texts import printable, say

if TYPE_CHECKING:
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.finding.results import Result
    from ibi.archive.finding.search import Found
    from ibi.cli.archive.common import Actions

_EPILOG = """\
All words must be found; words in "quotation marks" in this order; the last one may be the beginning of a word.
Accents and capital letters make no difference. The index is brought up to date first.
"""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    search = actions.add("search", "find items by their words", _search, epilog=_EPILOG)
    search.add_argument(
        "text", metavar="TEXT", nargs="?", default="", help="words of title, people, subjects, abstract"
    )
    search.add_argument("--person", default="", metavar="NAME", help="of this person only")
    search.add_argument("--year", default="", metavar="YEAR", help="of this year only")
    search.add_argument("--language", default="", metavar="TAG", help="in this language only: pt")
    search.add_argument("--kind", default="", metavar="KIND", help="of this kind only: Dissertation")
    search.add_argument("--page", default="1", metavar="N", help="further results: 2, 3, ...")
    search.add_argument("--json", action="store_true", help="one JSON object a line")
    actions.add("index", "make the index for searching anew", _index)


def _search(args: argparse.Namespace) -> int:
    from contextlib import closing

    from ibi.archive.finding.index import Index
    from ibi.archive.finding.question import NAMES, question_of
    from ibi.archive.finding.results import results
    from ibi.archive.finding.search import search

    question = question_of({name: getattr(args, name) for name in NAMES if name in args})
    if question.is_empty:
        raise IbiError("say what to look for: words, a person, a year, a language or a kind")
    here = directory(args)
    with here.catalogue() as catalogue:
        _bring_up_to_date(here, catalogue)
        with closing(Index(here.path)) as index:
            found = search(index, question)
        listed = results(catalogue, found.entries)
    if args.json:
        for each in listed:
            print(json.dumps(each.facts(), ensure_ascii=False))
    else:
        for each in listed:
            print(_line(each))
        _tell_how_many(found)
    return 0 if listed else 1


def _line(result: Result) -> str:
    """One item: its name, year and language, who made it, what it is called."""
    facts = result.facts()
    known = (
        facts["ibi"],
        facts["year"] or "-",
        facts["language"] or "-",
        "; ".join(facts["people"]),
        facts["title"],
    )
    return "\t".join(printable(" ".join(str(each).split())) for each in known)


def _tell_how_many(found: Found) -> None:
    if not found.count:
        tell(say("nothing was found"))
    elif found.many:
        tell(say("more than {count} items", count=found.count))
    else:
        tell(say("{count} found", count=found.count))


def _index(args: argparse.Namespace) -> int:
    here = directory(args)
    with here.catalogue() as catalogue:
        made = _bring_up_to_date(here, catalogue, anew=True)
    tell(say("{count} items are in the index", count=made))
    return 0


def _bring_up_to_date(here: ArchiveDirectory, catalogue: Catalogue, *, anew: bool = False) -> int:
    """Do what there is to do; returns how many items are in the index then. Raises SetupError."""
    from ibi.archive.ledgers import numbered
    from ibi.assembly.archive_finding import indexer

    with catalogue.reading() as run:
        items = numbered.standing(run).items
    making = indexer(here, catalogue)
    try:
        if anew:
            making.anew()
        with Progress(say("index"), items) as bar:
            while making.portion():
                bar.at(making.through)
    finally:
        making.close()
    return max(items, making.through)
