"""`ibi resolver ...`: make a resolver, register Archives with it, run it; its subcommands and their options."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli.common import (
    CommandGroup,
    add_logging,
    add_tls,
    argument,
    flag,
    print_ready,
    remark,
    tell,
    tls_files,
    workers,
)
from ibi.cli.resolver import log, members, settings
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.dates import parse_granularity
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import LabelGenerator, is_public_ip
from ibi.identifier.ibip import IBIp, canonical_ip
from ibi.protocol.messages import split_hostport
from ibi.runtime import logging
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.i18n import say
from ibi.runtime.settings import PLACEHOLDER, ResolverSettings
from ibi.runtime.settings.rules import check_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Network, IPv6Network

    from ibi.cli.parser import Parser


def add_parser(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `resolver` and its subcommands to the commands."""
    parser = commands.add_parser("resolver", help="make and run a resolver of persistent URLs")
    actions = CommandGroup(parser, "ACTION", "the resolver's data directory", described=False)
    init = actions.add("init", "make a resolver", _init)
    text = "where readers reach it, host[:port]; needed unless the store has a resolver already"
    argument(init, "--address HOST[:PORT]", text, default="")
    text = "another name under which it answers; may be repeated"
    argument(init, "--alias HOST[:PORT]", text, action="append", default=[])
    argument(init, "--service-ibi IBI", "the IBI of its service; without it, one is minted")
    argument(init, "--policy", "how answers are judged", choices=("hardened", "strict"), default="hardened")
    flag(init, "--allow-private-archives", "contact Archives at addresses that are not public")
    text = "the PostgreSQL database that nodes share, postgresql://user:password@host/name"
    argument(init, "--store URL", text, default="")
    flag(init, "--json", "one JSON document")
    members.add(actions)
    serve = actions.add("serve", "run the resolver", _serve)
    argument(serve, "--bind HOST:PORT", "where to listen", default="127.0.0.1:8080")
    argument(serve, "--workers N", "processes that share the work", type=workers, default=1)
    text = "an address or network of proxies whose X-Forwarded-For is believed; may be repeated"
    argument(serve, "--trusted-proxy CIDR", text, type=_network, action="append", default=[])
    add_tls(serve)
    text = "where to listen without TLS besides, for Archives, which send their messages over http"
    argument(serve, "--plain-bind HOST:PORT", text, default="")
    add_logging(serve)
    log.add(actions)
    members.add_lists(actions)
    settings.add(actions)
    parser.list_under("the resolver", "init", "serve", "set", "institution", "move-store")
    archives = ("register", "unregister", "archives", "status", "rotate", "allow-move")
    parser.list_under("Archives", *archives, "applications", "approve", "refuse")
    parser.list_under("people and programs", "account", "token")
    parser.list_under("evidence", "log", "alerts", "settle-alert")
    parser.list_under("lists of Archives", "export-registry", "import-registry")


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        reason = say("{text} is neither an address nor a network", text=text)
        raise argparse.ArgumentTypeError(reason) from None


def _init(args: argparse.Namespace) -> int:
    if ResolverSettings.exists(args.data):
        raise SetupError("{data} already holds a resolver", data=args.data)
    settings = _init_node(args) if args.store else _init_alone(args)
    base = f"http://{settings.address}/{settings.service.main}"
    if args.json:
        service = settings.service
        print(json.dumps({"service_ibi": str(service.main), "service": str(service), "base_url": base}))
    else:
        print(base)
        _tell_next_steps(args.data)
    return 0


def _init_alone(args: argparse.Namespace) -> ResolverSettings:
    """Make a resolver in a data directory."""
    from ibi.app.resolver import open_registry

    data: Path = args.data
    settings = _new_settings(args)
    with setup_errors("{path} cannot be made: {reason}", path=data):
        data.mkdir(parents=True, exist_ok=True)
    open_registry(data, new=True).close()
    # Written last, because a directory with settings counts as a complete resolver.
    settings.write(data)
    return settings


def _init_node(args: argparse.Namespace) -> ResolverSettings:
    """Make a data directory a node of the resolver in a store, which is made if the store has none."""
    from ibi.app.resolver_joining import found, founded_service, join, resolver_store

    check_store("--store", args.store)
    with resolver_store(args.store) as documents:
        service = founded_service(documents)
        if service is None:
            found(documents, _new_settings(args))
        elif args.service_ibi and not service.names(parse_ibi(args.service_ibi)):
            raise SetupError("the store holds another resolver, whose service is {ibi}", ibi=service.main)
    settings = join(args.data, args.store)
    if args.address and args.address != settings.address:
        tell(
            IbiError(
                "the store holds the resolver at {address}: this is a node of it", address=settings.address
            )
        )
    return settings


