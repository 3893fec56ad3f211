"""P-F3: a resolver among Archives that all lie, and an upstream resolver that lies too, over real sockets.

Whatever they say, in however many rounds: each reader gets one answer in HTTP, no status 500 and no fault in a log, is
sent only where something that was said leads, and what was said is never part of a page but as text.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.app.resolver import resolver_service
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.common.resolver_directory import directory
from proofs.fuzz import grammar
from proofs.fuzz.liar import CANARY, ITEMS, Liar, SentTexts
from proofs.fuzz.services import Faults
from proofs.fuzz.wire import SocketlessClient, fault_of

if TYPE_CHECKING:
    from ibi.http.server.service import Service

NAME: Final = "P-F3"
HOLDS: Final = (
    "one answer to each reader, no status 500, no fault in a log, redirects only to what was said, "
    "no page made of lies"
)

_ARCHIVES: Final = 3
_UPSTREAM: Final = 9
_QUESTIONS_EACH: Final = 40  # with one resolver; then it has learned which Archives not to query
_READERS: Final = 8
_SETTINGS: Final[dict[str, Any]] = {
    "request_rate": 1e5,
    "request_burst": 10**6,
    "connect_seconds": 0.2,
    "archive_seconds": 0.2,
    "overall_seconds": 0.6,
    "hedge_seconds": 0.02,
    "grace_seconds": 0.02,
    "stale_after_seconds": 0.1,
}
_ACCEPT: Final = ("text/html", "text/html", "application/json", "text/plain", "application/problem+json")


def prove(scale: Scale, seed: int) -> Report:
    """Let so many readers ask."""
    report = Report(NAME, HOLDS)
    asyncio.run(_prove(report, seed, scale.pick(120, 6_000, 100_000)))
    return report


async def _prove(report: Report, seed: int, questions: int) -> None:
    faults = Faults()
    logging.getLogger().addHandler(faults)
    try:
        for first in range(0, questions, _QUESTIONS_EACH):
            chance = random.Random(f"{seed} {first}")
            await _tell(report, chance, min(_QUESTIONS_EACH, questions - first), faults)
            for heard in faults.taken():
                report.violate(f"seed {seed}, from story {first} on: {heard}")
    finally:
        logging.getLogger().removeHandler(faults)


async def _tell(report: Report, chance: random.Random, questions: int, faults: Faults) -> None:
    """Some questions, with a resolver of their own."""
    texts = SentTexts()
    liars: list[Liar] = []
    port = 0
    for number in (*range(1, _ARCHIVES + 1), _UPSTREAM):
        liar = Liar(number, random.Random(chance.random()), texts, port, redirects=number == _UPSTREAM)
        await liar.open()
        port = liar.port
        liars.append(liar)

    async def names(host: str, _port: int) -> list[tuple[str, int]]:
        number = host.removeprefix("a").partition(".")[0]
        return [(numbered.ip(int(number)), port)]

    with tempfile.TemporaryDirectory(prefix="ibi-fuzz-") as parent:
        upstream = f"http://{numbered.host(_UPSTREAM)}/" if chance.random() < 0.5 else ""
        data = directory(Path(parent) / "resolver", _ARCHIVES, upstream=upstream, **_SETTINGS)
        service = resolver_service(data, host_lookup=names, trusted=[ip_network("127.0.0.0/8")])
        started = asyncio.ensure_future(service.started()) if service.started else None
        readers = [Reader(report, random.Random(chance.random()), service, texts) for _ in range(_READERS)]
        try:
            await asyncio.gather(*(each.ask(questions // _READERS) for each in readers))
        finally:
            if started is not None:
                started.cancel()
                with suppress(asyncio.CancelledError):
                    await started
            if service.close is not None:
                await service.close()
            for liar in liars:
                await liar.close()
                report.count("lies", liar.answers)
    report.demand(not [heard for heard in faults.heard if "never" in heard], "something was left behind")


class Reader:
    """A reader, who asks one question after the other."""

    def __init__(self, report: Report, chance: random.Random, service: Service, texts: SentTexts) -> None:
        self._report = report
        self._chance = chance
        self._client = SocketlessClient(service)
        self._texts = texts

    async def ask(self, questions: int) -> None:
        """Ask so many."""
        for _ in range(questions):
            raw = self._request()
            written, fault = await self._client.say([raw])
            self._report.count("readers")
            self.judge(raw, written, fault)

    def _request(self) -> bytes:
        chance = self._chance
        item = chance.choice(ITEMS)
        match chance.randrange(12):
            case 0 | 1:
                target = f"/-/explain/{item}{grammar.expand('good', chance)}"
            case 2:
                query = grammar.expand("good_request", chance).replace(" ", "+")
                target = f"/{numbered.SERVICE}?{query}"
            case _:
                target = f"/{item}{grammar.expand('good', chance)}"
        lines = (
            f"GET {target} HTTP/1.1",
            f"Host: {numbered.ADDRESS}",
            f"Accept: {chance.choice(_ACCEPT)}",
            f"Accept-Language: {chance.choice(('pt-BR', 'en, pt;q=0.5', '*'))}",
        )
        return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")

    def judge(self, raw: bytes, written: bytes, fault: str) -> None:
        """Report what no reader may be answered."""
        fault = fault or fault_of(written, raw, (b"GET",))
        if not written:
            fault = fault or "no answer"
        head, _, body = written.partition(b"\r\n\r\n")
        self._report.count(f"status {head[9:12].decode('ascii', 'replace')}")
        if b"\r\nHTTP/1.1 " in body:
            fault = fault or "two answers"
        if f"<{CANARY}>".encode() in body and b"text/html" in head:
            fault = fault or "a lie has become part of a page"
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if (
                name.lower() == b"location"
                and head[9:12] == b"302"
                and not self._was_sent(raw, value.decode("latin-1"))
            ):
                fault = fault or f"it leads to {value.decode('latin-1')!r}, which nobody has said"
        if fault:
            self._report.violate(f"{fault}: {raw.partition(chr(13).encode())[0]!r}")

    def _was_sent(self, raw: bytes, location: str) -> bool:
        query = raw.split(b" ")[1].decode("latin-1").partition("?")[2]
        if query == "a=b":  # the item's own query follows it
            bare = location.partition("#")[0]
            location = bare[: -len(query)].rstrip("?&") if bare.endswith(query) else location
        return self._texts.has(location)
