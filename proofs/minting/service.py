"""`ibi mint serve` as a process, and customers who tell the judge of every label that reaches them."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from proofs.common.environment import environment
from proofs.common.report import Report
from proofs.minting import worker
from proofs.minting.judge import Judge
from proofs.minting.state_file import last_date

PROGRAM: Sequence[str] = (sys.executable, "-m", "ibi")
"""How to run `ibi`; a test puts a broken one in its place."""

GRANULARITY = "0.001"
_START_SECONDS = 30
_ANSWER_SECONDS = 15  # the service promises to refuse earlier what it cannot give
_AT_ONCE = 1 << 16
_LABEL = re.compile(
    rb'\{"rep":"([^"]*)","ibip":"([^"]*)","datetime":"[^"]*"\}'
    rb"|([^\s\"]+/\d{4}/[\d.]+) ([A-Z0-9]+/[A-Z0-9]+)\n"
)


def labels_in(text: bytes) -> list[bytes]:
    """The whole labels of an answer, or of a part of one, as lines with both forms."""
    return [b"%b %b\n" % (m[1] or m[3], m[2] or m[4]) for m in _LABEL.finditer(text)]


def make_token(data: Path) -> str:
    """A token for a data directory, by the command."""
    command = [*PROGRAM, "mint", "token", "--data", str(data), "--name", "proof"]
    return subprocess.run(
        command, env=environment(), check=True, capture_output=True, text=True, timeout=_START_SECONDS
    ).stdout.strip()


class Service:
    """One process of the service, perhaps under strace from its start; `port` is None if it did not come up."""

    def __init__(self, data: Path, tracing: Sequence[str] = ()) -> None:
        self._errors = data.with_name("errors")
        names = ["--host", worker.HOST, "--ip", worker.IP, "--granularity", GRANULARITY]
        command = [*PROGRAM, "mint", "serve", "--data", str(data), *names, "--bind", "127.0.0.1:0"]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*tracing, *command], stdout=subprocess.PIPE, stderr=errors, env=environment(),
                cwd=data.parent, start_new_session=True,
            )  # fmt: skip
        self.port = self._ready()

    @property
    def process(self) -> int:
        """Its process, or that of the strace which started it."""
        return self._process.pid

    @property
    def complaints(self) -> str:
        """Its output on stderr."""
        return self._errors.read_text("utf-8", "replace")

    def ended(self, seconds: float = 0) -> bool:
        """Whether it has ended, or does so within so many seconds."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def sockets(self) -> list[str]:
        """The sockets that it has open, as strace names them."""
        names = []
        for handle in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(str(handle.readlink()))
        return [name for name in names if name.startswith("socket:")]

    def stop(self) -> int:
        """End it as an operator would; the status."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_START_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, and a strace around it, at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ready(self) -> int | None:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101 - it is a pipe
        content, end = b"", time.monotonic() + _START_SECONDS
        while b"\n" not in content:
            if not select.select([pipe], [], [], max(0, end - time.monotonic()))[0]:
                break
            more = os.read(pipe.fileno(), _AT_ONCE)
            if not more:
                self._process.wait(_START_SECONDS)
                break
            content += more
        return int(content.rsplit(b":", 1)[1]) if b"ready" in content else None


@dataclass(frozen=True)
class Answer:
    """What came back: status 0 where not even a head came; `whole` if all came that the head announced."""

    status: int
    kind: str
    labels: Sequence[bytes]
    whole: bool
    late: bool


class Customer:
    """One connection. Each label is reported to the judge at once, and the state on disk must know of it by then."""

    def __init__(self, report: Report, judge: Judge, data: Path, token: str, port: int) -> None:
        self._report = report
        self._judge = judge
        self._data = data
        self._token = token
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS)
        self._name = ""
        self._later_than = 0
        self._socket.sendall(b"GET /-/healthz HTTP/1.1\r\nHost: mint.example.org\r\n\r\n")
        self.answer()  # now the service has accepted the connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, name: str, count: int, *, as_text: bool) -> None:
        """Ask for so many labels. `name`: of this request, for the report."""
        self._name, self._later_than = name, self._judge.latest
        body = json.dumps({"count": count}).encode()
        head = [
            "POST /-/api/mint HTTP/1.1",
            "Host: mint.example.org",
            f"Authorization: Bearer {self._token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(["Accept: text/plain"] if as_text else []),
        ]
        with suppress(ConnectionError):  # then there is no answer either, and that is judged
            self._socket.sendall("\r\n".join([*head, "", ""]).encode() + body)

    def answer(self) -> Answer:
        """Listen until the answer is whole, the connection ends, or it takes too long."""
        content, late = b"", False
        reported: list[bytes] = []
        end = time.monotonic() + _ANSWER_SECONDS
        while not _is_whole(content) and not late:
            self._socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                more = self._socket.recv(_AT_ONCE)
            except TimeoutError:
                late = True
                continue
            except ConnectionError:
                break
            if not more:
                break
            content += more
            labels = labels_in(content)
            self._tell(labels[len(reported) :])
            reported = labels
        status, kind, _ = _head(content)
        return Answer(status, kind, reported, _is_whole(content), late)

    def _tell(self, labels: list[bytes]) -> None:
        if not labels:
            return
        latest = max(self._judge.hear(self._name, b"".join(labels), self._later_than))
        try:
            durable = last_date(self._data) or 0
        except ValueError as error:
            self._report.violate(f"{self._name}: {error}")
        else:
            self._report.demand(latest <= durable, f"{self._name}: {latest} is out, the disk knows {durable}")


def _head(content: bytes) -> tuple[int, str, int]:
    """Status, content type, and the length of the whole answer; noughts while the head is not whole."""
    head, end, _ = content.partition(b"\r\n\r\n")
    if not end:
        return 0, "", 0
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = len(head) + len(end) + int(fields.get("content-length", "0"))
    return int(first.split(" ")[1]), fields.get("content-type", ""), length


def _is_whole(content: bytes) -> bool:
    return 0 < _head(content)[2] <= len(content)
