"""Logs to be tampered with, and a judge of lines that shares no code with the program on trial."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.resolver.evidence.chain import NewEntry
from ibi.resolver.evidence.files import EvidenceFiles
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence

if TYPE_CHECKING:
    import random

SERVICES = ("J8LNKB5R7W/3FUQHC5", "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "QABCDSTQQW/35MMLL8")
ITEM = "rep dpi.inpe.br/banon-pc@80/2008/04.28.18.07"
MOMENT = 1_790_000_000.0


class Log:
    """The two files of one log, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / EVIDENCE_FILE
        self.head = EvidenceFiles(self.path).head_path
        self.evidence = Evidence(self.path, lambda: MOMENT)

    def fill(self, chance: random.Random, count: int) -> None:
        """Write so many entries of all kinds."""
        notes = []
        for _ in range(count):
            service, other = chance.sample(SERVICES, 2)
            whats: list[tuple[str, dict[str, str | int]]] = [
                (
                    "included",
                    {"ibi": service, "address": "archive.example", "confirmed": chance.randrange(2)},
                ),
                ("excluded", {"ibi": service}),
                ("original", {"ibi": f"{ITEM}.{chance.randrange(60):02}", "archive": service}),
                ("migrated", {"ibi": ITEM, "from": service, "to": other}),
                ("alert", {"kind": "suspect-originals", "ibi": ITEM, "archives": f"{service} {other}"}),
            ]
            what, facts = chance.choice(whats)
            notes.append(NewEntry("2026-11-22T10:00:00.000Z", what, facts))
        EvidenceFiles(self.path).append(notes)

    def read(self) -> tuple[bytes, bytes]:
        """What the two files hold."""
        return self.path.read_bytes(), self.head.read_bytes()

    def put(self, content: bytes, head: bytes) -> None:
        """Let them hold this."""
        self.path.write_bytes(content)
        self.head.write_bytes(head)

    @property
    def fault(self) -> str:
        """What the program finds wrong; "" if nothing."""
        found = self.evidence.verify().fault
        return "" if found is None else str(found)


def checked_entries(content: bytes) -> list[dict[str, Any]]:
    """The entries of a log. Raises ValueError or KeyError unless all of them hang together, by the written rules."""
    entries, before = [], "0" * 64
    for number, line in enumerate(content.decode("ascii").splitlines(), 1):
        entry = json.loads(line)
        own = hashlib.sha256(line.partition(',"hash"')[0].encode()).hexdigest()
        if (entry["number"], entry["previous"], entry["hash"]) != (number, before, own):
            problem = f"entry {number} does not hang together"
            raise ValueError(problem)
        entries.append(entry)
        before = own
    return entries


def chained(entry: dict[str, Any], before: str | None = None) -> tuple[bytes, str]:
    """The line of an entry with a hash that fits, as an attacker who knows the rules would write it; and the hash."""
    members = {name: value for name, value in entry.items() if name != "hash"}
    members |= {} if before is None else {"previous": before}
    body = json.dumps(members, separators=(",", ":"))[:-1]
    own = hashlib.sha256(body.encode()).hexdigest()
    return f'{body},"hash":"{own}"}}\n'.encode(), own


def head_line(number: int, own: str, size: int) -> bytes:
    """A head that fits, as an attacker who knows the rules would write it."""
    content: dict[str, Any] = {"number": number, "hash": own, "size": size}
    content["check"] = zlib.crc32(json.dumps(content).encode())
    return json.dumps(content, separators=(",", ":")).encode().ljust(159) + b"\n"
