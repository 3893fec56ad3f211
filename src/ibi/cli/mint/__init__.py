"""`ibi mint`: prints labels of one identification subsystem, one a line, each as soon as it is due."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from ibi.cli.common import (
    Noted,
    argument,
    data_option,
    flag,
    listed_subsystems,
    number,
    port,
    quiet_option,
    tell,
    tell_line,
)
from ibi.cli.mint import recover
from ibi.cli.progress import Progress
from ibi.errors import ParseError, SetupError
from ibi.identifier import ibip, repository
from ibi.identifier.dates import AUTOMATIC, TICKS, granularity_of
from ibi.identifier.generator import LabelGenerator
from ibi.runtime.i18n import say, say_count
from ibi.runtime.settings import SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.cli.parser import Parser
    from ibi.minting import Label, Subsystem
    from ibi.minting.clock import ClockLimits

# Labels of one command; a larger number is a typing error.
_MOST = 10**12
_WORTH_A_BAR = 1000  # labels
_GRANULARITY: Final = "--granularity"


def add_parser(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `mint` to the commands, and `recover` below it."""
    help_text = "give new labels under a host name, and under an IP address"
    parser = commands.add_parser("mint", help=help_text)
    add_subsystem(parser, "1")
    count = number(_MOST)
    argument(parser, "--count N", "how many (default: %(default)s)", type=count, default=1)
    flag(parser, "--json", "one JSON object a line")
    quiet_option(parser)
    parser.set_defaults(run=run)
    recover.add_word(parser)


def add_subsystem(
    parser: argparse.ArgumentParser, usual_granularity: str, *, host_required: bool = True
) -> None:
    """Add the options for the data directory and the names in labels.

    If a host is required, the name of a listed subsystem may be given in its place.
    """
    parser.set_defaults(given_options=())
    data_option(parser, "where the last date is kept; empty: a start")
    names = parser.add_mutually_exclusive_group(required=host_required)
    argument(names, "--host HOST", "the host name that the labels spell", action=Noted)
    if host_required:
        text = "one that DIR/subsystems.toml lists, with its names and its granularity"
        argument(names, "--subsystem NAME", text)
    argument(parser, "--ip IP", "the IP address that IBIps spell; without it there are none", action=Noted)
    numbers = {"action": Noted, "type": port}
    argument(
        parser,
        "--port PORT",
        "the port of the host (default: %(default)s)",
        default=repository.DEFAULT_PORT,
        **numbers,
    )
    argument(
        parser,
        "--ip-port PORT",
        "the port of the IP (default: %(default)s)",
        default=ibip.DEFAULT_PORT,
        **numbers,
    )
    text = "under a name or address that no one owns"
    argument(parser, "--for-trying", text, action=Noted, nargs=0, const=True, default=False)
    text = "60, 1, 0.1, 0.01 … seconds, or auto: the coarsest that keeps up (default: %(default)s)"
    usage = f"{_GRANULARITY} SECONDS"
    argument(parser, usage, text, action=Noted, type=_granularity, default=usual_granularity)
    text = "how many seconds the clock may go back before it is called faulty (default: %(default)s)"
    argument(parser, "--clock-back SECONDS", text, type=_clock_back, default="2")
    flag(parser, "--synchronised", "only while a service keeps the clock of this machine right")


def _granularity(text: str) -> str:
    """Check a granularity in seconds, or the word for the automatic one, and return it unchanged."""
    try:
        granularity_of(text)
    except ParseError as error:
        reason = say("{reason}, or {word}: {text}", reason=error, word=AUTOMATIC, text=text)
        raise argparse.ArgumentTypeError(reason) from None
    return text


def _clock_back(text: str) -> int:
    """Read seconds, and return ticks."""
    return number(3600)(text) * TICKS


