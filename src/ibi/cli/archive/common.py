"""What the topics of `ibi archive` share."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.directory import ArchiveDirectory


class Actions:
    """The subcommands of `ibi archive`, to which each topic adds its own."""

    def __init__(self, parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        self.parsers = parsers

    def add(
        self,
        name: str,
        text: str,
        do: Callable[[argparse.Namespace], int],
        epilog: str | None = None,
    ) -> argparse.ArgumentParser:
        """Add a subcommand that works on a data directory; `do` carries it out and gives the exit status."""
        parser = self.add_bare(name, text, do, epilog)
        parser.add_argument(
            "--data", type=Path, required=True, metavar="DIR", help="the Archive's data directory"
        )
        return parser

    def add_bare(
        self,
        name: str,
        text: str,
        do: Callable[[argparse.Namespace], int],
        epilog: str | None = None,
    ) -> argparse.ArgumentParser:
        """Add a subcommand that needs no data directory, or says by itself how it is given."""
        parser = self.parsers.add_parser(
            name,
            help=text,
            description=text,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(do=do)
        return parser


def directory(args: argparse.Namespace) -> ArchiveDirectory:
    """The data directory that the command line names."""
    return directory_at(args.data)


def directory_at(data: Path) -> ArchiveDirectory:
    """A data directory, on this machine and its clock."""
    from ibi.archive.directory import ArchiveDirectory
    from ibi.minting.machine import this_machine

    return ArchiveDirectory(data, this_machine())


def tell(sentence: str) -> None:
    """Say something to the person at the terminal, apart from the results."""
    print(printable(sentence), file=sys.stderr)


def whoever() -> str:
    """Who is at the terminal, for the history of items: the name of the account on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "cli"
