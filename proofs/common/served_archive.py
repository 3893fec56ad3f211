"""Two Archives that are served as in operation, and can be killed; and what they answer to a resolver."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

from ibi.archive.model.item_json import read_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import ArchiveSettings
from proofs.common.environment import environment

READY_SECONDS = 60.0


class Claim(NamedTuple):
    """What an Archive says of an item: its state and URL, None where it says nothing."""

    state: ItemState | None
    url: str | None


@dataclass
class Served:
    """One Archive in a folder, and the process that serves it; `program`: the module that does, and first words."""

    name: str
    data: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    program: tuple[str, ...] = ("ibi",)

    @property
    def directory(self) -> DataDirectory:
        """Its data directory."""
        return DataDirectory(self.data, this_machine())

    @property
    def service(self) -> IBIForms:
        """Its Archive service."""
        return self.directory.settings().service

    def make(self) -> None:
        """Found it."""
        directory = self.directory
        directory.reserve()
        directory.create(
            ArchiveSettings(
                address=f"127.0.0.1:{self.port}", ip="127.0.0.1", key="12345678901234567890", secret="ab" * 32,
                service=IBIForms.parse(f"rep {self.name}.example/w/2020/01.01.00.00"), admin="a@archive.example",
                audit_days=0, refresh_hours=0,
            )
        )  # fmt: skip

    def put(self, name: str, files: dict[str, bytes]) -> None:
        """Deposit an item."""
        draft = read_item({"rep": name, "files": dict.fromkeys(files, "x")})
        with self.directory.item_store() as item_store:
            staged = []
            for each, content in files.items():
                staging = item_store.file_store.stage_stream(each)
                staging.write(content)
                staged.append(staging.finish())
            deposit(item_store, draft, staged, "proof")

    def digests(self, name: str) -> dict[str, str]:
        """The digests of the files of an item, read from the disk."""
        import hashlib

        with self.directory.catalogue() as catalogue:
            holding = catalogue.holding(parse_ibi(name))
            assert holding is not None  # noqa: S101 - it was put there
            found = {}
            for file in holding.files:
                with self.directory.file_store().open(holding.forms, file) as opened:
                    found[file.name] = hashlib.sha256(opened.read()).hexdigest()
            return found

    def start(self) -> None:
        """Serve it, unless it is being served; it answers some time later."""
        with self.lock:
            if self.process is not None and self.process.poll() is None:
                return
            command = [
                "-m",
                *self.program,
                "archive",
                "serve",
                "--data",
                str(self.data),
                "--bind",
                f"127.0.0.1:{self.port}",
            ]
            self.process = subprocess.Popen(
                [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
                start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill it, at once."""
        with self.lock:
            process, self.process = self.process, None
            if process is not None:
                process.kill()
                process.wait()

    def stop(self) -> None:
        """End it in good order."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self) -> None:
        """Until it answers. Raises TimeoutError."""
        end = time.monotonic() + READY_SECONDS
        while self.claim(f"{self.name}.example/w/2020/01.01.00.00") is None:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)

    def claim(self, name: str) -> Claim | None:
        """What it says of an item; None if it does not answer."""
        query = UrlRequest(("127.0.0.1",), parse_ibi(name)).query()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        with suppress(OSError, HTTPException):
            try:
                connection.request("GET", f"/{self.service_path}?{query}")
                reply = connection.getresponse()
                url_list = UrlList.read(reply.read()) if reply.status == HTTPStatus.OK else None
                return Claim(url_list.state, url_list.entry().url) if url_list is not None else None
            finally:
                connection.close()
        return None

    @property
    def service_path(self) -> str:
        """Where its Archive service answers."""
        return f"{self.name}.example/w/2020/01.01.00.00"
