"""`ibi archive ...`: make an Archive, fill it, look into it, keep it, run it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ibi.cli.common import CommandGroup

if TYPE_CHECKING:
    import argparse

    from ibi.cli.parser import Parser

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
    ("preservation", "add", ("audit", "repair", "check", "rebuild", "backup", "restore", "move-files", "move-store",
                             "settle", "audits", "backups", "jobs", "job", "stop-job")),
    ("export", "add", ("attest", "verify", "export", "import-bag")),
    ("membership", "add_retire", ("retire",)),
    ("serve", "add", ("serve",)),
)  # fmt: skip
"""Module and function that add actions, and the words of these."""


def add_parser(commands: argparse._SubParsersAction[Parser], action: str = "") -> None:
    """Add `archive` and its actions to the commands; only those of one module if it has this action."""
    # To import all of these modules takes longer than most actions. They are imported before `archive` is added, so
    # that it is missing as a whole where one of them cannot be imported.
    parts = [part for part in _PARTS if action in part[2]] or _PARTS
    adding = [getattr(import_module(f"ibi.cli.archive.{module}"), function) for module, function, _ in parts]
    parser = commands.add_parser("archive", help="make and run an Archive of identified items")
    actions = CommandGroup(parser, "ACTION", "the Archive's data directory")
    _list_actions(parser)
    for add in adding:
        add(actions)


def _list_actions(parser: Parser) -> None:
    parser.list_under(
        "the Archive", "init", "serve", "set", "settings", "institution", "move-store", "retire"
    )
    parser.list_under("items", "deposit", "edit", "delete", "list", "show", "search", "statistics", "index")
    parser.list_under("many items at once", "import", "harvest", "export", "import-bag")
    parser.list_under("its resolvers", "join", "leave", "switch", "rotate-key")
    parser.list_under("other Archives", "copy", "refresh", "transfer", "peer")
    parser.list_under("people and programs", "account", "token")
    whole = ("audit", "audits", "check", "repair", "rebuild")
    parser.list_under("preservation", *whole, "backup", "backups", "restore", "move-files", "settle")
    parser.list_under("receipts", "attest", "verify")
    parser.list_under("jobs", "jobs", "job", "stop-job")
