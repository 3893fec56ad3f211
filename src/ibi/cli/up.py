"""`ibi up`: one resolver and two Archives with sample items on this machine, for a first look.

Everything goes the ordinary way: `init`, `register` and `import` as an administrator would type them, then the same
services as `serve`, over real sockets, with inclusion requests and call-backs. All three live in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.cli.arguments import port as port_number
from ibi.cli.sample_network import ARCHIVES, FIRST_EDITION, HOST, LINKS, SampleNetwork
from ibi.errors import IbiError, SetupError
from ibi.texts import reader_language, say

if TYPE_CHECKING:
    from collections.abc import Sequence

PORT: Final = 8080
_READY_SECONDS: Final = 20.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "up",
        help="a whole network on this machine, for a first look",
        description="Starts one resolver and two Archives with sample items on this machine and prints URLs to click.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where to keep everything (default: a folder that is removed at the end)",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=PORT,
        metavar="N",
        help="the resolver's port; the Archives take the next two (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make what is missing, serve it, show that it works, and wait for Ctrl-C."""
    import uvloop

    where = say("kept in {path}", path=args.data) if args.data else say("removed at the end")
    with contextlib.ExitStack() as stack:
        data = args.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ibi-up-")))
        network = SampleNetwork(data, _free_ports(args.port))
        network.make()
        uvloop.run(_serve(network, where))
    return 0


async def _serve(network: SampleNetwork, where: str) -> None:
    """Run the three services until Ctrl-C or SIGTERM."""
    from ibi.assembly import archive_service, resolver_service
    from ibi.serving import listen
    from ibi.serving import run as run_services

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    services = [resolver_service(network.resolver), *map(archive_service, network.archives)]
    listeners = [listen(address) for address in network.addresses]
    telling: list[asyncio.Task[None]] = []
    await run_services(
        services, listeners, lambda _: telling.append(loop.create_task(_tell(network, where, stop))), stop
    )
    for task in telling:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _tell(network: SampleNetwork, where: str, stop: asyncio.Event) -> None:
    """Once the Archives are included: the URLs to click, and one of them tried."""
    try:
        tried = await asyncio.to_thread(_try_until_found, network.addresses[0], f"/{FIRST_EDITION}!+(pt)")
    except IbiError:
        stop.set()
        raise
    print(f"ready {network.root}", flush=True)
    print(_page(network, where, tried), flush=True)


def _page(network: SampleNetwork, where: str, tried: Sequence[str]) -> str:
    root, language = network.root, reader_language()
    width = len(root) + 46  # longer ones push their words to the right
    rows = [f"  {f'{root}/{link}':<{width}}  {say(what, language)}" for link, what in LINKS.items()]
    archives = "  ".join(f"http://{address}/" for address in network.addresses[1:])
    lines = [
        f"{say('resolver', language)}: {root}/   {say('Archives', language)}: {archives}   ({where})",
        "",
        say("Click one of these:", language),
        *rows,
        "",
        say("Tried just now:", language),
        *(f"  {line}" for line in tried),
        "",
        say("Ctrl-C stops everything.", language),
    ]
    return "\n".join(lines)


def _free_ports(wanted: int) -> list[int]:
    """Three ports on the loopback address: the wanted one and the next two, or any free ones, said on stderr."""
    ports: list[int] = []
    for port in range(wanted, wanted + 1 + len(ARCHIVES)):
        free = _free_port(port, ports)
        if free != port:
            print(say("port {port} is taken; {free} is used instead", port=port, free=free), file=sys.stderr)
        ports.append(free)
    return ports


def _free_port(wanted: int, used: Sequence[int]) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except (OSError, OverflowError):
            pass
        else:
            return wanted
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in used:
            return port


def _try_until_found(address: str, target: str) -> list[str]:
    """Ask the resolver until the Archives are included, then follow its redirect; what was seen, a line each."""
    import time

    end = time.monotonic() + _READY_SECONDS
    while True:
        status, location, _ = _get(address, target)
        if location:
            break
        if time.monotonic() > end:
            raise SetupError("the resolver did not find its Archives; it answered {status}", status=status)
        time.sleep(0.1)
    host, _, path = location.removeprefix("http://").partition("/")
    found, _, size = _get(host, f"/{path}")
    return [f"GET http://{address}{target}", f"    302 -> {location}", f"    {found}, {size} bytes"]


def _get(address: str, target: str) -> tuple[int, str, int]:
    """One GET without following anything: status, Location ("" if there is none), size of the body."""
    from http.client import HTTPConnection

    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", target, headers={"Accept-Language": "pt-BR", "Connection": "close"})
        reply = connection.getresponse()
        return reply.status, reply.getheader("Location") or "", len(reply.read())
    finally:
        connection.close()
