"""`ibi mint`: labels of one identification subsystem, one a line, each when its moment has come."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import arguments
from ibi.cli.mint import recover
from ibi.errors import SetupError
from ibi.identifier import ibip, repository
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.cli.arguments import Progress
    from ibi.identifier.generator import LabelGenerator
    from ibi.minting import Label, Subsystem
    from ibi.minting.clock import ClockLimits

# Labels of one command; a larger number is a typing error.
_MOST = 10**12
_WORTH_A_BAR = 1000  # labels
_GRANULARITY = "--granularity"


def add_parser(commands: argparse._SubParsersAction[arguments.Parser]) -> None:
    """Add `mint` to the commands, and its further words."""
    help_text = "give new labels under a host name, and under an IP address"
    parser = commands.add_parser("mint", help=help_text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_subsystem(parser, granularity="1")
    parser.add_argument(
        "--count", type=_count, default=1, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)
    recover.add_word(parser)


def add_subsystem(parser: argparse.ArgumentParser, granularity: str, *, host_required: bool = True) -> None:
    """Add what says where and under which names labels are made.

    Where a host is required, the name of a listed subsystem will do instead.
    """
    parser.set_defaults(given_options=())
    noted = arguments.Noted
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="where the last date is kept; empty: a start"
    )
    names = parser.add_mutually_exclusive_group(required=host_required)
    names.add_argument("--host", action=noted, metavar="HOST", help="the host name that the labels spell")
    if host_required:
        help_text = "one that DIR/subsystems.toml lists, with its names and its granularity"
        names.add_argument("--subsystem", metavar="NAME", help=help_text)
    help_text = "the IP address that IBIps spell; without it there are none"
    parser.add_argument("--ip", action=noted, metavar="IP", help=help_text)
    help_text = "the port of the {} (default: %(default)s)"
    for option, usual, whose in (
        ("--port", repository.DEFAULT_PORT, "host"),
        ("--ip-port", ibip.DEFAULT_PORT, "IP"),
    ):
        parser.add_argument(
            option,
            action=noted,
            type=arguments.port,
            default=usual,
            metavar="PORT",
            help=help_text.format(whose),
        )
    help_text = "under a name or address that nobody owns"
    parser.add_argument("--for-trying", action=noted, nargs=0, const=True, default=False, help=help_text)
    parser.add_argument(
        _GRANULARITY,
        action=noted,
        type=arguments.granularity,
        default=granularity,
        metavar="SECONDS",
        help="60, 1, 0.1, 0.01 ..., or auto: the coarsest that keeps up (default: %(default)s)",
    )
    _add_clock(parser)


def _add_clock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clock-back",
        type=arguments.clock_back,
        default="2",
        metavar="SECONDS",
        help="how far the clock may go back before it is called faulty (default: %(default)s)",
    )
    parser.add_argument(
        "--synchronised",
        action="store_true",
        help="only while somebody keeps the clock of this machine right",
    )


def open_subsystem(args: argparse.Namespace) -> Subsystem:
    """The subsystem that the arguments describe, with a warning if its labels are only for trying.

    Raises ParseError or MintingNotAllowed where no label can be made.
    """
    from ibi.identifier.generator import LabelGenerator
    from ibi.minting import Subsystem, WaitingRoom
    from ibi.minting.machine import this_machine
    from ibi.minting.subsystem import granularity_of

    generator = LabelGenerator(args.host, args.port, args.ip, args.ip_port, for_trying=args.for_trying)
    _warn(generator)
    waiting_room = WaitingRoom(args.data, this_machine(), limits(args), generator.prefixes)
    return Subsystem(waiting_room, generator, granularity_of(args.granularity))


def spelled(args: argparse.Namespace) -> str:
    """The options that were given and say what labels spell; a list of subsystems says it in their place."""
    return ", ".join(name for name in dict.fromkeys(args.given_options) if name != _GRANULARITY)


def limits(args: argparse.Namespace) -> ClockLimits:
    """When the clock is to be believed."""
    from ibi.minting.clock import ClockLimits

    return ClockLimits(back=args.clock_back, synchronised=args.synchronised)


def run(args: argparse.Namespace) -> int:
    """Print labels. Raises MintingError or SetupError where none can be given; those printed before stay given."""
    write = _described if args.json else _line
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    out = sys.stdout.fileno()
    try:
        with _chosen(args) as subsystem, _bar(args.count) as bar:
            for chunk in subsystem.chunks(args.count):
                for piece in _pieces(map(write, chunk)):
                    select.select((), (out,), ())  # a reader may sleep for long: here we can be stopped
                    with _uninterrupted():
                        _put(out, piece)
                        printed += piece.count(b"\n")
                if bar:
                    bar.at(printed)
    except KeyboardInterrupt:
        print(say("stopped after {count} labels", count=printed), file=sys.stderr)
        raise
    return 0


def _chosen(args: argparse.Namespace) -> Subsystem:
    """The subsystem that is named, or described where none is listed. Raises as `open_subsystem`, and SetupError."""
    from ibi.minting.subsystem import granularity_of
    from ibi.runtime.settings import SubsystemSettings

    path = args.data / SubsystemSettings.FILE
    if args.subsystem is None:
        if path.exists():
            problem = "{path} lists what is minted under; leave out {options}, and say --subsystem and one of: {names}"
            names = ", ".join(SubsystemSettings.read_all(args.data))
            raise SetupError(problem, path=path, options=spelled(args), names=names)
        return open_subsystem(args)
    if spelled(args):
        problem = "{path} lists what is minted under; leave out {options}"
        raise SetupError(problem, path=path, options=spelled(args))
    subsystem = arguments.listed_subsystems(args.data, limits(args), args.subsystem)[args.subsystem]
    if _GRANULARITY in args.given_options:
        subsystem.granularity = granularity_of(args.granularity)
    _warn(subsystem.generator)
    return subsystem


def _warn(generator: LabelGenerator) -> None:
    if generator.why_not_unique is not None:
        print(say(generator.why_not_unique, host=generator.host, ip=generator.ip), file=sys.stderr)


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    """Whole lines, in pieces so small that a pipe which is ready takes one without any wait."""
    piece = b""
    for line in map(str.encode, lines):
        if len(piece) + len(line) > select.PIPE_BUF:
            yield piece
            piece = b""
        piece += line
    yield piece


def _put(out: int, piece: bytes) -> None:
    """Write all of it: a file may take less at a time, and a descriptor that does not block none for a while."""
    while piece := piece[os.write(out, piece) :]:
        select.select((), (out,), ())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the line is whole: half a label is none, or worse, another one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _bar(count: int) -> Iterator[Progress | None]:
    """A bar for many labels, where they do not run through the same terminal."""
    if count < _WORTH_A_BAR or sys.stdout.isatty() or not sys.stderr.isatty():
        yield None
        return
    from ibi.cli.arguments import Progress

    with ExitStack() as stack:
        with _uninterrupted():  # and so is its thread for ever, which else would take signals that we put off
            bar = stack.enter_context(Progress("ibi mint", count))
        yield bar


def _line(label: Label) -> str:
    return f"{label.rep} {label.ibip}\n" if label.ibip else f"{label.rep}\n"


def _described(label: Label) -> str:
    described = {"rep": label.rep, "ibip": label.ibip, "datetime": label.datetime}
    return f"{json.dumps(described)}\n"


def _count(text: str) -> int:
    return arguments.number(text, _MOST, f"not a number of labels: {text}")
