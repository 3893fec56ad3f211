"""An Archive that is served whole, and a librarian with a browser that keeps cookies and sends forms as browsers do."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from html import unescape
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlencode

from argon2 import PasswordHasher

from ibi.accounts.people import Role
from ibi.app.archive import archive_directory, archive_service
from support.archive.archive_fixture import Answer, Clock, NewArchive, fill, listener, serving, settings_for
from support.engines.by_hand import put_document

PASSWORD = "four words and a horse"
BOUNDARY = "----WebKitFormBoundaryabc"
PEOPLE = {"joao": Role.DEPOSITOR, "maria": Role.KEEPER, "root": Role.ADMINISTRATOR}
_TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TRUSTING.check_hostname, _TRUSTING.verify_mode = False, ssl.CERT_NONE
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def every_page(name: str) -> list[str]:
    """The paths of all pages of the administration for an administrator, among them those of one item."""
    words = ["deposit", "items", "import", "copy", "transfer", "statistics", "audit", "membership"]
    words += ["tokens", "accounts", "account", *(f"{w}/{name}" for w in ("items", "edit", "files", "delete"))]
    return ["/-/admin", *(f"/-/admin/{word}" for word in words)]


@dataclass
class Librarian:
    """A browser at an Archive or a resolver on this machine."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    """The cookies by which this browser is known from an earlier sign-in."""
    page: Answer | None = None
    tls: bool = False

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request; header names with "_" for "-", and those that are empty are left out."""
        sent = {"host": f"127.0.0.1:{self.port}", "accept": "text/html"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if kept := {**self.cookies, **self.known}:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in kept.items()))
        kind = partial(HTTPSConnection, context=_TRUSTING) if self.tls else HTTPConnection
        connection = kind("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            given = reply.headers.get_all("set-cookie") or []
            answer = Answer(reply.status, headers, reply.read())
        finally:
            connection.close()
        for cookie in given:
            name, _, value = cookie.partition(";")[0].partition("=")
            (self.known if name.endswith("-known") else self.cookies)[name] = value
        return answer

    def look(self, path: str, language: str = "en") -> Answer:
        """Look at a page."""
        self.page = self.ask("GET", path, accept_language=language)
        return self.page

    @property
    def token(self) -> str:
        """What the forms of the page carry."""
        assert self.page is not None
        found = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.page.text)
        assert found, self.page.text
        return found[1]

    def hidden(self, name: str) -> str:
        """The value of a hidden field of the page."""
        assert self.page is not None
        found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', self.page.text)
        assert found, self.page.text
        return unescape(found[1])

    def send(self, path: str, *fields: tuple[str, str], **headers: str) -> Answer:
        """Send the form of the page, as a browser does; a redirection is not followed."""
        given = [("form_token", self.token), *fields]
        return self.post(path, *given, **headers)

    def post(self, path: str, *fields: tuple[str, str], **headers: str) -> Answer:
        """Send a form."""
        usual = {"content_type": "application/x-www-form-urlencoded", "origin": self.origin}
        return self.ask("POST", path, urlencode(fields).encode(), **(usual | headers))

    def send_files(self, path: str, *parts: tuple[str, str | None, bytes], **headers: str) -> Answer:
        """Send the form of the page with files: (field, file name, content); None for a field that is none."""
        return self.post_files(path, ("form_token", None, self.token.encode()), *parts, **headers)

    def post_files(self, path: str, *parts: tuple[str, str | None, bytes], **headers: str) -> Answer:
        """Send a form with files."""
        body = b"".join(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"'.encode()
            + (b"" if filename is None else f'; filename="{filename}"\r\nContent-Type: text/plain'.encode())
            + b"\r\n\r\n" + content + b"\r\n"
            for name, filename, content in parts
        )  # fmt: skip
        usual = {"content_type": f"multipart/form-data; boundary={BOUNDARY}", "origin": self.origin}
        return self.ask("POST", path, body + f"--{BOUNDARY}--\r\n".encode(), **(usual | headers))

    @property
    def origin(self) -> str:
        """Where the pages are from."""
        return f"http://127.0.0.1:{self.port}"

    def sign_in(self, name: str = "maria", password: str = PASSWORD, **headers: str) -> Answer:
        """Sign in."""
        return self.post("/-/admin/sign-in", ("name", name), ("password", password), **headers)

    def gone_to(self, answer: Answer) -> Answer:
        """Follow a redirection that must be one."""
        assert answer.status == 303, answer.text
        return self.look(answer.headers["location"])


@dataclass
class AdministeredArchive:
    """An Archive with accounts, served whole."""

    archive: NewArchive
    port: int

    def new_browser(self, name: str = "") -> Librarian:
        """A new browser; signed in, where a name is given."""
        librarian = Librarian(self.port)
        if name:
            assert librarian.sign_in(name).status == 303
        return librarian


def add_people(data: Path) -> None:
    """Give an Archive the accounts; their hashes cost less than those of the program, which are slow on purpose."""
    made = "2026-11-22T10:00:00Z"
    rows = [{"name": n, "role": r, "hash": _CHEAP.hash(PASSWORD), "made": made} for n, r in PEOPLE.items()]
    put_document(data, "accounts.json", json.dumps({"version": 1, "accounts": rows}))


@contextmanager
def administered_archive(
    folder: Path, *, tls: tuple[str, str] | None = None, beside: bool = False, **more: object
) -> Iterator[AdministeredArchive]:
    """Serve a new Archive that can give labels until the end of the block.

    `tls`: certificate and key; `beside`: over plain http beside it, as --plain-bind does.
    """
    socket = listener()
    port = socket.getsockname()[1]
    labels = {
        "mint_host": "archive.example.org",
        "mint_ip": "127.0.0.1",
        "for_trying": True,
        "granularity": "0.001",
    }
    directory = archive_directory(folder / "archive")
    directory.reserve()
    settings = settings_for(f"127.0.0.1:{port}", **(labels | more))
    directory.create(settings)
    archive = NewArchive(
        directory.path, settings, directory.open_catalogue(), directory.file_store(), Clock()
    )
    fill(archive)
    add_people(archive.data)
    archive.catalogue.close()
    service = archive_service(archive.data, tls=tls)
    with serving(archive, socket, replace(service, tls=None) if beside else service):
        yield AdministeredArchive(archive, port)
