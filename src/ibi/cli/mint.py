"""`ibi mint`: labels of one identification subsystem, one a line, each when its moment has come."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import arguments
from ibi.errors import ParseError
from ibi.identifier.dates import parse_granularity
from ibi.identifier.generator import Subsystem
from ibi.texts import say

if TYPE_CHECKING:
    from ibi.identifier.forms import IBIForms

_MOST = 10**12  # labels of one command; more are a slip of the finger


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mint` to the commands."""
    parser = commands.add_parser("mint", help="give new labels under a host name, and under an IP address")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="where the last date is kept; empty: a start"
    )
    parser.add_argument("--host", required=True, metavar="HOST", help="the host name that the labels spell")
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
        type=_granularity,
        default="1",
        metavar="SECONDS",
        help="60, 1, 0.1, 0.01 ... (default: %(default)s)",
    )
    parser.add_argument(
        "--count", type=_count, default=1, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument("--for-trying", action="store_true", help="under a name or address that nobody owns")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print labels. Raises MintingError or SetupError where none can be given; those printed before stay given."""
    from ibi.minting import WaitingRoom, mint

    subsystem = Subsystem(args.host, args.port, args.ip, args.ip_port, for_trying=args.for_trying)
    if subsystem.why_not_ours is not None:
        print(say(subsystem.why_not_ours, host=subsystem.host, ip=subsystem.ip), file=sys.stderr)
    with WaitingRoom(args.data, time.time_ns, time.sleep) as room:
        for _ in range(args.count):
            forms = mint(room, subsystem, args.granularity)
            print(_described(forms) if args.json else _line(forms), flush=True)
    return 0


def _line(forms: IBIForms) -> str:
    return " ".join(forms.words[1::2])


def _described(forms: IBIForms) -> str:
    rep, ibip = forms.rep, forms.ibip
    return json.dumps({
        "rep": str(rep) if rep else None,
        "ibip": str(ibip) if ibip else None,
        "datetime": forms.main.date.text,
    })  # fmt: skip


def _granularity(text: str) -> int:
    try:
        return parse_granularity(text)
    except ParseError as error:
        raise argparse.ArgumentTypeError(f"{error}: {text}") from None


def _count(text: str) -> int:
    return arguments.number(text, _MOST, f"not a number of labels: {text}")
