"""What stub Archives need so that their answers live until something changes (docs/standard/extensions.md).

Each has a log of its changes with positions. It tells a resolver that asks what has changed, and sends it a notice a
moment after a change, as our own Archives do. An item leads to `place_of` its name and the number of its changes.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Final

from ibi.archive.membership.notices import LOOK_EVERY
from ibi.archive.model.changes import reply_to
from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.extensions.changes import ChangesRequest, Validity
from ibi.protocol.messages import MOST_CHANGED, ChangeNotification
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.query_string import read_query
from support.http_answers import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.archive.model.changes import LoggedChange

RESOLVER: Final = "J8LNKB5R7W/3FUQHC5"
"""The IBI of the service of the resolver that gets notices."""

_CACHED: Final = "Cache-Control: max-age=60, s-maxage=0"
_KEY: Final = "1234567890-1234567890"
_TARGET: Final = re.compile(rb"GET [^ ?]*\?([^ ]*) ")


def place_of(name: str, changes: int) -> str:
    """Where an item is after so many changes."""
    return f"http://files.example/{name}" + (f"/{changes}" if changes else "")


class LoggedArchive:
    """One Archive: its log, and how often each of its items was changed.

    `address`: its "host:port"; `service`: the name of its service; `notify`: sends the resolver a query.
    """

    def __init__(self, address: str, service: str, notify: Callable[[str], object]) -> None:
        self._address, self._service, self._notify = address, service, notify
        self._changes = dict[str, int]()
        self._log: list[LoggedChange] = []
        self._numbers = dict[str, int]()
        self._waiting = list[str]()
        self._add(None)

    def _add(self, name: str | None) -> None:
        position = f"{len(self._log) + 1}.{secrets.token_hex(8)}"
        self._numbers[position] = len(self._log)
        self._log.append((position, None if name is None else (parse_name(name).canonical,)))

    def change(self, name: str) -> None:
        """Have an item lead elsewhere from now on; the resolver gets a notice a moment later."""
        self._changes[name] = self._changes.get(name, 0) + 1
        self._add(name)
        if not self._waiting:
            asyncio.get_running_loop().call_later(LOOK_EVERY, self._send)
        self._waiting.append(name)

    def _send(self) -> None:
        names, self._waiting = self._waiting, []
        for notice in notices_of(self._service, names):
            self._notify(notice)

    def answer(self, name: str) -> bytes:
        """Answer a query about an item that it holds."""
        body = write_pairs(
            {
                "acknowledgment.batch": "yes",
                "archiveaddress": self._address,
                "contenttype": "Data",
                "ibi": ("rep", name),
                "ibi.archiveservice": ("rep", self._service),
                "ibi.platformsoftware": (),
                "state": "Original",
                "timestamp": "2021-01-01T00:00:00Z",
                "url": place_of(name, self._changes.get(name, 0)),
                "urlkey": _KEY,
                **Validity(self._log[-1][0]).pairs(),
            }
        )
        return answer(body, _CACHED)

    def reply(self, request: bytes) -> bytes:
        """Reply to a request for changes."""
        found = _TARGET.match(request)
        try:
            message = ChangesRequest.of(dict(read_query(found[1].decode("ascii") if found else "")))
        except ParseError as error:
            return answer(str(error).encode(), status="400 Bad Request")
        number = self._numbers.get(message.after)
        later = [] if number is None else self._log[number + 1 :]
        return answer(reply_to(message, self._log[-1][0], number is not None, later).body())


def notices_of(service: str, names: Sequence[str]) -> list[str]:
    """The queries of the notices by which the Archive of a service announces that these names have changed."""
    changed = [parse_name(name) for name in dict.fromkeys(names)]
    batches = (tuple(changed[at : at + MOST_CHANGED]) for at in range(0, len(changed), MOST_CHANGED))
    return [ChangeNotification(parse_ibi(service), batch).query() for batch in batches]


async def send_notice(query: str, port: int, ip: str) -> bool:
    """Send a notice to the resolver at a port of this machine, from the address of the Archive; whether it took it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ip, 0))
    try:
        writer.write(
            f"GET /{RESOLVER}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        )
        return (await reader.read()).startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()
