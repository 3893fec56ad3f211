"""Tokens of programs that use a service over HTTP: random, shown once, stored only as SHA-256.

    DIR/tokens.json            of an Archive: {"version": 1, "tokens": [{"name", "sha256", "made", "scopes"}, ...]}
    DIR/minting/tokens.json    of a minting service: the same without scopes, because it only mints

The files are JSON lists (`runtime.json_list`).

See T15: keys in logs; T16: guessed keys.
"""

from __future__ import annotations

import re
import secrets
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import NotHeld, ParseError, SetupError
from ibi.runtime.json_list import LONGEST_NAME, JsonList, is_name, unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

_BYTES: Final = 32
# So no token begins with a hyphen, which a command would take for an option; and scanners find leaked tokens.
_BEGINS: Final = "ibi_"
_HASH = re.compile(r"[0-9a-f]{64}")


class Scope(StrEnum):
    """What a token permits."""

    READ = "read"
    DEPOSIT = "deposit"
    EDIT = "edit"
    DELETE = "delete"
    TRANSFER = "transfer"
    ADMIN = "admin"
    RESOLVE = "resolve"


ARCHIVE_SCOPES: Final = tuple(scope for scope in Scope if scope is not Scope.RESOLVE)
"""The scopes that a token of an Archive can have."""


class Token(NamedTuple):
    """A token as it is stored. `made`: when, RFC 3339 in UTC; `scopes`: what it permits."""

    name: str
    sha256: str
    made: str
    scopes: tuple[Scope, ...] = ()

    def may(self, scope: Scope) -> bool:
        """Return whether the token permits this; the scope `admin` permits everything."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class Tokens:
    """The tokens in a folder. Methods raise SetupError if their file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._list = JsonList(folder, "tokens", _token_of, lambda token: token.sha256)

    def make(
        self,
        name: str,
        made: str,
        scopes: Iterable[Scope] = (),
        check: Callable[[Sequence[Token]], None] = unchecked,
    ) -> str:
        """Make and return a new token with a new name; only its hash is stored. `made`, `scopes` as in Token.

        `check` as in JsonList. Raises ParseError for an invalid name, SetupError for a name in use, and the
        errors of `check`.
        """
        if not is_name(name):
            problem = (
                "the name of a token is made of at most {most} letters without accents, digits, dots, hyphens "
                "and underlines, without blanks"
            )
            raise ParseError("name of a token", name, problem, most=LONGEST_NAME)
        token = _BEGINS + secrets.token_urlsafe(_BYTES)
        with self._list.changing(check) as tokens:
            if any(known.name == name for known in tokens):
                raise SetupError("there is a token of the name {name} already", name=name)
            tokens.append(Token(name, _hash(token), made, tuple(scopes)))
        return token

    def revoke(self, name: str, check: Callable[[Sequence[Token]], None] = unchecked) -> None:
        """Remove a token. Raises NotHeld if there is none of this name, and the errors of `check`."""
        _check_known(self.all(), name)  # checked before `changing` makes the folder
        with self._list.changing(check) as tokens:
            _check_known(tokens, name)
            tokens[:] = [known for known in tokens if known.name != name]

    def all(self) -> Sequence[Token]:
        """Return every token, in the order in which they were made."""
        return self._list.all()

    def find(self, token: str) -> Token | None:
        """Return the stored token; None if it is unknown or was revoked. Rereads a changed file."""
        return self._list.find(_hash(token))

    def bearer(self, header: str) -> Token | None:
        """Return the stored token of an Authorization header ("Bearer TOKEN"); None as in `find`."""
        scheme, _, text = header.partition(" ")
        return self.find(text.strip()) if scheme.lower() == "bearer" else None


def _check_known(tokens: Sequence[Token], name: str) -> None:
    if not any(known.name == name for known in tokens):
        raise NotHeld("there is no token of the name {name}", name=name)


def _hash(token: str) -> str:
    # One plain hash is enough, because 256 random bits cannot be guessed.
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _token_of(row: dict[str, Any]) -> Token:
    """Read a stored token. Raises ValueError for a row that we did not write."""
    token = Token(**{**row, "scopes": tuple(map(Scope, row.get("scopes", ())))})
    if not _HASH.fullmatch(token.sha256):
        raise ValueError(token.name)
    return token