def open_subsystem(args: argparse.Namespace) -> Subsystem:
    """Return the subsystem that the arguments describe; warns if its labels are only for trying.

    Raises ParseError or MintingNotAllowed if no label can be made.
    """
    from ibi.minting import Subsystem, WaitingRoom
    from ibi.minting.machine import this_machine

    generator = LabelGenerator(args.host, args.port, args.ip, args.ip_port, for_trying=args.for_trying)
    _warn(generator)
    state = recover.row_of(args.data)  # an Archive of several nodes has one waiting room
    waiting_room = WaitingRoom(args.data, this_machine(), limits(args), generator.prefixes, state)
    return Subsystem(waiting_room, generator, granularity_of(args.granularity))


def spelled(args: argparse.Namespace) -> str:
    """Return the given options about names in labels, which a list of subsystems replaces."""
    return ", ".join(name for name in dict.fromkeys(args.given_options) if name != _GRANULARITY)


def limits(args: argparse.Namespace) -> ClockLimits:
    """Return the limits within which the clock is believed."""
    from ibi.minting.clock import ClockLimits

    return ClockLimits(back=args.clock_back, synchronised=args.synchronised)


def run(args: argparse.Namespace) -> int:
    """Print labels. Raises MintingError or SetupError if none can be given; printed labels stay given."""
    write = _described if args.json else _line
    # SIGTERM, from a service manager, stops the command between two labels, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    out = sys.stdout.fileno()
    try:
        with _chosen(args) as subsystem, _bar(args.count) as bar:
            for chunk in subsystem.chunks(args.count):
                for piece in _pieces(map(write, chunk)):
                    select.select((), (out,), ())  # while the reader is slow, signals stop the command here
                    with _uninterrupted():
                        _put(out, piece)
                        printed += piece.count(b"\n")
                if bar:
                    bar.at(printed)
    except KeyboardInterrupt:
        tell_line(say_count(printed, "stopped after {count} label", "stopped after {count} labels"))
        raise
    return 0


def _chosen(args: argparse.Namespace) -> Subsystem:
    """Return the named subsystem, or the described one if none is listed. Raises SetupError too."""
    path = args.data / SubsystemSettings.FILE
    if args.subsystem is None:
        if path.exists():
            problem = (
                "{path} lists the names to mint under; leave out {options}, and give --subsystem and one "
                "of: {names}"
            )
            names = ", ".join(SubsystemSettings.read_all(args.data))
            raise SetupError(problem, path=path, options=spelled(args), names=names)
        return open_subsystem(args)
    if spelled(args):
        problem = "{path} lists the names to mint under; leave out {options}"
        raise SetupError(problem, path=path, options=spelled(args))
    subsystem = listed_subsystems(args.data, limits(args), args.subsystem)[args.subsystem]
    if _GRANULARITY in args.given_options:
        subsystem.granularity = granularity_of(args.granularity)
    _warn(subsystem.generator)
    return subsystem


def _warn(generator: LabelGenerator) -> None:
    if generator.why_not_unique is not None:
        tell(generator.why_not_unique, host=generator.host, ip=generator.ip)


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    """Join whole lines to pieces of at most PIPE_BUF bytes, which a ready pipe takes without blocking."""
    piece = b""
    for line in map(str.encode, lines):
        if len(piece) + len(line) > select.PIPE_BUF:
            yield piece
            piece = b""
        piece += line
    yield piece


def _put(out: int, piece: bytes) -> None:
    """Write the whole piece, in several calls if needed: a file may take a part, a pipe nothing."""
    while piece := piece[os.write(out, piece) :]:
        select.select((), (out,), ())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the line is whole: half a label is invalid, or even another label."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _bar(count: int) -> Iterator[Progress | None]:
    """Yield a progress bar for many labels; None for few ones, or if labels go to the terminal."""
    if count < _WORTH_A_BAR or sys.stdout.isatty() or not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        with _uninterrupted():  # the bar's thread inherits the mask: it must not take the delayed signals
            bar = stack.enter_context(Progress(say("labels given"), count))
        yield bar


def _line(label: Label) -> str:
    return f"{label.rep} {label.ibip}\n" if label.ibip else f"{label.rep}\n"


def _described(label: Label) -> str:
    described = {"rep": label.rep, "ibip": label.ibip, "datetime": label.datetime}
    return f"{json.dumps(described)}\n"
