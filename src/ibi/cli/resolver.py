"""`ibi resolver ...`: make a resolver, register Archives with it, run it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ibi import logs
from ibi.cli import resolver_members, resolver_words
from ibi.cli.arguments import tls_files
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import split_hostport
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolver` and its subcommands to the commands."""
    resolver_words.describe(commands).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    actions = {
        "init": _init,
        "register": resolver_members.register,
        "unregister": resolver_members.unregister,
        "archives": resolver_members.archives,
        "applications": resolver_members.applications,
        "approve": resolver_members.approve,
        "refuse": resolver_members.refuse,
        "rotate": resolver_members.rotate,
        "allow-move": resolver_members.allow_move,
        "serve": _serve,
    }
    return actions[args.action](args)


def _init(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.settings import ResolverSettings

    data: Path = args.data
    if ResolverSettings.exists(data):
        raise SetupError("{data} already holds a resolver", data=data)
    for address in (args.address, *args.alias):
        split_hostport(address)
    service = IBIForms.of(parse_ibi(args.service_ibi)) if args.service_ibi else _mint(data, args.address)
    settings = ResolverSettings(
        address=args.address,
        service=service,
        aliases=tuple(args.alias),
        policy=args.policy,
        allow_private_archives=args.allow_private_archives,
    )
    _make_directory(data)
    assembly.registry(data, new=True).close()
    settings.write(data)
    base = f"http://{args.address}/{service.main}"
    if args.json:
        print(json.dumps({"service_ibi": str(service.main), "service": str(service), "base_url": base}))
    else:
        print(base)
    return 0


def _make_directory(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError("{path} cannot be made: {reason}", path=data, reason=error.strerror) from None


def _mint(data: Path, address: str) -> IBIForms:
    """A service IBI in the resolver's own name, with a warning where nobody owns that name (AMB-10)."""
    from ibi.identifier.dates import parse_granularity
    from ibi.minting import WaitingRoom
    from ibi.minting.machine import this_machine

    label, problem = _labels(address)
    if problem is not None:
        print(say(problem), file=sys.stderr)
        print(say("the service IBI is only for trying out; --service-ibi takes another one"), file=sys.stderr)
    with WaitingRoom(data, this_machine()) as room:
        return label(room.draw(parse_granularity("1")))


def _labels(address: str) -> tuple[Callable[[int], IBIForms], IbiError | None]:
    """What spells a label for a date (in ticks) under an address, and why it would not be unique in the world."""
    from ibi.identifier.generator import LabelGenerator, is_public_ip
    from ibi.identifier.ibip import IBIp

    host, port = split_hostport(address)
    ip, port = _literal(host), port or 80
    if ip is not None:
        problem = None if is_public_ip(ip) else IbiError("the address {ip} is not public", ip=ip)
        return lambda ticks: IBIForms(ibip=IBIp.make(ip, port, ticks)), problem
    try:
        generator = LabelGenerator(host, port, for_trying=True)
    except ParseError as error:
        sentence = "no IBI can be made from {host} ({why}); give one with --service-ibi"
        raise SetupError(sentence, host=host, why=error) from None
    return generator.label, None if generator.why_not_ours is None else IbiError(
        generator.why_not_ours, host=host
    )


def _literal(host: str) -> str | None:
    """The IP address that a host is; None for a name. "localhost" is this machine's own address."""
    from ibi.identifier.ibip import canonical_ip

    try:
        return canonical_ip("127.0.0.1" if host.lower() == "localhost" else host)
    except ParseError:
        return None


def _serve(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.serving import address_of
    from ibi.serving.workers import serve

    tls = tls_files(args)
    assembly.check_resolver(args.data)  # a fault shows here, before any process is started
    logs.set_up(args.log_format)
    listening = address_of(args.bind)
    serve(
        lambda: [
            assembly.resolver_service(args.data, trusted=args.trusted_proxy, listening=[listening], tls=tls)
        ],
        [args.bind],
        lambda urls: print(f"ready {urls[0]}", flush=True),
        args.workers,
        access_log=args.access_log,
    )
    return 0
