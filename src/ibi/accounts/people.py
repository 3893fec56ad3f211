"""Accounts of people: their roles, their passwords, and the file DIR/accounts.json, which only its owner can read.

    {"version": 1, "accounts": [{"name", "role", "hash", "made"}, ...]}    as `runtime.json_list` keeps it

Only the argon2 hash of a password is stored. An older copy of the file makes older passwords valid again, so protect
backups like the file itself. The rules for passwords follow NIST SP 800-63B: a minimum length, no rules of
composition, and none of the passwords that an attacker would try first (T44: stolen accounts).
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import normalize

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ibi.accounts.tokens import Scope
from ibi.errors import BadField, IbiError, NotHeld, ParseError, SetupError
from ibi.runtime.json_list import LONGEST_NAME, JsonList, is_name, unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    AccountsCheck = Callable[[Sequence["Account"]], None]

SHORTEST: Final = 12
"""The fewest characters of a password."""
LONGEST: Final = 200
"""The most characters of a password: longer ones only cost time."""
MOST_ACCOUNTS: Final = 1000
"""Accounts of one service."""

_FEWEST_DIFFERENT: Final = 5
# No two look alike, because people copy passwords from paper.
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS, _IN_GROUP = 5, 5  # 124 random bits


class Role(StrEnum):
    """The role of an account, which permits the same as a token with its scopes."""

    DEPOSITOR = "depositor"
    """Deposits new items."""
    KEEPER = "keeper"
    """Also edits, removes and transfers items."""
    ADMINISTRATOR = "administrator"
    """Also decides about the service itself."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of a token with the same permissions."""
        return _SCOPES[self]

    def may(self, scope: Scope) -> bool:
        """Return whether this role permits acts that need this scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


_SCOPES: Final = {
    Role.DEPOSITOR: (Scope.READ, Scope.DEPOSIT),
    Role.KEEPER: (Scope.READ, Scope.DEPOSIT, Scope.EDIT, Scope.DELETE, Scope.TRANSFER),
    Role.ADMINISTRATOR: (Scope.ADMIN,),
}


def new_password(account: str = "") -> str:
    """Make a random password that is easy to copy from paper: five groups of five letters and digits.

    By chance it might contain a short account name, which `check_password` refuses: then another one is made.
    """
    while True:
        made = "-".join("".join(secrets.choice(_LETTERS) for _ in range(_IN_GROUP)) for _ in range(_GROUPS))
        if not account or account.lower() not in made.lower():
            return made


def check_password(password: str, account: str) -> None:
    """Refuse a password that an attacker would try first. Raises IbiError, which says what to do."""
    text = _normal(password[: LONGEST + 1])
    if len(text) < SHORTEST:
        raise IbiError("a password has at least {least} characters; a few words are good", least=SHORTEST)
    if max(len(text), len(password)) > LONGEST:
        raise IbiError("a password has at most {most} characters", most=LONGEST)
    if len(set(text)) < _FEWEST_DIFFERENT or account.lower() in text.lower():
        raise IbiError("this password is easy to guess; choose one without the name of the account")


def hash_password(password: str) -> str:
    """Return the hash of a password for storage; slow on purpose."""
    return _hasher().hash(_normal(password))


def is_hash_of(kept: str, password: str) -> bool:
    """Return whether a hash was made from this password; slow on purpose."""
    # Cut, so that a password of a megabyte costs no more than one that is just too long.
    try:
        return _hasher().verify(kept, _normal(password[: LONGEST + 1]))
    except (VerificationError, InvalidHashError):
        return False


@cache
def decoy_hash() -> str:
    """Return a hash to compare with for an unknown account, so that it takes as long as for a known one."""
    return hash_password(new_password())


def _normal(password: str) -> str:
    """Return one spelling of a password, because keyboards compose accented letters differently."""
    return normalize("NFKC", password)


@cache
def _hasher() -> PasswordHasher:
    """Return Argon2id with 19 MiB and two passes, as OWASP recommends, and as for registration keys."""
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class Account(NamedTuple):
    """An account as it is stored. `made`: when, RFC 3339 in UTC; `hash`: argon2, of its password."""

    name: str
    role: Role
    hash: str
    made: str

    @property
    def stamp(self) -> str:
        """A fingerprint of the password's hash: a new password changes it, which ends all sessions."""
        return sha256(self.hash.encode()).hexdigest()[:32]


