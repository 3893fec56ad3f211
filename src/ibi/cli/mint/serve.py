"""`ibi mint serve` and `ibi mint token`: the service that gives labels over HTTP, and tokens for clients."""

from __future__ import annotations

import ipaddress
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

from ibi.cli import mint
from ibi.cli.common import (
    CommandGroup,
    add_former_token_options,
    add_logging,
    add_tls,
    argument,
    flag,
    print_ready,
    quiet_option,
    tell,
    tls_files,
    workers,
)
from ibi.errors import SetupError
from ibi.identifier.dates import AUTOMATIC, TICKS, granularity_text
from ibi.runtime import logging as logs
from ibi.runtime.settings import SubsystemSettings
from ibi.runtime.settings.rules import check_networks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.cli.parser import Parser
    from ibi.minting import Subsystem
    from ibi.minting.subsystem import Candidate

# Seconds for which one Python thread may keep the others waiting. The thread that reserves dates waits for
# its turn after each flush; with the default (5 ms) this would take many times as long as the disk.
_SWITCH_INTERVAL = 0.0001


def add_parser(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `serve` and `token` to the subcommands of `mint`, which is already among the commands."""
    words = commands.choices["mint"]
    parser = words.add_word("serve", "give labels over HTTP to those who have a token")
    mint.add_subsystem(parser, AUTOMATIC, host_required=False)
    argument(parser, "--bind HOST:PORT", "where to listen", default="127.0.0.1:8090")
    argument(parser, "--workers N", "processes that share the work", type=workers, default=1)
    networks = "a network from which /-/metrics may be read; without any, only this machine"
    argument(parser, "--metrics-network CIDR", networks, action="append", default=[])
    add_tls(parser)
    add_logging(parser)
    quiet_option(parser)
    parser.set_defaults(run=run_serve)
    _add_token(words.add_word("token", "say who may ask for labels over HTTP"))


def _add_token(parser: Parser) -> None:
    """Add the subcommands for tokens; their fields are declared here, because those of operations need msgspec."""
    tokens = CommandGroup(parser, "WORD", "the data directory that labels are made in", beside=True)
    for make in (
        tokens.add("add", "make a token, shown only this once", partial(_run_token, "add")),
        tokens.add("list", "the tokens of programs, none of which is shown", partial(_run_token, "list")),
        tokens.add("remove", "revoke a token", partial(_run_token, "remove")),
    ):
        if not make.prog.endswith(" list"):
            argument(make, "name NAME", "the name of the token")
        flag(make, "--json", "one JSON document")
    add_former_token_options(parser, partial(_run_token, ""))


def _run_token(word: str, args: argparse.Namespace) -> int:
    """Make, list or revoke tokens. Raises ParseError, NotHeld or SetupError."""
    from ibi.cli import accounts
    from ibi.minting.state import FOLDER

    service = accounts.Service(lambda _: None, folder=FOLDER)
    return (
        accounts.run_token_word(service, word, args) if word else accounts.run_former_options(service, args)
    )


def run_serve(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C. Raises ParseError, MintingError, SetupError if no label can be made."""
    from ibi.app.mint import mint_service
    from ibi.http.server.workers import serve

    tls = tls_files(args)
    check_networks("--metrics-network", args.metrics_network)
    subsystems = _checked(args)
    # Libraries log only critical events, because the service itself logs clients that stop reading.
    logs.set_up(args.log_format, libraries=logging.CRITICAL)
    sys.setswitchinterval(_SWITCH_INTERVAL)  # also for the workers
    serve(
        lambda: [
            mint_service(
                args.data,
                subsystems,
                workers=args.workers,
                tls=tls,
                metrics_networks=args.metrics_network,
            )
        ],
        [args.bind],
        print_ready,
        args.workers,
        access_log=args.access_log,
    )
    return 0


def _checked(args: argparse.Namespace) -> Sequence[Candidate[Subsystem]]:
    """Return the subsystems after checking them, so that faults show before any process is started."""
    from ibi.accounts.tokens import Tokens
    from ibi.http.server.service import address_of
    from ibi.minting.batcher import LONGEST_WAIT
    from ibi.minting.state import FOLDER

    if not Tokens(args.data / FOLDER).all():
        problem = "no token for minting exists yet; make one: ibi mint token add NAME --data {data}"
        raise SetupError(problem, data=args.data)
    # An eavesdropper who reads a token can mint with it (T15: keys in logs).
    if args.tls_cert is None and not _is_loopback(address_of(args.bind)):
        sentence = (
            "tokens travel unencrypted to {bind}; give --tls-cert and --tls-key, or let a proxy encrypt"
        )
        tell(sentence, bind=args.bind)
    subsystems = _subsystems(args)
    for each in subsystems:
        step = each.namer.granularity or 1
        if step * args.workers > LONGEST_WAIT * TICKS:
            raise SetupError(
                "with a granularity of {granularity} seconds and --workers {workers} no answer comes in time",
                granularity=granularity_text(step),
                workers=args.workers,
            )
        # Open it once, so that a fault of its state shows before any process is started.
        with each.namer:
            pass
    return subsystems


def _subsystems(args: argparse.Namespace) -> Sequence[Candidate[Subsystem]]:
    """Return the subsystem that the options describe, or those that the data directory lists."""
    from ibi.minting.machine import this_machine
    from ibi.minting.subsystem import Candidate, open_subsystems

    several = args.data / SubsystemSettings.FILE
    if not several.exists():
        if args.host is None:
            raise SetupError(
                "which name should the labels carry? Give --host, or list subsystems in {path}", path=several
            )
        return [Candidate(mint.open_subsystem(args))]
    if args.given_options:
        problem = "{path} lists the names to mint under; leave out {options}"
        raise SetupError(problem, path=several, options=", ".join(dict.fromkeys(args.given_options)))
    return open_subsystems(args.data, this_machine(), mint.limits(args))


def _is_loopback(bind: str) -> bool:
    host = bind.rpartition(":")[0].strip("[]") or "127.0.0.1"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
