"""A small network for the proofs: the data directory of a resolver, and one Archive that holds whatever is asked for.

The Archive is a few lines over a socket of this machine: it takes some milliseconds for each answer, so that questions
are under way whenever something happens to the resolver.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Final

from ibi.cli import main
from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol import vocabulary as words
from ibi.protocol.messages import Acknowledgment, InclusionRequest, UrlRequest, read_request
from ibi.protocol.pair_list import PairList, write_pairs
from ibi.protocol.relation import ITEM
from ibi.protocol.replies import AcknowledgmentReceived, Confirmation
from ibi.protocol.url_list import Entry, entry_pairs
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.runtime.settings import ResolverSettings
from support.scripted_archive import Behaviour, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADDRESS: Final = "resolver.test"
ITEMS: Final = 200

_RESOLVER: Final = "J8LNKB5R7W/3FUQHC5"
_ARCHIVE: Final = "archive.example/w/2020/01.01.00.00"
_KEY: Final = "12345678901234567890"
_SLOWEST: Final = 0.03  # seconds of an answer
_MANY: Final = 1_000_000


@dataclass
class Network:
    """A resolver's directory, and the Archive beside it. `items` are the names that readers ask for."""

    data: Path
    items: list[str]
    port: int = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, data: Path, chance: random.Random) -> AsyncIterator[Network]:
        """Make the directory, and answer as the Archive until the end of the block."""
        _make(data)
        archive = _Archive(chance)
        await archive.open()
        items = [f"archive.example/w/2021/01.01.{n // 60:02}.{n % 60:02}" for n in range(ITEMS)]
        try:
            yield cls(data, items, archive.port)
        finally:
            await archive.close()

    @property
    def inclusion(self) -> str:
        """The path and query with which the Archive switches on."""
        address, service = f"127.0.0.1:{self.port}", parse_ibi(_ARCHIVE)
        request = InclusionRequest(address, service, "127.0.0.1", "1", "admin@archive.example", _KEY)
        return f"{_RESOLVER}?{request.query()}"


def _make(data: Path) -> None:
    init = f"--address {ADDRESS} --service-ibi {_RESOLVER} --allow-private-archives"
    register = f"--archive-service {_ARCHIVE} --key {_KEY}"
    for command in (f"init --data {data} {init}", f"register --data {data} {register}"):
        with redirect_stdout(StringIO()) as out, redirect_stderr(out):
            status = main(["resolver", *command.split()])
        if status:
            raise RuntimeError(f"this cannot be done: {command}: {out.getvalue()}")
    settings = ResolverSettings.read(data)
    replace(settings, request_rate=0.0, request_burst=_MANY).write(data)


class _Archive(ScriptedServer):
    """Holds everything, as an original."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(self._reply)
        self._chance = chance

    def _reply(self, head: bytes) -> Behaviour:
        try:
            request = read_request(head.split(b" ", 2)[1].decode().partition("?")[2])
        except ParseError as error:
            return Behaviour(f"error {error}".encode())
        if isinstance(request, UrlRequest):
            return Behaviour(self._held(str(request.ibi)), after=self._chance.uniform(0, _SLOWEST))
        return Behaviour(
            AcknowledgmentReceived().body() if isinstance(request, Acknowledgment) else Confirmation().body()
        )

    def _held(self, item: str) -> bytes:
        forms = IBIForms.of(parse_ibi(item))
        url = f"http://127.0.0.1:{self.port}/{item}"
        entry = Entry(url, forms, ItemState.ORIGINAL, ContentType.DATA, "2021-01-01T00:00:00Z")
        about: PairList = {
            words.ARCHIVE_ADDRESS: f"127.0.0.1:{self.port}",
            words.ARCHIVE_SERVICE: ("rep", _ARCHIVE),
        }
        return write_pairs(about | entry_pairs(ITEM, entry) | {words.URL_KEY: "1234567890"})
