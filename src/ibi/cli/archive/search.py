"""`ibi archive search` and `ibi archive index`: searching items by their words, and rebuilding the index.

`ibi archive statistics`: how often items were looked at and fetched, by month.
"""

from __future__ import annotations

import csv
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from ibi.archive.operations import search as operations
from ibi.cli.archive.common import context_of, directory
from ibi.cli.common import argument, flag, remark, remark_line
from ibi.cli.operations import add_operation
from ibi.cli.progress import Progress
from ibi.errors import IbiError
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import printable, say, say_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from ibi.archive.search.search import SearchHit, SearchResults
    from ibi.archive.store.tables.usage import UsageRow
    from ibi.cli.common import CommandGroup


_EPILOG = """\
All words must be found; words in "quotation marks" in this order; the last one may be the beginning of a word.
Accents and capital letters make no difference. The index is brought up to date first.
"""


ORDERS = ("best", "newest", "date", "title")
"""As `archive.search.words.ORDERS`, which is not imported: each command would wait for it."""


def add_search(actions: CommandGroup) -> None:
    """Add the subcommands."""
    search = actions.add("search", "find items by their words", _search, epilog=_EPILOG)
    argument(search, "text TEXT", "words of title, people, subjects, abstract; a DOI", nargs="*", default=[])
    argument(search, "--person NAME", "of this person only", default="")
    argument(search, "--subject SUBJECT", "of this subject only", default="")
    argument(search, "--year YEAR", "of this year only; none: without a date", default="")
    argument(search, "--language TAG", "in this language only: pt", default="")
    argument(search, "--kind KIND", "of this kind only: Dissertation", default="")
    argument(search, "--order ORDER", "how they are ordered", choices=ORDERS, default="")
    argument(search, "--page N", "further results: 2, 3, up to 50, twenty a page", default="1")
    flag(search, "--json", "one JSON object a line")
    add_operation(actions, operations.INDEX, _index)


def _search(args: argparse.Namespace) -> int:
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.search.search import hits, search
    from ibi.archive.search.words import NAMES, search_query

    given = {name: getattr(args, name) for name in NAMES if name in args} | {"text": " ".join(args.text)}
    question = search_query(given)
    if question.is_empty:
        raise IbiError("say what to look for: words, a person, a subject, a year, a language or a kind")
    here = directory(args)
    with here.catalogue() as catalogue:
        _bring_up_to_date(args)
        with closing(SearchIndex(here.path)) as index:
            found = search(index, question)
        listed = hits(catalogue, found.entries)
    if args.json:
        for each in listed:
            print(json.dumps(each.facts(), ensure_ascii=False))
    else:
        for each in listed:
            print(_line(each))
        if not found.count:
            remark("nothing was found")
        else:
            remark_line(_count(found))
    return 0 if listed else 1


def _count(found: SearchResults) -> str:
    if found.many:
        return say("more than {count} items", count=found.count)
    return say_count(found.count, "{count} found", "{count} found")


def _line(result: SearchHit) -> str:
    """Return a found item as a line: its name, year, language, people and title."""
    facts = result.facts()
    known = (
        facts["ibi"],
        facts["year"] or "-",
        facts["language"] or "-",
        "; ".join(facts["people"]),
        facts["title"],
    )
    return "\t".join(printable(" ".join(str(each).split())) for each in known)


def _index(args: argparse.Namespace) -> int:
    made = _bring_up_to_date(args, anew=True)
    remark_line(say_count(made, "{count} item is in the index", "{count} items are in the index"))
    return 0


def _bring_up_to_date(args: argparse.Namespace, *, anew: bool = False) -> int:
    """Update the index, or make it `anew`, and return how many items it has. Raises SetupError."""
    context = context_of(args)
    with Progress(say("items in the index")) as bar:
        context.progress = bar.at
        return operations.bring_up_to_date(context, anew=anew)


_STATISTICS_EPILOG = """\
Counted by the rules of COUNTER, Release 5.1: investigations are looks at the pages about an item and fetches of it,
requests are fetches; double clicks count once, programs never. Without IBI, a person sees all items together;
--json and --csv give a line for each item, month and country.
"""


def add_statistics(actions: CommandGroup) -> None:
    """Add the subcommand."""
    text = "show how often items were visited, by month"
    parser = actions.add("statistics", text, _statistics, _STATISTICS_EPILOG)
    argument(parser, "ibi IBI", "of this item only, under any of its names", nargs="?")
    argument(parser, "--from MONTH", "the first month: 2026-01", dest="first", default="")
    argument(parser, "--to MONTH", "the last month: 2026-12", dest="last", default="")
    form = parser.add_mutually_exclusive_group()
    flag(form, "--json", "one JSON object a line")
    flag(form, "--csv", "comma-separated values with a head")


def _statistics(args: argparse.Namespace) -> int:
    from ibi.archive.pages.statistics import Statistics, usage_json

    with directory(args).catalogue() as catalogue:
        statistics = Statistics(catalogue, args.first, args.last)
        if args.ibi is not None:
            lines: Iterable[UsageRow] = statistics.of_item(catalogue.held(parse_name(args.ibi)))
        else:
            lines = statistics.of_each() if args.json or args.csv else statistics.of_all()
        if args.json:
            for line in lines:
                print(json.dumps(usage_json(line)))
        elif args.csv:
            _print_csv(lines)
        else:
            _print_table(lines)
    return 0


def _print_csv(lines: Iterable[UsageRow]) -> None:
    from ibi.archive.store.tables.usage import UsageCounts

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("ibi", "month", "country", *UsageCounts._fields))
    for line in lines:
        writer.writerow((line.item, line.month, line.country, *line.counts))


def _print_table(lines: Iterable[UsageRow]) -> None:
    from ibi.archive.pages.statistics import by_month

    months = by_month(lines)
    if not months:
        remark("no use was counted")
        return
    heads = (say("month"), say("views"), say("unique"), say("downloads"), say("unique"))
    print(f"{heads[0]:<8}" + "".join(f"{head:>16}" for head in heads[1:]))
    for month, counts in months.items():
        print(f"{month:<8}" + "".join(f"{count:>16}" for count in counts))
