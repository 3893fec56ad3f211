"""Real hand-overs between two served Archives, with kills and faults at every message (P-D4, second part).

Each trial hands over one item. Chance chooses a connection, a moment of its message, and what happens then: giver,
receiver or both are killed with SIGKILL, at once or some milliseconds later, or the message is lost, doubled or
delayed. An observer asks both Archives all the time, as a resolver does. After the last fault the killed are started
again; the hand-over is taken up by the running giver, or by the command `ibi archive transfer`, and must be at its end
within thirty seconds, with equal bytes on both disks.

What it cannot show: gaps inside one transaction (the database's own business), and power cuts.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.replication.giving import Giver
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.common.served_archive import Served
from proofs.transfer.observer import Observer
from proofs.transfer.wire import Fate, Moment, Plan, Seen, Wire
from support.ports import free_port

NAME = "P-D4 served"
HOLDS = "never two Originals seen; one always resolvable; done within 30 s of the last fault; bytes equal"

LONGEST_SECONDS = 30.0
_CONNECTIONS = 6  # propose, description, two files, complete, and one more
_FILES = {"index.html": b"<p>hello</p>", "data.bin": bytes(range(256)) * 4096}
_LATEST_SECONDS = 0.03  # after the moment, for what happens inside a process
_LONGEST_DELAY = 2.0
_BY_COMMAND = 0.3


@dataclass(frozen=True)
class Fault:
    """What happens at one moment of one message; who is killed, or what becomes of the message."""

    number: int
    moment: Moment
    victims: tuple[str, ...]
    after: float
    fate: Fate
    delay: float


def prove(scale: Scale, seed: int) -> Report:
    """So many trials, in one pair of Archives."""
    report = Report(NAME, HOLDS)
    with tempfile.TemporaryDirectory(prefix="proof-transfer-") as folder:
        field = _Field(Path(folder), report, random.Random(seed))
        try:
            for number in range(scale.pick(2, 40, 300)):
                field.trial(number)
        finally:
            field.close()
    return report


class _Field:
    """Both Archives, the wire between them, and the observer."""

    def __init__(self, folder: Path, report: Report, chance: random.Random) -> None:
        self._report = report
        self._chance = chance
        self.giver = Served("giver", folder / "giver", free_port())
        self.receiver = Served("receiver", folder / "receiver", free_port())
        self._all = {"giver": self.giver, "receiver": self.receiver}
        for archive in self._all.values():
            archive.make()
        self._wire = Wire({name: archive.port for name, archive in self._all.items()})
        token = Tokens(self.receiver.data).make("giver", "2026-01-01T00:00:00Z", (Scope.TRANSFER,))
        roots = {name: f"http://127.0.0.1:{port}" for name, port in self._wire.ports.items()}
        Peer.write_tables(self.giver.data, {"receiver": Peer(address=roots["receiver"], token=token)})
        Peer.write_tables(self.receiver.data, {"giver": Peer(address=roots["giver"], token="")})
        self._last_fault = 0.0
        self._start()
        for archive in self._all.values():
            archive.wait()
        self._observer = Observer(self.giver, self.receiver)

    def close(self) -> None:
        """End everything, and tell what was seen."""
        self._observer.close()
        for archive in self._all.values():
            archive.stop()
        self._wire.close()
        self._report.count("looks", self._observer.looks)
        for sentence in self._observer.broken:
            self._report.violate(sentence)

    def trial(self, number: int) -> None:
        """One hand-over with one or two faults."""
        name = f"giver.example/i{number}/2020/01.01.00.00"
        self.giver.put(name, _FILES)
        self._observer.watch(name)
        self._wire.follow(self._plan([self._fault() for _ in range(self._chance.choice((1, 1, 2)))]))
        self._last_fault = time.monotonic()
        command = self._begin(name)
        done = self._until_done(name)
        if command is not None:
            command.kill()
            command.wait()
        self._report.count("hand-overs")
        self._report.top(
            "longest after the last fault, ms", int(1000 * (time.monotonic() - self._last_fault))
        )
        if not done:
            self._report.violate(f"{name} is not handed over {LONGEST_SECONDS:g} s after the last fault")
            return
        digests = [archive.digests(name) for archive in (self.giver, self.receiver)]
        self._report.demand(digests[0] == digests[1] and digests[0], f"other bytes of {name}")

    def _begin(self, name: str) -> subprocess.Popen[bytes] | None:
        """Offer the item to the running giver, or by the command."""
        if self._chance.random() < _BY_COMMAND:
            self._report.count("by command")
            line = [
                "-m",
                "ibi",
                "archive",
                "transfer",
                "--data",
                str(self.giver.data),
                name,
                "--to",
                "receiver",
            ]
            return subprocess.Popen(
                [sys.executable, *line],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
            )
        with self.giver.directory.item_store() as item_store:
            Giver(item_store, self.giver.data, f"http://127.0.0.1:{self.giver.port}").offer(
                parse_ibi(name), "receiver", "proof"
            )
        return None

    def _until_done(self, name: str) -> bool:
        """Start the killed again, and wait until both sides say that it is done."""
        while time.monotonic() < self._last_fault + LONGEST_SECONDS:
            self._start()
            claims = [archive.claim(name) for archive in (self.receiver, self.giver)]
            if [claim.state if claim else None for claim in claims] == [ItemState.ORIGINAL, ItemState.COPY]:
                with self.giver.directory.item_store() as item_store:
                    if not Giver(item_store, self.giver.data, "").open():
                        return True
            time.sleep(0.05)
        return False

    def _start(self) -> None:
        for archive in self._all.values():
            archive.start()

    def _fault(self) -> Fault:
        chance = self._chance
        victims = chance.choice((("giver",), ("receiver",), ("giver", "receiver"), ()))
        fate = Fate.GO_ON if victims else chance.choice((Fate.LOSE, Fate.DOUBLE, Fate.GO_ON))
        return Fault(
            chance.randrange(_CONNECTIONS),
            chance.choice(list(Moment)),
            victims,
            chance.uniform(0, _LATEST_SECONDS) if chance.random() < 0.5 else 0.0,
            fate,
            chance.uniform(0, _LONGEST_DELAY) if not victims and fate is Fate.GO_ON else 0.0,
        )

    def _plan(self, faults: list[Fault]) -> Plan:
        async def plan(seen: Seen) -> Fate:
            fate = Fate.GO_ON
            for fault in [
                each for each in faults if (each.number, each.moment) == (seen.number, seen.moment)
            ]:
                faults.remove(fault)
                self._report.count(f"faults: {', '.join(fault.victims) or fault.fate.value}")
                await asyncio.sleep(fault.after + fault.delay)
                await asyncio.to_thread(self._kill, fault.victims)
                fate = fault.fate
            return fate

        return plan

    def _kill(self, victims: tuple[str, ...]) -> None:
        for name in victims:
            self._all[name].kill()
        self._last_fault = time.monotonic()
