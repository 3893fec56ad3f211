"""`ibi up` as a person starts it: its own process, real sockets, stopped with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

SOURCE = Path(__file__).parents[3] / "src"


class Answer(NamedTuple):
    """One HTTP answer, nothing followed."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


def get(url: str, **headers: str) -> Answer:
    """GET one URL; header names with underscores for hyphens."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=30)
    target = url.removeprefix(f"{parts.scheme}://{parts.netloc}") or "/"
    try:
        connection.request(
            "GET", target, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        reply = connection.getresponse()
        return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
    finally:
        connection.close()


class Up:
    """A running `ibi up`. `printed` is what it has said, `root` the resolver's root URL, `links` URL -> words.

    `installed`: the words that start an installed `ibi`, which sees no sources of ours; else that of the checkout runs.
    """

    def __init__(
        self, *arguments: str, temporary: Path, language: str = "C.UTF-8", installed: Sequence[str] = ()
    ) -> None:
        self._words = [*(installed or (sys.executable, "-m", "ibi")), "up", *arguments]
        sources = {} if installed else {"PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error"}
        self._environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
            **sources,
            "TMPDIR": str(temporary),
            "LANGUAGE": "",
            "LC_ALL": language,
        }
        self.printed = ""
        self.complaints = ""

        self.links: dict[str, str] = {}

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self._process = subprocess.Popen(
            self._words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def __enter__(self) -> Self:
        self.start()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.printed += line
            if "Ctrl-C" in line:
                break
        else:
            _, self.complaints = self._process.communicate()
            raise AssertionError(self.printed + self.complaints)
        self.root = self.printed.split()[1]
        self.links = dict(re.findall(r"^  (http://\S+)  +(\S.*)$", self.printed, re.MULTILINE))
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def stop(self, by: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and wait for the end; the exit status."""
        self._process.send_signal(by)
        rest, self.complaints = self._process.communicate(timeout=60)
        self.printed += rest
        return self._process.returncode

    def link(self, words: str) -> str:
        """The printed URL whose words begin like this."""
        return next(url for url, what in self.links.items() if what.startswith(words))
