"""`ibi` as a stranger types it, in this process; and the tree of its commands as argparse holds it.

The program is entered as `python -m ibi`: what is behind that may move.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from support.concurrency.forked import run_ibi

ENGLISH = {"LANGUAGE": "en", "LC_ALL": "C.UTF-8", "COLUMNS": "100"}


@dataclass(frozen=True)
class Typed:
    """What came of one command."""

    status: int
    out: str
    err: str


def ibi(*words: object) -> Typed:
    """Run one command to its end."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as out,  # some commands want a real file
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as err,
        patch.object(sys, "argv", ["ibi", *map(str, words)]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(), "utf-8")),
        patch.dict(os.environ, ENGLISH),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_module("ibi", run_name="__main__", alter_sys=False)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(bool(end.code))
        streams = []
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
            streams.append(stream.read())
    return Typed(status, *streams)


def _apart(*words: object) -> Typed:
    """The same in a process of its own: a server makes the log of its whole process its own."""
    environment = {**os.environ, **ENGLISH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = run_ibi(*words, text=True, env=environment)
    return Typed(done.returncode, done.stdout, done.stderr)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every parser of the program by what is typed for it: "ibi archive init"."""
    found: dict[str, argparse.ArgumentParser] = {}
    make = argparse.ArgumentParser.__init__

    class Built(Exception):
        pass

    def note(self: argparse.ArgumentParser, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        found[self.prog] = self

    def leave(*_: object, **__: object) -> NoReturn:
        raise Built

    with (
        patch.object(argparse.ArgumentParser, "__init__", note),
        patch.object(argparse.ArgumentParser, "parse_args", leave),
        patch.object(sys, "argv", ["ibi", "no command"]),  # so that none is left out
        contextlib.suppress(Built),
    ):
        runpy.run_module("ibi", run_name="__main__", alter_sys=False)
    return found


def _is_group(parser: argparse.ArgumentParser) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)


def leaves() -> dict[str, argparse.ArgumentParser]:
    """The commands that do something."""
    return {name: parser for name, parser in parsers().items() if not _is_group(parser)}


def _argument(action: argparse.Action) -> str:
    """One argument in a line: "--workers N: default 1"."""
    name = ", ".join(action.option_strings)
    value = (action.metavar or action.dest.upper()) if action.nargs != 0 else ""
    facts = {
        "required": action.required,
        f"takes {action.nargs}": action.nargs not in (None, 0),
        f"default {action.default}": action.default not in (None, argparse.SUPPRESS) and action.nargs != 0,
        f"one of {', '.join(map(str, action.choices or ()))}": action.choices,
        "may be repeated": isinstance(action, argparse._AppendAction),
    }
    return (
        f"{name} {value}".strip() + ": " + ("; ".join(fact for fact, so in facts.items() if so) or "optional")
    )


def _excluding(parser: argparse.ArgumentParser) -> list[list[str]]:
    """Groups of which one argument may be given at most."""
    return [
        sorted(max(action.option_strings, key=len, default=action.dest) for action in group._group_actions)
        for group in parser._mutually_exclusive_groups
    ]


def _statuses(parser: argparse.ArgumentParser, folder: Path) -> dict[str, int]:
    """The exit status of a command in trouble; `folder` is empty."""
    words = parser.prog.split()[1:]
    found = {
        "--help": ibi(*words, "--help").status,
        "--no-such-option": ibi(*words, "--no-such-option").status,
    }
    data = [] if parser.prog == "ibi up" else _least(parser, folder)
    if data:
        run = _apart if words[-1] == "serve" else ibi
        found["on a data directory that is not there"] = run(*words, *data).status
    if any(action.required for action in parser._actions):
        found["without what it needs"] = ibi(*words).status
    return found


_FOUNDING = {"ibi init", "ibi archive init", "ibi resolver init", "ibi mint", "ibi archive restore"}
"""What makes a data directory instead of finding it there."""


def _least(parser: argparse.ArgumentParser, folder: Path) -> list[str]:
    """The least that is understood, for a command that works on a data directory; the directory is absent."""
    if parser.prog in _FOUNDING or not any("--data" in each.option_strings for each in parser._actions):
        return []
    words: list[str] = []
    for action in parser._actions:
        choice = str(next(iter(action.choices))) if action.choices else "x"
        if "--data" in action.option_strings:
            words += ["--data", str(folder / "absent")]
        elif action.option_strings and action.required:
            words += [action.option_strings[0], choice]
        elif not action.option_strings and action.nargs not in {"?", "*"}:
            words += [choice]
    return words


def command_tree(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, what it takes and how it ends) for every command, in the order of their names."""
    for name, parser in sorted(parsers().items()):
        yield (
            name,
            {"arguments": [_argument(action) for action in parser._actions if action.dest != "help"]}
            | ({"excluding": _excluding(parser)} if parser._mutually_exclusive_groups else {})
            | ({"status": _statuses(parser, folder)} if not _is_group(parser) else {}),
        )
