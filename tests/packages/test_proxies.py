"""The samples for Caddy, nginx and HAProxy, in front of an Archive and a resolver that are restarted meanwhile."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import MappingProxyType
from typing import Self

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.cli.setup.rendering import PROXY_FILES, Kind, Proxy, Site
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.cli.archive_commands import COMMAND, ibi, make_archive, until
from support.network.https_network import make_authority
from support.network.proxies import RunningProxy, running
from support.ports import free_port
from support.programs import Reply

pytestmark = pytest.mark.long

HOSTS: dict[Kind, str] = {"archive": "127.0.0.2", "resolver": "localhost"}
ITEM = "a.example/b/2010/01.01.00.00"
CLOSED = "a.example/b/2011/01.01.00.00"
NAME = "a%20b/Relat%f3rio%25.txt"
LICENSED, OTHER = "127.0.0.5", "127.0.0.6"
CONTENT = b"what was kept " * 5000
LARGE = bytes(range(256)) * (96 << 10)  # 24 MiB
LONG = 15_000  # bytes of the target of a long message
RESTARTS = 2


class Node:
    """An Archive or a resolver at a socket that stays open, as systemd runs it."""

    def __init__(self, kind: Kind, data: Path) -> None:
        self.kind, self.data = kind, data
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self.listener.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        number = self.listener.fileno()
        words = f"{self.kind} serve --data {self.data} --bind fd://{number} --trusted-proxy 127.0.0.1/32"
        environment = {**os.environ, "LANGUAGE": "en"}
        self.process = subprocess.Popen(
            [*COMMAND, *words.split()], stdout=subprocess.PIPE, text=True, pass_fds=[number], env=environment
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready http://")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.communicate(timeout=60)
            assert self.process.returncode == 0
            self.process = None


@dataclass(frozen=True)
class Network:
    """Both nodes behind a proxy."""

    nodes: dict[Kind, Node]
    kind: Proxy
    proxy: RunningProxy
    trust: ssl.SSLContext
    token: str

    def root(self, kind: Kind) -> str:
        """Where readers reach a node."""
        return f"https://{HOSTS[kind]}:{self.proxy.https}"

    def ask(
        self,
        kind: Kind,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        tls: bool = True,
        client: str = "127.0.0.1",
    ) -> Reply:
        """One request by the proxy, from an address of this machine."""
        host, source = HOSTS[kind], (client, 0)
        connection = (
            HTTPSConnection(host, self.proxy.https, timeout=60, context=self.trust, source_address=source)
            if tls
            else HTTPConnection(host, self.proxy.http, timeout=60, source_address=source)
        )
        with closing(connection):
            connection.putrequest(method, target, skip_accept_encoding=True)
            given = {**headers, **({} if body is None else {"Content-Length": str(len(body))})}
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            received = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, received, reply.read())

    def get(
        self, kind: Kind, target: str, *, tls: bool = True, client: str = "127.0.0.1", **headers: str
    ) -> Reply:
        """A GET likewise; names of headers with "_" for "-"."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(kind, "GET", target, None, named, tls=tls, client=client)

    def deposit(self, body: bytes, content_type: str) -> Reply:
        """Deposit an item by the JSON interface."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        return self.ask("archive", "POST", "/-/api/items", body, headers)


def _make(folder: Path, https: int, http: int) -> dict[Kind, Node]:
    """Make both data directories; their addresses are those of the proxy."""
    data: dict[Kind, Path] = {"archive": folder / "archive", "resolver": folder / "resolver"}
    resolver = f"{HOSTS['resolver']}:{http}"
    ibi(
        "resolver", "init", "--data", data["resolver"], "--address", resolver,
        "--service-ibi", "resolver.example/r/2020/01.01.00.00", "--allow-private-archives",
    )  # fmt: skip
    service = make_archive(data["archive"], http, "--resolver", f"http://{resolver}")
    archive = ArchiveSettings.read(data["archive"])
    words = ("--archive-service", service, "--key", archive.key)
    ibi("resolver", "register", "--data", data["resolver"], *words)
    archive_root, resolver_root = (f"https://{HOSTS[kind]}:{https}" for kind in ("archive", "resolver"))
    changes = {
        "address": f"{HOSTS['archive']}:{http}",
        "public_url": archive_root,
        "networks": (f"{LICENSED}/32",),
    }
    replace(archive, **changes).write(data["archive"])  # type: ignore[arg-type]  # by name
    settings = ResolverSettings.read(data["resolver"])
    replace(settings, public_url=resolver_root).write(data["resolver"])
    (folder / "kept").write_bytes(CONTENT)
    items = (
        {"rep": ITEM, "metadata": {"title": ["Kept"]}, "files": {NAME: "kept"}},
        {
            "rep": CLOSED,
            "metadata": {"title": ["Licensed"]},
            "files": {"x.txt": "kept"},
            "access": "restricted",
        },
    )
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    ibi("archive", "import", "--data", data["archive"], folder / "items.jsonl")
    return {kind: Node(kind, folder) for kind, folder in data.items()}


@contextmanager
def _network(kind: Proxy, folder: Path) -> Iterator[Network]:
    authority = make_authority(folder / "authority")
    https, http = free_port(), free_port()
    nodes = _make(folder, https, http)
    sites = [Site(each, each, HOSTS[each], node.port) for each, node in nodes.items()]
    with ExitStack() as stack:
        for node in nodes.values():
            stack.callback(node.listener.close)
            stack.callback(node.stop)
        proxy = stack.enter_context(running(kind, folder / kind, authority, sites, https, http))
        for node in nodes.values():
            node.start()
        trust = ssl.create_default_context(cafile=str(authority.file))
        token = Tokens(nodes["archive"].data).make("program", "2026-01-01T00:00:00Z", (Scope.DEPOSIT,))
        network = Network(nodes, kind, proxy, trust, token)
        # The two have exchanged messages by the proxy, over http.
        until(lambda: b'"archives": 1' in network.get("resolver", "/-/about").body)
        yield network


@pytest.fixture(params=PROXY_FILES)
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    with _network(request.param, tmp_path) as made:
        yield made


def test_a_sample_passes_all_on_as_it_came(network: Network) -> None:
    _readers_see_the_public_address(network)
    _addresses_are_those_of_the_readers(network)
    _paths_and_long_targets_stay_as_they_are(network)
    _large_files_come_and_go(network)


def _readers_see_the_public_address(network: Network) -> None:
    archive, resolver = network.root("archive"), network.root("resolver")
    click = network.get("resolver", f"/{ITEM}")
    assert (click.status, click.headers["location"]) == (
        302,
        f"{archive}/col/{ITEM}/doc/{NAME}",
    )
    assert f'<{resolver}/{ITEM}>; rel="cite-as"' in click.headers["link"]
    page = network.get("archive", f"/-/item/{ITEM}")
    assert page.status == 200
    assert f"{archive}/-/item/{ITEM}" in page.text
    harvest = network.get("archive", "/-/oai?verb=ListRecords&metadataPrefix=oai_dc")
    assert f">{archive}/-/oai</request>" in harvest.text
    assert harvest.text.count("<record>") == 2
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    over_http = network.get("archive", f"/-/item/{ITEM}", tls=False)
    assert (over_http.status, over_http.headers.get("strict-transport-security")) == (200, None)
    # Signing in works over https only, whatever a client says of itself.
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept-Language": "en",
        "X-Forwarded-Proto": "https",
    }
    form, plain = b"name=ana&password=wrong", f"http://{HOSTS['archive']}:{network.proxy.http}"
    for tls, origin in ((True, archive), (False, plain)):
        reply = network.ask(
            "archive", "POST", "/-/admin/sign-in", form, {**headers, "Origin": origin}, tls=tls
        )
        assert (reply.status, "signing in needs https" in reply.text.lower()) == (403, not tls)


def _addresses_are_those_of_the_readers(network: Network) -> None:
    file = f"/col/{CLOSED}/doc/x.txt"
    assert network.get("archive", file, client=LICENSED).body == CONTENT
    assert network.get("archive", file, client=LICENSED, tls=False).body == CONTENT
    assert network.get("archive", file, client=OTHER).status == 403
    for forged in (LICENSED, f"{LICENSED}, 127.0.0.1", f"127.0.0.1, {LICENSED}"):
        assert network.get("archive", file, client=OTHER, X_Forwarded_For=forged).status == 403


def _paths_and_long_targets_stay_as_they_are(network: Network) -> None:
    path = f"/col/{ITEM}/doc/{NAME}"
    assert network.get("archive", path).body == CONTENT
    assert network.get("archive", path, Range="bytes=3-9").body == CONTENT[3:10]
    assert network.get("archive", path.replace("/Relat", "//Relat")).status == 404  # two slashes stay two
    assert network.get("archive", path.replace("/Relat", "/x/../Relat")).status != 200  # no path is shortened
    assert network.get("archive", "/-/about?" + "x" * LONG, tls=False).status == 200


def _large_files_come_and_go(network: Network) -> None:
    item = json.dumps({"metadata": {"title": ["Large"]}}).encode()
    part = b'--edge\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    body = part % (b"item", b"", item) + part % (b"file", b'; filename="large.bin"', LARGE) + b"--edge--\r\n"
    reply = network.deposit(body, "multipart/form-data; boundary=edge")
    made = reply.content(201)
    assert network.get("archive", f"/col/{made['rep']}/doc/large.bin").body == LARGE


class _Clients:
    """Readers and a depositor, until the end of the block; a request that fails is noted."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._over = threading.Event()
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.broken = 0  # requests that were sent again, because their connection ended without an answer
        self._threads = [threading.Thread(target=each) for each in (self._click, self._page, self._deposit)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, what: str, wanted: int, *words: object) -> None:
        while not self._over.is_set():
            self.sent[what] += 1
            try:
                reply = self._ask(*words)
                # A page of a resolver that asks for it is read again by itself.
                for _ in range(5 if what == "click" else 0):
                    if reply.status == 503:
                        time.sleep(1)
                        reply = self._ask(*words)
                if reply.status != wanted:
                    self.failed[f"{what}: {reply.status} {reply.body[:100]!r}"] += 1
            except (OSError, HTTPException) as error:
                self.failed[f"{what}: {error!r}"] += 1
            time.sleep(0.01)

    def _ask(self, *words: object) -> Reply:
        try:
            return self._network.ask(*words)  # type: ignore[arg-type]  # as they are given
        except ConnectionError:
            self.broken += 1
        return self._network.ask(*words)  # type: ignore[arg-type]  # likewise

    def _click(self) -> None:
        self._repeat("click", 302, "resolver", "GET", f"/{ITEM}")

    def _page(self) -> None:
        self._repeat("page", 200, "archive", "GET", f"/-/item/{ITEM}")

    def _deposit(self) -> None:
        body = json.dumps({"metadata": {"title": ["One"]}, "url": "https://example.org/"}).encode()
        headers = {"Authorization": f"Bearer {self._network.token}", "Content-Type": "application/json"}
        self._repeat("deposit", 201, "archive", "POST", "/-/api/items", body, headers)


def test_restarts_and_reloads_behind_a_sample_lose_no_request(network: Network) -> None:
    with _Clients(network) as clients:
        for _ in range(RESTARTS):
            for node in network.nodes.values():
                time.sleep(0.3)
                node.stop()
                node.start()
            time.sleep(0.3)
            network.proxy.reload()
        time.sleep(0.5)
    assert clients.failed == {}
    # While Caddy reads its configuration again, it breaks off one request in a thousand.
    assert clients.broken <= (RESTARTS if network.kind == "caddy" else 0)
    assert min(clients.sent.values()) > 3 * RESTARTS, clients.sent
