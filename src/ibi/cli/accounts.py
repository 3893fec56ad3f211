"""Accounts (people who may sign in at /-/admin) and tokens: commands of Archives, resolvers and minting."""

from __future__ import annotations

import getpass
import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.accounts.tokens import Tokens
from ibi.api import accounts
from ibi.api.fields import read, values_of
from ibi.cli.common import flag, remark
from ibi.cli.operations import add_operation, fields_of, result_of, values_of_options
from ibi.errors import SetupError
from ibi.identifier.dates import TICKS, date_text
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.accounts.tokens import Scope
    from ibi.api.accounts import AccountContext
    from ibi.api.operations import Operation
    from ibi.cli.common import CommandGroup


class Service(NamedTuple):
    """The service that accounts and tokens belong to.

    `check` raises SetupError for a directory without such a service. `folder`: that of the tokens, below it.
    """

    check: Callable[[Path], object]
    roles: Sequence[str] = ()
    scopes: Callable[[], Sequence[Scope]] = tuple
    folder: str = ""

    def context(self, data: Path) -> AccountContext:
        """Return the context of a command. Raises SetupError."""
        from ibi.accounts.people import AccountManager, Accounts, Role

        self.check(data)  # a directory without the service is a typing error
        people = AccountManager(Accounts(data), [Role(role) for role in self.roles], _now)
        return accounts.AccountContext(
            who="command", say=say, people=people, tokens=Tokens(data / self.folder), moment=_now,
            scopes=self.scopes(),
        )  # fmt: skip


def _now() -> str:
    return date_text(time.time_ns() // TICKS * TICKS)


def add_accounts(commands: CommandGroup, service: Service, roles_help: str) -> None:
    """Add `account` and its subcommands."""
    words = commands.add_group("account", "say who may sign in at /-/admin, with a browser", "WHAT")
    for operation in accounts.ACCOUNTS:
        word = operation.command.partition(" ")[2]
        if word == "role" and len(service.roles) == 1:
            continue
        epilog = roles_help if "role" in operation.fields.__struct_fields__ else None
        run, choices = partial(_account, service, operation), {"role": service.roles}
        parser = add_operation(words, operation, run, epilog, name=word, choices=choices)
        flag(parser, "--json", "one JSON document")
        if operation.shown_once:
            flag(parser, "--generate", "make a password and print it this once, instead of asking")


def _account(service: Service, operation: Operation[AccountContext, Any], args: Namespace) -> int:
    context = service.context(args.data)
    if operation.shown_once and not args.generate:
        context.password = _password_typed()
    result = result_of(operation, context, fields_of(args, operation.fields))
    if args.json:
        print(json.dumps(result or {"name": args.name, "removed": True}))
    elif "password" in result:
        # The sentence goes to stderr, so that a program reads the password alone.
        remark("the password of {name} is shown only now:", name=result["name"])
        print(result["password"])
    for each in () if args.json else result.get("accounts", ()):
        print(f"{each['name']}  {each['made']}  {each['role']}")
    return 0


def _password_typed() -> str:
    """Ask twice for a new password at the terminal. Raises SetupError."""
    if not sys.stdin.isatty():
        raise SetupError("there is no terminal to type a password at: see --generate")
    password = getpass.getpass(say("Password: "))
    if getpass.getpass(say("The same again: ")) != password:
        raise SetupError("the two passwords differ; nothing was changed")
    return password


_TOKEN_WORDS: Final[dict[str, Operation[AccountContext, Any]]] = {
    "add": accounts.MAKE_TOKEN, "list": accounts.LIST_TOKENS, "remove": accounts.REVOKE_TOKEN,
}  # fmt: skip


def add_token_words(words: CommandGroup, service: Service, scopes_help: str) -> None:
    """Add the subcommands of `token`."""
    for word, operation in _TOKEN_WORDS.items():
        epilog = scopes_help if word == "add" else None
        parser = add_operation(words, operation, partial(run_token_word, service, word), epilog, name=word)
        flag(parser, "--json", "one JSON document")


def run_token_word(service: Service, word: str, args: Namespace) -> int:
    """Carry out `token add`, `list` or `remove`. Raises ParseError, BadField, NotHeld, SetupError."""
    operation = _TOKEN_WORDS[word]
    none: dict[str, Any] = {"scopes": []} if _has_no_scopes(service, operation) else {}
    return _run_token_operation(
        service, operation, args, {**values_of_options(args, operation.fields), **none}
    )


def _has_no_scopes(service: Service, operation: Operation[AccountContext, Any]) -> bool:
    return operation is accounts.MAKE_TOKEN and not service.scopes()  # of a minting service


def run_former_options(service: Service, args: Namespace) -> int:
    """Carry out the options of `add_former_token_options`. Raises ParseError, BadField, NotHeld, SetupError."""
    if not (args.list or args.revoke is not None or args.name is not None):
        args.wrong(say("one of these must be given: {names}", names=" ".join(_TOKEN_WORDS)))
    if args.data is None:
        args.wrong(say("the field {name} is missing", name="--data"))
    if args.list:
        return _run_token_operation(service, accounts.LIST_TOKENS, args, {})
    if args.revoke is not None:
        return _run_token_operation(service, accounts.REVOKE_TOKEN, args, {"name": args.revoke})
    scopes = values_of(accounts.NewToken, {"scopes": args.scope})
    none: dict[str, Any] = {"scopes": []} if _has_no_scopes(service, accounts.MAKE_TOKEN) else {}
    values = {"name": args.name, **none, **scopes}
    return _run_token_operation(service, accounts.MAKE_TOKEN, args, values)


def _run_token_operation(
    service: Service, operation: Operation[AccountContext, Any], args: Namespace, values: dict[str, Any]
) -> int:
    result = result_of(operation, service.context(args.data), read(operation.fields, values))
    if args.json:
        print(json.dumps(result or {**values, "revoked": True}))
    elif "token" in result:
        remark("the token {name} is shown only now:", name=result["name"])
        print(result["token"])
    for each in () if args.json else result.get("tokens", ()):
        print("  ".join(filter(None, (each["name"], each["made"], ",".join(each["scopes"])))))
    return 0
