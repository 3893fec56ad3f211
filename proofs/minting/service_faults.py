"""P-M2 over HTTP: the same faults in the service, where a label is out when its bytes reach a client.

Customers on two connections ask `ibi mint serve` for one label and for thirty, in turn and both at once. Three scenes:
its start in a new directory and in a used one, under strace to the first label; and the conversation, in which strace
comes at one round of requests and ends with it. A fault strikes at each call that touches DIR/minting or a
customer's connection, in whichever threads make it; one that sends also gets EAGAIN, as if the client were slow.
Then the service goes on without faults, is started again, and the library mints in the same directory:

- no label comes twice; each was in the state on disk when its bytes came, and none was sent before the sync of it;
- labels whose sending failed are burned: no other client gets them, nor any that is earlier;
- while the service lives, each request is answered: 200 with all its labels, or 503; only where the sending itself
  failed, one answer may be missing or cut off. Nothing ends the service but a kill;
- after a kill no repair is needed; after an error only if LostState was said.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proofs.common.report import Report, Scale
from proofs.common.tracing import can_trace
from proofs.minting.calls import FAULTS, SENDS, Call
from proofs.minting.judge import Judge
from proofs.minting.service_trials import FULL_SOCKET, ROUNDS, FaultPlace, stage

NAME: Final = "P-M2 over HTTP"
HOLDS: Final = "no label twice; none out before it is durable; every request answered; no kill needs a repair"

_SENDS: Final = 4  # of one round; more are all alike
_SHORT: Final = (1, 1, 5)  # trials of each scene


def why_no_conversation() -> str | None:
    """Why no process that runs already can be traced here; None if it can."""
    scope_file = Path("/proc/sys/kernel/yama/ptrace_scope")
    closed = os.geteuid() != 0 and scope_file.exists() and scope_file.read_text().strip() != "0"
    return "a process that runs already may not be traced here" if closed else None


def prove(scale: Scale, seed: int) -> Report:
    """Go through every call of every scene; in the short form, through some of them."""
    report = Report(NAME, HOLDS)
    report.count("faults of the service", 0)
    if not can_trace(report):
        return report
    judge, chance = Judge(report), random.Random(seed)
    conversation = [FaultPlace(number, None) for number in range(len(ROUNDS))]
    if missing := why_no_conversation():
        report.unshown.append(missing)
        conversation = []
    scenes = ([FaultPlace(None, None, used=False)], [FaultPlace(None, None)], conversation)
    for calm, most in zip(scenes, _SHORT, strict=True):
        with stage(report, judge) as trials:
            places = [place for each in calm for place in boundaries(each, trials.run(each))]
            report.count("boundaries of the service", len(places))
            chance.shuffle(places)
            tries = scale.pick(most, len(places), len(places))
            for place in report.until_met("faults of the service", tries, places):
                trials.run(place)
    return report


def boundaries(calm: FaultPlace, calls: Iterable[Call]) -> Iterator[FaultPlace]:
    """Where the same can go wrong: at each call of a run in which nothing was wrong."""
    numbers = Counter[tuple[int, str]]()
    faults: dict[str, None] = {}
    for call in calls:
        numbers[call.thread, call.name] += 1
        number = numbers[call.thread, call.name]
        if call.name in SENDS and number > _SENDS:
            continue
        more = (FULL_SOCKET,) if call.name in SENDS else ()
        for fault in (*FAULTS, *more) if call.may_fail else FAULTS[:1]:
            faults[f"{call.name}:{fault}:when={number}"] = None
    yield from (FaultPlace(calm.round, fault, calm.used) for fault in faults)
