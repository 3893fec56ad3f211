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
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ibi.cli.setup import rendering
from ibi.cli.setup.rendering import PORTS, Site, proxy, units
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.cli.in_process import ibi
from support.pages.runner import SHELL, Shell, shell
from support.style.layers import ROOT

STAND_INS = Path(__file__).with_name("bin")
PROGRAMS = Path(sys.executable).parent
ADDRESSES = {"203.0.113.7": "192.0.43.8", "203.0.113.8": "192.0.43.9"}
"""The addresses of the pages, which no one has, and those of the machine, which count as public."""
MOUNTED = {
    "var-lib": "/var/lib", "srv": "/srv", "etc": "/etc", "run": "/run", "opt": "/opt", "sbin": "/usr/local/sbin",
}  # fmt: skip
"""The folders of the machine, and where they are seen in it."""
LOCAL_AUTHORITY = "/var/lib/caddy/caddy/pki/authorities/local/root.crt"
"""The certificate of the authority that Caddy is there, in place of one of the Internet."""
CADDY = """[Service]
Environment=XDG_DATA_HOME=/var/lib/caddy XDG_CONFIG_HOME=/var/lib/caddy
ExecStart=/bin/sh -c 'caddy-local && exec caddy run --config /run/Caddyfile'
ExecReload=/bin/sh -c 'caddy-local && exec caddy reload --force --config /run/Caddyfile'
"""
"""The unit of Caddy, which adds to /etc/caddy/Caddyfile that certificates come from itself (`caddy-local`)."""


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
    for name in ("var-lib", "srv", "run", "home", "sbin"):
        (folder / name).mkdir(parents=True)
    _make_program(folder / "opt/ibi")
    _make_etc(folder / "etc", machine.hosts)
    _make_services(machine)
    return machine


def _make_program(folder: Path) -> None:
    """Make the environment of the program: that of the tests, where another version can be installed over it."""
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for name, command in {
        "ibi": f"PYTHONPATH={ROOT / 'src'} exec {PROGRAMS / 'ibi'}",
        "pip": f"exec {PROGRAMS / 'pip'} --quiet --disable-pip-version-check --python /opt/ibi/bin/python",
    }.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\n{command} "$@"\n')
        script.chmod(0o755)


def _make_etc(etc: Path, hosts: Hosts) -> None:
    """Copy what this machine has, as far as it may be read, with our hosts, units, proxy and user of the services."""
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=False, stderr=subprocess.DEVNULL)
    here = next(iter(ADDRESSES.values()))
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{here} {hosts.archive} {hosts.resolver}\n")
    for name in ("passwd", "group"):  # another name of the one user that there is
        with (etc / name).open("a") as file:
            file.write("ibi:x:0:0::/:/bin/sh\n" if name == "passwd" else "ibi:x:0:\n")
    system = etc / "systemd/system"
    shutil.rmtree(system, ignore_errors=True)
    system.mkdir(parents=True)
    for name, text in units(rendering.Machine()).items():
        (system / name).write_text(text)
    (system / "caddy.service").write_text(CADDY)
    sites = [
        Site("archive", hosts.archive, hosts.archive, PORTS["archive"]),
        Site("resolver", hosts.resolver, hosts.resolver, PORTS["resolver"]),
    ]
    (etc / "caddy").mkdir(exist_ok=True)
    (etc / "caddy/Caddyfile").write_text(proxy("caddy", sites))


def _make_services(machine: Machine) -> None:
    for each in (machine.archive, machine.resolver):
        each.parent.mkdir(parents=True)
    hosts = machine.hosts
    _do("resolver", "init", "--data", machine.resolver, "--address", hosts.resolver)
    _do(
        "archive", "init", "--data", machine.archive, "--address", hosts.archive, "--ip",
        next(iter(ADDRESSES.values())), "--admin", "maria@example.org", "--resolver", f"http://{hosts.resolver}",
    )  # fmt: skip
    settings = ArchiveSettings.read(machine.archive)
    key = ("--archive-service", settings.service.main, "--key", settings.key)
    _do("resolver", "register", "--data", machine.resolver, *key)
    changed = replace(settings, public_url=f"https://{hosts.archive}", trusted_proxies=("127.0.0.1/32",))
    changed.write(machine.archive)
    resolver = ResolverSettings.read(machine.resolver)
    replace(resolver, public_url=f"https://{hosts.resolver}", admin="links@example.org").write(
        machine.resolver
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
        "PATH": f"{STAND_INS}:/opt/ibi/bin:{PROGRAMS}:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
        "PYTHONPATH": "",
        "SSL_CERT_FILE": LOCAL_AUTHORITY,
        "CURL_CA_BUNDLE": LOCAL_AUTHORITY,
    }
    with shell(folder / "home", environment, [*namespace, "sh", "-c", "\n".join(begin)]) as at:
        if served:
            at.run("systemctl start caddy")
            at.run(f"systemctl start ibi-resolver@{machine.hosts.resolver}")
            at.run(f"systemctl start ibi-archive@{machine.hosts.archive}")
        yield at
