"""An Archive on a disk that is filled and emptied: who deposits there, who reads, and what is seen of it."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from ibi.accounts.tokens import Scope, Tokens
from proofs.common.report import Report
from proofs.deposit import archives
from proofs.deposit.looking import items_of
from proofs.deposit.nursery import Child, Nursery, wait_until

RECOVERY = 5.0  # seconds
_MOST_FREE = 400_000  # bytes
_REFUSALS, _COMMANDS = 2, 8  # in one trial at most
_LARGEST = 60_000
_TRIES = 10
_WORDS = 4_096  # bytes that a process whose files are limited may say
_FULL = (507, 503)
_BOUNDARY = "a-boundary-of-our-own"


@dataclass
class DiskSpace:
    """How much can be written: on a file system of its own, or into any one file of a process that is `limited`."""

    folder: Path
    limited: bool
    largest: int | None = None
    """Bytes of one file, for processes that are started; None: no limit."""

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def leave(self, free: int) -> None:
        """Leave so many bytes; a tmpfs gives them away by pages."""
        if self.limited:
            self.largest = max(free, _WORDS)
            return
        for _ in range(_TRIES):  # a server that writes something meanwhile takes of it
            stat = os.statvfs(self.folder)
            with suppress(OSError), self._filler.open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - free))
                return

    def empty(self) -> None:
        """There is space again."""
        self.largest = None
        if not self.limited:
            self._filler.unlink(missing_ok=True)


@dataclass
class Filling:
    """The trials. `place` always has free space; the Archive is in `space`."""

    report: Report
    nursery: Nursery
    space: DiskSpace
    place: Path
    chance: random.Random
    expected: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)  # by key; no files: removed
    mains: dict[str, str] = field(default_factory=dict)  # names, by key
    refused: set[str] = field(default_factory=set)  # keys
    port: int = 0
    _server: Child | None = None
    _token: str = ""
    _number: int = 0

    def __post_init__(self) -> None:
        self._data = self.space.folder / "data"
        archives.found(self._data)
        self._token = Tokens(self._data).make("proof", "2026-01-01T00:00:00Z", [Scope.ADMIN])

    @contextmanager
    def served(self, port: int) -> Iterator[None]:
        """Serve the Archive meanwhile."""
        self.port = port
        words = ["archive", "serve", "--data", str(self._data), "--bind", f"127.0.0.1:{port}"]
        self._server = self.nursery.child(self.place / "server", words)
        self._server.go()
        server = self._server
        if not wait_until(lambda: b"ready" in server.out):
            msg = f"the Archive is not served: {server.err}"
            raise OSError(msg)
        try:
            yield
        finally:
            server.signal(signal.SIGTERM)
            status = server.wait()
            self.report.demand(status == 0, f"the server ended with {status}: {server.err[-300:]}")

    def trial(self) -> None:
        """Fill, work until it is refused, make space, look."""
        if not self.expected:
            self._deposit_somehow("before")
        self.space.leave(int(self.chance.random() ** 2 * _MOST_FREE))
        before = self.report.counts["refusals"]
        for _ in range(_COMMANDS):
            self._do_something()
            self._read_something()
            if self.report.counts["refusals"] >= before + _REFUSALS:
                break
        self.space.empty()
        started = time.monotonic()
        self._deposit_somehow("after")
        took = time.monotonic() - started
        self.report.top("slowest recovery, ms", round(1000 * took))
        self.report.demand(took <= RECOVERY, f"with space again it took {took:.1f} s")
        self._look()
        for key in [key for key, files in self.expected.items() if files][:-16]:
            self.report.demand(self._remove(key), f"{key} cannot be removed")

    # ---- what is done, in one way or the other

    def _do_something(self) -> None:
        what = self.chance.choice(
            ["deposit", "request", "request", "edit", "remove"] if self.port else ["deposit", "edit"]
        )
        living = [key for key, files in self.expected.items() if files]
        if what == "edit" and living:
            done = self._edit(self.chance.choice(living))
        elif what == "remove" and len(living) > 4:
            done = self._remove(self.chance.choice(living))
        elif what == "request":
            done = self._request(self._new_key())
        else:
            done = self._deposit(self._new_key())
        self.report.count("done on the full disk" if done else "refusals")

    def _deposit_somehow(self, when: str) -> None:
        """One in each way; there is space."""
        done = self._deposit(self._new_key()) and (not self.port or self._request(self._new_key()))
        self.report.demand(done, f"{when} the disk was full, nobody can deposit")

    def _new_key(self) -> str:
        self._number += 1
        return f"key-{self._number}"

    def _contents(self) -> dict[str, bytes]:
        names = self.chance.sample(["a", "b.txt", "c.bin"], self.chance.randint(1, 3))
        return {name: self.chance.randbytes(self.chance.randrange(_LARGEST)) for name in names}

    def _written(self, contents: dict[str, bytes]) -> list[str]:
        """Put contents where a command finds them."""
        folder = self.place / "given" / str(self._number)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        return [str(folder / name) for name in contents]

    def _deposit(self, key: str) -> bool:
        contents = self._contents()
        words = ["deposit", *self._written(contents), "--key", key, "--data", str(self._data)]
        return self._settled(key, contents, self._command(words))

    def _edit(self, key: str) -> bool:
        contents = dict(list(self._contents().items())[:1])
        words = ["edit", self.mains[key], "--file", *self._written(contents), "--data", str(self._data)]
        done = self._command(words) is not None
        if done:
            self.expected[key] |= _manifest(contents)
        return done

    def _remove(self, key: str) -> bool:
        done = (
            self._command(["delete", self.mains[key], "--reason", "full", "--data", str(self._data)])
            is not None
        )
        if done:
            self.expected[key] = {}
        return done

    def _command(self, words: list[str]) -> str | None:
        """Run a command; what it prints, None if it says why it could not."""
        self._number += 1
        child = self.nursery.child(
            self.place / f"command{self._number}", ["archive", *words], largest=self.space.largest
        )
        child.go()
        status = child.wait()
        if status == 0:
            return child.out.decode()
        lines = child.err.splitlines()
        clear = status == 1 and len(lines) == 1 and lines[0].startswith("ibi: ") and not child.out
        self.report.demand(clear, f"{words[0]}: no clear sentence, status {status}: {child.err[-400:]}")
        self.report.count("sentences")
        return None

    def _request(self, key: str) -> bool:
        """Deposit over HTTP."""
        contents = self._contents()
        parts = [
            ("item", json.dumps({"key": key}).encode()),
            *((f'file"; filename="{n}', c) for n, c in contents.items()),
        ]
        body = b"".join(
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
            + content
            + b"\r\n"
            for name, content in parts
        )
        body += f"--{_BOUNDARY}--\r\n".encode()
        kind = f"multipart/form-data; boundary={_BOUNDARY}"
        status, answer = self._ask("POST", "/-/api/items", body, kind)
        if status == 201:
            found = json.loads(answer)
            return self._settled(key, contents, f"{found.get('rep')} {found.get('ibip')}")
        self.report.count(f"answers {status}")
        clear = status in _FULL and json.loads(answer or b"{}").get("status") == status
        self.report.demand(clear, f"the request got {status} {answer[-300:]!r}")
        return self._settled(key, contents, None)

    def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"host": archives.HOST}
        if body is not None:
            headers |= {"content-type": kind, "authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def _settled(self, key: str, contents: dict[str, bytes], names: str | None) -> bool:
        """Remember what was acknowledged, or refused."""
        if names is None:
            self.refused.add(key)
            return False
        self.mains[key] = names.split()[0]
        self.expected[key] = _manifest(contents)
        return True

    # ---- what is seen

    def _read_something(self) -> None:
        """Read a file that was acknowledged, over HTTP."""
        living = [(key, name) for key, files in self.expected.items() for name in files]
        if not self.port or not living:
            return
        key, name = self.chance.choice(living)
        status, content = self._ask("GET", f"/col/{self.mains[key].lower()}/doc/{name}")
        good = status == 200 and (len(content), sha256(content).hexdigest()) == self.expected[key][name]
        self.report.demand(good, f"a file cannot be read: {status} with {len(content)} bytes")
        self.report.count("files read meanwhile")

    def _look(self) -> None:
        for fault in archives.all_faults(self._data):
            self.report.violate(fault)
        items = {item.facts["key"]: item for item in items_of(self._data).values() if item.facts["key"]}
        for key, files in self.expected.items():
            there = key in items and items[key].files == files
            self.report.demand(there, f"{key} was acknowledged, and is not there as it was given")
        for key in self.refused & items.keys():
            self.report.violate(f"{key} was refused, and is there")
        self.report.demand(len(items) == len(self.expected), "there are other items than were deposited")


def _manifest(contents: dict[str, bytes]) -> dict[str, tuple[int, str]]:
    return {name: (len(content), sha256(content).hexdigest()) for name, content in contents.items()}
