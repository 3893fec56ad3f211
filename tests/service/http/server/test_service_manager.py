"""A service manager passes a socket, and is told that the service is ready, reads its settings again, and stops."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.cli import main
from support.network.up import get
from support.ports import free_port

PROGRAM = """
import sys
from ibi.http.server.service import Service
from ibi.http.server.workers import serve

async def leave():
    print("leaving", flush=True)

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})

serve(lambda: [Service(app, stopping=leave)], [sys.argv[1]], lambda urls: print(*urls, flush=True), int(sys.argv[2]))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src"), "LANGUAGE": "en"}


class Manager:
    """The socket of a service manager. `name`: as in NOTIFY_SOCKET."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        self._socket.settimeout(60)

    def message(self) -> dict[str, str]:
        """The next message."""
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    # The path of a socket has 107 bytes at most, fewer than those of the folders of tests.
    with tempfile.TemporaryDirectory(prefix="ibi-manager-") as folder:
        made = Manager(f"@{folder}" if request.param == "abstract" else f"{folder}/notify")
        yield made
        made.close()


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a resolver."""
    data = tmp_path_factory.mktemp("resolver")
    words = "--address resolver.test --service-ibi J8LNKB5R7W/3FUQHC5"
    assert main(["resolver", "init", "--data", str(data), *words.split()]) == 0
    return data


@pytest.mark.parametrize("workers", [1, 2])
def test_a_resolver_takes_the_socket_of_systemd_and_tells_how_it_stands(
    resolver: Path, manager: Manager, workers: int
) -> None:
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("there is no systemd-socket-activate here")
    port = free_port()
    root = f"http://127.0.0.1:{port}"
    command = [activate, f"--listen=127.0.0.1:{port}", f"--setenv=NOTIFY_SOCKET={manager.name}"]
    command += [f"--setenv={name}={ENVIRONMENT[name]}" for name in ("PYTHONPATH", "LANGUAGE")]
    serve = f"-m ibi resolver serve --data {resolver} --bind fd://3 --workers {workers}"
    with subprocess.Popen(
        [*command, sys.executable, *serve.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            end = time.monotonic() + 60
            while not _is_open(port):
                assert time.monotonic() < end
                time.sleep(0.02)
            assert manager.message() == {"READY": "1", "STATUS": root}
            assert get(f"{root}/-/healthz").status == 200
            before = time.monotonic_ns() // 1000
            process.send_signal(signal.SIGHUP)
            reloading = manager.message()
            assert reloading.pop("RELOADING") == "1"
            assert before <= int(reloading.pop("MONOTONIC_USEC")) <= time.monotonic_ns() // 1000
            assert reloading == {}
            assert manager.message() == {"READY": "1"}
            process.send_signal(signal.SIGTERM)
            assert manager.message() == {"STOPPING": "1"}
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, f"ready {root}\n")


def _is_open(port: int) -> bool:
    """Whether something listens: the first connection starts the program, which answers it."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_whose_socket_stays_open_does_not_say_that_it_is_away(workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for bind, leaves in ((f"fd://{listener.fileno()}", ""), ("127.0.0.1:0", "leaving\n")):
            assert _written_at_the_end(listener.fileno(), bind, workers) == leaves


def _written_at_the_end(handle: int, bind: str, workers: int) -> str:
    """What the program prints after its first line, when it is told to stop. No manager listens to it."""
    environment = {**ENVIRONMENT, "NOTIFY_SOCKET": "/no/such/socket"}
    command = [sys.executable, "-c", PROGRAM, bind, str(workers)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, pass_fds=[handle]
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output
