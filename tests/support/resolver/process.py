"""A resolver in a process of its own, as its operator starts it, among scripted Archives of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.runtime.settings import ResolverSettings
from support.concurrency.forked import start_ibi
from support.network.up import Answer, get
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "J8LNKB5R7W/3FUQHC5"
KEY = "12345678901234567890"
SOURCE = Path(__file__).parents[3] / "src"


class ResolverProcess:
    """One that runs, at a free port of this machine unless `bind` names one; `written` has what it logged."""

    def __init__(self, data: Path, *words: str, bind: str = "") -> None:
        self.data = data
        self.written = data / "written"
        command = [
            "resolver",
            "serve",
            "--data",
            str(data),
            "--bind",
            bind or f"127.0.0.1:{free_port()}",
            *words,
        ]
        with self.written.open("wb") as written:
            self.process = start_ibi(
                command,
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "LANGUAGE": "en"},
            )
        assert self.process.stdout is not None
        ready, _, self.root = self.process.stdout.readline().strip().partition(" ")
        assert ready == "ready", self.written.read_text()

    def get(self, target: str, **headers: str) -> Answer:
        return get(f"{self.root}{target}", **{"host": "resolver.test", **headers})

    def include(self, service: str, address: str) -> None:
        """Register an Archive, which must confirm at once, and send its inclusion request."""
        words = ["--archive-service", service, "--key", KEY]
        assert main(["resolver", "register", "--data", str(self.data), *words]) == 0
        ibi = parse_ibi(service)
        request = InclusionRequest(address, ibi, "127.0.0.1", "1", "admin@archive.example", KEY)
        answer = self.get(f"/{SERVICE}?{request.query()}")
        assert answer.status == 200, answer

    def stop(self, how: signal.Signals = signal.SIGTERM) -> str:
        """End it; what it logged."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.communicate(timeout=60)
        return self.written.read_text()


def make(data: Path, **settings: object) -> None:
    """Make the data directory of a resolver for Archives on this machine, whose readers have no limit."""
    words = f"--address resolver.test --service-ibi {SERVICE} --allow-private-archives"
    assert main(["resolver", "init", "--data", str(data), *words.split()]) == 0
    changed = {"request_rate": 0.0, **settings}
    replace(ResolverSettings.read(data), **changed).write(data)  # type: ignore[arg-type]  # by name


@contextmanager
def serving(data: Path, *words: str, bind: str = "") -> Iterator[ResolverProcess]:
    """Serve it until the end of the block."""
    process = ResolverProcess(data, *words, bind=bind)
    try:
        yield process
    finally:
        process.stop()
