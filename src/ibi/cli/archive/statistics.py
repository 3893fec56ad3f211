"""`ibi archive statistics`: how often items were looked at and fetched, by month."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import TYPE_CHECKING

from ibi.cli.archive.common import directory, tell
from ibi.errors import NotHeld
from ibi.identifier.forms import parse_name
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.ledgers.visits import Line
    from ibi.cli.archive.common import Actions

_EPILOG = """\
Counted by the rules of COUNTER, Release 5.1: investigations are looks at the pages about an item and fetches of it,
requests are fetches; double clicks count once, programs never. Without IBI, a person sees all items together;
--json and --csv give a line for each item, month and country.
"""


def add(actions: Actions) -> None:
    """Add the subcommand."""
    parser = actions.add(
        "statistics", "show how often items were visited, by month", _statistics, epilog=_EPILOG
    )
    parser.add_argument("ibi", metavar="IBI", nargs="?", help="of this item only")
    parser.add_argument("--from", dest="first", default="", metavar="MONTH", help="the first month: 2026-01")
    parser.add_argument("--to", dest="last", default="", metavar="MONTH", help="the last month: 2026-12")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--csv", action="store_true", help="comma-separated values with a head")


def _statistics(args: argparse.Namespace) -> int:
    from ibi.archive.website.reports import Statistics

    with directory(args).catalogue() as catalogue:
        statistics = Statistics(catalogue, args.first, args.last)
        if args.ibi is not None:
            name = parse_name(args.ibi)
            holding = catalogue.holding(name)
            if holding is None:
                raise NotHeld("this Archive does not hold {name}", name=name)
            lines: Iterable[Line] = statistics.of_item(holding)
        else:
            lines = statistics.of_each() if args.json or args.csv else statistics.of_all()
        if args.json:
            _print_json(lines)
        elif args.csv:
            _print_csv(lines)
        else:
            _print_table(lines)
    return 0


def _print_json(lines: Iterable[Line]) -> None:
    from ibi.archive.website.reports import facts

    for line in lines:
        print(json.dumps(facts(line)))


def _print_csv(lines: Iterable[Line]) -> None:
    from ibi.archive.ledgers.visits import Counts

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("ibi", "month", "country", *Counts._fields))
    for line in lines:
        writer.writerow((line.item, line.month, line.country, *line.counts))


def _print_table(lines: Iterable[Line]) -> None:
    from ibi.archive.website.reports import by_month

    months = by_month(lines)
    if not months:
        tell(say("no visits were counted"))
        return
    heads = (say("month"), say("investigations"), say("unique"), say("requests"), say("unique"))
    print(f"{heads[0]:<8}" + "".join(f"{head:>16}" for head in heads[1:]))
    for month, counts in months.items():
        print(f"{month:<8}" + "".join(f"{count:>16}" for count in counts))
