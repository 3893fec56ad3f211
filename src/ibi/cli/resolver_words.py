"""What can be said after `ibi resolver`: its subcommands and their options."""

from __future__ import annotations

import argparse
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import resolver_accounts, resolver_log, resolver_mirror, resolver_set, resolver_tokens
from ibi.cli.arguments import add_logging, workers

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


def describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add `resolver` and its subcommands to the commands; returns the parser of `resolver`."""
    parser = commands.add_parser("resolver", help="make and run a resolver of persistent URLs")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_init(actions)
    _add_registration(actions)
    _add_serve(actions)
    resolver_log.add_parser(actions)
    resolver_mirror.add_parser(actions)
    resolver_accounts.add_parser(actions)
    resolver_tokens.add_parser(actions)
    resolver_set.add_parser(actions)
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
