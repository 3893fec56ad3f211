"""The accounts of people who may sign in, in one file that only its owner reads.

    DIR/accounts.json    {"version": 1, "accounts": [{"name", "role", "hash", "made"}, ...]}

Of a password only its argon2 hash is kept. An older copy of the file lets older passwords in again, so guard backups
as you guard the file. How it is kept: `ibi.roll`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError, SetupError
from ibi.roll import LONGEST_NAME, Roll, is_name
from ibi.signing_in.passwords import check_password, hash_password
from ibi.signing_in.roles import Role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_ACCOUNTS: Final = 1000
"""Accounts of one service."""


class Account(NamedTuple):
    """What is kept of an account. `made`: when, RFC 3339 in UTC; `hash`: argon2, of its password."""

    name: str
    role: Role
    hash: str
    made: str

    @property
    def stamp(self) -> str:
        """What changes with the password, and tells nothing of it: sessions that began before end with it."""
        return sha256(self.hash.encode()).hexdigest()[:32]


class Accounts:
    """The accounts that a folder keeps. Raises SetupError where their file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._roll = Roll(folder, "accounts", _account_of, lambda account: account.name.lower())

    def add(self, name: str, role: Role, password: str, made: str) -> Account:
        """Make a new account. `made` as in Account.

        Raises ParseError for a name that is none, SetupError for one that is taken, IbiError for a weak password.
        """
        if not is_name(name):
            problem = "the name of an account is made of at most {most} letters, digits, dots, hyphens and underlines"
            raise ParseError("name of an account", name, problem, most=LONGEST_NAME)
        check_password(password, name)
        account = Account(name, role, hash_password(password), made)
        with self._roll.changing() as accounts:
            if any(known.name.lower() == name.lower() for known in accounts):
                raise SetupError("there is an account of the name {name} already", name=name)
            if len(accounts) >= MOST_ACCOUNTS:
                raise SetupError("there are {most} accounts already; remove one first", most=MOST_ACCOUNTS)
            accounts.append(account)
        return account

    def remove(self, name: str) -> None:
        """Forget an account; its sessions end. Raises SetupError if there is none of this name."""
        with self._roll.changing() as accounts:
            accounts.remove(_named(accounts, name))

    def set_password(self, name: str, password: str) -> Account:
        """Give an account another password; its sessions end. Raises SetupError, and IbiError for a weak one."""
        check_password(password, name)
        hashed = hash_password(password)
        with self._roll.changing() as accounts:
            before = _named(accounts, name)
            after = before._replace(hash=hashed)
            accounts[accounts.index(before)] = after
        return after

    def set_role(self, name: str, role: Role) -> Account:
        """Let an account be for something else, at once. Raises SetupError if there is none of this name."""
        with self._roll.changing() as accounts:
            before = _named(accounts, name)
            after = before._replace(role=role)
            accounts[accounts.index(before)] = after
        return after

    def all(self) -> Sequence[Account]:
        """Every account, in the order in which they were made."""
        return self._roll.all()

    def find(self, name: str) -> Account | None:
        """The account of a name, in whatever case; None if there is none. Looks whether the file has changed."""
        return self._roll.find(name.lower())


def _named(accounts: Sequence[Account], name: str) -> Account:
    found = next((known for known in accounts if known.name.lower() == name.lower()), None)
    if found is None:
        raise SetupError("there is no account of the name {name}", name=name)
    return found


def _account_of(row: dict[str, Any]) -> Account:
    """An account as it was written. Raises ValueError for anything that we did not write."""
    account = Account(**{**row, "role": Role(row["role"])})
    if not account.hash.startswith("$argon2"):
        raise ValueError(account.name)
    return account
