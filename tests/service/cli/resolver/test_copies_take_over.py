"""When the Archive of an original dies, readers are led to a copy: real servers, one of which is killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from support.cli.archive_commands import Resolver, deposited, ibi, join, make_archive, serving, until
from support.network.up import get
from support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("english")]

SECONDS = 5.0
"""Within which readers are led to the copy, while one comes twice a second."""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hanging"])
def test_readers_are_led_to_a_copy_soon_after_the_archive_of_the_original_has_died(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: signal.Signals
) -> None:
    resolver = Resolver(tmp_path / "r")
    ports = free_port(), free_port()
    folders = tmp_path / "a", tmp_path / "b"
    with resolver.running():
        for data, port in zip(folders, ports, strict=True):
            join(data, make_archive(data, port), resolver)
        original, copy = [
            ("--data", data, "--bind", f"127.0.0.1:{port}") for data, port in zip(folders, ports, strict=True)
        ]
        name = deposited(folders[0], tmp_path / "text.txt", capsys)
        with serving(*copy):
            with serving(*original) as process:
                until(lambda: len(resolver.included) == len(ports))
                ibi(
                    "archive",
                    "copy",
                    "--data",
                    folders[1],
                    name,
                    "--allow-private",
                    "--from",
                    f"http://127.0.0.1:{ports[0]}",
                )
                until(lambda: _leads_to(resolver, name, ports[0]))
                for _ in range(4):  # from the cache, too
                    assert _leads_to(resolver, name, ports[0])
                    time.sleep(0.5)
                process.send_signal(end)
                until(lambda: _leads_to(resolver, name, ports[1]), SECONDS, pause=0.5)
                for _ in range(4):
                    assert _leads_to(resolver, name, ports[1])
                    time.sleep(0.5)
                process.kill()
                process.wait()
            with serving(*original):
                until(lambda: _leads_to(resolver, name, ports[0]), SECONDS)


def _leads_to(resolver: Resolver, name: str, port: int) -> bool:
    return get(f"{resolver.url}/{name}").location.startswith(f"http://127.0.0.1:{port}/")
