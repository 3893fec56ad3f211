"""What the subcommands of `ibi archive` share: their parsers, the data directory, and questions at the terminal."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError, SetupError
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.store.data_directory import DataDirectory


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


def directory(args: argparse.Namespace) -> DataDirectory:
    """Return the data directory that the command line names."""
    return directory_at(args.data)


def directory_at(data: Path) -> DataDirectory:
    """Return a data directory, on this machine and its clock."""
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.minting.machine import this_machine

    return DataDirectory(data, this_machine())


def tell(sentence: str) -> None:
    """Print a sentence on stderr, apart from the results."""
    print(printable(sentence), file=sys.stderr)


def user_name() -> str:
    """Return the account on this machine, for the history of items."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "cli"


# After so many refused answers, a script is typing and no person: it must end.
_TRIES: Final = 20


def is_interactive() -> bool:
    """Whether a person can read questions and answer them."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, proposal: str, check: Callable[[str], str]) -> str:
    """Ask a question, and return the answer as `check` returns it; what that refuses is asked for again.

    The question is in the reader's language already. An empty answer takes the proposal. Raises SetupError where no
    answer comes.
    """
    shown = f"{question} [{proposal}] " if proposal else f"{question} "
    for _ in range(_TRIES):
        print(shown, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            break
        try:
            return check(line.strip() or proposal)
        except IbiError as error:
            tell(say(error))
    raise SetupError("there was no answer that can be used; nothing was made")
