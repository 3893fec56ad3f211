"""The Archives of these proofs, all in one process: `python -m proofs.resolver.stubs SEED ARCHIVES ITEMS LATENCY`.

Each listens at an address of its own, all at one port, which is printed. Then each line that is read is a JSON object,
which is done and answered by one line. Each Archive has one of these manners:

    honest       answers within some milliseconds; it holds what `Holdings` says
    reusable     the same, and its answers may be used again for a second
    dead         nobody listens
    hung         it listens and says nothing
    lying        another one of `lies` each time
    endless ...  a body, a head, something compressed or the longest of lists: as much as the other side takes
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

import uvloop

from ibi.protocol import vocabulary as words
from ibi.protocol.pair_list import write_pairs
from proofs.resolver import cast as play
from proofs.resolver import lies
from proofs.resolver.endless import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.protocol.pair_list import PairList

SPREAD: Final = 0.5
"""The sigma of the lognormal latency."""

_REUSABLE: Final = "Cache-Control: max-age=1"


@dataclass
class Stub:
    """One Archive: its manner, and what it was asked. `times` are the moments of questions to a hung one."""

    number: int
    town: Town
    manner: str = "honest"
    asked: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    lines: set[Line] = field(default_factory=set)
    told: int = 0
    server: asyncio.Server | None = None

    def answer(self, line: Line, raw: bytes) -> None:
        """Answer one request, now or later."""
        if play.CANARY.encode() in raw.lower():
            self.asked["canaries"] += 1
        pairs = dict(parse_qsl(raw.split(b" ", 2)[1].decode("latin-1").partition("?")[2]))
        subject = pairs.get(words.SERVICE_SUBJECT, "")
        self.asked[subject] += 1
        if subject == "urlRequest":
            self._answer_question(line, pairs[words.ASKED_IBI].lower(), pairs.get(words.ASKED_VERBS, ""))
        elif self.manner != "hung":
            body = b"notice {acknowledgment received}" if subject == "acknowledgment" else b"confirmation yes"
            line.write(lies.whole(body))

    def _answer_question(self, line: Line, item: str, verbs: str) -> None:
        if self.manner == "hung":
            self.times.append(time.monotonic())
            return
        if self.manner in ENDLESS:
            line.pour(ENDLESS[self.manner](self.pairs(item)))
            return
        if self.manner == "lying":
            line.write(self._lie(item))
            line.hang_up()
            return
        claimed = play.number_of(item, play.CLAIMED)
        if claimed is not None:
            self._answer_claimed(line, item, claimed)
            return
        body = write_pairs(self.pairs(item)) if self._holds(item) else self._chain(item, verbs)
        more = (_REUSABLE,) if self.manner == "reusable" and body else ()
        delay = self.town.chance.lognormvariate(0, self.town.spread) * self.town.latency
        asyncio.get_running_loop().call_later(delay, line.write, lies.whole(body, *more))

    def _answer_claimed(self, line: Line, item: str, number: int) -> None:
        """At any moment up to `latency`, which is near the deadline here."""
        state = play.claims(self.town.seed, self.town.archives, number).get(self.number)
        if state == "silent":
            return
        body = write_pairs(self.pairs(item) | {words.STATE: state}) if state else b""
        delay = self.town.chance.uniform(0, self.town.latency)
        asyncio.get_running_loop().call_later(delay, line.write, lies.whole(body))

    def _holds(self, item: str) -> bool:
        number = play.number_of(item)
        return number is not None and number < self.town.items and self.number in self.town.holders(number)

    def _chain(self, item: str, verbs: str) -> bytes:
        """Of an endless chain of editions, the first Archive knows each one, and the next."""
        number = play.number_of(item, play.CHAIN)
        if number is None or self.number != 1 or not verbs:
            return b""
        following = play.item(number + 1, play.CHAIN)
        pairs = {name: value for name, value in self.pairs(item).items() if name not in {"url", "urlkey"}}
        return write_pairs(pairs | {words.NEXT_EDITION: ("rep", following)})

    def pairs(self, item: str) -> PairList:
        """What it says of an item that it holds."""
        number = play.number_of(item)
        first = number is not None and self.town.holders(number)[:1] == (self.number,)
        reusable: PairList = {words.ACKNOWLEDGMENT_BATCH: "yes"} if self.manner == "reusable" else {}
        return reusable | {
            words.ARCHIVE_ADDRESS: play.host(self.number),
            words.IBI: ("rep", item),
            words.ARCHIVE_SERVICE: ("rep", play.service(self.number)),
            words.STATE: "Original" if first else "Copy",
            words.URL: play.url(self.number, item),
            words.URL_KEY: "1234567890-1234567890",
        }

    def _lie(self, item: str) -> bytes:
        """The next lie."""
        pairs = self.pairs(item) | {words.URL: f"http://{lies.EVIL}/x"}
        lists = lies.lists(self.pairs(item), play.host(self.number))
        self.told += 1
        chosen = (self.told + 7 * self.number) % (len(lies.TRANSPORTS) + len(lists))
        if chosen < len(lies.TRANSPORTS):
            return lies.TRANSPORTS[chosen](write_pairs(pairs))
        return lies.whole(lists[chosen - len(lies.TRANSPORTS)])

    async def behave(self, manner: str) -> None:
        """Take another manner; who was connected is hung up on."""
        self.manner = manner
        self.hang_up()
        if manner == "dead" and self.server is not None:
            self.server.close()
            self.server = None
        elif manner != "dead" and self.server is None:
            self.server = await asyncio.get_running_loop().create_server(
                lambda: Line(self), sock=self.town.place(self.number)
            )

    def hang_up(self) -> None:
        """End every connection."""
        for line in list(self.lines):
            line.reset()


class Line(asyncio.Protocol):
    """One connection to an Archive."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._heard = b""
        self._pouring: Iterator[bytes] | None = None
        self._room = True
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._stub.lines.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        del exc
        self._pouring = None
        self._stub.lines.discard(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            head, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self._stub.answer(self, head)

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._room = False

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._room = True
        self._pour()

    def write(self, data: bytes) -> None:
        """Say something, unless nobody is there any more."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def hang_up(self) -> None:
        """End it, with all that was said."""
        self._transport.close()

    def reset(self) -> None:
        """End it at once."""
        self._transport.abort()

    def pour(self, pieces: Iterator[bytes]) -> None:
        """Say one piece after the other, as fast as they are taken."""
        self._pouring = pieces
        self._pour()

    def _pour(self) -> None:
        if self._pouring is None or not self._room or self._transport.is_closing():
            return
        for _ in range(4):
            piece = next(self._pouring, None)
            if piece is None:
                self._pouring = None
                return
            self._transport.write(piece)
        asyncio.get_running_loop().call_soon(self._pour)


@dataclass
class Town:
    """All of them."""

    seed: int
    archives: int
    items: int
    latency: float
    spread: float = SPREAD
    port: int = 0
    stubs: list[Stub] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.holders = play.Holdings(self.seed, self.archives).of

    def place(self, number: int) -> socket.socket:
        """A socket at the address of an Archive."""
        place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((play.ip(number), self.port))
        self.port = place.getsockname()[1]
        place.listen(512)
        return place

    async def open(self) -> None:
        """Let them all listen."""
        self.stubs = [Stub(number + 1, self) for number in range(self.archives)]
        for stub in self.stubs:
            await stub.behave("honest")

    async def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out what the driver wants."""
        meant = [self.stubs[number - 1] for number in order.get("who", range(1, self.archives + 1))]
        if "behave" in order:
            for stub in meant:
                await stub.behave(order["behave"])
        if "without" in order:
            self.holders = play.Holdings(self.seed, self.archives, frozenset(order["without"])).of
        self.latency = order.get("latency", self.latency)
        self.spread = order.get("spread", self.spread)
        found = {
            "asked": dict(sum((stub.asked for stub in meant), Counter[str]())),
            "times": [stub.times for stub in meant if stub.times],
        }
        if order.get("forget"):
            for stub in meant:
                stub.asked.clear()
                stub.times.clear()
        return found


async def main() -> None:
    """Be these Archives until there is nothing more to read."""
    town = Town(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    await town.open()
    print(town.port, flush=True)
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        print(json.dumps(await town.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
