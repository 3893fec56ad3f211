"""`ibi resolver ...`: make a resolver, register Archives with it, run it; its subcommands and their options."""

from __future__ import annotations

import argparse
import json
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli.arguments import add_logging, tls_files, workers
from ibi.cli.resolver import log, members, settings
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import split_hostport
from ibi.runtime import logging
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Network, IPv6Network


def describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add `resolver` and its subcommands to the commands; returns the parser of `resolver`."""
    parser = commands.add_parser("resolver", help="make and run a resolver of persistent URLs")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_init(actions)
    _add_registration(actions)
    _add_serve(actions)
    log.add_parser(actions)
    members.add_parser(actions)
    settings.add_account_parser(actions)
    settings.add_token_parser(actions)
    settings.add_set_parser(actions)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the resolver's data directory"
    )


def _add_init(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser("init", help="make a resolver")
    _add_data(parser)
    parser.add_argument("--address", required=True, metavar="HOST[:PORT]", help="where readers reach it")
    parser.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="another name under which it answers",
    )
    parser.add_argument(
        "--service-ibi", metavar="IBI", help="the IBI of its service; without it, one is minted"
    )
    parser.add_argument(
        "--policy", choices=("hardened", "strict"), default="hardened", help="how answers are judged"
    )
    parser.add_argument(
        "--allow-private-archives",
        action="store_true",
        help="contact Archives at addresses that are not public",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def _add_registration(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_register(actions)
    unregister = actions.add_parser("unregister", help="forget an Archive")
    _add_data(unregister)
    unregister.add_argument(
        "--archive-service", required=True, metavar="IBI", help="the IBI of the Archive's service"
    )
    for name, help_ in (
        ("archives", "list the registered Archives"),
        ("applications", "list the Archives that have applied"),
    ):
        lists = actions.add_parser(name, help=help_)
        _add_data(lists)
        lists.add_argument("--json", action="store_true", help="one JSON document")
    for name, help_ in (
        ("approve", "register an Archive that has applied"),
        ("refuse", "forget an application"),
        ("rotate", "give an Archive a new key, printed once; the old one is void"),
        ("allow-move", "let an Archive move once, though its old address still answers"),
    ):
        decides = actions.add_parser(name, help=help_)
        _add_data(decides)
        decides.add_argument("archive_service", metavar="IBI", help="the IBI of the Archive's service")


def _add_register(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    register = actions.add_parser("register", help="register an Archive")
    _add_data(register)
    who = register.add_mutually_exclusive_group(required=True)
    who.add_argument("--archive-service", metavar="IBI", help="the IBI of the Archive's service")
    who.add_argument(
        "--from-mail",
        metavar="FILE",
        help="read IBI and key from a registration mail or its text; - is the standard input",
    )
    register.add_argument(
        "--key", help="its registration key; without it, a strong one is made and printed once"
    )
    register.add_argument(
        "--mail", default="", metavar="ADDRESS", help="the mail address of its administrator"
    )
    register.add_argument(
        "--url-host",
        nargs="+",
        action="extend",
        default=[],
        metavar="HOST",
        help="redirects lead to these hosts only",
    )
    register.add_argument("--json", action="store_true", help="one JSON document")


def _add_serve(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser("serve", help="run the resolver")
    _add_data(parser)
    parser.add_argument("--bind", default="127.0.0.1:8080", metavar="HOST:PORT", help="where to listen")
    parser.add_argument(
        "--workers", type=workers, default=1, metavar="N", help="processes that share the work"
    )
    parser.add_argument(
        "--trusted-proxy",
        type=_network,
        action="append",
        default=[],
        metavar="CIDR",
        help="proxies whose X-Forwarded-For is believed; they are left out of the list of addresses",
    )
    parser.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate chain"
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="and this private key")
    add_logging(parser)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not an address or a network: {text}") from None


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolver` and its subcommands to the commands."""
    describe(commands).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    actions = {
        "init": _init,
        "register": members.register,
        "unregister": members.unregister,
        "archives": members.archives,
        "applications": members.applications,
        "approve": members.approve,
        "refuse": members.refuse,
        "rotate": members.rotate,
        "allow-move": members.allow_move,
        "serve": _serve,
    }
    return actions[args.action](args)


def _init(args: argparse.Namespace) -> int:
    from ibi import app
    from ibi.runtime.settings import ResolverSettings

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
    app.registry(data, new=True).close()
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
    """A service IBI in the resolver's own name, with a warning where that name has no owner (AMB-10)."""
    from ibi.identifier.dates import parse_granularity
    from ibi.minting import WaitingRoom
    from ibi.minting.machine import this_machine

    label, problem = _labels(address)
    if problem is not None:
        print(say(problem), file=sys.stderr)
        print(say("the service IBI is only for trying out; --service-ibi takes another one"), file=sys.stderr)
    with WaitingRoom(data, this_machine()) as waiting_room:
        return label(waiting_room.draw(parse_granularity("1")))


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
    return generator.label, None if generator.why_not_unique is None else IbiError(
        generator.why_not_unique, host=host
    )


def _literal(host: str) -> str | None:
    """The IP address that a host is; None for a name. "localhost" is this machine's own address."""
    from ibi.identifier.ibip import canonical_ip

    try:
        return canonical_ip("127.0.0.1" if host.lower() == "localhost" else host)
    except ParseError:
        return None


def _serve(args: argparse.Namespace) -> int:
    from ibi import app
    from ibi.http.server.service import address_of
    from ibi.http.server.workers import serve

    tls = tls_files(args)
    app.check_resolver(args.data)  # a fault shows here, before any process is started
    logging.set_up(args.log_format)
    listening = address_of(args.bind)
    serve(
        lambda: [app.resolver_service(args.data, trusted=args.trusted_proxy, listening=[listening], tls=tls)],
        [args.bind],
        lambda urls: print(f"ready {urls[0]}", flush=True),
        args.workers,
        access_log=args.access_log,
    )
    return 0
