"""What several commands take after an option, and the progress bar that they show on a terminal."""

from __future__ import annotations

from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ibi.errors import ParseError, SetupError
from ibi.identifier.dates import TICKS, parse_granularity
from ibi.identifier.repository import LAST_PORT
from ibi.runtime import logging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.minting import Subsystem
    from ibi.minting.clock import ClockLimits


AUTOMATIC: Final = "auto"

_MOST_WORKERS: Final = 256  # more are a slip of the finger


def reporting_word(
    words: _SubParsersAction[ArgumentParser], word: str, text: str, data: str
) -> ArgumentParser:
    """A parser for a word that works on a data directory (`data` says whose), and can tell programs what came of it."""
    parser = words.add_parser(word, help=text, description=text, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help=data)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


class Parser(ArgumentParser):
    """A parser that does something itself and also knows words for more: `ibi mint`, and `ibi mint serve`.

    argparse has no such thing: what the command itself requires, it would require of the words too.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.words: dict[str, Parser] = {}

    def add_word(self, word: str, help: str) -> Parser:  # noqa: A002 - argparse calls it so
        """A parser for what follows the word."""
        parser = self.words[word] = Parser(prog=f"{self.prog} {word}", description=help)
        listed = "".join(f"  {self.prog} {name:<10}{each.description}\n" for name, each in self.words.items())
        self.epilog = f"also:\n{listed}"
        return parser

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse for the word if the first argument is one."""
        if args and args[0] in self.words:
            return self.words[args[0]].parse_known_args(args[1:], namespace)
        return super().parse_known_args(args, namespace)


class Noted(Action):
    """Stores a value, and notes in `given_options` that it was given: a default may be equal to it."""

    def __call__(
        self, _parser: ArgumentParser, namespace: Namespace, values: object, _option: str | None = None
    ) -> None:
        """Called where the option was given; `nargs=0` stands for a constant."""
        setattr(namespace, self.dest, self.const if self.nargs == 0 else values)
        namespace.given_options = (*namespace.given_options, self.option_strings[-1])


def workers(text: str) -> int:
    """A number of processes."""
    return number(text, _MOST_WORKERS, f"not a number of processes: {text}")


def port(text: str) -> int:
    """The number of a port."""
    return number(text, LAST_PORT, f"not a port: {text}")


def granularity(text: str) -> str:
    """A granularity in seconds, or the word for the automatic one."""
    try:
        if text != AUTOMATIC:
            parse_granularity(text)
    except ParseError as error:
        raise ArgumentTypeError(f"{error}, or {AUTOMATIC}: {text}") from None
    return text


def clock_back(text: str) -> int:
    """Seconds, in ticks."""
    return number(text, 3600, f"not a number of seconds from 1 to 3600: {text}") * TICKS


def number(text: str, most: int, problem: str) -> int:
    """A whole number from 1 to `most`; anything else is `problem`."""
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    found = int(text) if digits else 0
    if not 0 < found <= most:
        raise ArgumentTypeError(problem)
    return found


def listed_subsystems(data: Path, limits: ClockLimits, name: str | None = None) -> dict[str, Subsystem]:
    """The subsystems that DIR/subsystems.toml lists, by their names, or the one of this name; {} without such a file.

    Raises SetupError where there is none of the name; and otherwise raises as `open_subsystems`.
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


def tls_files(args: Namespace) -> tuple[str, str] | None:
    """The certificate and key files, tried here so that a wrong one is a sentence. Raises SetupError."""
    import ssl

    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise SetupError("--tls-cert and --tls-key belong together")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.tls_cert, args.tls_key)
    except (OSError, ssl.SSLError) as error:
        problem = "the certificate {cert} with the key {key} cannot be used: {reason}"
        reason = error.strerror or error
        raise SetupError(problem, cert=args.tls_cert, key=args.tls_key, reason=reason) from None
    return str(args.tls_cert), str(args.tls_key)


def add_logging(parser: ArgumentParser) -> None:
    """Add what every server takes for its log."""
    parser.add_argument(
        "--log-format",
        choices=logging.FORMS,
        default=logging.FORMS[0],
        help="how events are written on stderr",
    )
    parser.add_argument(
        "--access-log",
        action="store_true",
        help="write a line for each request: no query, and no address of who asked",
    )


class Progress:
    """How far something has come, of a `total` in whatever unit; shown on a terminal only."""

    def __init__(self, title: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(
            *columns,
            console=console,
            disable=not console.is_terminal,
            transient=True,
            redirect_stdout=False,  # results are for programs, not for the bar to be drawn around
        )
        self._task = self._bar.add_task("", total=total)

    def at(self, done: int) -> None:
        """So much is done."""
        self._bar.update(self._task, completed=done)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
