"""`ibi archive set`: changes settings of an Archive, except the service IBI, which never changes.

`ibi archive institution`: shows and changes how the institution presents itself on the pages. See ARC-10: facts of an
Archive.

`ibi archive rotate-key`: gets a new key from a resolver by proving that this Archive answers at its address.

`ibi archive account add`, `list`, `remove`, `password`: people who may sign in at the pages under /-/admin.

`ibi archive token add`, `list`, `remove`: tokens of programs that may use an Archive over HTTP, each with its scopes.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.accounts.tokens import ARCHIVE_SCOPES
from ibi.api.fields import given
from ibi.archive.operations import membership
from ibi.archive.operations import settings as operations
from ibi.cli import accounts
from ibi.cli.archive.common import add_plain, context_of
from ibi.cli.common import add_former_token_options, flag, print_changes, remark
from ibi.cli.institution import add_institution
from ibi.cli.operations import add_operation, fields_of
from ibi.errors import SetupError
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    import argparse

    from ibi.cli.common import CommandGroup


def add_set(actions: CommandGroup) -> None:
    """Add the subcommands."""
    flag(add_operation(actions, operations.SET, _set), "--json", "one JSON document with what has changed")
    add_plain(actions, operations.SETTINGS)
    add_institution(actions)


def _set(args: argparse.Namespace) -> int:
    fields = fields_of(args, operations.SettingsFields)
    if not given(fields):
        raise SetupError("nothing to change was given; see: ibi archive set --help")
    changed = operations.change(context_of(args), fields)
    values = {name: changed["settings"][name] for name in changed["changed"]}
    return print_changes(values, partial(json.dumps, ensure_ascii=False), as_json=args.json)


def add_rotate_key(actions: CommandGroup) -> None:
    """Add the subcommand."""
    add_operation(actions, membership.ROTATE_KEY, _rotate)


def _rotate(args: argparse.Namespace) -> int:
    rotated = membership.rotate(context_of(args), fields_of(args, membership.RotateFields))
    remark("this Archive has a new key at {url}", url=rotated["resolver"])
    return 0


_ROLES = """\
roles:
  depositor        brings in new items
  keeper           corrects, removes, copies and hands over items too
  administrator    decides about the Archive itself too: accounts, tokens, imports, resolvers
"""


_SERVICE: Final = accounts.Service(
    ArchiveSettings.read, ("depositor", "keeper", "administrator"), lambda: ARCHIVE_SCOPES
)


def add_account(actions: CommandGroup) -> None:
    """Add the subcommands."""
    accounts.add_accounts(actions, _SERVICE, _ROLES)


_SCOPES = """\
scopes:
  read       the history of items, and lists of files that are not public
  deposit    new items, and uploads
  edit       facts and files of items
  delete     removal of items
  transfer   what another Archive needs to take items over
  admin      all of these, names of one's own choice, and what administrators decide
"""


def add_token(actions: CommandGroup) -> None:
    """Add the subcommands."""
    words = actions.add_group("token", "say who may do what over HTTP", "WORD", beside=True)
    accounts.add_token_words(words, _SERVICE, _SCOPES)
    add_former_token_options(words.parser, partial(accounts.run_former_options, _SERVICE))
