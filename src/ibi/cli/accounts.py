"""What `ibi archive` and `ibi resolver` share: who may sign in at the pages under /-/admin, and tokens of programs."""

from __future__ import annotations

import getpass
import json
import sys
import time
from typing import TYPE_CHECKING, Final

from ibi.cli.common import argument, flag, tell
from ibi.errors import SetupError
from ibi.identifier.dates import TICKS, date_text
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ibi.accounts.people import Account, AccountManager
    from ibi.accounts.tokens import Scope, Tokens
    from ibi.cli.common import CommandGroup


def add_account(
    commands: CommandGroup, roles: Sequence[str], roles_help: str, check: Callable[[Path], object]
) -> None:
    """Add `account` and its words; `check` raises SetupError for a directory without such a service."""
    words = commands.add_group("account", "say who may sign in at /-/admin, with a browser", "WHAT")
    for word, (run, text, name) in _ACCOUNT_WORDS.items():
        if word == "role" and len(roles) == 1:
            continue
        takes_role = word in {"add", "role"}
        parser = words.add(word, text, run, roles_help if takes_role else None)
        parser.set_defaults(roles=roles, check=check)
        flag(parser, "--json", "one JSON document")
        if name:
            argument(parser, "name NAME", name)
        if takes_role:
            argument(parser, "--role", "what it is for", required=True, choices=roles)
        if word in {"add", "password"}:
            flag(parser, "--generate", "make a password and print it this once, instead of asking")


def _people(args: argparse.Namespace) -> AccountManager:
    from ibi.accounts.people import AccountManager, Accounts, Role

    args.check(args.data)  # an account for no service is a slip of the finger
    return AccountManager(Accounts(args.data), [Role(role) for role in args.roles], _now)


def _now() -> str:
    return date_text(time.time_ns() // TICKS * TICKS)


def _add(args: argparse.Namespace) -> int:
    people = _people(args)
    return _print_account(args, *people.add(args.name, args.role, _password_typed(args)))


def _list(args: argparse.Namespace) -> int:
    from ibi.accounts.people import account_facts

    known = _people(args).all()
    if args.json:
        print(json.dumps({"accounts": [account_facts(each) for each in known]}))
        return 0
    for each in known:
        print(f"{each.name}  {each.made}  {each.role}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    _people(args).remove(args.name)
    if args.json:
        print(json.dumps({"name": args.name, "removed": True}))
    return 0


def _password(args: argparse.Namespace) -> int:
    people = _people(args)
    return _print_account(args, *people.set_password(args.name, _password_typed(args)))


def _role(args: argparse.Namespace) -> int:
    return _print_account(args, _people(args).set_role(args.name, args.role))


_ACCOUNT_WORDS: Final = {
    "add": (
        _add,
        "make an account; its password is asked, or made and printed once",
        "its name: letters, digits, dots, hyphens and underlines",
    ),
    "list": (_list, "the accounts, their roles, and since when", ""),
    "remove": (_remove, "let nobody sign in with an account any more", "the account"),
    "password": (_password, "give an account another password; its sessions end", "the account"),
    "role": (_role, "let an account be for something else, at once", "the account"),
}
"""What each word does, and what NAME is."""


def _password_typed(args: argparse.Namespace) -> str:
    """A new password, asked twice from the person at the terminal; "" if one shall be made. Raises SetupError."""
    if args.generate:
        return ""
    if not sys.stdin.isatty():
        raise SetupError("nobody is at the terminal to type a password: see --generate")
    password = getpass.getpass(say("Password: "))
    if getpass.getpass(say("The same again: ")) != password:
        raise SetupError("the two passwords differ; nothing was changed")
    return password


def _print_account(args: argparse.Namespace, account: Account, password: str = "") -> int:
    """Show an account, and a password that was made; one that was typed is known already."""
    from ibi.accounts.people import account_facts

    made = "generate" in args and args.generate
    if args.json:
        print(json.dumps(account_facts(account) | ({"password": password} if made else {})))
    elif made:
        # The sentence goes to stderr, so that a program reads the password alone.
        tell("the password of {name} is shown only now:", name=account.name)
        print(password)
    return 0


def make_token(tokens: Tokens, name: str, scopes: Iterable[Scope] = (), *, as_json: bool = False) -> int:
    """Make a token and show it. Raises ParseError, SetupError."""
    scopes, made = tuple(scopes), _now()
    token = tokens.make(name, made, scopes)
    if as_json:
        print(json.dumps({"name": name, "scopes": scopes, "made": made, "token": token}))
        return 0
    tell("the token {name} is shown only now:", name=name)
    print(token)
    return 0


def list_tokens(tokens: Tokens, *, as_json: bool) -> int:
    """Show the names of the tokens, what each may do, and since when. Raises SetupError."""
    if as_json:
        rows = [{"name": known.name, "scopes": known.scopes, "made": known.made} for known in tokens.all()]
        print(json.dumps({"tokens": rows}))
        return 0
    for known in tokens.all():
        print(f"{known.name}  {known.made}  {','.join(known.scopes)}")
    return 0


def revoke_token(tokens: Tokens, name: str, *, as_json: bool = False) -> int:
    """Revoke a token. Raises SetupError."""
    tokens.revoke(name)
    if as_json:
        print(json.dumps({"name": name, "revoked": True}))
    return 0
