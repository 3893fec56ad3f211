"""HAProxy with the sample configuration for several nodes, and a relay that can be cut off."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import proofs
from support.engines.haproxy import haproxy_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAMPLE: Final = Path(proofs.__path__[0]).parent / "packaging/container/haproxy.cfg"
_SERVER: Final = re.compile(
    r"^( +server )(resolver|archive)\d+ (?:resolver|archive)\d+:8080(.*)\n", re.MULTILINE
)
_SECONDS: Final = 90.0  # until it has started, or read its configuration, on a busy machine
_PAUSE, _AGAIN = 0.5, 10.0  # a signal is lost that comes before it has wholly started


class Balancer:
    """HAProxy before the nodes of both services; `environment`: the variables of the sample; `listen`: where."""

    def __init__(self, folder: Path, environment: Mapping[str, str], sample: str, listen: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._sample = sample.replace("bind :8080\n", f"bind {listen}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, nodes: Mapping[str, Sequence[int]]) -> None:
        """Write the configuration for these nodes: kind -> ports."""
        lines = {found[2]: found for found in _SERVER.finditer(self._sample)}
        written: set[str] = set()

        def servers(found: re.Match[str]) -> str:
            kind = found[2]
            if kind in written:
                return ""
            written.add(kind)
            before, _, after = lines[kind].groups()
            return "".join(f"{before}{kind}{port} 127.0.0.1:{port}{after}\n" for port in nodes[kind])

        self._path.write_text(_SERVER.sub(servers, self._sample))

    def start(self, address: tuple[str, int]) -> None:
        """Start it; it listens at this address."""
        program = haproxy_program()
        assert program is not None  # noqa: S101 - who asks for it has looked
        with (self._folder / "haproxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-W", "-f", str(self._path)],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )
        end = time.monotonic() + _SECONDS
        while True:
            with suppress(OSError):
                socket.create_connection(address, 1).close()
                if self._times_read():
                    return
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError((self._folder / "haproxy.log").read_text())
            time.sleep(0.05)

    def reload(self) -> None:
        """Have it read its configuration again, and wait until it has. Raises TimeoutError."""
        assert self._process is not None  # noqa: S101 - it was started
        time.sleep(_PAUSE)
        before, sent = self._times_read(), 0.0
        end = time.monotonic() + _SECONDS
        while self._times_read() == before:
            now = time.monotonic()
            if now > end:
                raise TimeoutError("HAProxy has not read its configuration")
            if now > sent + _AGAIN:
                self._process.send_signal(signal.SIGUSR2)
                sent = now
            time.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            self._process.wait()

    @property
    def _path(self) -> Path:
        return self._folder / "haproxy.cfg"

    def _times_read(self) -> int:
        """How often it has said that it has read its configuration."""
        return (self._folder / "haproxy.log").read_text().count("Loading success")


class Relay:
    """A way from a free port to another one, which can be cut off: then nothing passes, and nothing is closed."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        """Let nothing pass."""
        self._passes.clear()

    def mend(self) -> None:
        """Let everything pass again, and what has waited."""
        self._passes.set()

    def close(self) -> None:
        """End it; connections that are open end by themselves."""
        self.mend()
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
        back.start()
        self._pass_on(near, far)
        back.join()
        for each in (near, far):
            each.close()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._passes.wait()
                target.sendall(data)
        self._passes.wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
