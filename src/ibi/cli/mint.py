"""`ibi mint`: labels of one identification subsystem, one a line, each when its moment has come."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import arguments, mint_recover
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ibi.cli.progress import Progress
    from ibi.minting import Label, Subsystem

_MOST = 10**12  # labels of one command; more are a slip of the finger
_WORTH_A_BAR = 1000  # labels


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
    mint_recover.add_word(parser)


def add_subsystem(parser: argparse.ArgumentParser, granularity: str, *, host_required: bool = True) -> None:
    """Add what says where and under which names labels are made."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="where the last date is kept; empty: a start"
    )
    parser.add_argument(
        "--host", required=host_required, metavar="HOST", help="the host name that the labels spell"
    )
    parser.add_argument(
        "--port", type=arguments.port, default=80, metavar="PORT", help="its port (default: %(default)s)"
    )
    parser.add_argument(
        "--ip", metavar="IP", help="the IP address that IBIps spell; without it there are none"
    )
    parser.add_argument(
        "--ip-port", type=arguments.port, default=800, metavar="PORT", help="its port (default: %(default)s)"
    )
    parser.add_argument(
        "--granularity",
        type=arguments.granularity,
        default=granularity,
        metavar="SECONDS",
        help="60, 1, 0.1, 0.01 ..., or auto: the coarsest that keeps up (default: %(default)s)",
    )
    parser.add_argument("--for-trying", action="store_true", help="under a name or address that nobody owns")
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

    Raises ParseError or NotOurs where no label can be made.
    """
    from ibi.identifier.generator import LabelGenerator
    from ibi.minting import Subsystem, WaitingRoom
    from ibi.minting.clock import ClockLimits
    from ibi.minting.machine import this_machine

    generator = LabelGenerator(args.host, args.port, args.ip, args.ip_port, for_trying=args.for_trying)
    if generator.why_not_ours is not None:
        print(say(generator.why_not_ours, host=generator.host, ip=generator.ip), file=sys.stderr)
    limits = ClockLimits(back=args.clock_back, synchronised=args.synchronised)
    return Subsystem(WaitingRoom(args.data, this_machine(), limits), generator, args.granularity)


def run(args: argparse.Namespace) -> int:
    """Print labels. Raises MintingError or SetupError where none can be given; those printed before stay given."""
    write = _described if args.json else _line
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    try:
        with open_subsystem(args) as subsystem, _bar(args.count) as bar:
            for chunk in subsystem.chunks(args.count):
                with _uninterrupted():
                    sys.stdout.write("".join(map(write, chunk)))
                    sys.stdout.flush()
                    printed += len(chunk)
                if bar:
                    bar.at(printed)
    except KeyboardInterrupt:
        print(say("stopped after {count} labels", count=printed), file=sys.stderr)
        raise
    return 0


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the line is whole: half a label is none, or worse, another one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _bar(count: int) -> AbstractContextManager[Progress | None]:
    """A bar for many labels, where they do not run through the same terminal."""
    if count < _WORTH_A_BAR or sys.stdout.isatty() or not sys.stderr.isatty():
        return nullcontext()
    from ibi.cli.progress import Progress

    return Progress("ibi mint", count)


def _line(label: Label) -> str:
    return f"{label.rep} {label.ibip}\n" if label.ibip else f"{label.rep}\n"


def _described(label: Label) -> str:
    described = {"rep": label.rep, "ibip": label.ibip, "datetime": label.datetime}
    return f"{json.dumps(described)}\n"


def _count(text: str) -> int:
    return arguments.number(text, _MOST, f"not a number of labels: {text}")
