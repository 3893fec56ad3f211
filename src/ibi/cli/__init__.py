"""The command line: `ibi inspect`, `init`, `mint`, `archive`, `resolver`, `resolve`, `doctor`, `up` and `completion`.

Results go to stdout, sentences for people to stderr. The status is 0 for success, 1 for failure, 2 for wrong
usage. Commands make no decisions: they read options, call the packages below and print results.

Entry points: `main`; each command is a module with `add_parser(subparsers)` and `run(args)`.
"""

from __future__ import annotations

import io
import os
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import ibi
from ibi.cli.common import OUTPUT, with_remedy
from ibi.cli.parser import Parser
from ibi.errors import IbiError, with_text
from ibi.identifier.dates import check_calendar
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_COMMANDS: Final = {
    "inspect": ("inspect",),
    "init": ("setup",),
    "mint": ("mint", "mint.serve"),
    "archive": ("archive",),
    "resolver": ("resolver",),
    "resolve": ("resolve",),
    "doctor": ("doctor",),
    "up": ("up",),
    "completion": ("completion",),
}
"""The modules of each command, in the order in which `ibi --help` lists them."""
_TEXTS: Final = {
    "inspect": "read an IBI or a persistent URL, offline",
    "init": "set up an Archive, a resolver or both: settings, units, proxy, first account",
    "mint": "give new labels under a host name, and under an IP address",
    "archive": "make and run an Archive of identified items",
    "resolver": "make and run a resolver of persistent URLs",
    "resolve": "ask a resolver where a persistent URL leads",
    "doctor": "see whether a data directory, its clock, disk, names and peers are well",
    "up": "a whole network on this machine, for a first look",
    "completion": "print a script with which a shell completes commands and options",
}
"""What `ibi --help` tells of each, as their modules do; to import all of these takes half a second."""
_NEEDS_MORE: Final = "needs more than the library: pip install 'ibi[node]'"
_UNIX_ONLY: Final = "runs on Unix only (Linux, macOS, BSD)"
_BARE: Final = {"inspect", "mint", "resolve", "doctor", "completion"}
"""The commands that need Python alone, or tell themselves what is missing."""
_ANYWHERE: Final = {"inspect", "resolve", "completion"}
"""The commands that also run where Python lacks the modules of Unix."""
_UNIX: Final = {"fcntl", "grp", "pwd", "resource", "termios"}
"""The modules of Unix that our code imports."""
_GROUPS: Final = {"archive"}
"""The commands with so many actions that only those of one module are added."""
DONE, FAILED, INTERRUPTED = 0, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Wrong usage leaves through SystemExit(2), as argparse does."""
    _print_anything()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        lists = not words or words[0] in {"-h", "--help", "--version"}
        args = (_listing_parser() if lists else command_parser(*words[:2])).parse_args(words)
        OUTPUT.quiet = getattr(args, "quiet", False)
        if not {"inspect", "doctor"}.intersection(words[:1]):  # inspect uses no clock, doctor checks it
            check_calendar(time.time_ns())
        status = _run(args)
        sys.stdout.flush()
    # Each command imports what it needs: `ibi inspect` and `ibi mint` must work in an install without extras.
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "ibi":
            raise
        sentence = "this command needs more than the library: pip install 'ibi[node]' ({module} is missing)"
        if error.name in _UNIX:
            sentence = "this command runs on Unix only (Linux, macOS, BSD): this Python has no {module}"
        return _fail(say(sentence, module=error.name))
    except BrokenPipeError:
        _stop_printing()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (IbiError, OSError, RecursionError) as error:
        return _fail(_reason(error))
    return status


def _run(args: argparse.Namespace) -> int:
    """Run a command; close the shared stores that it has opened."""
    # Looked up, not imported: most commands open none, and some must run on Python alone.
    shared = sys.modules.get("ibi.runtime.shared.store")
    before: frozenset[object] = shared.opened_stores() if shared else frozenset()
    try:
        status: int = args.run(args)
    finally:
        if shared := sys.modules.get("ibi.runtime.shared.store"):
            shared.close_stores(before)
    return status


def command_parser(command: str = "", action: str = "") -> Parser:
    """Make the parser of one command and action, or of all commands if `command` is none of them."""
    parser, commands = _top()
    for name, modules in _COMMANDS.items():
        if command in _COMMANDS and command != name:
            continue
        try:
            for module in modules:
                add_parser = import_module(f"ibi.cli.{module}").add_parser
                add_parser(commands, action) if name in _GROUPS else add_parser(commands)
        except ModuleNotFoundError as error:
            if name == command:
                raise
            commands.add_parser(name, help=_UNIX_ONLY if error.name in _UNIX else _NEEDS_MORE)
    return parser


def _listing_parser() -> Parser:
    """Make a parser that lists the commands and can parse none of them."""
    parser, commands = _top()
    for name in _TEXTS:
        commands.add_parser(name, help=_listed(name))
    return parser


def _listed(name: str) -> str:
    """Return what `ibi --help` tells of a command: what it does, or what this installation lacks for it."""
    if name not in _ANYWHERE and find_spec("fcntl") is None:
        return _UNIX_ONLY
    if name not in _BARE and find_spec("msgspec") is None:
        return _NEEDS_MORE
    return _TEXTS[name]


def _top() -> tuple[Parser, argparse._SubParsersAction[Parser]]:
    parser = Parser(
        prog="ibi", description="Names that outlive addresses: read, give, keep and resolve them."
    )
    parser.add_argument("--version", action="version", version=f"ibi {ibi.__version__}")
    return parser, parser.add_subparsers(metavar="COMMAND", required=True)


def _reason(error: IbiError | OSError | RecursionError) -> str:
    """Return the sentence of an error; for a ParseError, with the text that cannot be parsed."""
    if isinstance(error, IbiError):
        return say(with_remedy(with_text(error)))
    if isinstance(error, RecursionError):
        return say("a path has too many folders in it, or a file is nested too deeply")
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(sentence: str) -> int:
    """Print one line on stderr and return the status of failure."""
    print(f"ibi: {printable(' '.join(sentence.split()))}", file=sys.stderr)
    return FAILED


def _print_anything() -> None:
    """Configure the standard streams to escape characters that they cannot encode, instead of raising."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def _stop_printing() -> None:
    """Discard the buffered output, because the reader of the pipe has gone."""
    # Otherwise Python reports the broken pipe once more when it flushes at its end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
