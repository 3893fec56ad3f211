"""Three resolver nodes and two Archive nodes behind HAProxy, with PostgreSQL and SeaweedFS, each as in operation.

The Archive answers at 127.0.0.1, the resolver at 127.0.0.2, each at a port of the balancer. One node of each reaches
PostgreSQL by a relay, which can be cut off.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.model.item_json import read_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.shared.store import close_store
from proofs.common.environment import environment
from proofs.freshness.field import do
from proofs.nodes.asking import ask
from proofs.nodes.balancer import SAMPLE, Balancer, Relay
from support.engines.haproxy import haproxy_program
from support.engines.postgresql import PostgreSQL, programs
from support.engines.seaweedfs import BUCKET, running_seaweedfs, weed
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARCHIVE, RESOLVER = "127.0.0.1", "127.0.0.2"
"""Where the two services answer, by the balancer."""

ARCHIVE_SERVICE: Final = "nodes.example/w/2020/01.01.00.00"
_RESOLVER_SERVICE: Final = "J8LNKB5R7W/3FUQHC5"
_KEY: Final = "12345678901234567890"
MADE: Final = "2026-01-01T00:00:00Z"
"""When tokens were made."""
_SECONDS: Final = 90.0  # until a node is ready, whatever else is busy
_ENDS: Final = 30.0


def what_is_missing() -> list[str]:
    """The engines that are not here."""
    found = {"PostgreSQL": programs(), "SeaweedFS": weed(), "HAProxy": haproxy_program()}
    return [name for name, program in found.items() if program is None]


@dataclass
class Node:
    """One node: its data directory, its port, and the process that serves it.

    `program`: the words with which it is started; `variables`: what its environment has besides.
    """

    kind: str
    data: Path
    port: int
    workers: int
    program: Sequence[str] = ("-m", "ibi")
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    relay: Relay | None = None

    def __str__(self) -> str:
        """Return what it is called in sentences."""
        return self.data.name

    def start(self) -> None:
        """Start it, unless it runs; it is ready some time later."""
        if self.runs:
            return
        words = [self.kind, "serve", "--data", str(self.data), "--bind", f"127.0.0.1:{self.port}"]
        words += ["--workers", str(self.workers), "--trusted-proxy", "127.0.0.1"]
        with (self.data / "written").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, *words], stdout=subprocess.DEVNULL, stderr=log,
                env={**environment(), **self.variables}, start_new_session=True,
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        """Whether it says that readers should be sent to it."""
        return ask(("127.0.0.1", self.port), "/-/readyz").status == 200

    def kill(self) -> None:
        """Kill all its processes."""
        process, self.process = self.process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_ENDS)
            while not self._is_gone():
                time.sleep(0.01)

    def _is_gone(self) -> bool:
        """Whether nothing listens at its port: a process that was killed still has it until it is gone."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False

    def stop(self) -> None:
        """End it in good order."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_ENDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Field:
    """All of them; they end with `close`.

    `workers`: the processes of each node; `archives`, `resolvers`: how many nodes there are; `archive_program`: that of
    the Archive nodes; `sample`: the configuration of the balancer.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        archives: int = 2,
        resolvers: int = 3,
        archive_program: Sequence[str] = ("-m", "ibi"),
        sample: str | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._workers, self._program = workers, archive_program
        self.nodes: list[Node] = []
        try:
            self._make({"archive": archives, "resolver": resolvers}, sample or SAMPLE.read_text())
        except BaseException:
            self.close()
            raise

    def _make(self, counts: Mapping[str, int], sample: str) -> None:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="proof-several-")))
        self.postgresql = PostgreSQL(durable=True, connections=200)
        self._stack.callback(self.postgresql.remove)
        self.postgresql.start()
        self.s3 = self._stack.enter_context(running_seaweedfs(self.folder / "s3"))
        self._set_variables()
        self.ports = {ARCHIVE: free_port(), RESOLVER: free_port()}
        self._stores = {kind: self.postgresql.new_database() for kind in ("archive", "resolver")}
        self._make_archive()
        self._make_resolver()
        for kind, count in counts.items():
            for number in range(count):
                self.add_node(kind, by_relay=0 < number == count - 1)
        for node in self.nodes:
            node.start()
        listen = ",".join(f"{address}:{port}" for address, port in self.ports.items())
        self.balancer = Balancer(self.folder, self._sample_variables(), sample, listen)
        self._stack.callback(self.balancer.stop)
        self.balance()
        self.balancer.start(self.at(ARCHIVE))
        self.until_ready()
        words = ["--archive-service", ARCHIVE_SERVICE, "--key", _KEY]
        do("resolver", "register", "--data", self._first("resolver").data, *words)

    def close(self) -> None:
        """End all of them."""
        for node in self.nodes:
            with suppress(OSError):
                node.kill()
            close_store(node.data)
            if node.relay is not None:
                node.relay.close()
        self._stack.close()

    # -- nodes -------------------------------------------------------------------------------------------------

    def add_node(self, kind: str, *, by_relay: bool = False) -> Node:
        """Make one more node of a service; it is not started."""
        number = sum(node.kind == kind for node in self.nodes)
        node = Node(kind, self.folder / f"{kind}{number}", free_port(), self._workers)
        store = self._stores[kind]
        if by_relay:
            node.relay = Relay(self.postgresql.port)
            store = store.replace(f":{self.postgresql.port}/", f":{node.relay.port}/")
        if kind == "archive":
            node.program = self._program
            node.variables = self.s3.environment()
        if not node.data.exists():  # the first ones are there
            do(kind, "init", "--data", node.data, "--store", store)
        self.nodes.append(node)
        return node

    def remove_node(self, node: Node) -> None:
        """Take a node out of the balancer, and end it when its requests are answered."""
        self.nodes.remove(node)
        self.balance()
        self.balancer.reload()
        time.sleep(1.0)
        node.stop()
        close_store(node.data)
        shutil.rmtree(node.data)

    def balance(self) -> None:
        """Write the configuration of the balancer for the present nodes."""
        self.balancer.write(
            {
                kind: [node.port for node in self.nodes if node.kind == kind]
                for kind in ("archive", "resolver")
            }
        )

    def until_ready(self, seconds: float = _SECONDS) -> float:
        """Start what has ended, and wait until all nodes are ready; how many seconds. Raises TimeoutError."""
        begun = time.monotonic()
        waiting = list(self.nodes)
        while waiting:
            for node in waiting:
                node.start()
            waiting = [node for node in waiting if not node.is_ready()]
            if waiting and time.monotonic() - begun > seconds:
                raise TimeoutError(f"{waiting[0]} is not ready: {self.written(waiting[0])}")
            time.sleep(0.1)
        return time.monotonic() - begun

    def written(self, node: Node) -> str:
        """The end of what a node wrote."""
        return (node.data / "written").read_text()[-2000:]

    def at(self, service: str) -> tuple[str, int]:
        """Where a service answers, by the balancer: its address and port."""
        return service, self.ports[service]

    def of(self, kind: str) -> list[Node]:
        """The nodes of a service."""
        return [node for node in self.nodes if node.kind == kind]

    def _first(self, kind: str) -> Node:
        return next(node for node in self.nodes if node.kind == kind)

    # -- the two services --------------------------------------------------------------------------------------

    def _make_archive(self) -> None:
        data = self.folder / "archive0"
        directory = DataDirectory(data, this_machine())
        directory.reserve()
        directory.create(
            ArchiveSettings(
                address=":".join(map(str, self.at(ARCHIVE))), ip="127.0.0.1", key=_KEY, secret="ab" * 32,
                service=IBIForms.parse(f"rep {ARCHIVE_SERVICE}"), admin="a@archive.example", audit_days=0,
                refresh_hours=0, page_rate=0.0, costly_rate=0.0, mint_host="nodes.example", mint_ip="192.0.2.1",
                granularity="0.01", for_trying=True, resolver=f"http://{RESOLVER}:{self.ports[RESOLVER]}",
                resolver_service=_RESOLVER_SERVICE, store=self._stores["archive"], files=f"s3://{BUCKET}/nodes",
            )
        )  # fmt: skip
        self.token = Tokens(data).make("client", MADE, [Scope.DEPOSIT, Scope.EDIT, Scope.TRANSFER])

    def put(self, *items: dict[str, Any]) -> None:
        """Deposit linked items in the Archive."""
        with DataDirectory(self.folder / "archive0", this_machine()).item_store() as item_store:
            for item in items:
                deposit(item_store, read_item(item), [], "proof")

    def _make_resolver(self) -> None:
        data = self.folder / "resolver0"
        words = ["--address", ":".join(map(str, self.at(RESOLVER))), "--service-ibi", _RESOLVER_SERVICE]
        do(
            "resolver",
            "init",
            "--data",
            data,
            "--store",
            self._stores["resolver"],
            *words,
            "--allow-private-archives",
        )
        do("resolver", "set", "--data", data, "request_rate", "0")
        self.resolver_token = Tokens(data).make("proof", MADE, [Scope.READ, Scope.ADMIN])
        close_store(data)

    def archive_database(self) -> str:
        """The name of the database of the Archive."""
        return urlsplit(self._stores["archive"]).path.strip("/")

    # -- the environment ---------------------------------------------------------------------------------------

    def _set_variables(self) -> None:
        """Set the variables of S3 for this process, which makes the Archive."""
        before = dict(os.environ)
        os.environ.update(self.s3.environment())

        def reset() -> None:
            for name in self.s3.environment():
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]

        self._stack.callback(reset)

    def _sample_variables(self) -> dict[str, str]:
        nowhere = "192.0.2.1"  # no other proxy is before this one, and readers are in no network of the nodes
        return {
            "ARCHIVE_HOST": ARCHIVE, "RESOLVER_HOST": RESOLVER, "NETWORK": nowhere, "SERVER_IP": ARCHIVE,
            "FRONT": nowhere, "NAMES": f"{ARCHIVE}:9",
        }  # fmt: skip
