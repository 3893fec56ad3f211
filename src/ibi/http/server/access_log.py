"""The access log: a line for each request, where the operator asks for it (off by default).

A line has method, path, status, seconds and bytes of the body. It never has the query, where the keys of Archives
(REG-08) and the addresses of readers stand, nor the address of the client (threat T28).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from ibi.runtime.logging import FACTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_FAILED: Final = 500  # what uvicorn answers when an application fails

_log = logging.getLogger("ibi.access")


class AccessLog:
    """An ASGI application around another one, which writes a line for each request that was answered."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(
        self, scope: Mapping[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Answer one request and log it."""
        loop = asyncio.get_running_loop()
        started, status, size = loop.time(), _FAILED, 0

        async def counting(message: dict[str, Any]) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            facts = {
                "method": scope["method"],
                "path": scope["raw_path"].partition(b"?")[0].decode("latin-1"),
                "status": status,
                "seconds": round(loop.time() - started, 6),
                "bytes": 0 if scope["method"] == "HEAD" else size,
            }
            line = "%(method)s %(path)s %(status)d %(seconds).6f s %(bytes)d bytes"
            _log.info(line, facts, extra={FACTS: facts})
