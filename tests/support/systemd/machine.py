"""A Debian that systemd boots as its first process, with the real program installed from wheels."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.engines.debian import root_filesystem, wheels
from support.style.layers import ROOT

PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "ca-certificates")
_PROBE = Path(__file__).with_name("probe.py")
_CADDY = """
[Service]
Type=notify
Environment=XDG_DATA_HOME=/var/lib/caddy XDG_CONFIG_HOME=/var/lib/caddy
ExecStart=/usr/bin/caddy run --config /etc/caddy/Caddyfile
ExecReload=/usr/bin/caddy reload --force --config /etc/caddy/Caddyfile
"""
_UNIT = """
[Unit]
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/opt/ibi/bin/python /opt/probe.py /opt/probe.json

[Install]
WantedBy=graphical.target
"""


def make_tree(folder: Path) -> Path:
    """Unpack a root file system, and install the program into it, as the how-to page tells; returns the tree."""
    tree = folder / "tree"
    tree.mkdir()
    _run("tar", "-C", str(tree), "-xf", str(root_filesystem("trixie", *PACKAGES)))
    shutil.copytree(wheels("3.13"), tree / "wheels")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "wheels"), at=ROOT)
    install = (
        "python3 -m venv /opt/ibi && /opt/ibi/bin/pip install -q --no-index --find-links /wheels 'ibi[node]'"
    )
    _run("chroot", str(tree), "sh", "-ec", install)
    shutil.rmtree(tree / "wheels")
    shutil.copy(Path(sys.executable).parent / "caddy", tree / "usr/bin/caddy")
    (tree / "etc/systemd/system/caddy.service").write_text(_CADDY)
    (tree / "etc/hosts").write_text("127.0.0.1 localhost archive.example.org resolver.example.org\n")
    return tree


def boot(tree: Path) -> dict[str, Any]:
    """Boot the tree; returns what the probe found. The machine has no network but its own loopback."""
    shutil.copy(_PROBE, tree / "opt/probe.py")
    (tree / "etc/systemd/system/ibi-probe.service").write_text(_UNIT)
    _run("systemctl", f"--root={tree}", "enable", "ibi-probe.service")
    # In a process namespace, whose processes all end with this process, however that ends.
    command = (
        "setpriv --pdeathsig=KILL unshare --pid --fork --kill-child=KILL --mount-proc systemd-nspawn".split()
    )
    command += [
        "--quiet",
        f"--directory={tree}",
        "--boot",
        "--private-network",
        "--register=no",
        "--keep-unit",
    ]
    command += ["--console=pipe"]
    with (
        (tree / "opt/console").open("wb") as console,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console) as machine,
    ):
        try:
            machine.wait(600)
        finally:
            machine.kill()
    found = tree / "opt/probe.json"
    assert found.exists(), (tree / "opt/console").read_text("utf-8", "replace")[-4000:]
    result: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return result


def _run(*words: str, at: Path | None = None) -> None:
    done = subprocess.run(words, cwd=at, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
