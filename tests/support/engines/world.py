"""A machine with a public address, for containers that find one another by public names and have true certificates.

A network, process and mount namespace of its own, which needs root. Its loopback device has ADDRESS, which counts as
public. A name server there leads every name to it, and an authority gives certificates by ACME (Pebble). What runs
there, containers too, ends when the machine ends, and nothing but an empty control group is left on the true machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.network.https_network import make_authority

ADDRESS = "192.0.43.8"
DIRECTORY = "https://acme.example.org:14000/dir"
"""Where certificates are to be had."""

PROGRAMS = (
    *("podman", "podman-compose", "buildah", "runc", "iptables", "mmdebstrap", "catatonit"),
    *("pebble", "pebble-challtestsrv", "caddy", "curl", "nsenter", "unshare"),
)
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"

_SETTINGS = """\
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
[containers]
default_ulimits=["nofile=4096:4096","nproc=4096:4096"]
log_driver="k8s-file"
[network]
network_backend="netavark"
network_config_dir="{folder}/networks"
"""
# A longer name than 50 characters for `runroot` makes every container end 20 seconds late.
_STORAGE = """\
[storage]
driver="overlay"
runroot="/run/storage"
graphroot="{folder}/graph"
"""
_BEGIN = f"""\
set -eu
ip link set lo up
ip address add {ADDRESS}/32 dev lo
sysctl -qw net.ipv4.ip_forward=1
names=$(readlink -f /etc/resolv.conf)
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -p "$(dirname "$names")"
[ -e "$names" ] || : > "$names"
mount --bind resolv.conf "$names"
nothing='-http01= -https01= -tlsalpn01= -defaultIPv6='
pebble-challtestsrv -dns01 {ADDRESS}:53 -defaultIPv4 {ADDRESS} $nothing -management 127.0.0.1:8055 > names.log 2>&1 &
PEBBLE_VA_NOSLEEP=1 pebble -config pebble.json -dnsserver {ADDRESS}:53 -strict > acme.log 2>&1 &
exec catatonit -- cat
"""


@dataclass(frozen=True)
class World:
    """The machine while it is there. `folder` has its files, `process` is its first process, as seen from outside."""

    folder: Path
    process: int

    @property
    def authorities(self) -> Path:
        """The certificates by which clients trust the authority, and its server."""
        return self.folder / "authority.pem"

    @property
    def environment(self) -> dict[str, str]:
        """What programs in it need to know."""
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith("IBI_")},
            "PATH": PATH,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "CURL_CA_BUNDLE": str(self.authorities),
        }

    def entering(self, folder: Path) -> list[str]:
        """Return the words before a command that is to run in it, in a folder."""
        return ["nsenter", f"--target={self.process}", "--net", "--mount", "--pid", f"--wd={folder}"]

    def start(self, folder: Path, text: str) -> subprocess.Popen[str]:
        """Start lines of a shell in it."""
        return subprocess.Popen(
            [*self.entering(folder), "bash", "-c", text],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, folder: Path, text: str) -> tuple[int, str, str]:
        """Run lines of a shell in it: status, stdout, stderr."""
        with self.start(folder, text) as process:
            out, err = process.communicate()
        return process.returncode, out, err

    def done(self, folder: Path, text: str) -> str:
        """Run lines of a shell in it that must succeed, and return what they print."""
        status, out, err = self.run(folder, text)
        assert status == 0, f"{text}\n{out}{err}"
        return out


def what_is_missing() -> list[str]:
    """The programs that are not here, and "root" for other users."""
    missing = [each for each in PROGRAMS if shutil.which(each, path=PATH) is None]
    return missing if os.geteuid() == 0 else [*missing, "root"]


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start a machine whose files lie in a new folder."""
    folder.mkdir()
    _write_settings(folder)
    namespace = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    environment = {**os.environ, "PATH": PATH}
    with subprocess.Popen(
        [*namespace, "sh", "-c", _BEGIN], cwd=folder, stdin=subprocess.PIPE, env=environment
    ) as outside:
        try:
            made = World(folder, _first_process(outside.pid))
            _trust(made)
            try:
                yield made
            finally:
                made.run(folder, "podman rm --all --force --time 0")
        finally:
            # SIGTERM is ignored by `unshare`; its child ends with it, and with that all that runs there.
            outside.send_signal(signal.SIGKILL)
    shutil.rmtree(folder / "graph", ignore_errors=True)


def _write_settings(folder: Path) -> None:
    (folder / "containers.conf").write_text(_SETTINGS.format(folder=folder))
    (folder / "storage.conf").write_text(_STORAGE.format(folder=folder))
    (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
    certificate, key = make_authority(folder / "authority").certify("acme", names="DNS:acme.example.org")
    addresses = {"listenAddress": f"{ADDRESS}:14000", "managementListenAddress": f"{ADDRESS}:15000"}
    files = {"certificate": str(certificate), "privateKey": str(key)}
    ports = {"httpPort": 80, "tlsPort": 443, "ocspResponderURL": "", "externalAccountBindingRequired": False}
    (folder / "pebble.json").write_text(json.dumps({"pebble": {**addresses, **files, **ports}}))


def _first_process(parent: int) -> int:
    for _ in range(100):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise AssertionError("no namespace was made")


def _trust(made: World) -> None:
    """Write the certificates by which all is trusted, once the authority answers; it makes its own at each start."""
    own = made.folder / "authority/authority.pem"
    asking = f"curl -sS --cacert {own} https://acme.example.org:15000/roots/0"
    problem = ""
    for _ in range(100):
        status, root, problem = made.run(made.folder, asking)
        if status == 0:
            made.authorities.write_text(own.read_text() + root)
            return
        time.sleep(0.1)
    raise AssertionError(f"the authority does not answer: {problem}")
