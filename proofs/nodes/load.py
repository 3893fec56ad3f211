"""Readers, depositors and an editor who ask all the while, by the balancer; every answer is judged when it comes."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.client.form import Form
from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from proofs.nodes.asking import Reply, ask
from proofs.nodes.field import ARCHIVE, ARCHIVE_SERVICE, RESOLVER
from proofs.nodes.truth import LEASE, Acknowledged, Deposited, Kills, Links, files_of, name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from proofs.common.report import Report
    from proofs.nodes.field import Field

LINKED: Final = 40
_BALANCER: Final = b"No node is ready."  # what the sample has it say
_FOUND, _OK, _CREATED = 302, 200, 201
_CLIENTS: Final = {"click": 3, "message": 2, "file": 2, "deposit": 4, "edit": 1}
_PAUSE: Final = {"click": 0.04, "message": 0.06, "file": 0.06, "deposit": 0.1, "edit": 0.3}
_IN_A_ROW: Final = 12  # readers of a node after whom each of its processes has answered
_LONGEST_PAUSE: Final = 1.0  # seconds; clients ask again sooner than they are told
_SECONDS: Final = 90.0  # until all is as before, on a machine that is busy with all of this


class Load:
    """The clients, what they know, and what they have seen. `seed`: that of all chance."""

    def __init__(self, field: Field, seed: int) -> None:
        self._field = field
        self._seed = seed
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._report: Report | None = None
        self._numbers = Counter[str]()
        self._failed = Counter[int]()
        self.done = Counter[str]()
        self.links = Links(LINKED)
        self.acknowledged = Acknowledged()
        self.kills = Kills()
        self.outages: list[list[float]] = []
        field.put(
            *({"rep": name(number), "url": self.links.versions[number][0].place} for number in range(LINKED))
        )
        self._until_led()

    def _until_led(self) -> None:
        """Wait until each process of each resolver node has heard of the Archive. Raises TimeoutError."""
        end = time.monotonic() + _SECONDS
        for node in self._field.of("resolver"):
            led = 0
            while led < _IN_A_ROW:
                reply = ask(("127.0.0.1", node.port), f"/{name(0)}")
                led = led + 1 if reply.status == _FOUND else 0
                if time.monotonic() > end:
                    raise TimeoutError(f"{node} leads no reader: {reply}")
                time.sleep(0.05)

    @contextmanager
    def running(self, report: Report) -> Iterator[None]:
        """Have all clients ask until the end of the block; what is broken is reported."""
        self._report = report
        self._over.clear()
        for what in (
            "clicks",
            "messages",
            "files",
            "deposits",
            "edits",
            "refused",
            "refused by the balancer",
            "failed in flight",
        ):
            report.count(what, 0)
        acts = {each: getattr(self, f"_{each}") for each in _CLIENTS}
        threads = [
            threading.Thread(target=self._work, args=(kind, number, acts[kind]), daemon=True)
            for kind, count in _CLIENTS.items()
            for number in range(count)
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._over.set()
            for each in threads:
                each.join()

    def until_settled(self) -> float:
        """Wait until requests of every kind that began from now on are answered; how many seconds it took."""
        begun, kinds = time.monotonic(), list(_CLIENTS)
        with self._lock:
            before = self.done.copy()
        # One that is answered at once may have begun before.
        while kinds:
            kinds = [kind for kind in kinds if self.done[kind] < before[kind] + _CLIENTS[kind] + 1]
            if time.monotonic() - begun > _SECONDS:
                self._violate(f"not answered again within {_SECONDS:g} s: {', '.join(kinds)}")
                break
            time.sleep(0.05)
        return time.monotonic() - begun

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The stores are away, so resolvers may not hear of changes."""
        span = [time.monotonic(), float("inf")]
        self.outages.append(span)
        try:
            yield
        finally:
            span[1] = time.monotonic()

    # -- clients -----------------------------------------------------------------------------------------------

    def _work(self, kind: str, number: int, act: Callable[[random.Random], bool]) -> None:
        chance = random.Random(f"{self._seed} {kind} {number} {time.monotonic()}")
        while not self._over.is_set():
            try:
                if act(chance):
                    with self._lock:
                        self.done[kind] += 1
            except Exception as error:  # noqa: BLE001 - a client that ends would see nothing more
                self._violate(f"{kind}: {error!r}")
            time.sleep(_PAUSE[kind])

    def _ask(
        self,
        chance: random.Random,
        service: str,
        target: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask as a client at some address, so that all nodes are asked by the way."""
        source = f"127.{chance.randrange(1, 255)}.{chance.randrange(255)}.1"
        return ask(self._field.at(service), target, method=method, body=body, headers=headers, source=source)

    def _click(self, chance: random.Random) -> bool:
        number = chance.randrange(LINKED)
        reply = self._ask(chance, RESOLVER, f"/{name(number)}")
        self._count("clicks")
        if reply.status != _FOUND:
            return self._no_answer("a click", reply, ("resolver",))
        age = LEASE + sum(max(0.0, min(reply.begun, end) - begun) for begun, end in list(self.outages))
        self._demand(
            reply.location in self.links.allowed(number, reply, age), f"a reader was led wrong: {reply}"
        )
        if reply.location not in self.links.allowed(number, reply):
            self._count("clicks led by an older answer")
        return True

    def _message(self, chance: random.Random) -> bool:
        number = chance.randrange(LINKED)
        query = UrlRequest(("127.0.0.1",), parse_ibi(name(number))).query()
        reply = self._ask(chance, ARCHIVE, f"/{ARCHIVE_SERVICE}?{query}")
        self._count("messages")
        if reply.status != _OK:
            return self._no_answer("a message", reply, ("archive",))
        try:
            led = UrlList.read(reply.body).entry().url
        except ParseError:
            led = ""
        allowed = self.links.allowed(number, reply)
        self._demand(led in allowed, f"an Archive answered {led} in place of {allowed}: {reply}")
        return True

    def _file(self, chance: random.Random) -> bool:
        deposits = self.acknowledged.deposits
        if not deposits:
            return False
        made = deposits[-1] if chance.random() < 0.5 else chance.choice(deposits)
        file, content = chance.choice(list(made.files.items()))
        reply = self._ask(chance, ARCHIVE, f"/col/{made.rep}/doc/{quote(file)}")
        self._count("files")
        if reply.status != _OK:
            return self._no_answer(f"a file of {made.rep}", reply, ("archive", "s3"))
        self._demand(reply.body == content, f"{made.rep}/{file} has other bytes: {len(reply.body)}")
        return True

    def _deposit(self, chance: random.Random) -> bool:
        with self._lock:
            self._numbers["deposit"] += 1
            key = f"{self._seed}-{self._numbers['deposit']}"
        form = Form(json.dumps({"key": key, "metadata": {"title": [key]}}).encode(), files_of(key))
        headers = {"Content-Type": form.content_type, "Authorization": f"Bearer {self._field.token}"}
        body = b"".join(form)
        self.acknowledged.begin(key)
        while not self._over.is_set():
            reply = self._ask(chance, ARCHIVE, "/-/api/items", method="POST", body=body, headers=headers)
            self._count("deposits sent")
            if reply.status in {_OK, _CREATED}:
                self._write_down(key, reply)
                return True
            self._no_answer("a deposit", reply, ("archive",))
            self._pause(reply)
        return False

    def _write_down(self, key: str, reply: Reply) -> None:
        item = json.loads(reply.body)
        self._demand(item["key"] == key, f"{key} was acknowledged with another key: {reply}")
        made = Deposited(key, item.get("rep", ""), item.get("ibip", ""))
        other = self.acknowledged.write_down(made)
        self._count("deposits")
        self._demand(other is None, f"a label came twice: {made} and {other}")

    def _edit(self, chance: random.Random) -> bool:
        number = chance.randrange(LINKED)
        place = self.links.begin(number, time.monotonic())
        body = json.dumps({"url": place}).encode()
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self._field.token}",
            "If-Match": "*",
        }
        while True:
            reply = self._ask(
                chance, ARCHIVE, f"/-/api/items/{name(number)}", method="PATCH", body=body, headers=headers
            )
            if reply.status == _OK:
                self.links.acknowledge(number, reply.ended)
                self._count("edits")
                return True
            self._no_answer("an edit", reply, ("archive",))
            if self._over.is_set():
                return False
            self._pause(reply)

    def _pause(self, reply: Reply) -> None:
        time.sleep(min(_LONGEST_PAUSE, float(reply.headers.get("retry-after", "0.2"))))

    # -- judging -----------------------------------------------------------------------------------------------

    def _no_answer(self, what: str, reply: Reply, services: tuple[str, ...]) -> bool:
        """Judge an answer that is none: a refusal with a time, or a request in flight at a node that was killed."""
        if reply.refused:
            self._count("refused by the balancer" if _BALANCER in reply.body else "refused")
            return False
        kill = self.kills.excuse(services, reply) if reply.failed else None
        if kill is None:
            self._violate(f"{what} was answered {reply}")
            return False
        self._count("failed in flight")
        with self._lock:
            self._failed[kill] += 1
            many = self._failed[kill] > sum(_CLIENTS.values())
        self._demand(not many, f"more requests failed than were in flight: {what}: {reply}")
        return False

    def _count(self, what: str) -> None:
        with self._lock:
            assert self._report is not None  # noqa: S101 - clients work while there is one
            self._report.count(what)

    def _demand(self, truth: object, sentence: str) -> None:
        if not truth:
            self._violate(sentence)

    def _violate(self, sentence: str) -> None:
        with self._lock:
            assert self._report is not None  # noqa: S101 - clients work while there is one
            self._report.violate(sentence)