class Accounts:
    """The accounts in a folder. Methods raise SetupError if their file cannot be used.

    `check` of each change is as in JsonList: it is called with the accounts under the lock, and may raise.
    """

    def __init__(self, folder: Path) -> None:
        self._list = JsonList(folder, "accounts", _account_of, lambda account: account.name.lower())

    def add(
        self, name: str, role: Role, password: str, made: str, check: AccountsCheck = unchecked
    ) -> Account:
        """Make a new account. `made` as in Account.

        Raises ParseError for an invalid name, SetupError for a name in use, IbiError for a weak password.
        """
        if not is_name(name):
            problem = (
                "the name of an account is made of at most {most} letters without accents, digits, dots, hyphens "
                "and underlines, without blanks"
            )
            raise ParseError("name of an account", name, problem, most=LONGEST_NAME)
        check_password(password, name)
        account = Account(name, role, hash_password(password), made)
        with self._list.changing(check) as accounts:
            if any(known.name.lower() == name.lower() for known in accounts):
                raise SetupError("there is an account of the name {name} already", name=name)
            if len(accounts) >= MOST_ACCOUNTS:
                raise SetupError("there are {most} accounts already; remove one first", most=MOST_ACCOUNTS)
            accounts.append(account)
        return account

    def remove(self, name: str, check: AccountsCheck = unchecked) -> None:
        """Remove an account; its sessions end. Raises NotHeld if there is none of this name."""
        with self._list.changing(check) as accounts:
            accounts.remove(_named(accounts, name))

    def set_password(self, name: str, password: str, check: AccountsCheck = unchecked) -> Account:
        """Give an account another password; its sessions end. Raises NotHeld, and IbiError for a weak one."""
        _named(self.all(), name)
        check_password(password, name)
        # Hashed before the lock is taken: hashing is slow on purpose, and other changes must not wait for it.
        hashed = hash_password(password)
        return self._change(name, check, hash=hashed)

    def set_role(self, name: str, role: Role, check: AccountsCheck = unchecked) -> Account:
        """Give an account another role. Raises NotHeld if there is none of this name."""
        return self._change(name, check, role=role)

    def _change(self, name: str, check: AccountsCheck, **fields: Any) -> Account:
        with self._list.changing(check) as accounts:
            before = _named(accounts, name)
            after = before._replace(**fields)
            accounts[accounts.index(before)] = after
        return after

    def all(self) -> Sequence[Account]:
        """Return every account, in the order in which they were made."""
        return self._list.all()

    def find(self, name: str) -> Account | None:
        """Return the account of a name, in any case; None if there is none. Rereads a changed file."""
        return self._list.find(name.lower())


def _named(accounts: Sequence[Account], name: str) -> Account:
    found = next((known for known in accounts if known.name.lower() == name.lower()), None)
    if found is None:
        raise NotHeld("there is no account of the name {name}", name=name)
    return found


def _account_of(row: dict[str, Any]) -> Account:
    """Read a stored account. Raises ValueError for a row that we did not write."""
    account = Account(**{**row, "role": Role(row["role"])})
    if not account.hash.startswith("$argon2"):
        raise ValueError(account.name)
    return account


class AccountManager:
    """Manages the accounts of one service, in these roles. `moment` returns the time as RFC 3339.

    `ended` is called with the name of an account to delete its sessions at once; without it, each session
    ends when its stamp is compared the next time. `check` as in Accounts.
    """

    def __init__(
        self,
        accounts: Accounts,
        roles: Sequence[Role],
        moment: Callable[[], str],
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.roles = roles
        self._accounts = accounts
        self._moment = moment
        self._ended = ended

    def all(self) -> Sequence[Account]:
        """Return every account, in the order in which they were made."""
        return self._accounts.all()

    def add(
        self, name: str, role: str, password: str = "", check: AccountsCheck = unchecked
    ) -> tuple[Account, str]:
        """Make an account, and a password unless one is given; return both. Raises IbiError."""
        chosen = password or new_password(name)
        return self._accounts.add(name, self._role(role), chosen, self._moment(), check), chosen

    def set_role(self, name: str, role: str, check: AccountsCheck = unchecked) -> Account:
        """Give an account another role. Raises NotHeld, IbiError."""
        return self._accounts.set_role(name, self._role(role), check)

    def set_password(
        self, name: str, password: str = "", check: AccountsCheck = unchecked
    ) -> tuple[Account, str]:
        """Give an account another password, or generate one; end its sessions. Raises NotHeld, IbiError."""
        chosen = password or new_password(name)
        account = self._accounts.set_password(name, chosen, check)
        self._ended(account.name)
        return account, chosen

    def remove(self, name: str, check: AccountsCheck = unchecked) -> None:
        """Remove an account; its sessions end. Raises NotHeld."""
        self._accounts.remove(name, check)
        self._ended(name)

    def _role(self, role: str) -> Role:
        if role not in set(self.roles):
            raise BadField("{name} is one of: {words}", name="role", words=", ".join(self.roles))
        return Role(role)
