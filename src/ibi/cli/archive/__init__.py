"""`ibi archive ...`: make an Archive, fill it, look into it, keep it, run it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ibi.cli.common import CommandGroup

if TYPE_CHECKING:
    import argparse

_PARTS: Final = (
    ("founding", "add", ("init",)),
    ("membership", "add", ("join", "leave", "switch")),
    ("settings", "add_rotate_key", ("rotate-key",)),
    ("settings", "add_set", ("set", "settings", "institution")),
    ("importing", "add", ("import", "harvest")),
    ("items", "add", ("deposit", "edit", "delete", "list", "show")),
    ("search", "add_search", ("search", "index")),
    ("exchange", "add", ("copy", "refresh", "transfer", "peer")),
    ("search", "add_statistics", ("statistics",)),
    ("settings", "add_token", ("token",)),
    ("settings", "add_account", ("account",)),
    ("preservation", "add", ("audit", "repair", "check", "rebuild", "backup", "restore", "settle", "audits",
                             "backups", "jobs", "job", "stop-job")),
    ("export", "add", ("attest", "verify", "export", "import-bag")),
    ("membership", "add_retire", ("retire",)),
    ("serve", "add", ("serve",)),
)  # fmt: skip
"""Module and function that add actions, and the words of these, in the order of `ibi archive --help`."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], action: str = "") -> None:
    """Add `archive` and its actions to the commands; only those of one module if it has this action."""
    parser = commands.add_parser("archive", help="make and run an Archive of identified items")
    actions = CommandGroup(parser, "ACTION", "the Archive's data directory")
    # To import all of these modules takes longer than most actions.
    for module, function, _ in [part for part in _PARTS if action in part[2]] or _PARTS:
        getattr(import_module(f"ibi.cli.archive.{module}"), function)(actions)
