"""P-L1: single entries are changed, removed, added or put elsewhere, by hands that know the rules and others.

Each must show at once, and still after the next entries are written: the log does not grow over its wounds. An
untouched log must never be suspected. Who writes all later entries anew is told by the head; who writes the head anew
too, only by an anchor that was kept elsewhere: that is counted, and the anchor must tell.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.resolver.evidence.chain import Anchor
from proofs.common.report import Report, Scale
from proofs.evidence.logs import SERVICES, Log, chained, checked_entries, head_line

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "P-L1"
HOLDS = "every single change shows at once and for good; an untouched log is never suspected"

_ENTRIES = 40
_EACH = 50  # trials on one log


def prove(scale: Scale, seed: int) -> Report:
    """Tamper with many logs, once each."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    trials = scale.pick(96, 1_000, 10_000)
    with tempfile.TemporaryDirectory(prefix="proof-evidence-") as folder:
        for first in range(0, trials, _EACH):
            log = Log(Path(folder) / str(first))
            log.fill(chance, _ENTRIES)
            whole = log.read()
            report.demand(
                len(checked_entries(whole[0])) == _ENTRIES, "the log has other entries than were written"
            )
            report.demand(not log.fault, f"an untouched log is suspected: {log.fault}")
            for trial in range(first, min(trials, first + _EACH)):
                _single(report, log, whole, chance, list(HOWS)[trial % len(HOWS)])
                if trial % 10 == 0:
                    _all(report, log, whole, chance)
    return report


def _single(report: Report, log: Log, whole: tuple[bytes, bytes], chance: random.Random, how: str) -> None:
    """One change to one entry, then more entries."""
    content, head = whole
    changed = HOWS[how](content.splitlines(keepends=True), chance)
    log.put(changed, head)
    report.count("tampered with")
    found = log.fault
    report.count("found", bool(found))
    report.demand(found, f"not found: {how}")
    log.evidence.write("unregistered", ibi=SERVICES[0])
    report.demand(log.fault, f"the next entry hides it: {how}")
    now = log.path.read_bytes()
    report.demand(now.startswith(changed), f"the next entry changes what was there: {how}")
    report.demand(b'"unregistered"' in now[len(changed) :], f"the next entry is not written: {how}")
    log.put(content, head)
    report.demand(not log.fault, f"a log that is whole again is suspected: {how}")


def _all(report: Report, log: Log, whole: tuple[bytes, bytes], chance: random.Random) -> None:
    """An entry is changed and everything after it written anew, and then the head too."""
    lines = [json.loads(line) for line in whole[0].splitlines()]
    anchor = log.evidence.head()
    place = chance.randrange(len(lines))
    _other(lines[place], chance)
    content, before = b"", "0" * 64
    for entry in lines:
        line, before = chained(entry, before)
        content += line
    report.count("written anew to the end")
    log.put(content, whole[1])
    report.demand(log.fault, "everything written anew, and the head does not tell")
    log.put(content, head_line(len(lines), before, len(content)))
    report.count("and the head too, told only by an anchor", not log.fault)
    for _ in range(2):
        found = log.evidence.verify(anchor).fault
        report.demand(found is not None, "everything written anew, and the anchor does not tell")
        log.evidence.write("unregistered", ibi=SERVICES[0])
    log.put(*whole)
    report.demand(log.evidence.verify(Anchor.parse(str(anchor))).fault is None, "a good anchor is refused")


def _other(entry: dict[str, Any], chance: random.Random) -> None:
    """Change one member of an entry, so that it says something else."""
    name = chance.choice([*entry["facts"], "moment", "what"])
    members = entry["facts"] if name in entry["facts"] else entry
    members[name] = f"{members[name]}{chance.choice('0aX')}"


# ---- what may be done to lines


def _bit(lines: list[bytes], chance: random.Random) -> bytes:
    content = bytearray(b"".join(lines)[:-1])  # a last line end is put back
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content) + b"\n"


def _byte_less(lines: list[bytes], chance: random.Random) -> bytes:
    content = bytearray(b"".join(lines))
    del content[chance.randrange(len(content) - 1)]
    return bytes(content)


def _changed(lines: list[bytes], chance: random.Random) -> bytes:
    """A fact is another one, and the hash is as it was."""
    place = chance.randrange(len(lines))
    entry = json.loads(lines[place])
    own = entry["hash"]
    _other(entry, chance)
    line = chained(entry)[0].rpartition(b',"hash"')[0] + b',"hash":"%b"}\n' % own.encode()
    return b"".join([*lines[:place], line, *lines[place + 1 :]])


def _resealed(lines: list[bytes], chance: random.Random) -> bytes:
    """A fact is another one, and the hash fits."""
    place = chance.randrange(len(lines))
    entry = json.loads(lines[place])
    _other(entry, chance)
    return b"".join([*lines[:place], chained(entry)[0], *lines[place + 1 :]])


def _removed(lines: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(lines))
    return b"".join([*lines[:place], *lines[place + 1 :]])


def _last_removed(lines: list[bytes], chance: random.Random) -> bytes:
    return b"".join(lines[: -chance.choice((1, 1, 2, 10, len(lines)))])


def _cut(lines: list[bytes], chance: random.Random) -> bytes:
    """The end is missing, from somewhere within a line."""
    content = b"".join(lines)
    return content[: chance.randrange(1, len(content) - 1)].rstrip(b"\n")


def _exchanged(lines: list[bytes], chance: random.Random) -> bytes:
    one, two = chance.sample(range(len(lines)), 2)
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def _moved(lines: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(lines) - 1)
    line = lines.pop(place)
    lines.insert(chance.choice([each for each in range(len(lines) + 1) if each != place]), line)
    return b"".join(lines)


def _repeated(lines: list[bytes], chance: random.Random) -> bytes:
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def _added(lines: list[bytes], chance: random.Random) -> bytes:
    """An entry that was never written, chained after the one before it."""
    place = chance.randrange(1, len(lines))
    entry = json.loads(lines[place])
    _other(entry, chance)
    return b"".join([*lines[:place], chained(entry)[0], *lines[place:]])


def _replaced_end(lines: list[bytes], chance: random.Random) -> bytes:
    """The last entry is another one, chained after the one before it, and as long as before."""
    entry = json.loads(lines[-1])
    entry["moment"] = f"2025-{chance.randrange(1, 13):02}-11T10:00:00.000Z"
    return b"".join([*lines[:-1], chained(entry)[0]])


HOWS: dict[str, Callable[[list[bytes], random.Random], bytes]] = {
    "a bit turned": _bit,
    "a byte less": _byte_less,
    "changed": _changed,
    "changed, with a hash that fits": _resealed,
    "removed": _removed,
    "the last ones removed": _last_removed,
    "cut within a line": _cut,
    "two exchanged": _exchanged,
    "put elsewhere": _moved,
    "repeated": _repeated,
    "added": _added,
    "the last one replaced": _replaced_end,
}
