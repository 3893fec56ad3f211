"""Names of machines to addresses, as this machine's own resolver knows them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading


async def system_names(host: str, port: int) -> list[tuple[str, int]]:
    """The addresses of a host, as this machine's own resolver tells them. Raises OSError when there are none.

    Each look-up has a thread of its own that nothing waits for at the end: a name server that never answers would
    otherwise hold up every other name, and the end of the process.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[tuple[str, int]]] = loop.create_future()

    def settle(found: list[tuple[str, int]] | OSError) -> None:
        if answer.cancelled():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        try:
            told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            found: list[tuple[str, int]] | OSError = list(
                dict.fromkeys((str(p[0]), int(p[1])) for *_, p in told)
            )
        except (OSError, UnicodeError) as error:
            found = error if isinstance(error, OSError) else OSError(str(error))
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile; nobody is waiting
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=look, name=f"name {host}", daemon=True).start()
    return await answer
