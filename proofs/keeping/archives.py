"""Archives for trying decay on: made anew, filled, looked at from outside."""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ibi.archive.model.item_json import read_item, write_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.sidecars import write_outdated
from ibi.archive.store.tables import history
from ibi.cli import main
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from proofs.common.environment import environment

SERVICE = "archive.example/w/2020/01.01.00.00"
_TIMEOUT = 60


@dataclass
class Trial:
    """An Archive in a folder, and what its files are: by item and name."""

    data: Path
    contents: dict[tuple[str, str], bytes]

    @property
    def directory(self) -> DataDirectory:
        """Its data directory."""
        return DataDirectory(self.data, this_machine())

    def path(self, key: tuple[str, str]) -> Path:
        """Where a file lies: its names need no decoding here."""
        return self.data / "col" / key[0] / "doc" / key[1]

    def known_items(self) -> list[dict[str, Any]]:
        """All that is known of items that have or had files, with their histories."""
        found = []
        with self.directory.catalogue() as catalogue:
            for holding in catalogue.all():
                with catalogue.reading() as run:
                    events = [list(event) for event in history.events_of(run, holding.number)]
                if not holding.url and str(holding.forms.main) != SERVICE:
                    found.append({**write_item(holding), "history": events})
        return found


def make(data: Path) -> Trial:
    """A new Archive."""
    directory = DataDirectory(data, this_machine())
    directory.reserve()
    directory.create(
        ArchiveSettings(
            address="archive.example",
            ip="127.0.0.1",
            service=IBIForms.parse(f"rep {SERVICE}"),
            key="1" * 20,
            secret="ab" * 32,
            admin="a@example.org",
        )
    )
    return Trial(data, {})


def fill(
    trial: Trial, item_store: ItemStore, chance: random.Random, names: Iterator[int], items: int
) -> None:
    """Put items in, each with one file to three, of one byte to 60,000."""
    for _ in range(items):
        name = f"a.example/b/2010/{next(names):02}.01.00.00"
        files = {
            f"f{at}.bin": chance.randbytes(chance.choice((1, 100, 5000, 60_000)))
            for at in range(chance.randint(1, 3))
        }
        staged = []
        for file, content in files.items():
            staging = item_store.file_store.stage_stream(file)
            staging.write(content)
            staged.append(staging.finish())
            trial.contents[name, file] = content
        title = " ".join("word" * chance.randint(1, 9) for _ in range(chance.randint(1, 200)))
        value = {"rep": name, "files": dict.fromkeys(files, "x"), "metadata": {"title": [title]}}
        deposit(item_store, read_item(value), staged, "a proof")
        write_outdated(item_store.catalogue, item_store.file_store)


def command(*words: object) -> tuple[int, str, str]:
    """Run a command of ours in this process: its status, stdout and stderr. What it raises is for the proof to hear."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(word) for word in words])
    return status, out.getvalue(), err.getvalue()


def differences(trial: Trial) -> list[str]:
    """What `ibi archive check` says."""
    _, out, _ = command("archive", "check", "--data", trial.data, "--json")
    return [str(each["problem"]) for each in json.loads(out)["differences"]]


class Server:
    """`ibi archive serve` in a process of its own. `ready` tells whether it came so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout  # noqa: S101 - it was asked for
        line = process.stdout.readline()
        self.ready = line.startswith("ready ")
        self._port = int(line.strip().rstrip("/").rpartition(":")[2]) if self.ready else 0
        self.errors = ""

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask for a path."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT)
        try:
            connection.request("GET", path, headers={"host": "archive.example"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    @property
    def running(self) -> bool:
        """Whether it is still there."""
        return self._process.poll() is None

    def stop(self) -> int:
        """End it; its status. `errors` is what it wrote to stderr."""
        if self.running and self.ready:
            self._process.send_signal(signal.SIGTERM)
        _, self.errors = self._process.communicate(timeout=_TIMEOUT)
        return self._process.returncode


@contextmanager
def served(trial: Trial) -> Iterator[Server]:
    """Serve an Archive until the end of the block."""
    words = [
        sys.executable,
        "-m",
        "ibi",
        "archive",
        "serve",
        "--data",
        str(trial.data),
        "--bind",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    server = Server(process)
    try:
        yield server
    finally:
        if process.poll() is None:
            server.stop()
