"""`ibi archive ...`: make an Archive, fill it, look into it, keep it, run it. One module a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.cli.archive import (
    accounts,
    adjusting,
    exchange,
    finding,
    founding,
    handing_out,
    importing,
    items,
    keeping,
    membership,
    retiring,
    rotating,
    serving,
    statistics,
    tokens,
)
from ibi.cli.archive.common import Actions

if TYPE_CHECKING:
    import argparse

_TOPICS = (
    founding,
    membership,
    rotating,
    adjusting,
    importing,
    items,
    finding,
    exchange,
    statistics,
    tokens,
    accounts,
    keeping,
    handing_out,
    retiring,
    serving,
)
"""In the order in which `ibi archive --help` shows them."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `archive` and its subcommands to the commands."""
    parser = commands.add_parser("archive", help="make and run an Archive of identified items")
    actions = Actions(parser.add_subparsers(dest="action", required=True, metavar="ACTION"))
    for topic in _TOPICS:
        topic.add(actions)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    status: int = args.do(args)
    return status
