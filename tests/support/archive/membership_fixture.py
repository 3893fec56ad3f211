"""For the tests of membership: resolvers that follow a script, and an Archive that takes part at them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, urlsplit

from ibi.archive.membership.membership import Memberships, MembershipStore, WantedMemberships
from ibi.archive.store.tables.memberships import MembershipRecord
from ibi.http.client import AddressPolicy, Client
from ibi.protocol.messages import NO_TITLES, ArchiveTitles, InclusionRequest
from support.archive.archive_fixture import settings_for
from support.stream_server import StreamServer

RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
INCLUDED = (200, b"status.archive included status.confirmation successful")
UNCONFIRMED = (200, b"status.archive included status.confirmation unsuccessful")
EXCLUDED = (200, b"status.archive excluded")
REFUSED = (403, b"status.archive refused")
NO_ADDRESS = (403, b"status.archive refused status.address refused")
OVERTAKEN = (*REFUSED, b"retry-after: 1\r\n")
KEY = "12345678901234567890"

Step = tuple[int, bytes] | tuple[int, bytes, bytes] | None


class ScriptedResolver:
    """Answers each request with the next line of its script, then with the last one for ever.

    A line has a status, a body and perhaps headers; None: no answer.
    """

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.targets: list[str] = []
        self.titles: list[str] = []
        """What inclusion requests said that readers call the Archive."""
        self.about = json.dumps({"service_ibi": RESOLVER_SERVICE}).encode()
        self.mute = False
        """Whether it takes requests and says nothing."""
        self.about_after = 0.0
        """Seconds after which it says where its service is."""
        self.tells_only_where = False
        """Whether it says where its service is, and nothing more."""
        self.request_times: asyncio.Queue[float] = asyncio.Queue()
        """When its service was asked, by the clock of the event loop."""
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Answer, at the same port as before."""
        self.server = StreamServer(self._serve, port=self._port)
        await self.server.start()
        self._port = self.server.port

    async def stop(self) -> None:
        """Stop answering."""
        await self.server.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def queries(self) -> list[dict[str, str]]:
        """What was said to its service, in order."""
        found = [parse_qs(urlsplit(target).query, keep_blank_values=True) for target in self.targets]
        return [{name: values[0] for name, values in query.items()} for query in found if query]

    @property
    def subjects(self) -> list[str]:
        return [query["servicesubject"] for query in self.queries]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ", 2)[1].decode()
        self.targets.append(target)
        self.titles += re.findall(r"(?im)^ibi-archive-title(?:-pt)?: (.*)\r$", head.decode())
        if target != "/-/about":
            self.request_times.put_nowait(asyncio.get_running_loop().time())
        if self.mute or (self.tells_only_where and target != "/-/about"):
            await reader.read()  # until the other side gives up
            writer.close()
            return
        if target == "/-/about":
            await asyncio.sleep(self.about_after)
            step: Step = (200, self.about)
        else:
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if step is not None:
            status, body, *headers = step
            writer.write(
                b"HTTP/1.1 %d X\r\nconnection: close\r\n%scontent-length: %d\r\n\r\n%s"
                % (status, b"".join(headers), len(body), body)
            )
            await writer.drain()
        writer.close()


def request_of(key: str = KEY, **more: object) -> InclusionRequest:
    """What an Archive says of itself."""
    return settings_for("archive.example:8080", key=key, **more).inclusion_request("0.1.0")


class Notes(MembershipStore):
    """What is known, without a disk."""

    def __init__(self, known: dict[str, MembershipRecord]) -> None:
        self.known = known
        self.noted = 0
        self.fault: Exception | None = None
        """What is raised when something is to be read or kept."""

    def read(self) -> dict[str, MembershipRecord]:
        if self.fault:
            raise self.fault
        return dict(self.known)

    async def keep(self, member: MembershipRecord) -> None:
        if self.fault:
            raise self.fault
        self.known[member.resolver] = member
        self.noted += 1

    async def forget(self, resolver: str) -> None:
        del self.known[resolver]


@dataclass
class Here:
    """An Archive that takes part where `requests` say, as long as it is `on`; what is known of it is in `records`."""

    requests: dict[str, InclusionRequest]
    on: bool = True
    retired: bool = False
    records: dict[str, MembershipRecord] = field(default_factory=dict)
    now: float = 1_700_000_000
    titles: ArchiveTitles = NO_TITLES

    def __post_init__(self) -> None:
        self.notes = Notes(self.records)
        self.all = Memberships(
            lambda: WantedMemberships(dict(self.requests), self.on, self.retired, titles=self.titles),
            Client(AddressPolicy(allow_private=True)),
            self.notes,
            lambda: self.now,
        )

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self.all.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.all.stop()
        await self.all.close()


async def until(happened: Callable[[], object]) -> None:
    """Wait for what another task brings about."""
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)
