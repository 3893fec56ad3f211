"""Logs of the servers: one line an event on stderr, without any secret or address of a reader.

    text    2026-01-31 12:00:00,123 INFO ibi.resolver.service [5f0c1e9a7b3d2468]: included ...
    json    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger": "ibi.resolver.service",
            "request_id": "5f0c1e9a7b3d2468", "message": ...}

Every message, whether of this program, of a library or of an error, is scrubbed before it is written: no query of a
URL, no key and no token, no address of a machine but this one (T15: keys in logs; T28: privacy of readers).
Characters that are not printable are escaped, so a client cannot forge lines.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from ipaddress import ip_address
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError, ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMS: Final = ("text", "json")

LONGEST: Final = 4_000
"""Characters of a message, and of the words of an error, that are written."""
FACTS: Final = "facts"
"""The attribute of a record with texts and numbers by name, which JSON writes as members of their own."""

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The ID of the request that is handled, "" for none: set by `http.server.protocol` for the task of a request."""

_LOOKED_AT: Final = 16 * LONGEST  # characters; scrubbing makes a text shorter
_MOST_FRAMES: Final = 40  # frames of a traceback that are logged: the innermost ones
_MOST_ERRORS: Final = 8  # errors of a chain of causes that are logged
_HIDDEN: Final = "***"

_KEY: Final = re.compile(r"\d{10,}+(?:-\d+)?", re.ASCII)  # a key has ten digits or more
# ASCII white space only: text from the wire is read as Latin-1, in which further bytes look like blanks.
_RULES: Final = tuple(
    (re.compile(pattern, re.ASCII | re.IGNORECASE), by)
    for pattern, by in (
        (r"\[parameters: (?s:.*)", "[parameters: ***]"),  # the values of an SQL statement
        (r"(\?|%3f)\S+", r"\1***"),  # the query of a URL
        (r"\b(bearer|basic)\s+\S+", r"\1 ***"),
        (r"=(?:\"[^\"]*\"|'[^']*'|\S+)", "=***"),  # the value of a pair, wherever it is
        (r"\$argon2[^\s'\"]*", _HIDDEN),
        (r"(?<![\w-])[\w-]{40,}+", _HIDDEN),  # tokens and hashes are so long, and words are not
        (_KEY.pattern, _HIDDEN),
    )
)
_MAYBE_ADDRESSES: Final = re.compile(r"[0-9a-f:.]{2,}+", re.IGNORECASE)
_FOUR_NUMBERS: Final = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)", re.ASCII)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"", re.DOTALL)
_OF_PROGRAMS: Final = (IbiError, OSError, AttributeError, NameError, ImportError, TypeError)
"""Errors that quote names of files and parts of programs, and nothing that came over the network."""
_YEAR: Final = re.compile(r"\d{4}/", re.ASCII)  # 2014/03.22.01.53 is a part of a name, and no address

_log = logging.getLogger("ibi")


def scrubbed(text: str) -> str:
    """Return a text without queries, keys, tokens and strange addresses, in one line of limited length."""
    text = text.rstrip()
    if len(text) > _LOOKED_AT:
        words = text[:_LOOKED_AT].rsplit(None, 1)
        # Cut at a blank: half of a key would be too short for the rules below.
        text = f"{words[0] if len(words) > 1 else ''} ..."
    for pattern, by in _RULES:
        text = pattern.sub(by, text)
    text = _MAYBE_ADDRESSES.sub(_without_addresses, text)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}..."
    return text if text.isprintable() else escaped(text)


def _request() -> str:
    """Return the ID of the request that is handled, without what a client may have written into it."""
    name = request_id.get()
    # Not `scrubbed`: an ID may well have forty letters, or ten digits in a row.
    return _HIDDEN if _KEY.fullmatch(name) else _MAYBE_ADDRESSES.sub(_without_addresses, name)


