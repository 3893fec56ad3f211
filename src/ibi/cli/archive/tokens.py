"""`ibi archive token`: who may change an Archive over HTTP, and what each may do."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from ibi.cli.archive.common import directory, tell
from ibi.identifier.dates import TICKS, date_text
from ibi.texts import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.cli.archive.common import Actions
    from ibi.tokens import Token, Tokens

_SCOPES = """\
scopes:
  read       the history of items, and lists of files that are not public
  deposit    new items, and uploads
  edit       facts and files of items
  delete     removal of items
  transfer   what another Archive needs to take items over
  admin      all of these, and names of one's own choice
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
    from ibi.tokens import Tokens

    directory(args).settings()  # a token for no Archive is a slip of the finger
    tokens = Tokens(args.data)
    if args.list:
        return _list(tokens.all(), as_json=args.json)
    if args.revoke is not None:
        tokens.revoke(args.revoke)
        if args.json:
            print(json.dumps({"name": args.revoke, "revoked": True}))
        return 0
    return _make(tokens, args)


def _make(tokens: Tokens, args: argparse.Namespace) -> int:
    from ibi.tokens import scopes_of

    scopes = scopes_of(args.scope)
    made = date_text(time.time_ns() // TICKS * TICKS)
    token = tokens.make(args.name, made, scopes)
    if args.json:
        print(json.dumps({"name": args.name, "scopes": scopes, "made": made, "token": token}))
        return 0
    tell(say("the token {name} is shown only now:", name=args.name))
    print(token)
    return 0


def _list(tokens: Sequence[Token], *, as_json: bool) -> int:
    if as_json:
        rows = [{"name": known.name, "scopes": known.scopes, "made": known.made} for known in tokens]
        print(json.dumps({"tokens": rows}))
        return 0
    for known in tokens:
        print(f"{known.name}  {known.made}  {','.join(known.scopes)}")
    return 0
