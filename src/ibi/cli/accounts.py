"""Words of `ibi archive account` and `ibi resolver account`: people who may sign in at the pages under /-/admin.

What `ibi archive token` and `ibi resolver token` share: a token made and printed once, a list, a revocation.
"""

from __future__ import annotations

import getpass
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibi.cli.arguments import reporting_word
from ibi.errors import SetupError
from ibi.identifier.dates import TICKS, date_text
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ibi.accounts.people import Account, AccountManager
    from ibi.accounts.tokens import Scope, Tokens


@dataclass(frozen=True, slots=True)
class AccountWords:
    """What differs between services: what --data is, which roles there are, and whether a service is there.

    `check` raises SetupError where none is: an account for none is a slip of the finger. `runs`: under which name the
    parser keeps what is to be done.
    """

    data: str
    roles: Sequence[str]
    roles_help: str
    check: Callable[[Path], object]
    runs: str

    def add(self, parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Add the words to the subcommands of a service."""
        text = "say who may sign in at /-/admin, with a browser"
        account = parsers.add_parser("account", help=text, description=text)
        what = account.add_subparsers(dest="what", required=True, metavar="WHAT")
        making = self._word(
            what, "add", "make an account; its password is asked, or made and printed once", self._add
        )
        making.epilog = self.roles_help
        making.add_argument("name", metavar="NAME", help="what is written down beside what its owner does")
        making.add_argument("--role", required=True, choices=self.roles, help="what it is for")
        _add_generate(making)
        self._word(what, "list", "the accounts, their roles, and since when", self._list)
        removing = self._word(what, "remove", "let nobody sign in with an account any more", self._remove)
        removing.add_argument("name", metavar="NAME", help="the account")
        changing = self._word(
            what, "password", "give an account another password; its sessions end", self._password
        )
        changing.add_argument("name", metavar="NAME", help="the account")
        _add_generate(changing)
        if len(self.roles) > 1:
            other = self._word(what, "role", "let an account be for something else, at once", self._role)
            other.epilog = self.roles_help
            other.add_argument("name", metavar="NAME", help="the account")
            other.add_argument("--role", required=True, choices=self.roles, help="what it is for")

    def _word(
        self,
        what: argparse._SubParsersAction[argparse.ArgumentParser],
        word: str,
        text: str,
        do: Callable[[argparse.Namespace], int],
    ) -> argparse.ArgumentParser:
        parser = reporting_word(what, word, text, self.data)
        parser.set_defaults(**{self.runs: do})
        return parser

    def _people(self, args: argparse.Namespace) -> AccountManager:
        from ibi.accounts.people import AccountManager, Accounts, Role

        self.check(args.data)
        roles = [Role(role) for role in self.roles]
        return AccountManager(Accounts(args.data), roles, lambda: date_text(time.time_ns() // TICKS * TICKS))

    def _add(self, args: argparse.Namespace) -> int:
        people = self._people(args)
        return _tell(args, *people.add(args.name, args.role, _given(args)))

    def _list(self, args: argparse.Namespace) -> int:
        from ibi.accounts.people import account_facts

        known = self._people(args).all()
        if args.json:
            print(json.dumps({"accounts": [account_facts(each) for each in known]}))
            return 0
        for each in known:
            print(f"{each.name}  {each.made}  {each.role}")
        return 0

    def _remove(self, args: argparse.Namespace) -> int:
        self._people(args).remove(args.name)
        if args.json:
            print(json.dumps({"name": args.name, "removed": True}))
        return 0

    def _password(self, args: argparse.Namespace) -> int:
        people = self._people(args)
        return _tell(args, *people.set_password(args.name, _given(args)))

    def _role(self, args: argparse.Namespace) -> int:
        from ibi.accounts.people import account_facts

        account = self._people(args).set_role(args.name, args.role)
        if args.json:
            print(json.dumps(account_facts(account)))
        return 0


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--generate", action="store_true", help="make a password and print it this once, instead of asking"
    )


def _given(args: argparse.Namespace) -> str:
    """A new password, asked twice from the person at the terminal; "" if one shall be made. Raises SetupError."""
    if args.generate:
        return ""
    if not sys.stdin.isatty():
        raise SetupError("nobody is at the terminal to type a password: see --generate")
    password = getpass.getpass(say("Password: "))
    if getpass.getpass(say("The same again: ")) != password:
        raise SetupError("the two passwords differ; nothing was changed")
    return password


def _tell(args: argparse.Namespace, account: Account, password: str) -> int:
    """Show a password that was made; one that was typed is known already."""
    from ibi.accounts.people import account_facts

    if args.json:
        print(json.dumps(account_facts(account) | ({"password": password} if args.generate else {})))
    elif args.generate:
        sentence = say("the password of {name} is shown only now:", name=account.name)
        print(printable(sentence), file=sys.stderr)
        print(password)
    return 0


def make(tokens: Tokens, name: str, scopes: Iterable[Scope], *, as_json: bool) -> int:
    """Make a token and show it. Raises ParseError, SetupError."""
    scopes, made = tuple(scopes), date_text(time.time_ns() // TICKS * TICKS)
    token = tokens.make(name, made, scopes)
    if as_json:
        print(json.dumps({"name": name, "scopes": scopes, "made": made, "token": token}))
        return 0
    print(printable(say("the token {name} is shown only now:", name=name)), file=sys.stderr)
    print(token)
    return 0


def listed(tokens: Tokens, *, as_json: bool) -> int:
    """Show the names of the tokens, what each may do, and since when. Raises SetupError."""
    if as_json:
        rows = [{"name": known.name, "scopes": known.scopes, "made": known.made} for known in tokens.all()]
        print(json.dumps({"tokens": rows}))
        return 0
    for known in tokens.all():
        print(f"{known.name}  {known.made}  {','.join(known.scopes)}")
    return 0


def revoke(tokens: Tokens, name: str, *, as_json: bool) -> int:
    """Revoke a token. Raises SetupError."""
    tokens.revoke(name)
    if as_json:
        print(json.dumps({"name": name, "revoked": True}))
    return 0
