"""`ibi archive serve` as an operator starts it: its own process, real sockets; and resolvers of ours beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ibi.app.resolver import open_registry, resolver_service
from ibi.cli import main
from ibi.resolver.model.archive import Archive
from ibi.runtime.settings import ArchiveSettings, JoinedResolver
from support.concurrency.forked import start_ibi
from support.ports import free_port
from support.served import served

COMMAND = (sys.executable, "-c", "import sys; from ibi.cli import main; sys.exit(main())")


def ibi(*words: object) -> None:
    """Run a command of ours that must succeed."""
    assert main([str(word) for word in words]) == 0, words


def make_archive(data: Path, port: int, *more: object) -> str:
    """A new Archive that answers at a port of this machine; its service IBI."""
    service = f"archive.example/{data.name}/2020/01.01.00.00"
    ibi(
        "archive", "init", "--data", data, "--address", f"127.0.0.1:{port}", "--ip", "127.0.0.1", "--service-ibi",
        service, "--mint-host", f"{data.name}.archive.example", "--mint-ip", "127.0.0.1", "--for-trying",
        "--admin", "admin@archive.example", *more,
    )  # fmt: skip
    return service


class Resolver:
    """A resolver of ours that can be started and stopped."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        ibi(
            "resolver", "init", "--data", data, "--address", f"127.0.0.1:{self.port}",
            "--service-ibi", f"resolver.example/{data.name}/2020/01.01.00.00", "--allow-private-archives",
        )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[None]:
        with served(lambda: resolver_service(self.data), f"127.0.0.1:{self.port}"):
            yield

    def register(self, service: str, key: str) -> None:
        ibi("resolver", "register", "--data", self.data, "--archive-service", service, "--key", key)

    @property
    def included(self) -> dict[str, Archive]:
        """The included Archives by their service IBIs."""
        registry = open_registry(self.data)
        try:
            return {str(each.service_ibi): each.included for each in registry.registered() if each.included}
        finally:
            registry.close()


def join(data: Path, service: str, resolver: Resolver, *more: str) -> None:
    """Have an Archive take part in a resolver, which registers it."""
    ibi("archive", "join", "--data", data, "--resolver", resolver.url, *more)
    settings = ArchiveSettings.read(data)
    further = {each.url: each.key for each in JoinedResolver.read_tables(data).values()}
    resolver.register(service, further.get(resolver.url, settings.key))


def deposited(data: Path, file: Path, capsys: Any) -> str:
    """The name of an item that `ibi archive deposit` has made of one file."""
    file.write_text("to be read")
    capsys.readouterr()
    ibi("archive", "deposit", "--data", data, "--title", file.name, "--json", str(file))
    return str(json.loads(capsys.readouterr().out)["rep"])


@contextmanager
def serving(*words: object, ready: int = 1) -> Iterator[subprocess.Popen[str]]:
    """`ibi archive serve` until the end of the block; it must end, and well."""
    command = ["archive", "serve", *words]
    with start_ibi(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(ready)]
            if not all(line.startswith("ready http") for line in lines):
                process.kill()
                raise AssertionError((lines, process.communicate()))
            yield process
            if process.poll() == -signal.SIGKILL:
                return  # the test did it
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            assert (process.returncode, "Traceback" in err) == (0, False), err
        finally:
            process.kill()


def until(happened: Callable[[], object], seconds: float = 30, pause: float = 0.05) -> None:
    """Wait for what another process brings about, less long than from one heartbeat to the next."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(pause)


def get(port: int, target: str, host: str = "") -> tuple[int, bytes]:
    """Status and body of one GET."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", target, headers={"Host": host} if host else {})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def shown(data: Path, capsys: Any) -> dict[str, Any]:
    """What `ibi archive show` says of the Archive itself."""
    capsys.readouterr()
    ibi("archive", "show", "--data", data, "--json")
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value
