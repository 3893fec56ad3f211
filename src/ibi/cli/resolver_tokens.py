"""`ibi resolver token add`, `list`, `remove`: programs that may do at a resolver what its pages do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ibi.cli import token_words
from ibi.cli.arguments import reporting_word
from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.tokens import Tokens

_SCOPES: Final = """\
scopes:
  read       who is registered and how they are, alerts, the log, the settings
  admin      all of these, and whatever administrators decide
"""


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `token` and its words to the subcommands of `resolver`."""
    text = "say which programs may do over HTTP what the pages under /-/admin do"
    token = actions.add_parser("token", help=text, description=text)
    words = token.add_subparsers(dest="word", required=True, metavar="WORD")
    making = _word(words, "add", "make a token; it is shown only now", _add)
    making.epilog = _SCOPES
    making.add_argument("name", metavar="NAME", help="what the evidence calls its owner")
    making.add_argument(
        "--scope", required=True, metavar="SCOPES", help="what it is good for: read, or admin"
    )
    _word(words, "list", "the names of the tokens, what each may do, and since when", _list)
    removing = _word(words, "remove", "let nobody use a token any more", _remove)
    removing.add_argument("name", metavar="NAME", help="the token")


def _word(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
    word: str,
    text: str,
    do: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = reporting_word(words, word, text, "the resolver's data directory")
    parser.set_defaults(run=do)
    return parser


def _tokens(args: argparse.Namespace) -> Tokens:
    from ibi.settings import ResolverSettings
    from ibi.tokens import Tokens

    ResolverSettings.read(args.data)  # a token for no resolver is a slip of the finger
    return Tokens(args.data)


def _add(args: argparse.Namespace) -> int:
    from ibi.assembly.resolver_admin import SCOPES
    from ibi.tokens import scopes_of

    tokens, scopes = _tokens(args), scopes_of(args.scope)
    if not set(scopes) <= set(SCOPES):
        problem = "a scope is one or more of: {scopes}"
        raise ParseError("scope", args.scope, problem, scopes=", ".join(SCOPES))
    return token_words.make(tokens, args.name, scopes, as_json=args.json)


def _list(args: argparse.Namespace) -> int:
    return token_words.listed(_tokens(args), as_json=args.json)


def _remove(args: argparse.Namespace) -> int:
    return token_words.revoke(_tokens(args), args.name, as_json=args.json)
