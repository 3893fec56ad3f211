"""A server: a Debian that systemd boots as its first process, with nothing of ours but wheels.

Its packages and those of Python come from files that were fetched before: `apt` and `pip` need no network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.engines.debian import root_filesystem, wheels
from support.pages.runner import SHELL, Shell, shell
from support.servers.network import ENDS, Namespace
from support.style.layers import ROOT

BASE = ("systemd", "systemd-sysv", "dbus", "sudo", "iproute2")
DOWNLOADED = "python3-venv caddy curl"
"""What the tutorials install with apt."""
SUITE, PYTHON = "trixie", "3.13"
_BOOTED = 60  # seconds until a server must be up
_PIP = "[global]\nno-index = true\nfind-links = /srv/wheels\ndisable-pip-version-check = true\n"
_ENVIRONMENT = (
    "env", "-i", "HOME=/srv", "LANG=C.UTF-8", "TERM=dumb", "COLUMNS=100", "DEBIAN_FRONTEND=noninteractive",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)  # fmt: skip


def unpack(tree: Path, *packages: str, downloaded: str = "") -> None:
    """Unpack a Debian with these packages, and ours and what it needs as wheels in /srv/wheels."""
    tree.mkdir()
    run("tar", "-C", str(tree), "-xf", str(root_filesystem(SUITE, *packages, downloaded=downloaded)))
    shutil.copytree(wheels(PYTHON), tree / "srv/wheels")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "srv/wheels"), at=ROOT)


def make_server(tree: Path, hosts: Mapping[str, str], trusted: Iterable[Path]) -> None:
    """Unpack a server for a page to be followed on.

    `hosts` stand for the entries of DNS, `trusted` are roots of authorities for certificates.
    """
    unpack(tree, *BASE, downloaded=DOWNLOADED)
    (tree / "etc/pip.conf").write_text(_PIP)
    (tree / "etc/apt/apt.conf.d/no-network").write_text('Acquire::Retries "0";\n')
    (tree / "etc/hostname").write_text("server\n")
    lines = [f"{address} {name}\n" for name, address in hosts.items()]
    (tree / "etc/hosts").write_text("".join(["127.0.0.1 localhost server\n", *lines]))
    for number, root in enumerate(trusted):
        goal = tree / f"usr/local/share/ca-certificates/root{number}.crt"
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root, goal)


@contextmanager
def booting(tree: Path, ends: Sequence[str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Boot a tree until the end of the block; what it says is in `console(tree)`. Needs root.

    `ends`: what ends it if this process is killed (`network`).
    """
    command = [*ends, "systemd-nspawn", "--quiet", f"--directory={tree}", "--boot", "--register=no"]
    command += ["--keep-unit", "--console=pipe", *options]
    with (
        console(tree).open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def console(tree: Path) -> Path:
    """Return the file with what the server of a tree says."""
    return tree.with_name(f"{tree.name}.console")


@contextmanager
def booted(tree: Path, at: Namespace, language: str) -> Iterator[Shell]:
    """Boot a server in a namespace of the network, and remove it at the end; yields a shell of root. Needs root."""
    options = ("--hostname=server", f"--network-namespace-path={at.path}", "--resolv-conf=off")
    try:
        with booting(tree, ENDS, *options) as process:
            init = _init_of(process.pid)
            inside = ["nsenter", "--target", str(init), "--all"]
            inside += [*_ENVIRONMENT, f"LANGUAGE={language}", *SHELL]
            try:
                with shell(tree.parent, command=inside) as typed:
                    typed.run(
                        "cd; until systemctl is-system-running --wait | grep -E 'running|degraded'; do sleep 0.2; done"
                    )
                    yield typed
            finally:
                with suppress(ProcessLookupError):
                    os.kill(
                        init, signal.SIGKILL
                    )  # it would outlive the one that started it, with all its processes
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _init_of(nspawn: int) -> int:
    """The process with which the server began."""
    end = time.monotonic() + _BOOTED
    while time.monotonic() < end:
        for child in Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                return int(child)
        time.sleep(0.1)
    raise AssertionError("the server did not boot")


def run(*words: str, at: Path | None = None) -> None:
    """Run a command, which must end well."""
    done = subprocess.run(words, cwd=at, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
