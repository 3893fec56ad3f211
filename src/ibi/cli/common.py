"""Helpers of all commands: declaring arguments, and printing messages for people."""

from __future__ import annotations

import json
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    _ActionsContainer,
)
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError, LostState, SetupError
from ibi.identifier.repository import LAST_PORT
from ibi.runtime import logging
from ibi.runtime.environment import environment_data
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.cli.parser import Parser
    from ibi.minting import Subsystem
    from ibi.minting.clock import ClockLimits


@dataclass(slots=True)
class _Output:
    quiet: bool = False


OUTPUT: Final = _Output()
"""How this run of the program writes to stderr: with remarks and progress, or `quiet`."""


class CommandGroup:
    """Commands under a common word, such as those of `ibi archive`.

    `data`: the help of --data. A command's text is shown in lists, and also in its own help if `described`.
    If `beside`, the word may also stand with options of its own, without a command.
    """

    def __init__(
        self, parser: Parser, metavar: str, data: str, *, described: bool = True, beside: bool = False
    ) -> None:
        self.parser = parser
        self._add: Callable[..., Parser] = (
            parser.add_word if beside else parser.add_subparsers(required=True, metavar=metavar).add_parser
        )
        self.data = data
        self.described = described

    def add(
        self,
        name: str,
        text: str,
        run: Callable[[Namespace], int],
        epilog: str | None = None,
        *,
        has_data: bool = True,
    ) -> Parser:
        """Add a command that calls `run`, with the option --data if it `has_data`."""
        parser = self._add(
            name,
            help=text,
            description=text if self.described else None,
            epilog=epilog,
        )
        if has_data:
            data_option(parser, self.data)
        quiet_option(parser)
        parser.set_defaults(run=run)
        return parser

    def add_group(
        self, name: str, text: str, metavar: str, *, described: bool = True, beside: bool = False
    ) -> CommandGroup:
        """Add a group of further commands on the same data directory, under a word of its own."""
        parser = self._add(name, help=text, description=text if described else None)
        return CommandGroup(parser, metavar, self.data, described=described, beside=beside)


def argument(parser: _ActionsContainer, usage: str, text: str | None = None, **more: Any) -> None:
    """Add an argument, written as in a usage line: "--to PEER", or "file FILE" for the positional `file`."""
    name, _, shown = usage.partition(" ")
    parser.add_argument(name, metavar=shown or None, help=text, **more)


def data_option(parser: ArgumentParser, text: str) -> None:
    """Add --data, whose default is the environment variable `IBI_DATA`; without that it is required."""
    data = environment_data()
    argument(parser, "--data DIR", text, type=Path, default=data, required=data is None)


def flag(parser: _ActionsContainer, name: str, text: str, **more: Any) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=text, **more)


def quiet_option(parser: ArgumentParser) -> None:
    """Add --quiet, which every command has that shows progress or comments on what it has done."""
    flag(parser, "--quiet", "no progress and no remarks on stderr, only warnings and errors", default=False)


class Noted(Action):
    """Stores a value and adds the option to `given_options`, because a given value may equal the default."""

    def __call__(
        self, _parser: ArgumentParser, namespace: Namespace, values: object, _option: str | None = None
    ) -> None:
        """Store the value; with `nargs=0`, the constant."""
        setattr(namespace, self.dest, self.const if self.nargs == 0 else values)
        namespace.given_options = (*namespace.given_options, self.option_strings[-1])


def number(most: int) -> Callable[[str], int]:
    """Return a function that reads a whole number from 1 to `most`."""

    def read(text: str) -> int:
        # The length is checked first, because int() of very many digits takes quadratic time.
        digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        found = int(text) if digits else 0
        if not 0 < found <= most:
            raise ArgumentTypeError(f"a whole number from 1 to {most}")  # translated by `cli.parser`
        return found

    return read


workers = number(256)  # more would be a typing error
port = number(LAST_PORT)


def listed_subsystems(data: Path, limits: ClockLimits, name: str | None = None) -> dict[str, Subsystem]:
    """Open the subsystems in DIR/subsystems.toml, by name, or only the one named; {} without such a file.

    Raises SetupError if the named one is not listed, and the errors of `open_subsystems`.
    """
    from ibi.minting.machine import this_machine
    from ibi.minting.subsystem import open_subsystems
    from ibi.runtime.settings import SubsystemSettings

    listed: dict[str, Subsystem] = {}
    if SubsystemSettings.exists(data):
        listed = {place.name: place.namer for place in open_subsystems(data, this_machine(), limits)}
    if name is None:
        return listed
    if name not in listed:
        path, names_listed = data / SubsystemSettings.FILE, ", ".join(listed) or "-"
        problem = "there is no subsystem {name} in {path}; it lists: {names}"
        raise SetupError(problem, name=name, path=path, names=names_listed)
    return {name: listed[name]}


