"""The tokens of those who may mint over HTTP: made strong, shown once, kept only as SHA-256 (threats T15 and T16).

    DIR/minting/tokens.json    {"version": 1, "tokens": [{"name": ..., "sha256": ..., "made": ...}, ...]}

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
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError, SetupError
from ibi.minting.durable import flush_folder, make_folder
from ibi.minting.state import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LONGEST_NAME: Final = 64
"""Characters of the name of a token."""

_BYTES: Final = 32
_VERSION: Final = 1
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
_HASH = re.compile(r"[0-9a-f]{64}")
_MADE = re.compile(r"[0-9TZ:.-]{20,30}")


class Token(NamedTuple):
    """What is kept of a token. `made`: when, RFC 3339 in UTC."""

    name: str
    sha256: str
    made: str


class Tokens:
    """The tokens of one data directory. Raises SetupError where their file cannot be used."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._path = data / FOLDER / "tokens.json"
        self._seen: tuple[int, ...] = ()  # the file that `_owners` was read from
        self._owners: dict[str, str] = {}

    def make(self, name: str, made: str) -> str:
        """Make a new token under a name of its own, and give it: nobody can see it again. `made` as in Token.

        Raises ParseError for a name that is none, and SetupError for one that is taken.
        """
        if not _NAME.fullmatch(name):
            problem = (
                "the name of a token is made of at most {most} letters, digits, dots, hyphens and underlines"
            )
            raise ParseError("name of a token", name, problem, most=LONGEST_NAME)
        token = secrets.token_urlsafe(_BYTES)
        with self._changing() as tokens:
            if any(known.name == name for known in tokens):
                raise SetupError("there is a token of the name {name} already", name=name)
            tokens.append(Token(name, _hash(token), made))
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

    def owner(self, token: str) -> str | None:
        """The name of a token; None if nobody may mint with it. Looks whether the file has changed."""
        try:
            file = self._path.stat()
            seen = (file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None
        if seen != self._seen:
            self._owners = {known.sha256: known.name for known in self.all()}
            self._seen = seen  # taken before reading: a change in between is seen next time
        return self._owners.get(_hash(token))

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
        content = json.dumps({"version": _VERSION, "tokens": [token._asdict() for token in tokens]}, indent=1)
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
        tokens = [Token(**row) for row in content["tokens"]]
        sound = all(
            _NAME.fullmatch(t.name) and _HASH.fullmatch(t.sha256) and _MADE.fullmatch(t.made) for t in tokens
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise damaged from None
    if not sound:
        raise damaged
    return tokens
