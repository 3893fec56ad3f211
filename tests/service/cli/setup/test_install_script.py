"""`install.sh`, with other folders in the place of those below /etc: a configuration that was edited stays."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.ports import free_port

Typed = Callable[..., tuple[int, str, str]]

PLACES = {"caddy": "caddy/Caddyfile", "nginx": "nginx/conf.d/ibi.conf", "haproxy": "haproxy/haproxy.cfg"}
RUN = """
for each in caddy nginx haproxy systemd/system sysusers.d; do
    mkdir -p "$1/$each" "/etc/$each"
    mount --bind "$1/$each" "/etc/$each"
done
PATH=$2:$PATH exec sh "$3"
"""


class Machine:
    """Runs the script; its commands for services do nothing, and nginx accepts what it is told to accept."""

    def __init__(self, folder: Path, script: Path) -> None:
        self.etc, self._commands, self._script = folder / "etc", folder / "commands", script
        self._commands.mkdir()
        for name in ("systemctl", "systemd-sysusers", "nginx"):
            self.command(name, 0)

    def command(self, name: str, status: int) -> None:
        """Let a command end with a status."""
        (self._commands / name).write_text(f"#!/bin/sh\nexit {status}\n", "utf-8")
        (self._commands / name).chmod(0o755)

    def install(self) -> str:
        """Run the script and return what it prints."""
        words = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            RUN,
            "sh",
            str(self.etc),
            str(self._commands),
            str(self._script),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


def made(typed: Typed, folder: Path, proxy: str) -> Machine:
    kind = ("--kind", "archive", "--proxy", proxy, "--port", free_port(), "--for-trying", "--yes")
    answers = ("--domain", "127.0.0.1", "--ip", "127.0.0.1", "--admin", "maria@archive.example")
    assert typed("init", "--data", folder / "ibi", *kind, *answers)[0] == 0
    return Machine(folder, folder / "ibi/setup/install.sh")


@pytest.mark.parametrize("proxy", PLACES)
def test_a_configuration_of_the_proxy_that_was_edited_stays(typed: Typed, tmp_path: Path, proxy: str) -> None:
    machine = made(typed, tmp_path, proxy)
    placed, [new] = machine.etc / PLACES[proxy], list((tmp_path / "ibi/setup/proxy").iterdir())
    machine.install()
    assert placed.read_text("utf-8") == new.read_text("utf-8")
    new.write_text(new.read_text("utf-8") + "# of a later version\n", "utf-8")
    assert "edited" not in machine.install()
    assert placed.read_text("utf-8") == new.read_text("utf-8")
    edited = placed.read_text("utf-8") + "# by hand\n"
    placed.write_text(edited, "utf-8")
    for _ in range(2):
        printed = machine.install()
        assert f"/etc/{PLACES[proxy]} was edited, so it stays as it is; the new one is {new}\n" in printed
        assert placed.read_text("utf-8") == edited


def test_what_nginx_does_not_accept_is_taken_away_and_the_former_one_put_back(
    typed: Typed, tmp_path: Path
) -> None:
    machine = made(typed, tmp_path, "nginx")
    placed, new = machine.etc / PLACES["nginx"], tmp_path / "ibi/setup/proxy/nginx.conf"
    machine.command("nginx", 1)
    assert "certificates" in machine.install()
    assert list(placed.parent.iterdir()) == []
    machine.command("nginx", 0)
    machine.install()
    before = placed.read_text("utf-8")
    new.write_text(before + "# of a later version\n", "utf-8")
    machine.command("nginx", 1)
    assert "as it was" in machine.install()
    assert placed.read_text("utf-8") == before
    machine.command("nginx", 0)
    assert "edited" not in machine.install()
    assert placed.read_text("utf-8") == new.read_text("utf-8")
