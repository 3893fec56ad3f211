"""A machine of their own for the examples of pages: host names, ports 80 and 443, folders and services of a server.

A mount, network and process namespace (`unshare`, which only root may do), in which nothing of the true machine is
changed, and which ends with its shell: /var/lib, /srv, /etc and /run are folders of the test, the host names of the
pages lead to addresses of its loopback device, which count as public. An Archive and a resolver run there, as
`ibi init` leaves them.
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
from dataclasses import dataclass
from pathlib import Path

from support.network.https_network import make_authority
from support.pages.runner import SHELL, Shell, shell
from support.style.layers import ROOT

STAND_INS = Path(__file__).with_name("bin")
PROGRAMS = Path(sys.executable).parent
ADDRESSES = {"203.0.113.7": "192.0.43.8", "203.0.113.8": "192.0.43.9"}
"""The addresses of the pages, which no one has, and those of the machine, which count as public."""
MOUNTED = {
    "var-lib": "/var/lib", "srv": "/srv", "etc": "/etc", "run": "/run", "opt": "/opt", "sbin": "/usr/local/sbin",
    "log": "/var/log",
}  # fmt: skip
"""The folders of the machine, and where they are seen in it."""
SECOND = "second"
"""The folder of the second machine in that of the first."""
AUTHORITY = "/etc/ssl/machine/authority.pem"
"""The certificate of the authority that certifies names there, by Caddy or by hand, in place of one of the Internet."""
CADDY = """[Service]
Environment=XDG_DATA_HOME=/var/lib/caddy XDG_CONFIG_HOME=/var/lib/caddy
ExecStart=/bin/sh -c 'caddy-local && exec caddy run --config /run/Caddyfile'
ExecReload=/bin/sh -c 'caddy-local && exec caddy reload --force --config /run/Caddyfile'
"""
"""The unit of Caddy, which adds to /etc/caddy/Caddyfile that it certifies names itself (`caddy-local`)."""
NGINX = """[Service]
ExecStart=/bin/sh -c '(sleep 0.5; echo ready) & exec nginx -g "daemon off;"'
ExecReload=/bin/sh -c 'nginx -s reload'
"""
HAPROXY = """[Service]
ExecStart=/bin/sh -c 'mkdir -p /run/haproxy; (sleep 0.5; echo ready) & exec haproxy -f /etc/haproxy/haproxy.cfg'
"""
TITLES = ("Relatório anual", "Atlas do vale")


@dataclass(frozen=True)
class Hosts:
    """The host names of the pages of one language."""

    archive: str
    resolver: str
    files: str


HOSTS = {
    "en": Hosts("archive.example.org", "resolver.example.org", "files.example.net"),
    "pt_BR": Hosts("arquivo.example.org", "resolvedor.example.org", "arquivos.example.net"),
}


@dataclass(frozen=True)
class Machine:
    """The machine, before it is entered. `folder` has the folders that are seen in it under their usual names."""

    folder: Path
    hosts: Hosts


def make_machine(folder: Path, language: str) -> Machine:
    """Make the folders of a machine, with Caddy and our program, and two documents; and those of a second, new one."""
    machine = Machine(folder, HOSTS[language])
    for each, address in zip((folder, folder / SECOND), ADDRESSES.values(), strict=True):
        for name in ("var-lib/nginx", "srv", "run", "home", "sbin", "log/nginx"):
            (each / name).mkdir(parents=True)
        _make_program(each / "opt/ibi")
        _make_etc(each / "etc", machine.hosts, address)
    _make_certificates(folder / "etc", machine.hosts)
    shutil.copytree(folder / "etc/ssl/machine", folder / SECOND / "etc/ssl/machine")
    for title in TITLES:
        (folder / "home" / f"{title.split()[0]}.pdf").write_bytes(b"%PDF-1.4\n" + title.encode() * 1000)
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


def _make_etc(etc: Path, hosts: Hosts, address: str) -> None:
    """Copy what this machine has, as far as it may be read, with our hosts, units, proxy and user of the services."""
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=False, stderr=subprocess.DEVNULL)
    (etc / "hosts").write_text(
        f"127.0.0.1 localhost\n{address} {hosts.archive} {hosts.resolver} {hosts.files}\n"
    )
    for name in ("passwd", "group"):  # another name of the one user that there is
        with (etc / name).open("a") as file:
            file.write("ibi:x:0:0::/:/bin/sh\n" if name == "passwd" else "ibi:x:0:\n")
    system = etc / "systemd/system"
    shutil.rmtree(system, ignore_errors=True)
    system.mkdir(parents=True)
    for name, unit in (("caddy", CADDY), ("nginx", NGINX), ("haproxy", HAPROXY)):
        (system / f"{name}.service").write_text(unit)


def _make_certificates(etc: Path, hosts: Hosts) -> None:
    """Make an authority, and certificates that the institution got for its names, as some pages have them."""
    authority = make_authority(etc / "ssl/machine")
    for host in (hosts.archive, hosts.resolver):
        chain, key = authority.certify(host, names=f"DNS:{host}")
        for made, ours, theirs in ((chain, "crt", "fullchain.pem"), (key, "key", "privkey.pem")):
            for there in (etc / "ibi/tls" / f"{host}.{ours}", etc / "letsencrypt/live" / host / theirs):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(made, there)


@contextmanager
def entered(machine: Machine, language: str) -> Iterator[Shell]:
    """Enter the machine: a shell in it, with both services running."""
    folder = machine.folder
    begin = [
        "set -e",
        "ip link set lo up",
        *(f"ip address add {address}/32 dev lo" for address in ADDRESSES.values()),
        *_mounts(folder),
        f"exec {shlex.join(SHELL)}",
    ]
    namespace = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {
        "LANGUAGE": language,
        "PATH": f"{STAND_INS}:/opt/ibi/bin:{PROGRAMS}:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
        "PYTHONPATH": "",
        "SECOND_MACHINE": "\n".join(("set -e", *_mounts(folder / SECOND))),
        "SSL_CERT_FILE": AUTHORITY,
        "CURL_CA_BUNDLE": AUTHORITY,
    }
    with shell(folder / "home", environment, [*namespace, "sh", "-c", "\n".join(begin)]) as at:
        for command in _beginning(machine.hosts):
            at.run(command)
        yield at


def _mounts(folder: Path) -> list[str]:
    return [f"mount --bind {shlex.quote(str(folder / here))} {there}" for here, there in MOUNTED.items()]


def _beginning(hosts: Hosts) -> list[str]:
    """What was done on the machine before a reader opens a page: `ibi init`, and the first two deposits."""
    data = f"/var/lib/ibi/archive/{hosts.archive}"
    init = (
        f"ibi init --data /var/lib/ibi --kind both --domain {hosts.archive} --resolver-domain {hosts.resolver} "
        f"--ip {next(iter(ADDRESSES.values()))} --proxy caddy --admin maria@example.org --account maria --yes"
    )
    included = f"curl -s http://{hosts.resolver}/-/about | grep -q 'archives\": 1'"
    return [
        init,
        "sh /var/lib/ibi/setup/install.sh",
        f"for _ in $(seq 150); do {included} && break; sleep 0.1; done",
        *(f"ibi archive deposit --data {data} {title.split()[0]}.pdf --title '{title}'" for title in TITLES),
    ]


def last_item(at: Shell, hosts: Hosts) -> str:
    """The name of the item that was deposited last."""
    return at.run(f"ibi archive list --data /var/lib/ibi/archive/{hosts.archive}").splitlines()[-1].split()[1]
