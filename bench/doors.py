"""The resolver as it is, but with another HTTP client as the door through which it asks Archives.

    python -m bench.doors CLIENT resolver serve ...

CLIENT is `pyreqwest` or `aiohttp`; what follows is a command of `ibi`. Only URL requests go through that client, in a
task each, as these clients want it; whatever else the resolver asks goes through its own. The other door judges no
address, counts no lines and holds no crowd back.
"""

from __future__ import annotations

import asyncio
import sys
from abc import abstractmethod
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ibi.assembly import resolver
from ibi.cli import main
from ibi.errors import PeerError, PeerSilent
from ibi.transport import Client, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.transport import Deadline


class _Door(Client):
    """Asks what all are asked through another client."""

    def ask(
        self,
        address: str,
        target: Any,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
        *more: Any,
        **loop: Any,
    ) -> Any:
        """As the client that it stands in for; whole targets go through that one."""
        if isinstance(target, str):
            return super().ask(address, target, deadline, done, *more, **loop)
        url = f"http://{address}{b''.join(target).decode()}"
        task = asyncio.create_task(self._fetch(url, deadline.seconds))
        self.keep(task)
        task.add_done_callback(lambda asked: done(_outcome(asked)))
        return None

    @abstractmethod
    async def _fetch(self, url: str, seconds: float) -> Reply:
        """The answer at a URL, whatever its status, within so many seconds."""


class Pyreqwest(_Door):
    """A client written in Rust."""

    _session: Any = None

    async def _fetch(self, url: str, seconds: float) -> Reply:
        if self._session is None:
            builder = import_module("pyreqwest.client").ClientBuilder()
            self._session = builder.timeout(timedelta(seconds=seconds)).http1_only().no_proxy().build()
        reply = await self._session.get(url).build().send()
        return Reply(reply.status, _lower(reply.headers), bytes(await reply.bytes()), "")


class Aiohttp(_Door):
    """The client that most people take."""

    _session: Any = None

    async def _fetch(self, url: str, seconds: float) -> Reply:
        if self._session is None:
            aiohttp = import_module("aiohttp")
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=seconds)
            )
        async with self._session.get(url) as reply:
            return Reply(reply.status, _lower(reply.headers), await reply.read(), "")

    async def close(self) -> None:
        """End every connection."""
        await super().close()
        if self._session is not None:
            await self._session.close()


DOORS: Final = {"pyreqwest": Pyreqwest, "aiohttp": Aiohttp}


def _lower(headers: Any) -> dict[bytes, bytes]:
    return {name.lower().encode(): value.encode("latin-1") for name, value in headers.items()}


def _outcome(asked: asyncio.Task[Reply]) -> Reply | PeerError:
    if asked.cancelled():
        return PeerSilent("this client is closed")
    error = asked.exception()
    if error is None:
        return asked.result()
    return PeerSilent("{host} cannot be reached: {reason}", host="it", reason=type(error).__name__)


if __name__ == "__main__":
    resolver.Client = DOORS[sys.argv[1]]  # type: ignore[attr-defined]  # that is the point
    sys.exit(main(sys.argv[2:]))