def _without_addresses(match: re.Match[str]) -> str:
    run = match[0]
    if run.count(":") > 1 and any(map(_is_strange, (run, run.strip(":."), run.rpartition(":")[0]))):
        return _HIDDEN
    if run.count(".") < 3 or _YEAR.match(match.string, max(0, match.start() - 5)):  # noqa: PLR2004 - as in IPv4
        return run
    return _FOUR_NUMBERS.sub(lambda four: _HIDDEN if _is_strange(four[0]) else four[0], run)


def _is_strange(text: str) -> bool:
    """Whether a text is the IP address of a machine, and not loopback or unspecified, which all have."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def escaped(text: str) -> str:
    """Escape characters that would move the cursor or change colours."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class TextLines(logging.Formatter):
    """Writes an event as a line; the traceback of an error follows on indented lines, unlike any event."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s")

    def format(self, record: logging.LogRecord) -> str:
        """The event as it is written."""
        record.asctime = self.formatTime(record)
        name = _request()
        head = self.formatMessage(record) + (f" [{name}]: " if name else ": ")
        lines = [head + scrubbed(_message(record)), *_errors(record)]
        return "\n    ".join(lines)


class JSONLines(logging.Formatter):
    """Writes an event as a JSON object in one line, ASCII only."""

    def format(self, record: logging.LogRecord) -> str:
        """The event as it is written."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            **({"request_id": name} if (name := _request()) else {}),
            "message": scrubbed(_message(record)),
        }
        for name, value in getattr(record, FACTS, {}).items():
            line[name] = scrubbed(value) if isinstance(value, str) else value
        if lines := list(_errors(record)):
            line["error"] = lines
        return json.dumps(line)


class _Lines(logging.StreamHandler[Any]):
    """Our own handler, which `set_up` recognises by this class."""


def set_up(form: str = "text", *, libraries: int = logging.ERROR) -> None:
    """Begin to write events to stderr in one of FORMS; those of uvicorn from the level `libraries` on.

    Uncaught errors, of any thread, and warnings of Python become events too.
    """
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Lines)]:
        root.removeHandler(handler)
    handler = _Lines(sys.stderr)
    handler.setFormatter(JSONLines() if form == "json" else TextLines())
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(libraries)
    # What alembic calls "info" is noise on a first start.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    # Otherwise an event that cannot be written would be printed to stderr, unscrubbed.
    logging.raiseExceptions = False
    sys.excepthook = lambda kind, error, _: _uncaught(kind, error)
    sys.unraisablehook = lambda what: _uncaught(what.exc_type, what.exc_value)
    threading.excepthook = lambda what: _uncaught(what.exc_type, what.exc_value)


def _uncaught(kind: type[BaseException], error: BaseException | None) -> None:
    if not issubclass(kind, SystemExit):
        _log.critical("an error that nobody expected", exc_info=error or kind())


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # its words and its values do not fit
        return str(record.msg)


def _errors(record: logging.LogRecord) -> Iterator[str]:
    """Yield the lines for an error and its causes, the latest first: its message, then its traceback.

    The traceback has the innermost frame last, and no source lines: the line numbers say as much.
    """
    error = record.exc_info[1] if record.exc_info else None
    for _ in range(_MOST_ERRORS):
        if error is None:
            return
        yield f"{type(error).__name__}: {scrubbed(_words(error))}"
        places = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
        yield from (
            f"{code.co_filename}:{line} in {code.co_qualname}" for code, line in places[-_MOST_FRAMES:]
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _words(error: BaseException) -> str:
    """Return the message of an error without text from clients, which it has in quotes or as a detail."""
    if isinstance(error, ParseError):
        return error.problem
    try:
        words = str(error)
        return words if isinstance(error, _OF_PROGRAMS) else _QUOTED.sub(_HIDDEN, words[:_LOOKED_AT])
    except Exception as worse:  # noqa: BLE001 - an error without a readable message is logged, too
        return f"({type(worse).__name__} while this was to be said)"
