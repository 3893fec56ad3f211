"""A mail server on loopback, and what it has taken in."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from email import message_from_bytes, policy
from threading import Thread
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import SMTP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage


class Postbox:
    """What a mail server has taken in, at this port of the machine."""

    def __init__(self) -> None:
        self.port = 0
        self.envelopes: list[Any] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - the server's own name
        self.envelopes.append(envelope)
        return "250 OK"

    @property
    def letters(self) -> list[EmailMessage]:
        return [message_from_bytes(each.content, policy=policy.default) for each in self.envelopes]


@contextmanager
def answering(box: Postbox) -> Iterator[None]:
    """Have a mail server answer at a port of this machine."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: SMTP(box, loop=loop), "127.0.0.1", 0))
    thread = Thread(target=loop.run_forever)
    thread.start()
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()
