"""`ibi archive token`: who may change an Archive over HTTP, and what each may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.cli import token_words
from ibi.cli.archive.common import directory

if TYPE_CHECKING:
    import argparse

    from ibi.cli.archive.common import Actions

_SCOPES = """\
scopes:
  read       the history of items, and lists of files that are not public
  deposit    new items, and uploads
  edit       facts and files of items
  delete     removal of items
  transfer   what another Archive needs to take items over
  admin      all of these, names of one's own choice, and what administrators decide
"""


def add(actions: Actions) -> None:
    """Add the subcommand."""
    parser = actions.add("token", "say who may do what over HTTP", _token, epilog=_SCOPES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--name", metavar="NAME", help="make a token under this name; it is shown only now")
    what.add_argument(
        "--list", action="store_true", help="the names of the tokens, what each may do, and since when"
    )
    what.add_argument("--revoke", metavar="NAME", help="let nobody use this token any more")
    parser.add_argument("--scope", default="", metavar="SCOPES", help="with --name: such as read,deposit")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def _token(args: argparse.Namespace) -> int:
    from ibi.tokens import Tokens, scopes_of

    directory(args).settings()  # a token for no Archive is a slip of the finger
    tokens = Tokens(args.data)
    if args.list:
        return token_words.listed(tokens, as_json=args.json)
    if args.revoke is not None:
        return token_words.revoke(tokens, args.revoke, as_json=args.json)
    return token_words.make(tokens, args.name, scopes_of(args.scope), as_json=args.json)
