"""`ibi mint serve` and `ibi mint token`: labels over HTTP, and the tokens of those who may ask for them."""

from __future__ import annotations

import ipaddress
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import arguments, mint
from ibi.errors import SetupError
from ibi.identifier.dates import TICKS, date_text, granularity_text
from ibi.runtime import logging as logs
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.minting import Subsystem
    from ibi.minting.subsystem import Candidate

# Seconds for which one thread may keep the others waiting. With the default (5 ms), the thread that reserves dates, and
# waits for its turn after each flush, would take many times as long as the disk.
_SWITCH_INTERVAL = 0.0001


def add_parser(commands: argparse._SubParsersAction[arguments.Parser]) -> None:
    """Add `serve` and `token` to the words of `mint`, which is already among the commands."""
    words = commands.choices["mint"]
    _add_serve(words.add_word("serve", "give labels over HTTP to those who have a token"))
    _add_token(words.add_word("token", "say who may ask for labels over HTTP"))


def _add_serve(parser: argparse.ArgumentParser) -> None:
    mint.add_subsystem(parser, granularity=arguments.AUTOMATIC, host_required=False)
    parser.add_argument("--bind", default="127.0.0.1:8090", metavar="HOST:PORT", help="where to listen")
    parser.add_argument(
        "--workers", type=arguments.workers, default=1, metavar="N", help="processes that share the work"
    )
    parser.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate chain"
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="and this private key")
    arguments.add_logging(parser)
    parser.set_defaults(run=run_serve)


def _add_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the data directory that labels are made in"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--name", metavar="NAME", help="make a token under this name; it is shown only now")
    what.add_argument("--list", action="store_true", help="the names of the tokens, and when they were made")
    what.add_argument("--revoke", metavar="NAME", help="let nobody mint with this token any more")
    parser.set_defaults(run=run_token)


def run_token(args: argparse.Namespace) -> int:
    """Make, list or revoke tokens. Raises ParseError or SetupError where that cannot be done."""
    from ibi.accounts.tokens import Tokens
    from ibi.minting.state import FOLDER

    tokens = Tokens(args.data / FOLDER)
    if args.list:
        for known in tokens.all():
            print(f"{known.name}  {known.made}")
    elif args.revoke is not None:
        tokens.revoke(args.revoke)
    else:
        token = tokens.make(args.name, date_text(time.time_ns() // TICKS * TICKS))
        print(say("the token {name} is shown only now:", name=args.name), file=sys.stderr)
        print(token)
    return 0


def run_serve(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C. Raises ParseError, MintingError or SetupError where nothing can be minted."""
    from ibi import app
    from ibi.http.server.workers import serve

    tls = arguments.tls_files(args)
    subsystems = _checked(args)
    logs.set_up(
        args.log_format, libraries=logging.CRITICAL
    )  # the service itself logs clients that stop reading
    sys.setswitchinterval(_SWITCH_INTERVAL)  # also for the workers
    serve(
        lambda: [app.mint_service(args.data, subsystems, workers=args.workers, tls=tls)],
        [args.bind],
        lambda urls: print(f"ready {urls[0]}", flush=True),
        args.workers,
        access_log=args.access_log,
    )
    return 0


def _checked(args: argparse.Namespace) -> Sequence[Candidate[Subsystem]]:
    """The subsystems; faults show here, before any process is started."""
    from ibi.accounts.tokens import Tokens
    from ibi.http.server.service import address_of
    from ibi.minting.batcher import LONGEST_WAIT
    from ibi.minting.state import FOLDER

    if not Tokens(args.data / FOLDER).all():
        problem = "nobody may mint here yet; make a token: ibi mint token --data {data} --name NAME"
        raise SetupError(problem, data=args.data)
    if args.tls_cert is None and not _is_loopback(address_of(args.bind)):
        sentence = (
            "tokens travel unencrypted to {bind}; give --tls-cert and --tls-key, or let a proxy encrypt"
        )
        print(say(sentence, bind=args.bind), file=sys.stderr)
    subsystems = _subsystems(args)
    for each in subsystems:
        step = each.namer.granularity or 1
        if step * args.workers > LONGEST_WAIT * TICKS:
            raise SetupError(
                "with a granularity of {granularity} seconds and --workers {workers} no answer comes in time",
                granularity=granularity_text(step),
                workers=args.workers,
            )
        with each.namer:
            pass
    return subsystems


def _subsystems(args: argparse.Namespace) -> Sequence[Candidate[Subsystem]]:
    """The subsystem that the options describe, or those that the data directory lists."""
    from ibi.minting.machine import this_machine
    from ibi.minting.subsystem import Candidate, open_subsystems
    from ibi.runtime.settings import SubsystemSettings

    several = args.data / SubsystemSettings.FILE
    if not several.exists():
        if args.host is None:
            raise SetupError(
                "what are the labels to spell? Say --host, or list subsystems in {path}", path=several
            )
        return [Candidate(mint.open_subsystem(args))]
    if args.given_options:
        problem = "{path} lists what is minted under; leave out {options}"
        raise SetupError(problem, path=several, options=", ".join(dict.fromkeys(args.given_options)))
    return open_subsystems(args.data, this_machine(), mint.limits(args))


def _is_loopback(bind: str) -> bool:
    host = bind.rpartition(":")[0].strip("[]") or "127.0.0.1"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
