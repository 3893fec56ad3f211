"""`ibi archive account add`, `list`, `remove`, `password`: people who may sign in at the pages under /-/admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.cli.account_words import AccountWords
from ibi.cli.archive.common import directory_at

if TYPE_CHECKING:
    from ibi.cli.archive.common import Actions

_ROLES = """\
roles:
  depositor        brings in new items
  keeper           corrects, removes, copies and hands over items too
  administrator    decides about the Archive itself too: accounts, tokens, imports, resolvers
"""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    words = AccountWords(
        "the Archive's data directory",
        ("depositor", "keeper", "administrator"),
        _ROLES,
        lambda data: directory_at(data).settings(),
        "do",
    )
    words.add(actions.parsers)
