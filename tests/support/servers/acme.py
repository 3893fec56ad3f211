"""An authority for certificates in place of Let's Encrypt: Pebble, where Caddy looks for the true one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trustme

from support.servers.network import ENDS, INTERNET, Namespace

NAME = "acme-v02.api.letsencrypt.org"
_FRONT = """
{{
	admin off
	auto_https off
}}
https://{name} {{
	bind {address}
	tls {folder}/front.pem {folder}/front.key
	rewrite /directory /dir
	reverse_proxy https://127.0.0.1:14000 {{
		header_up Host {{host}}
		transport http {{
			tls_insecure_skip_verify
		}}
	}}
}}
"""


@contextmanager
def authority(at: Namespace, folder: Path, hosts: Mapping[str, str]) -> Iterator[list[Path]]:
    """Serve it in a namespace for `hosts`, name -> address; yields the files of the roots to be trusted."""
    folder.mkdir()
    root = trustme.CA()
    root.cert_pem.write_to_path(folder / "trustme.pem")
    for name, words in (("front", [NAME]), ("pebble", ["127.0.0.1", "localhost"])):
        made = root.issue_cert(*words)
        made.private_key_pem.write_to_path(folder / f"{name}.key")
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    settings = {
        "listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "httpPort": 80,
        "tlsPort": 443,
        "certificate": str(folder / "pebble.pem"), "privateKey": str(folder / "pebble.key"),
        "ocspResponderURL": "", "externalAccountBindingRequired": False,
    }  # fmt: skip
    (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))
    (folder / "Caddyfile").write_text(_FRONT.format(name=NAME, address=INTERNET, folder=folder))
    names = ["-dns01", "127.0.0.1:8053", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]
    names += [word for service in ("http01", "https01", "tlsalpn01") for word in (f"-{service}", "")]
    pebble = ["pebble", "-strict", "-config", str(folder / "pebble.json"), "-dnsserver", "127.0.0.1:8053"]
    caddy = [str(Path(sys.executable).with_name("caddy")), "run", "--config", str(folder / "Caddyfile")]
    with ExitStack() as stack:
        for command in (["pebble-challtestsrv", *names], pebble, [*caddy, "--adapter", "caddyfile"]):
            stack.enter_context(_running(at, folder, command))
        (folder / "pebble-root.pem").write_text(_fetch(at, folder, "https://localhost:15000/roots/0"))
        for name, address in hosts.items():
            entry = json.dumps({"host": f"{name}.", "addresses": [address]})
            _fetch(at, folder, "http://127.0.0.1:8055/add-a", "--data", entry)
        yield [folder / "trustme.pem", folder / "pebble-root.pem"]


@contextmanager
def _running(at: Namespace, folder: Path, command: list[str]) -> Iterator[None]:
    environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "HOME": str(folder)}
    with (
        (folder / f"{Path(command[0]).name}.log").open("wb") as log,
        subprocess.Popen([*ENDS, *at.command(*command)], stdout=log, stderr=log, env=environment) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def _fetch(at: Namespace, folder: Path, url: str, *options: str) -> str:
    """What is at a URL in the namespace, as soon as it is served there."""
    words = ("curl", "-fsS", "--cacert", str(folder / "trustme.pem"), *options, url)
    end = time.monotonic() + 20
    while True:
        done = subprocess.run(at.command(*words), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        assert time.monotonic() < end, done.stderr
        time.sleep(0.1)
