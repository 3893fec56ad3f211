"""The Archives of these proofs, all in one process: `python -m proofs.resolver.stubs SEED ARCHIVES ITEMS LATENCY`.

Each listens at an address of its own, all at one port, which is printed. Then each line that is read is a JSON object,
which is carried out and answered by one line. Each Archive behaves in one of these ways:

    honest       answers within some milliseconds; it holds what `Holdings` says
    reusable     the same, and its answers may be used again for a second
    dead         it does not listen
    hung         it listens and says nothing
    lying        another one of `lies` each time
    endless ...  a body, a head, something compressed or the longest of lists: as much as the other side takes
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import uvloop

from ibi.protocol import vocabulary as words
from ibi.protocol.pair_list import write_pairs
from proofs.common import lies, numbered
from proofs.resolver.endless import ENDLESS
from support.http_answers import answer
from support.scripted_archive import CONFIRMATION, NOTICE, Behaviour, ScriptedServer

if TYPE_CHECKING:
    from ibi.protocol.pair_list import PairList
    from support.scripted_archive import Reply

SPREAD: Final = 0.5
"""The sigma of the lognormal latency."""

_REUSABLE: Final = "Cache-Control: max-age=1"


class Stub(ScriptedServer):
    """One Archive: how it behaves, and what was requested. `times` are the moments of questions to a hung one."""

    def __init__(self, number: int, town: Town) -> None:
        super().__init__(self._reply, numbered.ip(number), town.port)
        self.number = number
        self.town = town
        self.manner = "honest"
        self.requests: Counter[str] = Counter()
        self.times: list[float] = []
        self.lie_count = 0

    def _reply(self, raw: bytes) -> Reply:
        if numbered.CANARY.encode() in raw.lower():
            self.requests["canaries"] += 1
        pairs = dict(parse_qsl(raw.split(b" ", 2)[1].decode("latin-1").partition("?")[2]))
        subject = pairs.get(words.SERVICE_SUBJECT, "")
        self.requests[subject] += 1
        if subject == "urlRequest":
            return self._reply_to_question(pairs[words.PARSED_IBI].lower(), pairs.get(words.PARSED_VERBS, ""))
        if self.manner == "hung":
            return None
        return answer(NOTICE if subject == "acknowledgment" else CONFIRMATION)

    def _reply_to_question(self, item: str, verbs: str) -> Reply:
        if self.manner == "hung":
            self.times.append(time.monotonic())
            return None
        if self.manner in ENDLESS:
            return Behaviour(pieces=ENDLESS[self.manner](self.pairs(item)))
        if self.manner == "lying":
            return Behaviour(pieces=(self._lie(item),), closes=True)
        claimed = numbered.number_of(item, numbered.CLAIMED)
        if claimed is not None:
            return self._reply_about_claimed(item, claimed)
        body = write_pairs(self.pairs(item)) if self._holds(item) else self._chain(item, verbs)
        more = (_REUSABLE,) if self.manner == "reusable" and body else ()
        delay = self.town.chance.lognormvariate(0, self.town.spread) * self.town.latency
        return Behaviour(body, after=delay, headers=more)

    def _reply_about_claimed(self, item: str, number: int) -> Reply:
        """At any moment up to `latency`, which is near the deadline here."""
        state = numbered.claims(self.town.seed, self.town.archives, number).get(self.number)
        if state == "silent":
            return None
        body = write_pairs(self.pairs(item) | {words.STATE: state}) if state else b""
        return Behaviour(body, after=self.town.chance.uniform(0, self.town.latency))

    def _holds(self, item: str) -> bool:
        number = numbered.number_of(item)
        return number is not None and number < self.town.items and self.number in self.town.holders(number)

    def _chain(self, item: str, verbs: str) -> bytes:
        """Of an endless chain of editions, the first Archive knows each one, and the next."""
        number = numbered.number_of(item, numbered.CHAIN)
        if number is None or self.number != 1 or not verbs:
            return b""
        following = numbered.item(number + 1, numbered.CHAIN)
        pairs = {name: value for name, value in self.pairs(item).items() if name not in {"url", "urlkey"}}
        return write_pairs(pairs | {words.NEXT_EDITION: ("rep", following)})

    def pairs(self, item: str) -> PairList:
        """What it says of an item that it holds."""
        number = numbered.number_of(item)
        first = number is not None and self.town.holders(number)[:1] == (self.number,)
        reusable: PairList = {words.ACKNOWLEDGMENT_BATCH: "yes"} if self.manner == "reusable" else {}
        return reusable | {
            words.ARCHIVE_ADDRESS: numbered.host(self.number),
            words.IBI: ("rep", item),
            words.ARCHIVE_SERVICE: ("rep", numbered.service(self.number)),
            words.STATE: "Original" if first else "Copy",
            words.URL: numbered.url(self.number, item),
            words.URL_KEY: "1234567890-1234567890",
        }

    def _lie(self, item: str) -> bytes:
        """The next lie."""
        pairs = self.pairs(item) | {words.URL: f"http://{lies.EVIL}/x"}
        lists = lies.lists(self.pairs(item), numbered.host(self.number))
        self.lie_count += 1
        chosen = (self.lie_count + 7 * self.number) % (len(lies.TRANSPORTS) + len(lists))
        if chosen < len(lies.TRANSPORTS):
            return lies.TRANSPORTS[chosen](write_pairs(pairs))
        return answer(lists[chosen - len(lies.TRANSPORTS)])

    async def behave(self, manner: str) -> None:
        """Take another manner; who was connected is hung up on."""
        self.manner = manner
        self.drop_all()
        if manner == "dead":
            self.stop_listening()
        elif not self.listening:
            await self.open()


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
        self.holders = numbered.Holdings(self.seed, self.archives).of

    async def open(self) -> None:
        """Let them all listen."""
        for number in range(1, self.archives + 1):
            stub = Stub(number, self)
            await stub.open()
            self.port = stub.port
            self.stubs.append(stub)

    async def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out what the driver wants."""
        meant = [self.stubs[number - 1] for number in order.get("who", range(1, self.archives + 1))]
        if "behave" in order:
            for stub in meant:
                await stub.behave(order["behave"])
        if "without" in order:
            self.holders = numbered.Holdings(self.seed, self.archives, frozenset(order["without"])).of
        self.latency = order.get("latency", self.latency)
        self.spread = order.get("spread", self.spread)
        found = {
            "asked": dict(sum((stub.requests for stub in meant), Counter[str]())),
            "times": [stub.times for stub in meant if stub.times],
        }
        if order.get("forget"):
            for stub in meant:
                stub.requests.clear()
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
