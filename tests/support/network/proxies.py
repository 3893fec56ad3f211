"""The proxies of the samples, as an administrator runs them, at two ports of two addresses of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from ibi.cli.setup.rendering import PROXY_FILES, Proxy, Site, proxy
from support.network.https_network import Authority

ADDRESSES: Final = ("127.0.0.1", "127.0.0.2")
"""Where a proxy listens."""
_PATH: Final = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/sbin:/sbin:{os.environ.get('PATH', '')}"


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that runs, and where it listens with TLS and without."""

    process: subprocess.Popen[bytes]
    https: int
    http: int
    reload: Callable[[], None]
    """Have it read its configuration again, as the administrator does after a change."""


def _changed(text: str, changes: Mapping[str, str]) -> str:
    """The configuration for the ports and folders of a test: each line that is changed must be there."""
    for shown, real in changes.items():
        assert shown in text, shown
        text = text.replace(shown, real)
    return text


def _caddy(text: str, folder: Path, https: int, http: int) -> tuple[str, list[str]]:
    ports = f"http_port {http}\n\thttps_port {https}\n\tdefault_bind {' '.join(ADDRESSES)}"
    options = "\tservers {\n\t\tmax_header_size"
    text = _changed(
        text, {options: f"\t{ports}\n\tskip_install_trust\n\tadmin unix//{folder}/admin\n{options}"}
    )
    return text, ["run", "--config", str(folder / "Caddyfile")]


def _nginx(text: str, folder: Path, https: int, http: int) -> tuple[str, list[str]]:
    changes = {
        "listen 80;": " ".join(f"listen {address}:{http};" for address in ADDRESSES),
        "listen 443 ssl;": " ".join(f"listen {address}:{https} ssl;" for address in ADDRESSES),
        "    listen [::]:80;\n": "",
        "    listen [::]:443 ssl;\n": "",
    }
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    user = "user root;\n" if os.geteuid() == 0 else ""  # the folders of a test are for their owner only
    before = f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
    text = f"{before}http {{\naccess_log off;\n{temporary}{_changed(text, changes)}\n}}\n"
    return text, ["-p", str(folder), "-e", f"{folder}/error.log", "-c", str(folder / "nginx.conf")]


def _haproxy(text: str, folder: Path, https: int, http: int) -> tuple[str, list[str]]:
    changes = {
        "bind :::80 v4v6": f"bind {','.join(f'{address}:{http}' for address in ADDRESSES)}",
        "bind :::443 v4v6": f"bind {','.join(f'{address}:{https}' for address in ADDRESSES)}",
        "/run/haproxy/": "unix@./",  # in its folder: the path of a socket has 97 bytes at most
        "log /dev/log local0": "log stderr local0 warning",
    }
    return _changed(text, changes), ["-W", "-f", str(folder / "haproxy.cfg")]


_MADE = {"caddy": _caddy, "nginx": _nginx, "haproxy": _haproxy}
_SIGNALS = {"nginx": signal.SIGHUP, "haproxy": signal.SIGUSR2}


def certificates(kind: Proxy, folder: Path, authority: Authority, sites: Sequence[Site]) -> Path:
    """Make the certificates of some sites where the sample of a proxy has them; the folder of all."""
    for site in sites:
        chain, key = authority.certify(f"{kind}-{site.name}", names=f"{_kind_of(site.host)}:{site.host}")
        if kind == "haproxy":
            (folder / f"{site.host}.pem").write_bytes(chain.read_bytes() + key.read_bytes())
            continue
        (folder / site.host).mkdir()
        shutil.copy(chain, folder / site.host / "fullchain.pem")
        shutil.copy(key, folder / site.host / "privkey.pem")
    return folder


def _kind_of(host: str) -> str:
    return "IP" if host.replace(".", "").isdecimal() else "DNS"


@contextmanager
def running(
    kind: Proxy, folder: Path, authority: Authority, sites: Sequence[Site], https: int, http: int
) -> Iterator[RunningProxy]:
    """Run the sample in front of some sites until the end of the block."""
    program = shutil.which(kind, path=_PATH)
    if program is None:
        pytest.skip(f"there is no {kind} here")
    folder.mkdir()
    (folder / "certs").mkdir()
    text = proxy(kind, sites, str(certificates(kind, folder / "certs", authority, sites)))
    text, words = _MADE[kind](text, folder, https, http)
    (folder / PROXY_FILES[kind]).write_text(text, "utf-8")
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "HOME": str(folder),
    }
    log = folder / "log"
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [program, *words], stdout=written, stderr=written, env=environment, cwd=folder
        ) as process,
    ):

        def reload() -> None:
            if kind in _SIGNALS:
                process.send_signal(_SIGNALS[kind])
            else:
                again = [
                    program,
                    "reload",
                    "--force",
                    "--config",
                    words[-1],
                    "--address",
                    f"unix/{folder}/admin",
                ]
                subprocess.run(again, check=True, capture_output=True, env=environment, timeout=60)

        try:
            for port in (https, http):
                _wait_for(port, process, log)
            yield RunningProxy(process, https, http, reload)
        finally:
            process.send_signal(signal.SIGINT if kind == "haproxy" else signal.SIGTERM)
            process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 30
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        assert process.poll() is None, log.read_text("utf-8", "replace")
        assert time.monotonic() < end, log.read_text("utf-8", "replace")
        time.sleep(0.05)
