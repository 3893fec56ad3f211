"""A machine of their own for the examples of pages: host names, ports 80 and 443, folders and services of a server.

A mount, network and process namespace (`unshare`), in which nothing of the true machine is changed, and which ends with
its shell: /var/lib, /srv, /etc and /run are folders of the test, the host names of the pages lead to addresses of its
loopback device, which count as public. An Archive and a resolver run there, as `ibi init` leaves them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ibi.runtime.settings import ArchiveSettings
from support.cli.in_process import ibi
from support.pages.runner import SHELL, Shell, shell

STAND_INS = Path(__file__).with_name("bin")
ADDRESSES = {"203.0.113.7": "192.0.43.8", "203.0.113.8": "192.0.43.9"}
"""The addresses of the pages, which no one has, and those of the machine, which count as public."""
PROGRAM = Path(sys.executable).parent / "ibi"
UNITS = {
    kind: f"[Service]\nExecStart=/opt/ibi/bin/ibi {kind} serve --data /var/lib/ibi/{kind}/%i --bind {address}:80\n"
    for kind, address in zip(("archive", "resolver"), ADDRESSES.values(), strict=True)
}
MOUNTED = {
    "var-lib": "/var/lib", "srv": "/srv", "etc": "/etc", "run": "/run", "opt": "/opt", "sbin": "/usr/local/sbin",
}  # fmt: skip
"""The folders of the machine, and where they are seen in it."""


@dataclass(frozen=True)
class Hosts:
    """The host names of the pages of one language."""

    archive: str
    resolver: str


HOSTS = {
    "en": Hosts("archive.example.org", "resolver.example.org"),
    "pt_BR": Hosts("arquivo.example.org", "resolvedor.example.org"),
}


@dataclass(frozen=True)
class Machine:
    """The machine, before it is entered. `folder` has the folders that are seen in it under their usual names."""

    folder: Path
    hosts: Hosts

    @property
    def archive(self) -> Path:
        """The data directory of the Archive, from outside."""
        return self.folder / "var-lib/ibi/archive" / self.hosts.archive

    @property
    def resolver(self) -> Path:
        """The data directory of the resolver, from outside."""
        return self.folder / "var-lib/ibi/resolver" / self.hosts.resolver


def make_machine(folder: Path, language: str) -> Machine:
    """Make the folders of a machine: an Archive with two items, registered at a resolver; neither runs yet."""
    machine = Machine(folder, HOSTS[language])
    for name in ("var-lib", "srv", "run", "home", "opt/ibi/bin", "sbin"):
        (folder / name).mkdir(parents=True)
    (folder / "opt/ibi/bin/ibi").symlink_to(PROGRAM)
    _make_etc(folder / "etc", machine.hosts)
    _make_services(machine)
    return machine


def _make_etc(etc: Path, hosts: Hosts) -> None:
    """Copy what this machine has, as far as it may be read, with our hosts, units and the user of the services."""
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=False, stderr=subprocess.DEVNULL)
    archive, resolver = ADDRESSES.values()
    (etc / "hosts").write_text(
        f"127.0.0.1 localhost\n{archive} {hosts.archive}\n{resolver} {hosts.resolver}\n"
    )
    for name in ("passwd", "group"):  # another name of the one user that there is
        with (etc / name).open("a") as file:
            file.write("ibi:x:0:0::/:/bin/sh\n" if name == "passwd" else "ibi:x:0:\n")
    shutil.rmtree(etc / "systemd/system", ignore_errors=True)
    (etc / "systemd/system").mkdir(parents=True)
    for kind, text in UNITS.items():
        (etc / f"systemd/system/ibi-{kind}@.service").write_text(text)


def _make_services(machine: Machine) -> None:
    for each in (machine.archive, machine.resolver):
        each.parent.mkdir(parents=True)
    address = f"http://{machine.hosts.resolver}"
    _do("resolver", "init", "--data", machine.resolver, "--address", machine.hosts.resolver)
    _do(
        "archive", "init", "--data", machine.archive, "--address", machine.hosts.archive, "--ip",
        next(iter(ADDRESSES.values())), "--admin", "maria@example.org", "--resolver", address,
    )  # fmt: skip
    settings = ArchiveSettings.read(machine.archive)
    service = settings.service.main
    _do(
        "resolver",
        "register",
        "--data",
        machine.resolver,
        "--archive-service",
        service,
        "--key",
        settings.key,
    )
    for title in ("Relatório anual", "Atlas do vale"):
        file = machine.folder / "home" / f"{title.split()[0]}.pdf"
        file.write_bytes(b"%PDF-1.4\n" + title.encode() * 1000)
        _do("archive", "deposit", "--data", machine.archive, file, "--title", title)


def _do(*words: object) -> None:
    done = ibi(*words)
    assert done.returncode == 0, done


@contextmanager
def entered(machine: Machine, language: str, *, served: bool = True) -> Iterator[Shell]:
    """Enter the machine: a shell in it, with both services running if they are to be served."""
    folder = machine.folder
    begin = [
        "set -e",
        "ip link set lo up",
        *(f"ip address add {address}/32 dev lo" for address in ADDRESSES.values()),
        *(f"mount --bind {shlex.quote(str(folder / here))} {there}" for here, there in MOUNTED.items()),
        f"exec {shlex.join(SHELL)}",
    ]
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    namespace = ["unshare", *own, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {
        "LANGUAGE": language,
        "PATH": f"{STAND_INS}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with shell(
        folder / "home", environment | {"PATH": f"{environment['PATH']}:/usr/sbin:/sbin"},
        [*namespace, "sh", "-c", "\n".join(begin)],
    ) as at:  # fmt: skip
        if served:
            at.run(f"systemctl start ibi-resolver@{machine.hosts.resolver}")
            at.run(f"systemctl start ibi-archive@{machine.hosts.archive}")
        yield at