def add_tls(parser: ArgumentParser) -> None:
    """Add the options of every server for HTTPS, which `tls_files` reads."""
    argument(parser, "--tls-cert FILE", "serve HTTPS with this certificate chain", type=Path)
    argument(parser, "--tls-key FILE", "and this private key", type=Path)


def tls_files(args: Namespace) -> tuple[str, str] | None:
    """Return the certificate and key files after loading them once. Raises SetupError for unusable ones."""
    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise SetupError("--tls-cert and --tls-key must be given together")
    import ssl  # late, as the other: it is slow, and only servers need it

    from ibi.runtime.durable_files import setup_errors

    problem = "the certificate {cert} with the key {key} cannot be used: {reason}"
    with setup_errors(problem, cert=args.tls_cert, key=args.tls_key):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.tls_cert, args.tls_key)
    return str(args.tls_cert), str(args.tls_key)


def add_former_token_options(token: Parser, run: Callable[[Namespace], int]) -> None:
    """Add the options of `token` from before it had subcommands: they go on working, but help does not name them.

    `accounts.run_former_options` carries them out.
    """
    token.usage = "%(prog)s [-h] WORD ..."
    token.add_argument("--data", type=Path, default=environment_data(), help=SUPPRESS)
    what = token.add_mutually_exclusive_group()
    what.add_argument("--name", help=SUPPRESS)
    what.add_argument("--list", action="store_true", help=SUPPRESS)
    what.add_argument("--revoke", help=SUPPRESS)
    token.add_argument("--scope", action="append", default=[], help=SUPPRESS)
    token.add_argument("--json", action="store_true", help=SUPPRESS)
    token.set_defaults(run=run, wrong=token.error)


def add_logging(parser: ArgumentParser) -> None:
    """Add the options of every server for its log."""
    forms = logging.FORMS
    text = "how events are written on stderr, a line each"
    argument(parser, "--log-format", text, choices=forms, default=forms[0])
    flag(parser, "--access-log", "write a line for each request: no query, and no address of who asked")


def print_ready(urls: Sequence[str]) -> None:
    """Print the URLs at which a server answers now."""
    # Flushed at once, because the program that started the server waits for these lines.
    print("\n".join(f"ready {url}" for url in urls), flush=True)


def tell(sentence: IbiError | str, **details: object) -> None:
    """Print a sentence on stderr, apart from the results, in the reader's language."""
    tell_line(say(sentence, None, **details))


def tell_line(line: str) -> None:
    """Print a line on stderr that is already in the reader's language."""
    # The line may quote a stranger's text, which must not control the terminal (T14: injected text).
    print(printable(line), file=sys.stderr)


def remark(sentence: IbiError | str, **details: object) -> None:
    """Print a sentence on stderr that comments on a success, unless --quiet was given."""
    if not OUTPUT.quiet:
        tell(sentence, **details)


def remark_line(line: str) -> None:
    """Print a line on stderr that comments on a success, unless --quiet was given."""
    if not OUTPUT.quiet:
        tell_line(line)


def with_remedy(error: IbiError) -> IbiError:
    """Return an error as people see it: a lost state of minting with the command that repairs it."""
    folder = error.details.get("directory")
    if not isinstance(error, LostState) or folder is None:
        return error
    from ibi.minting.recovery import repair_command  # imported late: hardly any command needs it

    # The state of several nodes is in a database, which they reach from any of their data directories.
    remedy = repair_command(error, folder.parent if isinstance(folder, Path) else Path("DIR"))
    return IbiError("{reason}; {remedy}", reason=error, remedy=remedy)


def print_changes(values: dict[str, Any], text: Callable[[Any], str], *, as_json: bool) -> int:
    """Print the settings that were changed, as JSON or each value as `text` writes it for people."""
    if as_json:
        print(json.dumps(values))
        return 0
    for name, value in values.items():
        print(f"{name}: {text(value)}")
    if not values:
        remark("nothing has changed")
    return 0
