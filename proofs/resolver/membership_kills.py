"""P-D1: the resolver is killed while Archives switch themselves on and off, and keeps every word that it gave.

Twenty Archives each ask for inclusion or exclusion without a pause, and tell with each inclusion a number of their own.
Then all processes of the resolver are killed. In the registry, and for the readers of the next resolver, each Archive
must be as it was last told, or as its last request, which was not answered, would have it: wholly the one or the other.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ibi.app.resolver import open_registry
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from proofs.common import numbered
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.common.resolver_directory import directory
from proofs.resolver.asking import NO_ANSWER, Reader, explain
from proofs.resolver.world import Town
from support.ports import free_port

NAME: Final = "P-D1"

CLIENTS: Final = 20
WORKERS: Final = 2

_TIMEOUT: Final = 30.0
_MOST_LOOKS: Final = 1_000  # until a kill, however few words were given
_PAUSE: Final = 0.05  # seconds before the next request after a refusal
_OK: Final = 200
_OFF: Final = 0
"""Stands for the number of an Archive that is switched off."""


def prove(scale: Scale, seed: int) -> Report:
    """Kill it again and again."""
    report = Report(NAME, "no change of membership that was acknowledged is lost, and none is half visible")
    with tempfile.TemporaryDirectory() as parent:
        folder = directory(Path(parent) / "resolver", CLIENTS, included=False)
        asyncio.run(_prove(report, folder, random.Random(seed), scale.pick(5, 40, 200)))
    return report


async def _prove(report: Report, folder: Path, chance: random.Random, kills: int) -> None:
    town = await Town.open(0, CLIENTS, 0, 0.001)
    members = [_Member(number, town.port, chance) for number in range(1, CLIENTS + 1)]
    port = free_port()
    for _ in range(kills):
        resolver = await _start(folder, port)
        await _demand_same(report, folder, port, members)
        switching = [asyncio.create_task(member.switch(port)) for member in members]
        await _some_time(members, chance)
        os.killpg(resolver.pid, signal.SIGKILL)
        await asyncio.gather(*switching)
        await resolver.wait()
        report.count("kills")
    resolver = await _start(folder, port)
    await _demand_same(report, folder, port, members)
    resolver.send_signal(signal.SIGTERM)
    report.demand(await resolver.wait() == 0, "the last resolver did not end in order")
    await town.close()
    report.count("acknowledged", sum(member.acknowledged for member in members))
    report.count("unanswered", sum(member.unanswered for member in members))
    report.count("refused", sum(member.refused for member in members))
    evidence = Evidence(folder / EVIDENCE_FILE, time.time)
    verdict = evidence.verify()
    evidence.close()
    report.demand(verdict.fault is None, f"the evidence is broken: {verdict.fault}")
    report.count("entries of evidence", verdict.entries)
    for line in (folder / "log").read_text(encoding="utf-8").splitlines():
        report.demand(not any(fault in line for fault in (" ERROR ", "Traceback")), f"it wrote: {line[:300]}")


async def _some_time(members: list[_Member], chance: random.Random) -> None:
    """Until some words were given, and a little longer; it does not wait for ever."""
    wanted = sum(member.acknowledged for member in members) + chance.randint(1, 2 * CLIENTS)
    for _ in range(_MOST_LOOKS):
        if sum(member.acknowledged for member in members) >= wanted:
            break
        await asyncio.sleep(0.005)
    await asyncio.sleep(chance.uniform(0, 0.05))


@dataclass
class _Member:
    """One Archive. `possible`: the numbers that its entry may have: 0 where it is switched off."""

    number: int
    town: int
    chance: random.Random
    possible: set[int] = field(default_factory=lambda: {_OFF})
    last: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    refused: int = 0

    async def switch(self, port: int) -> None:
        """Ask for one change after the other, until there is no answer."""
        reader = Reader(port, numbered.ip(self.number))
        while True:
            self.last += 1
            wanted = self.last if self.chance.random() < 0.6 else _OFF
            answer = await reader.ask(f"{numbered.SERVICE}?{self._query(wanted)}")
            if answer.status == _OK:
                self.possible = {wanted}
                self.acknowledged += 1
            elif answer.status == NO_ANSWER:
                self.possible |= {wanted}
                self.unanswered += 1
                break
            else:
                self.possible |= {wanted}
                self.refused += 1
                await asyncio.sleep(_PAUSE)
        reader.close()

    def _query(self, wanted: int) -> str:
        kind = ExclusionRequest if wanted == _OFF else InclusionRequest
        version, mail = str(wanted or 1), f"n{wanted}@archive.example"
        address = f"{numbered.ip(self.number)}:{self.town}"
        ibi = parse_ibi(numbered.service(self.number))
        return kind(address, ibi, numbered.ip(self.number), version, mail, numbered.KEY).query()


async def _demand_same(report: Report, folder: Path, port: int, members: list[_Member]) -> None:
    """Demand that each Archive is as it was confirmed; what was open is decided from now on."""
    trace = await explain(port, numbered.unknown(members[0].chance))
    queried = set(trace["rounds"][0]["asked"]) if trace.get("rounds") else set()
    registry = open_registry(folder)
    for member in members:
        service = numbered.service(member.number)
        entry = registry.entry(parse_ibi(service))
        found = entry.included if entry is not None else None
        number = int(found.platform_version) if found is not None else _OFF
        report.count("looks")
        report.demand(
            number in member.possible,
            f"{service} is {number or 'off'}, not {' or '.join(str(each) for each in member.possible)}",
        )
        whole = found is None or (found.admin_mail == f"n{number}@archive.example" and found.confirmed)
        report.demand(whole, f"{service} is half changed: {found}")
        report.demand(
            (service in queried) == bool(number), f"{service} is {number}, and readers see another thing"
        )
        member.possible = {number}
    registry.close()


async def _start(folder: Path, port: int) -> asyncio.subprocess.Process:
    """A resolver with all its processes in a group of their own."""
    words = f"resolver serve --data {folder} --bind 127.0.0.1:{port} --workers {WORKERS}"
    words += " --trusted-proxy 127.0.0.1"
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ibi", *words.split()),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment(),
            start_new_session=True,
        )
    line = await asyncio.wait_for(process.stdout.readline(), _TIMEOUT) if process.stdout else b""
    if not line.startswith(b"ready "):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise RuntimeError(f"the resolver did not start: {(folder / 'log').read_text()}")
    return process
