"""Count what a cold click and a urlRequest cost in functions of ours: modules, functions and calls.

    python tools/count_functions.py         prints a small table
    python tools/count_functions.py --list  prints also the modules with their functions and calls, in the order
                                            of the first call

A cold click is a GET of an item that the resolver was not asked for before: one likely holder among three
Archives, known by the prefix of the name alone, nothing cached. A `urlRequest` is the question that the resolver then
sends to that Archive.

How it is counted: the resolver and the likely holder run as `serve` runs them, with one worker, each in a process of
its own under `sys.setprofile`; the other Archives and the client run in other processes, and all meet over sockets on
loopback. Each of seven names is asked for once. The profile opens with the request (the call of `data_received` that
brings it) and closes 60 ms after the answer has come: the acknowledgment is sent and answered by then. What is in all
seven counts, calls by their median; so what a timer does meanwhile falls out. Only the thread of the event loop counts.

A function counts if its global names are those of a module of the package `ibi`; so the methods that `dataclasses`
writes count, too, under the name of their class. A resumed coroutine or generator is a call, and that includes
generator expressions. Comprehensions are left out, since from Python 3.12 on they are no functions any more, and so
are lambdas.
"""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

NAMES: Final = 7
"""Cold names, each asked for once."""
AFTER_SECONDS: Final = 0.06
"""How long after the answer the profile closes."""

_SERVICES: Final = ("resolver", "first", "second", "third")
_HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 60.0
_PROFILED: Final = "--profile-into"
_LEFT_OUT: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>", "<module>"})
_READER: Final = (
    "User-Agent: Mozilla/5.0",
    "Accept: text/html,*/*;q=0.8",
    "Accept-Language: pt-BR,en;q=0.5",
)
_RESOLVER: Final = (
    "User-Agent: resolver",
    "Accept: text/plain, */*;q=0.1",
    "Accept-Encoding: identity",
    "Connection: keep-alive",
)


class NotCounted(Exception):
    """A service did not start, or did not answer as it should; the message says what came instead."""