def _new_settings(args: argparse.Namespace) -> ResolverSettings:
    """Return the settings of a new resolver, with a service IBI of its own."""
    if not args.address:
        raise SetupError("--address is missing: where readers reach the resolver")
    # Check here: otherwise a wrong address shows only when the resolver is served or a reader comes.
    for address in (args.address, *args.alias):
        split_hostport(address)
    given = IBIForms.of(parse_ibi(args.service_ibi)) if args.service_ibi else None
    settings = ResolverSettings(
        address=args.address,
        service=given or PLACEHOLDER,
        aliases=tuple(args.alias),
        policy=args.policy,
        allow_private_archives=args.allow_private_archives,
    ).with_environment()
    return replace(settings, service=given or _mint(args.data, args.address))


def _tell_next_steps(data: Path) -> None:
    """Print the next steps for a new resolver."""
    folder = shlex.quote(str(data))
    remark("Start it with: {command}", command=f"ibi resolver serve --data {folder} --bind HOST:PORT")
    command = f"ibi resolver set --data {folder} admin MAIL"
    remark("Set the contact for readers of alerts with: {command}", command=command)
    command = f"ibi resolver register --data {folder} --archive-service IBI"
    remark("Let an Archive take part with: {command}", command=command)
    remark("Check that all is in order with: {command}", command=f"ibi doctor --data {folder}")


def _mint(data: Path, address: str) -> IBIForms:
    """Mint a service IBI under the resolver's own name, with a warning if no one owns that name (AMB-10)."""
    from ibi.minting import WaitingRoom
    from ibi.minting.machine import this_machine

    label, problem = _labels(address)
    if problem is not None:
        tell(problem)
        tell("the service IBI is only for trying out; --service-ibi sets another one")
    with WaitingRoom(data, this_machine()) as waiting_room:
        return label(waiting_room.draw(parse_granularity("1")))


def _labels(address: str) -> tuple[Callable[[int], IBIForms], IbiError | None]:
    """Return what spells the label of a date (in ticks), and why labels would not be unique, or None."""
    host, port = split_hostport(address)
    ip, port = _literal(host), port or 80
    if ip is not None:
        private = None if is_public_ip(ip) else IbiError("the address {ip} is not public", ip=ip)
        return lambda ticks: IBIForms(ibip=IBIp.make(ip, port, ticks)), private
    try:
        generator = LabelGenerator(host, port, for_trying=True)
    except ParseError as error:
        sentence = "no IBI can be made from {host} ({why}); give one with --service-ibi"
        raise SetupError(sentence, host=host, why=error) from None
    problem = generator.why_not_unique
    return generator.label, None if problem is None else IbiError(problem, host=host)


def _literal(host: str) -> str | None:
    """Return the IP address that a host spells; None for a name. "localhost" is 127.0.0.1."""
    try:
        return canonical_ip("127.0.0.1" if host.lower() == "localhost" else host)
    except ParseError:
        return None


def _serve(args: argparse.Namespace) -> int:
    from ibi.accounts.stored import list_faults
    from ibi.app.resolver import check_resolver, resolver_service
    from ibi.http.public_url import TLSPorts
    from ibi.http.server.service import Service, address_of, without_tls
    from ibi.http.server.workers import serve
    from ibi.runtime.shared.store import close_store

    tls = tls_files(args)
    if args.plain_bind and tls is None:
        raise SetupError("--plain-bind is used only with --tls-cert and --tls-key")
    check_resolver(args.data)  # a fault shows here, before any process is started
    for damage in list_faults(args.data):
        tell(damage)
    close_store(args.data)  # each process opens its own connections
    logging.set_up(args.log_format)
    binds = [args.bind, args.plain_bind] if args.plain_bind else [args.bind]
    listening = [address_of(bind) for bind in binds]

    def make() -> list[Service]:
        service = resolver_service(
            args.data,
            trusted=args.trusted_proxy,
            listening=listening,
            tls=tls,
            tls_ports=tls and TLSPorts(listening[0], args.plain_bind),
        )
        return [service, without_tls(service)] if args.plain_bind else [service]

    serve(make, binds, print_ready, args.workers, access_log=args.access_log)
    return 0
