"""`ibi resolver account add`, `list`, `remove`, `password`: people who may sign in at the pages under /-/admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.cli.account_words import AccountWords

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_ROLES = """\
roles:
  administrator    decides about who takes part: applications, moves, accounts
"""


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `account` and its words to the subcommands of `resolver`."""
    AccountWords("the resolver's data directory", ("administrator",), _ROLES, _check, "run").add(actions)


def _check(data: Path) -> None:
    from ibi.settings import ResolverSettings

    ResolverSettings.read(data)
