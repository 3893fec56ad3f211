"""An internet of a test: network namespaces on one bridge, in which the names of a page lead to servers of ours."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

INTERNET = "192.0.43.1"
"""The address at which what all servers share is served, such as an authority for certificates."""


ENDS = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: it ends with the process that started it, even if that is killed."""
ALL_END = (*"setpriv --pdeathsig=KILL unshare --pid --fork --kill-child=KILL --mount-proc".split(),)
"""Before a command: all that it starts ends, too; but it sees no processes outside, nor their network namespaces."""


@dataclass
class Namespace:
    """A network namespace, and the process that keeps it."""

    process: int

    def command(self, *words: str) -> list[str]:
        """The words of a command that is run in it."""
        return ["nsenter", f"--net={self.path}", *words]

    @property
    def path(self) -> str:
        """The file by which programs enter it."""
        return f"/proc/{self.process}/ns/net"

    def run(self, *words: str) -> str:
        """Run a command in it, which must succeed; its output."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout


@dataclass
class Internet:
    """The namespace of the internet, where readers and authorities are, and those of the servers by their addresses."""

    namespace: Namespace
    servers: dict[str, Namespace] = field(default_factory=dict)


@contextmanager
def internet(*addresses: str) -> Iterator[Internet]:
    """Make an internet with a server at each address; needs root."""
    with ExitStack() as stack:
        made = Internet(stack.enter_context(_namespace()))
        made.namespace.run("ip", "link", "add", "bridge", "type", "bridge")
        made.namespace.run("ip", "address", "add", f"{INTERNET}/24", "dev", "bridge")
        made.namespace.run("ip", "link", "set", "bridge", "up")
        for number, address in enumerate(addresses):
            server = made.servers[address] = stack.enter_context(_namespace())
            end = f"server{number}"
            made.namespace.run(
                "ip",
                "link",
                "add",
                end,
                "type",
                "veth",
                "peer",
                "name",
                "host0",
                "netns",
                str(server.process),
            )
            made.namespace.run("ip", "link", "set", end, "master", "bridge", "up")
            server.run("ip", "address", "add", f"{address}/24", "dev", "host0")
            server.run("ip", "link", "set", "host0", "up")
        yield made


@contextmanager
def _namespace() -> Iterator[Namespace]:
    with subprocess.Popen([*ENDS, "unshare", "--net", "sleep", "infinity"]) as process:
        try:
            made = Namespace(process.pid)
            own = Path("/proc/self/ns/net").readlink()
            while Path(made.path).readlink() == own:
                time.sleep(0.01)
            made.run("ip", "link", "set", "lo", "up")
            yield made
        finally:
            process.kill()
