"""Both Archives, a resolver that has included them, and a server elsewhere, each as in operation, on real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, RemoteDisconnected
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from ibi.archive.ingest.importing import FileImporter
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from proofs.answers.items import ITEMS, PLACES, line
from proofs.common.environment import environment
from proofs.common.served_archive import Served
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

RESOLVER: Final = "J8LNKB5R7W/3FUQHC5"
LICENSED: Final = "127.0.0.5"
"""The address of a reader who may have what is restricted."""
UNLICENSED: Final = "127.0.0.1"
_KEY: Final = "12345678901234567890"


class Reply(NamedTuple):
    """One HTTP answer, nothing followed; headers by lower-case name."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Stage:
    """Who answers at which address, by name: the two Archives, "resolver" and "elsewhere"."""

    addresses: dict[str, str]

    def __post_init__(self) -> None:
        self._open: dict[tuple[str, str], HTTPConnection] = {}

    def get(self, who: str, target: str, reader: str = UNLICENSED, **headers: str) -> Reply:
        """Ask one of them, as the reader at an address of this machine; "_" in names of headers is "-"."""
        return self.get_at(self.addresses[who], target, reader, **headers)

    def get_url(self, url: str, reader: str = UNLICENSED) -> Reply:
        """Follow a link."""
        parts = urlsplit(url)
        return self.get_at(parts.netloc, url.removeprefix(f"http://{parts.netloc}"), reader)

    def get_at(self, address: str, target: str, reader: str, **headers: str) -> Reply:
        """Send a request to an address, on a connection that stays open."""
        sent = {key.replace("_", "-"): text for key, text in headers.items()}
        if (old := self._open.get((address, reader))) is not None:
            with suppress(
                RemoteDisconnected, ConnectionError
            ):  # it may end any connection between two requests
                return _exchange(old, target, sent)
            old.close()
        host, _, port = address.partition(":")
        new = HTTPConnection(host, int(port), timeout=30, source_address=(reader, 0))
        self._open[address, reader] = new
        return _exchange(new, target, sent)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open.values():
            connection.close()


def _exchange(connection: HTTPConnection, target: str, headers: dict[str, str]) -> Reply:
    connection.request("GET", target, headers=headers)
    reply = connection.getresponse()
    return Reply(reply.status, {key.lower(): text for key, text in reply.getheaders()}, reply.read())


@contextmanager
def stage(policy: str) -> Iterator[Stage]:
    """Have all of them serve until the end of the block; the resolver by this policy. Raises TimeoutError."""
    with TemporaryDirectory(prefix="proof-answers-") as name, ExitStack() as stack:
        folder = Path(name)
        elsewhere = stack.enter_context(_elsewhere())
        resolver, ready = stack.enter_context(_resolver(folder / "resolver", policy))
        archives = {place: Served(place, folder / place, free_port()) for place in PLACES}
        for place, archive in archives.items():
            _fill(archive, place, elsewhere)
            stack.callback(archive.stop)
            archive.start()
        addresses = {place: f"127.0.0.1:{archive.port}" for place, archive in archives.items()}
        built = Stage({**addresses, "resolver": resolver, "elsewhere": elsewhere})
        stack.callback(built.close)
        ready.readline()
        for archive in archives.values():
            archive.wait()
            _include(built, archive)
        yield built


def service_of(place: str) -> str:
    """The name of the service of an Archive."""
    return f"{place}.example/w/2020/01.01.00.00"


def _fill(archive: Served, place: str, elsewhere: str) -> None:
    archive.make()
    settings = ArchiveSettings.read(archive.data)
    licensed, resolvers = (f"{LICENSED}/32",), (f"{UNLICENSED}/32",)
    replace(settings, networks=licensed, trusted_resolvers=resolvers).write(archive.data)
    lines = []
    for number, (name, item) in enumerate(ITEMS.items()):
        if place not in item["held"]:
            continue
        entry = line(name, place, elsewhere)
        if entry["state"] != "Deleted" and "files" in item:
            entry["files"] = {}
            for index, (file, text) in enumerate(item["files"].items()):
                stored = f"{number}-{index}"
                (archive.data.parent / stored).write_text(text)
                entry["files"][file] = stored
        lines.append(json.dumps(entry))
    path = archive.data.parent / f"{place}.jsonl"
    path.write_text("\n".join(lines))
    with archive.directory.item_store() as item_store:
        report = FileImporter(item_store, "proof", lambda _: None).run(path)
    assert not report.refused, report.refused  # noqa: S101 - they are our own lines


@contextmanager
def _resolver(data: Path, policy: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Start a resolver; its address, and a stream with a line as soon as it is ready."""
    _do(
        "init",
        "--data",
        data,
        "--address",
        "resolver.test",
        "--service-ibi",
        RESOLVER,
        "--allow-private-archives",
    )
    for place in PLACES:
        _do("register", "--data", data, "--archive-service", service_of(place), "--key", _KEY)
    replace(ResolverSettings.read(data), request_rate=0.0, policy=policy).write(data)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "ibi", "resolver", "serve", "--data", str(data), "--bind", address]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            yield address, process.stdout
        finally:
            process.terminate()


def _do(*words: object) -> None:
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        status = main(["resolver", *map(str, words)])
    if status:
        raise RuntimeError(words)


def _include(built: Stage, archive: Served) -> None:
    service = parse_ibi(archive.service_path)
    address = f"127.0.0.1:{archive.port}"
    request = InclusionRequest(address, service, "127.0.0.1", "1", "a@archive.example", _KEY)
    reply = built.get("resolver", f"/{RESOLVER}?{request.query()}", host="resolver.test")
    if b"unsuccessful" in reply.body or reply.status != 200:
        raise RuntimeError(reply)


class _Elsewhere(BaseHTTPRequestHandler):
    """Says what was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = unquote_to_bytes(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _elsewhere() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
