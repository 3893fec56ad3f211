"""A resolver of two workers and the Archives that it includes, each as in operation, on real sockets."""

from __future__ import annotations

import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.model.item_json import read_item
from ibi.archive.store.item_changes import deposit
from ibi.cli import main
from ibi.resolver.cache.lease import NEVER
from ibi.resolver.cache.lease_table import LeaseTable
from ibi.runtime.settings import ArchiveSettings, Peer, ResolverSettings
from proofs.common.environment import environment
from proofs.common.served_archive import Served
from proofs.freshness import late
from proofs.freshness.readers import ADDRESS, Readers
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RESOLVER: Final = "J8LNKB5R7W/3FUQHC5"
PROXY_IP: Final = "127.0.0.2"
"""Where the proxy is; its Archive sends from 127.0.0.1."""

_KEY: Final = "12345678901234567890"
_QUERIES: Final = re.compile(r"^ibi_resolver_questions_total\{.*\} (\S+)$", re.MULTILINE)
_SECONDS: Final = 30.0  # until an Archive is included, or has a lease
_WARM_SECONDS: Final = 90.0  # until each reader has clicked often enough, on a machine with much else to do


class Field:
    """Who takes part: the Archives `a`, `b`, and `proxied`, which is behind a proxy with another address.

    All of them are made when they are first wanted, and end with `close`.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="proof-freshness-")))
        self._port = free_port()
        self._make_resolver()
        self.a, self.b = (self._archive(name, "127.0.0.1", free_port()) for name in "ab")
        proxied = free_port(2)
        self.proxied = self._archive("proxied", PROXY_IP, proxied, proxied + 1)
        self._stack.enter_context(_proxy((PROXY_IP, proxied + 1), proxied))
        token = Tokens(self.b.data).make("a", "2026-01-01T00:00:00Z", (Scope.TRANSFER,))
        Peer.write_tables(self.a.data, {"b": Peer(address=f"http://127.0.0.1:{self.b.port}", token=token)})
        Peer.write_tables(self.b.data, {"a": Peer(address=f"http://127.0.0.1:{self.a.port}", token="")})
        parent = self._serve_resolver()
        for archive in (self.a, self.b, self.proxied):
            archive.start()
        self._leases = LeaseTable(self.folder / "resolver" / "memory.leases")
        for archive in (self.a, self.b, self.proxied):
            archive.wait()
            self.wait_until_leased(archive)
        self.readers = Readers(self._port, parent)
        self._stack.callback(self.readers.close)

    def close(self) -> None:
        """End all of them."""
        self._stack.close()

    def warm(self, led: Mapping[str, str], seconds: float = _WARM_SECONDS) -> None:
        """Have readers click on targets until each was led so again and again, and no Archive is asked meanwhile.

        Raises TimeoutError with what is otherwise after so many seconds.
        """
        self.readers.click_on(list(led))
        end = time.monotonic() + seconds
        while True:
            before = self._queries()
            others = self.readers.warm(led, end - time.monotonic())
            if not others and self._queries() == before:
                return
            if time.monotonic() > end:
                raise TimeoutError(others or "Archives are asked again and again")

    def _queries(self) -> int:
        """How many queries the resolver has sent."""
        with urlopen(f"http://127.0.0.1:{self._port}/-/metrics", timeout=_SECONDS) as answer:
            return sum(int(float(count)) for count in _QUERIES.findall(answer.read().decode()))

    # -- Archives ----------------------------------------------------------------------------------------------

    def serve(self, archive: Served) -> None:
        """Serve an Archive, and wait until it answers."""
        archive.start()
        archive.wait()

    def wait_until_leased(self, archive: Served) -> None:
        """Until the resolver has included an Archive, and asked it what has changed. Raises TimeoutError."""
        end = time.monotonic() + _SECONDS
        slot = self._leases.slot(archive.service.main.canonical)
        while self._leases.began(slot) == NEVER:
            if time.monotonic() > end:
                raise TimeoutError(f"{archive.name} has no lease")
            time.sleep(0.02)

    @cached_property
    def late(self) -> Served:
        """One more Archive, whose clock `set_clock` sets."""
        self.set_clock(0.0)
        archive = self._archive("late", "127.0.0.1", free_port())
        archive.program = ("proofs.freshness.late", str(self.folder / "clock"))
        self.serve(archive)
        self.wait_until_leased(archive)
        return archive

    def set_clock(self, offset: float) -> None:
        """Set the clock of `late` so many seconds ahead of the true one."""
        late.set_clock(self.folder / "clock", offset)

    @cached_property
    def restarted(self) -> Served:
        """One more Archive, which trials end and serve again."""
        archive = self._archive("restarted", "127.0.0.1", free_port())
        self.serve(archive)
        self.wait_until_leased(archive)
        return archive

    def new_port(self) -> int:
        """A port at which nothing listens."""
        return free_port()

    def _archive(self, name: str, ip: str, port: int, proxy: int = 0) -> Served:
        archive = Served(name, self.folder / name, port)
        archive.make()
        set_up(
            archive, address=f"{ip}:{proxy or port}", ip=ip, resolver=f"http://127.0.0.1:{self._port}",
            resolver_service=RESOLVER, key=_KEY,
        )  # fmt: skip
        do(
            "resolver",
            "register",
            "--data",
            self.folder / "resolver",
            "--archive-service",
            archive.service_path,
            "--key",
            _KEY,
        )
        self._stack.callback(archive.stop)
        return archive

    # -- the resolver ------------------------------------------------------------------------------------------

    def _make_resolver(self) -> None:
        data = self.folder / "resolver"
        do(
            "resolver",
            "init",
            "--data",
            data,
            "--address",
            ADDRESS,
            "--service-ibi",
            RESOLVER,
            "--allow-private-archives",
        )
        replace(ResolverSettings.read(data), request_rate=0.0, aliases=(f"127.0.0.1:{self._port}",)).write(
            data
        )

    def _serve_resolver(self) -> int:
        words = f"resolver serve --data {self.folder / 'resolver'} --bind 127.0.0.1:{self._port} --workers 2"
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ibi", *words.split()],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
            )
        self._stack.callback(_end, process)
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        process.stdout.readline()
        return process.pid


def set_up(archive: Served, **settings: Any) -> None:
    """Change settings of an Archive; one that is served follows by itself."""
    replace(ArchiveSettings.read(archive.data), **settings).write(archive.data)


def put(archive: Served, *items: dict[str, Any]) -> None:
    """Deposit linked items in an Archive."""
    with archive.directory.item_store() as item_store:
        for item in items:
            deposit(item_store, read_item(item), [], "proof")


def do(*words: object) -> None:
    """Run a command of ours. Raises RuntimeError with what it wrote if it failed."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        status = main([str(word) for word in words])
    if status:
        raise RuntimeError(f"{words}: {out.getvalue()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    finally:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def _proxy(at: tuple[str, int], port: int) -> Iterator[None]:
    """Pass every connection on to a port of this machine."""
    with socket.create_server(at) as listener:
        listener.settimeout(0.2)
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    threading.Thread(target=_pass_on, args=(listener.accept()[0], port), daemon=True).start()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _pass_on(outside: socket.socket, port: int) -> None:
    with suppress(OSError), outside, socket.create_connection(("127.0.0.1", port)) as inside:
        other = {outside: inside, inside: outside}
        while True:
            for each in select.select(list(other), [], [])[0]:
                data = each.recv(65_536)
                if not data:
                    return
                other[each].sendall(data)
