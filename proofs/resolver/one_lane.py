"""A resolver that tells how much its express lane has given: `python -m proofs.resolver.one_lane DATA open|closed`.

It listens at a free port of this machine, prints `ready URL`, and at its end how often the lane gave an answer, how
often it was asked and gave none, and how often it gave once more what was at hand. Closed, it is the same resolver
without a lane.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ibi import assembly
from ibi.serving.workers import serve

if TYPE_CHECKING:
    from ibi.serving import Service
    from ibi.serving.express import Again, Answer, AtOnce, Head

_taken: Counter[str] = Counter()


def _counted(ask: AtOnce) -> AtOnce:
    def counted(target: bytes, head: Head, peer: str) -> Answer | None:
        answer = ask(target, head, peer)
        if answer is None:
            _taken["declined"] += 1
            return None
        _taken["given"] += 1
        status, rest, again = answer
        return status, rest, None if again is None else _counted_again(again)

    return counted


def _counted_again(again: Again) -> Again:
    def counted(head: Head) -> bool:
        given = again(head)
        _taken["again"] += given
        return given

    return counted


def _make() -> list[Service]:
    service = assembly.resolver_service(Path(sys.argv[1]))
    get, head = service.at_once, service.at_once_head
    if sys.argv[2] == "closed" or get is None or head is None:
        return [replace(service, at_once=None, at_once_head=None)]
    return [replace(service, at_once=_counted(get), at_once_head=_counted(head))]


if __name__ == "__main__":
    serve(_make, ["127.0.0.1:0"], lambda urls: print("ready", *urls, flush=True))
    print(_taken["given"], _taken["declined"], _taken["again"], flush=True)
