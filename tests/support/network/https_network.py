"""An Archive and a resolver on https, with the certificates of an authority of this test, each a process of its own.

Both have a second port without TLS, where the messages of the standard go.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import ibi, make_archive, until
from support.concurrency.forked import start_ibi
from support.ports import free_port

SERVICE = "resolver.example/r/2020/01.01.00.00"


@dataclass(frozen=True)
class Authority:
    """A certificate authority of this test."""

    folder: Path

    @property
    def file(self) -> Path:
        """The certificate by which clients trust it."""
        return self.folder / "authority.pem"

    def certify(
        self, name: str, days: int = 90, names: str = "IP:127.0.0.1,DNS:localhost"
    ) -> tuple[Path, Path]:
        """Make a certificate, for these names: the files of certificate and key."""
        chain, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        _openssl(
            f"req -subj /CN={name} -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout {key} -out {request}"
        )
        extensions = self.folder / f"{name}.names"
        # Python 3.13 demands the identifier of the authority's key (VERIFY_X509_STRICT).
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        by = f"-CA {self.file} -CAkey {self.folder / 'authority.key'} -CAcreateserial"
        _openssl(f"x509 -req -in {request} {by} -days {days} -extfile {extensions} -out {chain}")
        return chain, key


def make_authority(folder: Path) -> Authority:
    """Make an authority whose files lie in a folder."""
    folder.mkdir()
    made = Authority(folder)
    words = "req -x509 -subj /CN=Authority -addext keyUsage=critical,keyCertSign -days 90 -nodes"
    _openssl(
        f"{words} -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout {folder / 'authority.key'} -out {made.file}"
    )
    return made


def _openssl(words: str) -> None:
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True)


@dataclass(frozen=True)
class Page:
    """One answer; header names in lower case, values of those that are sent twice as lines."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """Headers and body, as far as it is text."""
        return "\n".join([*self.headers.values(), self.body.decode("utf-8", "replace")])


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class HttpsNetwork:
    """The roots of the two on https, "https://127.0.0.1:8443"; their ports without TLS; and their data."""

    authority: Authority
    archive: str
    resolver: str
    archive_port: int
    resolver_port: int
    folder: Path
    opener: urllib.request.OpenerDirector

    def get(self, url: str, **headers: str) -> Page:
        """GET a URL, without following a redirect; its certificate is checked."""
        return self._ask(url, None, headers)

    def post(self, url: str, fields: Mapping[str, str], **headers: str) -> Page:
        """Send a form of a page of the same site, likewise."""
        origin = "/".join(url.split("/")[:3])
        return self._ask(url, urlencode(fields).encode(), {"Origin": origin, **headers})

    def _ask(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> Page:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            reply = self.opener.open(urllib.request.Request(url, body, named), timeout=60)  # noqa: S310 - ours
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            names = {name.lower() for name in reply.headers}
            received = {name: "\n".join(reply.headers.get_all(name, [])) for name in names}
            return Page(url, reply.status, received, reply.read())


@contextmanager
def https_network(
    folder: Path, prepare: Callable[[Path], None] = lambda _: None, command: Sequence[str] = ()
) -> Iterator[HttpsNetwork]:
    """Start the two; the Archive has joined the resolver over https, and is included.

    `prepare` is given the folder with both data directories before they are served; `command` begins what serves them,
    by default `ibi`.
    """
    authority = make_authority(folder / "authority")
    ports = [free_port() for _ in range(4)]
    archive_tls, archive_plain, resolver_tls, resolver_plain = ports
    resolver, data = f"https://127.0.0.1:{resolver_tls}", folder / "archive"
    ibi(
        "resolver", "init", "--data", folder / "resolver", "--address", f"127.0.0.1:{resolver_plain}", "--service-ibi",
        SERVICE, "--allow-private-archives",
    )  # fmt: skip
    service = make_archive(data, archive_plain, "--resolver", resolver)
    key = ArchiveSettings.read(data).key
    ibi("resolver", "register", "--data", folder / "resolver", "--archive-service", service, "--key", key)
    prepare(folder)
    trust = ssl.create_default_context(cafile=str(authority.file))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), _Stay)
    archive = f"https://127.0.0.1:{archive_tls}"
    network = HttpsNetwork(authority, archive, resolver, archive_plain, resolver_plain, folder, opener)
    with ExitStack() as stack:
        for program, where, tls, plain in (
            ("resolver", folder / "resolver", resolver_tls, resolver_plain),
            ("archive", data, archive_tls, archive_plain),
        ):
            stack.enter_context(serving_https(authority, program, where, tls, plain, command))
        until(lambda: b'"archives": 1' in network.get(f"{resolver}/-/about").body)
        yield network


@contextmanager
def serving_https(
    authority: Authority, program: str, data: Path, tls: int, plain: int, command: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Serve an Archive or a resolver at two ports of this machine, with and without TLS, until the end of the block."""
    chain, key = authority.certify(data.name)
    words = [program, "serve", "--data", str(data), "--tls-cert", str(chain), "--tls-key", str(key)]
    words += ["--bind", f"127.0.0.1:{tls}", "--plain-bind", f"127.0.0.1:{plain}"]
    environment = {**os.environ, "SSL_CERT_FILE": str(authority.file), "LANGUAGE": "en"}
    options: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": sys.__stderr__,
        "text": True,
        "env": environment,
    }
    started = subprocess.Popen([*command, *words], **options) if command else start_ibi(words, **options)
    with started as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline().split(":")[0] for _ in range(2)] == [
                "ready https",
                "ready http",
            ]
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)
