"""`ibi resolver ...`: make a resolver, register Archives with it, run it."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import resolver_words
from ibi.cli.arguments import tls_files
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import split_hostport
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.resolver.registry import RegisteredArchive, Registry


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolver` and its subcommands to the commands."""
    resolver_words.describe(commands).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    actions = {
        "init": _init,
        "register": _register,
        "unregister": _unregister,
        "archives": _archives,
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


@contextmanager
def _registry(data: Path) -> Iterator[Registry]:
    """The registry of a resolver that was made before. Raises SetupError."""
    from ibi import assembly
    from ibi.settings import ResolverSettings

    ResolverSettings.read(data)
    registry = assembly.registry(data)
    try:
        yield registry
    finally:
        registry.close()


def _register(args: argparse.Namespace) -> int:
    from ibi.resolver.keys import is_weak_key

    service = parse_ibi(args.archive_service)
    with _registry(args.data) as registry:
        key = registry.register(service, args.key, args.url_host)
    if args.key and is_weak_key(key):
        print(
            say("a key of fewer than 20 digits can be guessed; without --key a strong one is made"),
            file=sys.stderr,
        )
    if args.json:
        print(json.dumps({"service_ibi": str(service), **({} if args.key else {"key": key})}))
    elif args.key:
        print(say("{ibi} is registered", ibi=service), file=sys.stderr)
    else:
        print(say("{ibi} is registered; its key is shown only now:", ibi=service), file=sys.stderr)
        print(key)
    return 0


def _unregister(args: argparse.Namespace) -> int:
    service = parse_ibi(args.archive_service)
    with _registry(args.data) as registry:
        registry.unregister(service)
    return 0


def _archives(args: argparse.Namespace) -> int:
    with _registry(args.data) as registry:
        archives = registry.registered()
    if args.json:
        print(json.dumps([_described(archive) for archive in archives], indent=1))
        return 0
    for archive in archives:
        where = archive.included
        state = (
            "not included" if where is None else "included" if where.confirmed else "included, not confirmed"
        )
        print(f"{archive.service_ibi}  {where.address if where else '-'}  {say(state)}")
    return 0


def _described(archive: RegisteredArchive) -> dict[str, object]:
    described: dict[str, object] = {
        "service_ibi": str(archive.service_ibi),
        "registered": archive.registered_at,
        "included": archive.included is not None,
        "changed": archive.changed_at,
        "url_hosts": list(archive.url_hosts),
    }
    if archive.included is not None:
        described |= {
            "address": archive.included.address,
            "ip": archive.included.ip,
            "protocol": archive.included.protocol,
            "platform_version": archive.included.platform_version,
            "admin_mail": archive.included.admin_mail,
            "confirmed": archive.included.confirmed,
        }
    return described


def _serve(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.serving.workers import serve

    tls = tls_files(args)
    with _registry(args.data):
        pass  # a fault shows here, before any process is started
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    serve(
        lambda: [
            assembly.resolver_service(args.data, trusted=args.trusted_proxy, listening=[args.bind], tls=tls)
        ],
        [args.bind],
        lambda urls: print(f"ready {urls[0]}", flush=True),
        args.workers,
    )
    return 0
