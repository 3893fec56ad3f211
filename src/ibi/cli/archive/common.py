"""What the subcommands of `ibi archive` share: the data directory, its items, and the name of the user."""

from __future__ import annotations

import getpass
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ibi.cli.common import flag
from ibi.cli.operations import add_operation, fields_of, option_of, print_result, tell_note
from ibi.errors import NotHeld
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from ibi.api.operations import Operation
    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.search.indexing import Indexer
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.cli.common import CommandGroup


def directory(args: argparse.Namespace) -> DataDirectory:
    """Return the data directory that the command line names."""
    return directory_at(args.data)


def directory_at(data: Path) -> DataDirectory:
    """Return the data directory at a path, with this machine's identity and clock."""
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.minting.machine import this_machine

    return DataDirectory(data, this_machine())


def held(catalogue: Catalogue, text: str) -> Holding:
    """Look up the item with this name. Raises ParseError, NotHeld."""
    name = parse_name(text)
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("{name} is not held here", name=name)
    return holding


def user_name() -> str:
    """Return the name of the user on this machine, for the history of items."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "cli"


def context_of(args: argparse.Namespace) -> ArchiveContext:
    """Return the context of an operation on the Archive that the command line names."""
    from ibi.api.jobs import Jobs
    from ibi.archive.operations.context import ArchiveContext

    here = directory(args)
    jobs = Jobs(args.data, time.time, time.monotonic)
    return ArchiveContext(
        who=user_name(),
        say=say,
        if_match="*",  # a command changes the item in whatever version
        called=option_of,
        noted=tell_note,
        directory=here,
        jobs=jobs,
        indexer=partial(_indexer, here),
        is_administrator=True,
    )


def _indexer(here: DataDirectory, catalogue: Catalogue) -> Indexer:
    from ibi.app.archive import indexer  # imported late: it is slow, and only two commands need it

    return indexer(here, catalogue)


def add_plain(actions: CommandGroup, operation: Operation[ArchiveContext, Any]) -> None:
    """Add the command of an operation, and print its result: a line for each member, or JSON."""

    def run(args: argparse.Namespace) -> int:
        result = operation.run(context_of(args), fields_of(args, operation.fields))
        if isinstance(result, dict):
            print_result(result, as_json=args.json)
        return 0

    flag(add_operation(actions, operation, run), "--json", "one JSON document")
