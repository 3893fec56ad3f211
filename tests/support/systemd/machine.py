"""A server with the real program installed, that does what `probe` tells when it is booted."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from support.servers.network import ALL_END
from support.servers.server import booting, console, run, unpack

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
    """Unpack a server, and install the program into it, as the how-to page tells; returns the tree."""
    tree = folder / "tree"
    unpack(tree, *PACKAGES)
    find = "--no-index --find-links /srv/wheels"
    run(
        "chroot",
        str(tree),
        "sh",
        "-ec",
        f"python3 -m venv /opt/ibi && /opt/ibi/bin/pip install -q {find} 'ibi[node]'",
    )
    shutil.copy(Path(sys.executable).parent / "caddy", tree / "usr/bin/caddy")
    (tree / "etc/systemd/system/caddy.service").write_text(_CADDY)
    (tree / "etc/hosts").write_text("127.0.0.1 localhost archive.example.org resolver.example.org\n")
    return tree


def boot(tree: Path) -> dict[str, Any]:
    """Boot the tree; returns what the probe found. The machine has no network but its own loopback."""
    shutil.copy(_PROBE, tree / "opt/probe.py")
    (tree / "etc/systemd/system/ibi-probe.service").write_text(_UNIT)
    run("systemctl", f"--root={tree}", "enable", "ibi-probe.service")
    with booting(tree, ALL_END, "--private-network") as machine:
        machine.wait(600)
    found = tree / "opt/probe.json"
    assert found.exists(), console(tree).read_text("utf-8", "replace")[-4000:]
    result: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return result
