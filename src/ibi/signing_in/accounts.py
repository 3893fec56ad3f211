"""The accounts of people who may sign in, in one file that only its owner reads.

    DIR/accounts.json    {"version": 1, "accounts": [{"name", "role", "hash", "made"}, ...]}

Of a password only its argon2 hash is kept. The file is replaced as a whole; a running service sees the change at its
next request. An older copy of it lets older passwords in again, so guard backups as you guard the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.durable import flush_folder, make_folder
from ibi.errors import ParseError, SetupError
from ibi.signing_in.passwords import check_password, hash_password
from ibi.signing_in.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LONGEST_NAME: Final = 64
"""Characters of the name of an account."""
MOST_ACCOUNTS: Final = 1000
"""Accounts of one service."""

_VERSION: Final = 1
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
_MADE = re.compile(r"[0-9TZ:.-]{20,30}")


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
        self._path = folder / "accounts.json"
        self._seen: tuple[int, ...] = ()  # the file that `_known` was read from
        self._known: dict[str, Account] = {}

    def add(self, name: str, role: Role, password: str, made: str) -> Account:
        """Make a new account. `made` as in Account.

        Raises ParseError for a name that is none, SetupError for one that is taken, IbiError for a weak password.
        """
        if not _NAME.fullmatch(name):
            problem = "the name of an account is made of at most {most} letters, digits, dots, hyphens and underlines"
            raise ParseError("name of an account", name, problem, most=LONGEST_NAME)
        check_password(password, name)
        account = Account(name, role, hash_password(password), made)
        with self._changing() as accounts:
            if any(known.name.lower() == name.lower() for known in accounts):
                raise SetupError("there is an account of the name {name} already", name=name)
            if len(accounts) >= MOST_ACCOUNTS:
                raise SetupError("there are {most} accounts already; remove one first", most=MOST_ACCOUNTS)
            accounts.append(account)
        return account

    def remove(self, name: str) -> None:
        """Forget an account; its sessions end. Raises SetupError if there is none of this name."""
        with self._changing() as accounts:
            accounts.remove(_named(accounts, name))

    def set_password(self, name: str, password: str) -> Account:
        """Give an account another password; its sessions end. Raises SetupError, and IbiError for a weak one."""
        check_password(password, name)
        hashed = hash_password(password)
        with self._changing() as accounts:
            before = _named(accounts, name)
            after = before._replace(hash=hashed)
            accounts[accounts.index(before)] = after
        return after

    def all(self) -> Sequence[Account]:
        """Every account, in the order in which they were made."""
        try:
            return _read(self._path.read_text(encoding="utf-8"), self._path)
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None

    def find(self, name: str) -> Account | None:
        """The account of a name, in whatever case; None if there is none. Looks whether the file has changed."""
        try:
            file = self._path.stat()
            seen = (file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None
        if seen != self._seen:
            self._known = {known.name.lower(): known for known in self.all()}
            self._seen = seen  # taken before reading: a change in between is seen next time
        return self._known.get(name.lower())

    @contextmanager
    def _changing(self) -> Iterator[list[Account]]:
        """All accounts, to be changed in place; then written, unless there was an error. One change at a time."""
        try:
            make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            lock = os.open(self._path.with_name("accounts.lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                accounts = list(self.all())
                yield accounts
                self._write(accounts)
            finally:
                os.close(lock)
        except OSError as error:
            raise self._unusable("{path} cannot be written: {reason}", error) from None

    def _write(self, accounts: Sequence[Account]) -> None:
        """Write aside, sync, move into place, sync the folder."""
        content = json.dumps(
            {"version": _VERSION, "accounts": [each._asdict() for each in accounts]}, indent=1
        )
        aside = self._path.with_name(f"accounts.{os.getpid()}.new")
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(f"{content}\n".encode())
                file.flush()
                os.fsync(handle)
            aside.replace(self._path)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        flush_folder(self._path.parent)

    def _unusable(self, problem: str, error: OSError | UnicodeDecodeError) -> SetupError:
        reason = error.strerror if isinstance(error, OSError) else error
        return SetupError(problem, path=self._path, reason=reason or error)


def _named(accounts: Sequence[Account], name: str) -> Account:
    found = next((known for known in accounts if known.name.lower() == name.lower()), None)
    if found is None:
        raise SetupError("there is no account of the name {name}", name=name)
    return found


def _read(text: str, path: Path) -> list[Account]:
    """The accounts in the text of a file. Raises SetupError for anything that we did not write."""
    damaged = SetupError("{path} is damaged; remove it and make new accounts", path=path)
    try:
        content: Any = json.loads(text)
        if content["version"] != _VERSION:
            raise damaged
        accounts = [Account(**{**row, "role": Role(row["role"])}) for row in content["accounts"]]
        sound = all(
            _NAME.fullmatch(a.name) and a.hash.startswith("$argon2") and _MADE.fullmatch(a.made)
            for a in accounts
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged from None
    if not sound:
        raise damaged
    return accounts
