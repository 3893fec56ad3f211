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
from ibi.cli.archive.common import Actions, directory_at, tell
from ibi.cli.arguments import add_logging, tls_files, workers
from ibi.errors import SetupError
from ibi.runtime import logging
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse

    from ibi.http.server.service import Service

_BIND: Final = "127.0.0.1:8081"


def _add_serve(actions: Actions) -> None:
    """Add the subcommand `serve`."""
    serve = actions.add_bare("serve", "run the Archive, or several", _serve)
    serve.add_argument(
        "--data",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="the Archive's data directory; once for each Archive",
    )
    serve.add_argument(
        "--bind",
        action="append",
        metavar="HOST:PORT",
        help=f"where to listen (default: {_BIND}); once for each Archive, in their order",
    )
    serve.add_argument(
        "--workers", type=workers, default=1, metavar="N", help="processes that share the work"
    )
    serve.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="a proxy in front whose X-Forwarded-For is believed; may be repeated",
    )
    serve.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate chain"
    )
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="and this private key")
    serve.add_argument(
        "--plain-bind",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="where to listen without TLS besides, for resolvers; once for each Archive",
    )
    add_logging(serve)


def _serve(args: argparse.Namespace) -> int:
    from ibi import app
    from ibi.http.server.workers import serve

    tls = tls_files(args)
    binds = _binds(args, tls=tls is not None)
    logging.set_up(args.log_format)
    with ExitStack() as stack:
        for data in args.data:
            settings = app.check_archive(data, args.trusted_proxy)  # before any process is started
            if settings.retired:
                tell(say("{path} has retired: it answers, but takes part at no resolver", path=data))
            stack.enter_context(directory_at(data).serve_lock())

        def make() -> list[Service]:
            services = [app.archive_service(data, tls=tls, trusted=args.trusted_proxy) for data in args.data]
            plain = services if args.plain_bind else []
            return [
                *services,
                *(replace(each, started=None, stopping=None, close=None, tls=None) for each in plain),
            ]

        serve(
            make,
            binds,
            lambda urls: print("\n".join(f"ready {url}" for url in urls), flush=True),
            args.workers,
            access_log=args.access_log,
        )
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
        tell(say("resolvers ask Archives over plain http: see --plain-bind, or put a proxy in front"))
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
    actions = Actions(parser.add_subparsers(dest="action", required=True, metavar="ACTION"))
    for add in _ADDITIONS:
        add(actions)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    status: int = args.do(args)
    return status
