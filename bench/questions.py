"""What the loads ask for: many targets, the head that goes with each, and the status that each must have."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.processes import LOAD_CORE, NotStarted, program, run

if TYPE_CHECKING:
    from pathlib import Path

TWO: Final = ("Host: {host}", "Accept: */*")
TEN: Final = (
    "Host: {host}",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-GB,en;q=0.7,pt-BR;q=0.3",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Connection: keep-alive",
    "Upgrade-Insecure-Requests: 1",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Site: cross-site",
)
"""The headers of a browser that follows a link."""

_SAMPLE = 20
_TIMEOUT: Final = 20.0  # seconds for one answer
_SCRIPT: Final = """
local requests, count, at = {}, 0, 0
for target in io.lines("%s") do
  count = count + 1
  requests[count] = "GET " .. target .. %s
end
request = function()
  at = at %% count + 1
  return requests[at]
end
done = function(summary)
  print(string.format("%%d answers, %%d errors", summary.requests,
    summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout))
end
"""
_RATE: Final = re.compile(r"Requests/sec:\s+([\d.]+)")
_ERRORS: Final = re.compile(r"answers, (\d+) errors")


@dataclass(frozen=True)
class Questions:
    """GETs of these targets, one after the other and again from the first; `headers`: lines with `{host}` in them."""

    targets: tuple[str, ...]
    status: int = 200
    headers: tuple[str, ...] = TWO
    host: str = "127.0.0.1"

    def requests(self) -> list[bytes]:
        """The bytes of each."""
        tail = self.tail()
        return [f"GET {target}{tail}".encode() for target in self.targets]

    @property
    def answer(self) -> bytes:
        """How each answer begins."""
        return f"HTTP/1.1 {self.status} ".encode()

    def closed_loop(self, port: int, connections: int, seconds: int, folder: Path) -> float:
        """Answers a second that wrk gets from the other core, each connection asking as soon as it has its answer.

        Raises NotHere without wrk, NotStarted where anything but clean answers came.
        """
        wrk, listed, script = program("wrk"), folder / "targets", folder / "ask.lua"
        listed.write_text("\n".join(self.targets))
        script.write_text(_SCRIPT % (listed, json.dumps(self.tail())))
        words = [
            "taskset",
            "-c",
            str(LOAD_CORE),
            wrk,
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "-s",
            script,
        ]
        printed = run([*map(str, words), f"http://127.0.0.1:{port}"])
        errors, rate = _ERRORS.search(printed), _RATE.search(printed)
        if rate is None or errors is None or errors[1] != "0" or not float(rate[1]):
            raise NotStarted(f"the load did not run clean: {printed}")
        return float(rate[1])

    def check(self, port: int) -> None:
        """Raise NotStarted unless some of them, from all over the list, are answered as they must be."""
        step = max(1, len(self.targets) // _SAMPLE)
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as line:
            for request in self.requests()[::step]:
                line.sendall(request)
                answer = line.recv(65_536)
                while not 0 < length(answer) <= len(answer):
                    more = line.recv(65_536)
                    if not more:
                        raise NotStarted(f"a connection ended within an answer: {answer[:500]!r}")
                    answer += more
                if not answer.startswith(self.answer):
                    raise NotStarted(f"{request!r} was answered with {answer[:500]!r}")

    def tail(self) -> str:
        """What follows the target in each request."""
        return (
            " HTTP/1.1\r\n" + "".join(f"{line.format(host=self.host)}\r\n" for line in self.headers) + "\r\n"
        )


def length(answer: bytes) -> int:
    """How many bytes an answer has as a whole, of which these are the first; 0 while that cannot be told."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return 0
    head = answer[:end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise NotStarted(f"an answer does not say how long it is: {answer[:500]!r}")
    return end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])
