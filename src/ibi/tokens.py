"""The tokens of those who may do something over HTTP: made strong, shown once, kept only as SHA-256 (threats T15, T16).

    DIR/tokens.json            of an Archive: {"version": 1, "tokens": [{"name", "sha256", "made", "scopes"}, ...]}
    DIR/minting/tokens.json    of a minting service: the same without scopes, since all that it does is mint

A token has 256 random bits, so one plain hash is enough: there is nothing to guess. The file is its owner's only, and
is replaced as a whole; a running service sees the change at its next request.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.durable import flush_folder, make_folder
from ibi.errors import ParseError, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

LONGEST_NAME: Final = 64
"""Characters of the name of a token."""

_BYTES: Final = 32
_BEGINS: Final = "ibi_"  # never a hyphen, which a command would take for an option; and found where it leaked
_VERSION: Final = 1
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
_HASH = re.compile(r"[0-9a-f]{64}")
_MADE = re.compile(r"[0-9TZ:.-]{20,30}")


class Scope(StrEnum):
    """What a token lets its owner do with an Archive."""

    READ = "read"
    DEPOSIT = "deposit"
    EDIT = "edit"
    DELETE = "delete"
    TRANSFER = "transfer"
    ADMIN = "admin"


def scopes_of(text: str) -> tuple[Scope, ...]:
    """Read "read,deposit", each once and in the order of Scope. Raises ParseError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word in set(Scope) for word in words):
        raise ParseError("scope", text, "a scope is one or more of: {scopes}", scopes=", ".join(Scope))
    return tuple(scope for scope in Scope if scope in words)


class Token(NamedTuple):
    """What is kept of a token. `made`: when, RFC 3339 in UTC; `scopes`: what it is good for."""

    name: str
    sha256: str
    made: str
    scopes: tuple[Scope, ...] = ()

    def may(self, scope: Scope) -> bool:
        """Whether it is good for this; an administrator's is good for everything."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class Tokens:
    """The tokens that a folder keeps. Raises SetupError where their file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tokens.json"
        self._seen: tuple[int, ...] = ()  # the file that `_known` was read from
        self._known: dict[str, Token] = {}

    def make(self, name: str, made: str, scopes: Iterable[Scope] = ()) -> str:
        """Make a new token under a name of its own, and give it: nobody can see it again. `made`, `scopes` as in Token.

        Raises ParseError for a name that is none, and SetupError for one that is taken.
        """
        if not _NAME.fullmatch(name):
            problem = (
                "the name of a token is made of at most {most} letters, digits, dots, hyphens and underlines"
            )
            raise ParseError("name of a token", name, problem, most=LONGEST_NAME)
        token = _BEGINS + secrets.token_urlsafe(_BYTES)
        with self._changing() as tokens:
            if any(known.name == name for known in tokens):
                raise SetupError("there is a token of the name {name} already", name=name)
            tokens.append(Token(name, _hash(token), made, tuple(scopes)))
        return token

    def revoke(self, name: str) -> None:
        """Forget a token. Raises SetupError if there is none of this name."""
        if not any(known.name == name for known in self.all()):
            raise SetupError("there is no token of the name {name}", name=name)
        with self._changing() as tokens:
            tokens[:] = [known for known in tokens if known.name != name]

    def all(self) -> Sequence[Token]:
        """Every token, in the order in which they were made."""
        try:
            return _read(self._path.read_text(encoding="utf-8"), self._path)
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None

    def find(self, token: str) -> Token | None:
        """What is kept of a token; None if it is good for nothing. Looks whether the file has changed."""
        try:
            file = self._path.stat()
            seen = (file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None
        if seen != self._seen:
            self._known = {known.sha256: known for known in self.all()}
            self._seen = seen  # taken before reading: a change in between is seen next time
        return self._known.get(_hash(token))

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """All tokens, to be changed in place; then written, unless there was an error. One change at a time."""
        try:
            make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            lock = os.open(self._path.with_name("tokens.lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                tokens = list(self.all())
                yield tokens
                self._write(tokens)
            finally:
                os.close(lock)
        except OSError as error:
            raise self._unusable("{path} cannot be written: {reason}", error) from None

    def _write(self, tokens: Sequence[Token]) -> None:
        """Write aside, sync, move into place, sync the folder."""
        rows = [{name: value for name, value in token._asdict().items() if value != ()} for token in tokens]
        content = json.dumps({"version": _VERSION, "tokens": rows}, indent=1)
        aside = self._path.with_name(f"tokens.{os.getpid()}.new")
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


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read(text: str, path: Path) -> list[Token]:
    """The tokens in the text of a file. Raises SetupError for anything that we did not write."""
    damaged = SetupError("{path} is damaged; remove it and make new tokens", path=path)
    try:
        content: Any = json.loads(text)
        if content["version"] != _VERSION:
            raise damaged
        tokens = [
            Token(**{**row, "scopes": tuple(map(Scope, row.get("scopes", ())))}) for row in content["tokens"]
        ]
        sound = all(
            _NAME.fullmatch(t.name) and _HASH.fullmatch(t.sha256) and _MADE.fullmatch(t.made) for t in tokens
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged from None
    if not sound:
        raise damaged
    return tokens