@dataclass(frozen=True)
class Figures:
    """What was called: module -> function -> calls, both in the order of the first call."""

    called: dict[str, dict[str, int]]

    @property
    def modules(self) -> int:
        """How many modules have a function that was called."""
        return len(self.called)

    @property
    def functions(self) -> int:
        """How many functions were called."""
        return sum(map(len, self.called.values()))

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(sum(functions.values()) for functions in self.called.values())

    def listing(self) -> str:
        """One line a module, one a function below it."""
        lines = []
        for module, functions in self.called.items():
            lines.append(f"{module}  ({len(functions)} functions, {sum(functions.values())} calls)")
            lines += [f"    {calls:3}  {name}" for name, calls in functions.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Counted:
    """The figures of the two."""

    cold_click: Figures
    """In the resolver's process."""
    url_request: Figures
    """In the Archive's."""


def count(ports: Sequence[int] = ()) -> Counted:
    """Make a resolver and three Archives in a temporary folder, and count there. Raises NotCounted.

    `ports`: four on which nothing listens; without them, any free ones.
    """
    with TemporaryDirectory(prefix="ibi-count-") as name:
        folder = Path(name)
        with _network(folder, ports or _free_ports(len(_SERVICES))) as (resolver, archive):
            clicks = [_answered(resolver, f"/{_item(number)}", b"302", _READER) for number in range(NAMES)]
            requests = [
                _answered(archive, _url_request(NAMES + number), b"200", _RESOLVER) for number in range(NAMES)
            ]
        return Counted(
            _figures(folder / "resolver.calls", clicks), _figures(folder / "first.calls", requests)
        )


# The network


def _service(archive: str) -> str:
    return f"{archive}.example/archive/2026/01.01.00.00"


def _item(number: int) -> str:
    """A name of the first Archive: its prefix is that of the Archive's service."""
    return f"first.example/archive/2026/02.01.00.{number:02}"


def _url_request(number: int) -> str:
    """The target of a `urlRequest` for an item, spelled as the resolver spells it."""
    pairs = {
        "clientinformation.ipaddress": _HOST,
        "parsedibiurl.ibi": _item(number),
        "servicesubject": "urlRequest",
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs.items())
    return f"/{_service('first')}?{query}"


@contextmanager
def _network(folder: Path, free_ports: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Serve a resolver and three Archives that it includes; the ports of the resolver and of the first Archive.

    After the block, what was called in both is written into `resolver.calls` and `first.calls`.
    """
    ports = dict(zip(_SERVICES, free_ports, strict=True))
    resolver = folder / "resolver"
    address = f"{_HOST}:{ports['resolver']}"
    _ibi("resolver", "init", "--data", resolver, "--address", address, "--allow-private-archives")
    for number, name in enumerate(_SERVICES[1:]):
        _make_archive(folder, name, ports[name], f"http://{address}", str(number) * 20)
    items = folder / "items.jsonl"
    lines = ({"rep": _item(n), "url": f"http://files.example/{n}"} for n in range(2 * NAMES))
    items.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    _ibi("archive", "import", "--data", folder / "first", items)
    with ExitStack() as stack:
        for name in _SERVICES:
            stack.enter_context(_serving(folder, name, ports[name], profiled=name in _SERVICES[:2]))
        _wait_for_inclusion(resolver, len(_SERVICES) - 1)
        yield ports["resolver"], ports["first"]


def _make_archive(folder: Path, name: str, port: int, resolver: str, key: str) -> None:
    data, service = folder / name, _service(name)
    _ibi(
        "archive", "init", "--data", data, "--address", f"{_HOST}:{port}", "--ip", _HOST, "--service-ibi", service,
        "--for-trying", "--admin", "admin@archive.example", "--resolver", resolver, "--key", key,
    )  # fmt: skip
    _ibi("resolver", "register", "--data", folder / "resolver", "--archive-service", service, "--key", key)
    # The resolver fetches a filter soon after the inclusion: then the filter would tell the likely holder.
    settings = data / "archive.toml"
    text, changed = re.subn(
        r"(?m)^holdings_filter = true$", "holdings_filter = false", settings.read_text(encoding="utf-8")
    )
    settings.write_text(text if changed else f"holdings_filter = false\n{text}", encoding="utf-8")


def _free_ports(number: int) -> list[int]:
    # Known before the services run: the address of each stands in its settings, and in those of the Archives.
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind((_HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _ibi(*words: object) -> str:
    """The output of one of our own commands, run in this process. Raises NotCounted."""
    command = [str(word) for word in words]
    output, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(complaints):
        status = cli.main(command)
    if status:
        raise NotCounted(f"ibi {' '.join(command)}: {complaints.getvalue() or output.getvalue()}")
    return output.getvalue()


@contextmanager
def _serving(folder: Path, name: str, port: int, *, profiled: bool) -> Iterator[None]:
    """Run `ibi resolver serve` or `ibi archive serve` until the end of the block."""
    start = [__file__, _PROFILED, str(folder / f"{name}.calls")] if profiled else ["-m", "ibi"]
    kind = "resolver" if name == "resolver" else "archive"
    words = [kind, "serve", "--data", str(folder / name), "--bind", f"{_HOST}:{port}"]
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *start, *words], stdout=output, stderr=output)  # noqa: S603 - our own command
    try:
        until = time.monotonic() + _READY_SECONDS
        while "ready " not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise NotCounted(f"{' '.join(words)}: {log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_READY_SECONDS)
        finally:
            process.kill()


def _wait_for_inclusion(resolver: Path, archives: int) -> None:
    until = time.monotonic() + _READY_SECONDS
    while True:
        known = json.loads(_ibi("resolver", "archives", "--data", resolver, "--json"))
        if sum(bool(each["included"] and each["confirmed"]) for each in known) == archives:
            return
        if time.monotonic() > until:
            raise NotCounted(f"the resolver does not include its Archives: {known}")
        time.sleep(0.2)


# The client


@dataclass(frozen=True)
class _Request:
    """What was sent, and when its answer had come: monotonic seconds, which all processes of a machine share."""

    line: str
    answered_at: float


def _answered(port: int, target: str, status: bytes, headers: Sequence[str]) -> _Request:
    """Send one GET over a new connection, which stays open until the profile has closed. Raises NotCounted."""
    line = f"GET {target} HTTP/1.1"
    with socket.create_connection((_HOST, port), timeout=_READY_SECONDS) as connection:
        connection.sendall("\r\n".join((line, f"Host: {_HOST}:{port}", *headers, "", "")).encode())
        answer = connection.recv(65_536)
        answered_at = time.monotonic()
        if answer[9:12] != status:
            raise NotCounted(f"{line}: {answer!r}")
        time.sleep(2 * AFTER_SECONDS)
    return _Request(line, answered_at)


def _figures(file: Path, requests: Sequence[_Request]) -> Figures:
    """What was called between each request and the end of its profile, in all of them."""
    calls = [tuple(call) for call in json.loads(file.read_text(encoding="utf-8"))]
    windows = [_window(calls, request) for request in requests]
    called: dict[str, dict[str, int]] = {}
    for module, function in windows[0]:
        if all((module, function) in window for window in windows):
            median = statistics.median_high(window[module, function] for window in windows)
            called.setdefault(module, {})[function] = median
    return Figures(called)


def _window(calls: Sequence[tuple[float, str, str]], request: _Request) -> Counter[tuple[str, str]]:
    """(Module, function) -> calls, in the order of the first call."""
    begins = next((at for at, module, what in calls if not module and what == request.line), None)
    if begins is None:
        raise NotCounted(f"no data_received was called with {request.line!r}")
    ends = request.answered_at + AFTER_SECONDS
    return Counter((module, function) for at, module, function in calls if module and begins <= at <= ends)


# The process that is profiled


class _Profile:
    """Records every call of a function of the package, and every request that arrives."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """What `sys.setprofile` calls."""
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "data_received":
            self._record_request(frame)
        module = frame.f_globals.get("__name__", "")
        if f"{module}.".startswith("ibi.") and code.co_name not in _LEFT_OUT:
            name = code.co_qualname
            if code.co_filename == "<string>" and "self" in frame.f_locals:  # written by `dataclasses`
                name = f"{type(frame.f_locals['self']).__qualname__}.{code.co_name}"
            self._calls.append((time.monotonic(), module.removeprefix("ibi."), name))

    def _record_request(self, frame: FrameType) -> None:
        for value in frame.f_locals.values():
            if isinstance(value, bytes | bytearray) and value.startswith(b"GET "):
                line = bytes(value).partition(b"\r\n")[0].decode("latin-1")
                self._calls.append((time.monotonic(), "", line))

    def write(self, file: Path) -> None:
        """Write a JSON list of [monotonic seconds, module, function]; of a request, "" and its first line."""
        file.write_text(json.dumps(self._calls), encoding="utf-8")


def _run_profiled(file: Path, words: Sequence[str]) -> int:
    """Run one of our own commands in this process, and write what was called into a file; exit status."""
    from ibi.cli import main as run

    profile = _Profile()
    sys.setprofile(profile)
    try:
        return run(words)
    finally:
        sys.setprofile(None)
        profile.write(file)


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; exit status."""
    if arguments[:1] == [_PROFILED]:
        return _run_profiled(Path(arguments[1]), arguments[2:])
    if arguments not in ([], ["--list"]):
        print(__doc__, file=sys.stderr)
        return 2
    counted = count()
    both = {"a cold click": counted.cold_click, "a urlRequest": counted.url_request}
    print(f"{'caused by':<14}{'modules':>9}{'functions':>11}{'calls':>7}")
    for name, figures in both.items():
        print(f"{name:<14}{figures.modules:>9}{figures.functions:>11}{figures.calls:>7}")
    if arguments:
        for name, figures in both.items():
            print(f"\n{name}\n\n{figures.listing()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
