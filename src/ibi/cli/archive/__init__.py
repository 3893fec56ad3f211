"""`ibi archive ...`: make an Archive, fill it, look into it, keep it, run it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.cli.archive import (
    exchange,
    export,
    founding,
    importing,
    items,
    membership,
    preservation,
    search,
    settings,
)
from ibi.cli.archive.common import directory_at
from ibi.cli.common import CommandGroup, add_logging, add_tls, argument, print_ready, tell, tls_files, workers
from ibi.errors import SetupError
from ibi.runtime import logging

if TYPE_CHECKING:
    import argparse

    from ibi.http.server.service import Service

_BIND: Final = "127.0.0.1:8081"


def _add_serve(actions: CommandGroup) -> None:
    """Add the subcommand `serve`."""
    serve = actions.add("serve", "run the Archive, or several", _serve, has_data=False)
    argument(
        serve,
        "--data DIR",
        "the Archive's data directory; once for each Archive",
        type=Path,
        action="append",
        required=True,
    )
    argument(
        serve,
        "--bind HOST:PORT",
        f"where to listen (default: {_BIND}); once for each Archive, in their order",
        action="append",
    )
    argument(serve, "--workers N", "processes that share the work", type=workers, default=1)
    argument(
        serve,
        "--trusted-proxy CIDR",
        "a proxy in front whose X-Forwarded-For is believed; may be repeated",
        action="append",
        default=[],
    )
    add_tls(serve)
    argument(
        serve,
        "--plain-bind HOST:PORT",
        "where to listen without TLS besides, for resolvers; once for each Archive",
        action="append",
        default=[],
    )
    add_logging(serve)


def _serve(args: argparse.Namespace) -> int:
    from ibi.app.archive import archive_service, check_archive
    from ibi.http.server.workers import serve

    tls = tls_files(args)
    binds = _binds(args, tls=tls is not None)
    logging.set_up(args.log_format)
    with ExitStack() as stack:
        for data in args.data:
            settings = check_archive(data, args.trusted_proxy)  # before any process is started
            if settings.retired:
                tell("{path} has retired: it answers, but takes part at no resolver", path=data)
            stack.enter_context(directory_at(data).serve_lock())

        def make() -> list[Service]:
            services = [archive_service(data, tls=tls, trusted=args.trusted_proxy) for data in args.data]
            plain = services if args.plain_bind else []
            return [
                *services,
                *(replace(each, started=None, stopping=None, close=None, tls=None) for each in plain),
            ]

        serve(make, binds, print_ready, args.workers, access_log=args.access_log)
    return 0


def _binds(args: argparse.Namespace, *, tls: bool) -> list[str]:
    """Where to listen: for each Archive, and then for each of them again without TLS. Raises SetupError."""
    binds = args.bind or [_BIND]
    if len(binds) != len(args.data):
        raise SetupError("each Archive needs a --bind of its own, in the order of --data")
    if args.plain_bind and not tls:
        raise SetupError("--plain-bind belongs to --tls-cert and --tls-key")
    if args.plain_bind and len(args.plain_bind) != len(args.data):
        raise SetupError("each Archive needs a --plain-bind of its own, in the order of --data")
    if tls and not args.plain_bind:
        tell("resolvers ask Archives over plain http: see --plain-bind, or put a proxy in front")
    return [*binds, *args.plain_bind]


_ADDITIONS = (
    founding.add,
    membership.add,
    settings.add_rotate_key,
    settings.add_set,
    importing.add,
    items.add,
    search.add_search,
    exchange.add,
    search.add_statistics,
    settings.add_token,
    settings.add_account,
    preservation.add,
    export.add,
    membership.add_retire,
    _add_serve,
)
"""In the order in which `ibi archive --help` shows them."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `archive` and its subcommands to the commands."""
    parser = commands.add_parser("archive", help="make and run an Archive of identified items")
    actions = CommandGroup(parser, "ACTION", "the Archive's data directory")
    for add in _ADDITIONS:
        add(actions)
