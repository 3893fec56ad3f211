"""`ibi archive serve`: run the Archive, or several, until a signal ends it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import directory_at
from ibi.cli.common import add_logging, add_tls, argument, print_ready, tell, tls_files, workers
from ibi.errors import SetupError
from ibi.runtime import logging
from ibi.runtime.environment import environment_data

if TYPE_CHECKING:
    import argparse

    from ibi.cli.common import CommandGroup
    from ibi.http.server.service import Service

_BIND: Final = "127.0.0.1:8081"


def add(actions: CommandGroup) -> None:
    """Add the subcommand `serve`."""
    serve = actions.add("serve", "run the Archive, or several", _serve, has_data=False)
    text = "the Archive's data directory; once for each Archive"
    # argparse appends to a default, so there is no default here: `_serve` reads the environment variable.
    argument(serve, "--data DIR", text, type=Path, action="append", required=environment_data() is None)
    text = "where to listen (default: 127.0.0.1:8081); once for each Archive, in their order"
    argument(serve, "--bind HOST:PORT", text, action="append")
    argument(serve, "--workers N", "processes that share the work", type=workers, default=1)
    text = "a network of proxies whose X-Forwarded-For is believed, besides those of the settings; may be repeated"
    argument(serve, "--trusted-proxy CIDR", text, action="append", default=[])
    text = (
        "where files that a browser would render are served, in place of the setting; once for each Archive"
    )
    argument(serve, "--files-address HOST[:PORT]", text, action="append", default=[])
    add_tls(serve)
    text = "where to listen without TLS besides, for resolvers, which ask Archives over http; once for each Archive"
    argument(serve, "--plain-bind HOST:PORT", text, action="append", default=[])
    add_logging(serve)


def _serve(args: argparse.Namespace) -> int:
    from ibi.accounts.stored import list_faults
    from ibi.app.archive import archive_service, check_archive
    from ibi.http.public_url import TLSPorts
    from ibi.http.server.service import address_of, without_tls
    from ibi.http.server.workers import serve
    from ibi.runtime.shared.store import close_store

    tls = tls_files(args)
    args.data = args.data or [Path(environment_data() or "")]
    binds = _binds(args, tls=tls is not None)
    if args.files_address and len(args.files_address) != len(args.data):
        raise SetupError("each Archive needs a --files-address of its own, in the order of --data")
    none = [""] * len(args.data)
    listening = zip(map(address_of, binds), args.plain_bind or none, strict=False)
    ports = [TLSPorts(*both) if tls else None for both in listening]
    archives = list(zip(args.data, args.files_address or none, ports, strict=True))
    logging.set_up(args.log_format)
    with ExitStack() as stack:
        for data, files_address, _ in archives:
            settings = check_archive(data, args.trusted_proxy, files_address)  # before any process is started
            for damage in list_faults(data):
                tell(damage)
            close_store(data)  # each process opens its own connections
            if settings.retired:
                tell("{path} has retired: it answers, but takes part in no resolver", path=data)
            # The lock forbids two servers of one Archive: the first to stop would request its exclusion.
            stack.enter_context(directory_at(data).serve_lock())

        def make() -> list[Service]:
            given = {"tls": tls, "trusted": args.trusted_proxy, "workers": args.workers}
            services = [
                archive_service(data, files_address=files, tls_ports=both, **given)
                for data, files, both in archives
            ]
            return [*services, *(map(without_tls, services) if args.plain_bind else ())]

        serve(make, binds, print_ready, args.workers, access_log=args.access_log)
    return 0


def _binds(args: argparse.Namespace, *, tls: bool) -> list[str]:
    """Return where to listen: an address for each Archive, then a plain one for each. Raises SetupError."""
    binds = args.bind or [_BIND]
    if len(binds) != len(args.data):
        raise SetupError("each Archive needs a --bind of its own, in the order of --data")
    if args.plain_bind and not tls:
        raise SetupError("--plain-bind is used only with --tls-cert and --tls-key")
    if args.plain_bind and len(args.plain_bind) != len(args.data):
        raise SetupError("each Archive needs a --plain-bind of its own, in the order of --data")
    if tls and not args.plain_bind:
        tell("resolvers ask Archives over plain http: see --plain-bind, or put a proxy in front")
    return [*binds, *args.plain_bind]
