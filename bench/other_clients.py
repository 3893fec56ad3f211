"""The resolver as it is, but sending its queries to Archives by another HTTP client.

    python -m bench.other_clients CLIENT resolver serve ...

CLIENT is `pyreqwest` or `aiohttp`; what follows is a command of `ibi`. Only URL requests go through that client, in a
task each, as these clients expect; all other requests of the resolver go through its own. The other client checks no
address, counts no header lines and limits no number of requests.
"""

from __future__ import annotations

import asyncio
import sys
from abc import abstractmethod
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ibi.app import resolver
from ibi.cli import main
from ibi.errors import PeerError, PeerSilent
from ibi.http.client import Client, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.client import Deadline


class _OtherClient(Client):
    """Send URL requests by another client."""

    def ask(
        self,
        address: str,
        target: Any,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
        *more: Any,
        **loop: Any,
    ) -> Any:
        """Send a URL request by the other client; a target given as one string goes by ours."""
        if isinstance(target, str):
            return super().ask(address, target, deadline, done, *more, **loop)
        url = f"http://{address}{b''.join(target).decode()}"
        task = asyncio.create_task(self._fetch(url, deadline.seconds))
        self.keep(task)
        task.add_done_callback(lambda request: done(_outcome(request)))
        return None

    @abstractmethod
    async def _fetch(self, url: str, seconds: float) -> Reply:
        """The answer at a URL, whatever its status, within so many seconds."""


class Pyreqwest(_OtherClient):
    """A client written in Rust."""

    _session: Any = None

    async def _fetch(self, url: str, seconds: float) -> Reply:
        if self._session is None:
            builder = import_module("pyreqwest.client").ClientBuilder()
            self._session = builder.timeout(timedelta(seconds=seconds)).http1_only().no_proxy().build()
        reply = await self._session.get(url).build().send()
        return Reply(reply.status, _lower(reply.headers), bytes(await reply.bytes()), "")


class Aiohttp(_OtherClient):
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


OTHER_CLIENTS: Final = {"pyreqwest": Pyreqwest, "aiohttp": Aiohttp}


def _lower(headers: Any) -> dict[bytes, bytes]:
    return {name.lower().encode(): value.encode("latin-1") for name, value in headers.items()}


def _outcome(request: asyncio.Task[Reply]) -> Reply | PeerError:
    if request.cancelled():
        return PeerSilent("this client is closed")
    error = request.exception()
    if error is None:
        return request.result()
    return PeerSilent("{host} cannot be reached: {reason}", host="it", reason=type(error).__name__)


if __name__ == "__main__":
    resolver.Client = OTHER_CLIENTS[sys.argv[1]]  # type: ignore[attr-defined]  # that is the point
    sys.exit(main(sys.argv[2:]))
