"""`ibi up`: one resolver and two Archives with sample items on this machine, for a first look.

It runs `init`, `register` and `import` as an administrator would, then the same services as `serve`, over
real sockets, with inclusion requests and confirmations. All three services run in this process. A second run
with the same data directory changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import tempfile
import time
from dataclasses import replace
from http.client import HTTPConnection
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.cli.common import argument, quiet_option, tell
from ibi.cli.common import port as port_number
from ibi.cli.own_commands import run_quietly
from ibi.errors import ForbiddenAddress, IbiError, SetupError
from ibi.runtime.i18n import reader_language, say
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from ibi.runtime.settings.institution import Institution

if TYPE_CHECKING:
    from collections.abc import Sequence


_HOST: Final = "127.0.0.1"


class _SampleArchive(NamedTuple):
    """One Archive of the sample network: its folder, service IBI, names in labels, and files of items."""

    name: str
    service: str
    mint_host: str
    mint_ip: str
    items: tuple[str, ...]


_ARCHIVES: Final = (
    _SampleArchive(
        "first",
        "archive.example/first/2026/02.01.09.00",
        "first.archive.example",
        "192.0.2.1",
        ("standard-m16c.jsonl", "first.jsonl", "valley.jsonl"),
    ),
    _SampleArchive(
        "second",
        "archive.example/second/2026/02.01.09.30",
        "second.archive.example",
        "192.0.2.2",
        ("wild.jsonl", "standard-m16d.jsonl", "second.jsonl", "valley-copies.jsonl"),
    ),
)

_FIRST_EDITION: Final = "archive.example/first/2026/03.02.10.15"
_LAST_EDITION: Final = "archive.example/first/2026/09.14.16.40"
_TWO_CLAIMS: Final = "archive.example/first/2026/05.20.11.05?ibiurl.requireditemstatus=Original"
_LINKS: Final = {
    _FIRST_EDITION: "a text: you are sent to the Archive that holds it",
    "32G4GKPW/4F97PUL": "the same text by its other name, an IBIp",
    f"{_FIRST_EDITION}!": "its last edition",
    f"{_FIRST_EDITION}+": "its translation, if your browser prefers Portuguese",
    f"{_FIRST_EDITION}!+(pt)": "the Portuguese translation of its last edition, in the other Archive",
    f"{_LAST_EDITION}:": "its metadata",
    f"{_LAST_EDITION}:(oai_dc)": "its metadata in the format oai_dc",
    f"{_LAST_EDITION}?ibiurl.verblist=GetFileList": "the list of its files",
    f"{_LAST_EDITION}/notes.txt": "one of its files",
    "8JMKD3MGP8W/35MMLL8!": "an example of the standard: the last edition of a report",
    "sid.inpe.br/mtc-m21b/2016/11.18.17.34": "a real item: you are sent to the server where it was found",
    f"-/explain/{_FIRST_EDITION}!+(pt)": "who was queried, who answered what, and why",
    "archive.example/first/2026/04.01.08.00": "an item that was removed (410)",
    "archive.example/first/2026/01.01.00.00": "an item that no Archive holds (404)",
    f"{_FIRST_EDITION}+(fr)": "a translation that does not exist (404)",
    _TWO_CLAIMS: "an original that two Archives claim to hold (409)",
    "archive.example/first/2026/O3.02.10.15": "a letter O instead of a zero (400)",
}
"""The links to click, and what each shows."""


class _SampleNetwork:
    """The network in one data directory: `data/resolver`, `data/first`, `data/second`, each with a port."""

    def __init__(self, data: Path, ports: Sequence[int]) -> None:
        self.addresses = [f"{_HOST}:{port}" for port in ports]
        self.root = f"http://{self.addresses[0]}"
        self.resolver = data / "resolver"
        self.archives = [data / archive.name for archive in _ARCHIVES]

    def make(self) -> None:
        """Initialise, register and import what is missing. Raises IbiError."""
        self._make_resolver()
        for archive, folder, address in zip(_ARCHIVES, self.archives, self.addresses[1:], strict=True):
            self._make_archive(archive, folder, address)
            with as_file(files("ibi.cli") / "samples") as samples:
                for name in archive.items:
                    # --update, because an older network may have older samples.
                    run_quietly("archive", "import", "--data", folder, samples / name, "--update")

    def _make_resolver(self) -> None:
        folder, address = self.resolver, self.addresses[0]
        if not ResolverSettings.exists(folder):
            run_quietly(
                "resolver", "init", "--data", folder, "--address", address, "--allow-private-archives"
            )
            _give_institution("resolver", folder)
        settings = ResolverSettings.read(folder)
        # The port may differ from that of the last run.
        if settings.address != address:
            replace(settings, address=address).write(folder)

    def _make_archive(self, archive: _SampleArchive, folder: Path, address: str) -> None:
        if not ArchiveSettings.exists(folder):
            from ibi.archive.membership.joining import new_key

            key = new_key()
            run_quietly(
                "archive", "init", "--data", folder, "--address", address, "--ip", _HOST,
                "--service-ibi", archive.service, "--mint-host", archive.mint_host, "--mint-ip", archive.mint_ip,
                "--for-trying", "--admin", "admin@archive.example", "--resolver", self.root, "--key", key,
            )  # fmt: skip
            _give_institution(archive.name, folder)
            registration = ("--archive-service", archive.service, "--key", key)
            run_quietly("resolver", "register", "--data", self.resolver, *registration)
        settings = ArchiveSettings.read(folder)
        if (settings.address, settings.resolver) != (address, self.root):
            replace(settings, address=address, resolver=self.root).write(folder)


def _give_institution(name: str, folder: Path) -> None:
    """Put the sample of an institution into a new data directory; what a person writes there later stays."""
    text = (files("ibi.cli") / "samples" / f"{name}-institution.toml").read_text("utf-8")
    (folder / Institution.FILE).write_text(text, encoding="utf-8")


_PORT: Final = 8080
_READY_SECONDS: Final = 20.0  # within which the resolver must find the first item


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `up` to the commands."""
    parser = subparsers.add_parser(
        "up",
        help="a whole network on this machine, for a first look",
        description="Starts one resolver and two Archives with sample items on this machine and prints URLs to click.",
    )
    text = "where to keep everything (default: a folder that is removed at the end)"
    argument(parser, "--data DIR", text, type=Path)
    text = "the resolver's port; the Archives take the next two (default: %(default)s)"
    argument(parser, "--port N", text, type=port_number, default=_PORT)
    quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make what is missing, serve it, show that it works, and wait for Ctrl-C."""
    import uvloop

    where = say("kept in {path}", path=args.data) if args.data else say("removed at the end")
    with contextlib.ExitStack() as stack:
        data = args.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ibi-up-")))
        listeners = _listeners(args.port, stack)
        network = _SampleNetwork(data, [listener.getsockname()[1] for listener in listeners])
        network.make()
        uvloop.run(_serve(network, listeners, where))
    return 0


async def _serve(network: _SampleNetwork, listeners: Sequence[socket.socket], where: str) -> None:
    """Run the three services until Ctrl-C or SIGTERM."""
    from ibi.app.archive import archive_service
    from ibi.app.resolver import resolver_service
    from ibi.http.server.service import run as run_services

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    services = [resolver_service(network.resolver), *map(archive_service, network.archives)]
    telling: list[asyncio.Task[None]] = []
    await run_services(
        services, listeners, lambda _: telling.append(loop.create_task(_tell(network, where, stop))), stop
    )
    for task in telling:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _tell(network: _SampleNetwork, where: str, stop: asyncio.Event) -> None:
    """Wait until the Archives are included, try one URL, and print the URLs to click."""
    try:
        tried = await asyncio.to_thread(_try_until_found, network.addresses[0], f"/{_FIRST_EDITION}!+(pt)")
    except IbiError:
        stop.set()
        raise
    print(f"ready {network.root}", flush=True)
    print(_page(network, where, tried), flush=True)


def _page(network: _SampleNetwork, where: str, tried: Sequence[str]) -> str:
    root, language = network.root, reader_language()
    width = len(root) + 46  # longer ones push their words to the right
    rows = [f"  {f'{root}/{link}':<{width}}  {say(what, language)}" for link, what in _LINKS.items()]
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


def _listeners(wanted: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    """Listen at the wanted port and the next two, or at free ones in their place, told on stderr.

    Ports of databases and the like are not used: the resolver would not contact an Archive there.

    They are kept from now on, because a port that is only looked at can be taken by the time it is needed.
    """
    from ibi.http.client.address_policy import HostPort
    from ibi.http.server.service import listen

    listeners: list[socket.socket] = []
    for port in range(wanted, wanted + 1 + len(_ARCHIVES)):
        try:
            HostPort.parse(f"{_HOST}:{port}")
            listener = stack.enter_context(listen(f"{_HOST}:{port}"))
        except ForbiddenAddress:
            listener, free = _free_listener(stack)
            tell("port {port} is not for Archives; {free} is used instead", port=port, free=free)
        except SetupError:
            listener, free = _free_listener(stack)
            tell("port {port} is taken; {free} is used instead", port=port, free=free)
        listeners.append(listener)
    return listeners


def _free_listener(stack: contextlib.ExitStack) -> tuple[socket.socket, int]:
    from ibi.http.server.service import listen

    listener = stack.enter_context(listen(f"{_HOST}:0"))
    return listener, listener.getsockname()[1]


def _try_until_found(address: str, target: str) -> list[str]:
    """Ask the resolver until it redirects, and follow the redirect; returns what came, as lines."""
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
    """Send one GET without following redirects; returns status, Location ("" if none), size of the body."""
    with contextlib.closing(HTTPConnection(address, timeout=10)) as connection:
        connection.request("GET", target, headers={"Accept-Language": "pt-BR", "Connection": "close"})
        reply = connection.getresponse()
        return reply.status, reply.getheader("Location") or "", len(reply.read())
