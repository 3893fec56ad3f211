"""A resolver that tells how much its express lane has given: `python -m proofs.resolver.one_lane DATA open|closed`.

It listens at a free port of this machine, prints `ready URL`, and at its end how often the lane was asked and gave an
answer. Closed, it is the same resolver without a lane.
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
    from ibi.serving.express import AtOnce, Head

_taken: Counter[bool] = Counter()


def _counted(ask: AtOnce) -> AtOnce:
    def counted(target: bytes, head: Head, peer: str) -> tuple[int, bytes] | None:
        answer = ask(target, head, peer)
        _taken[answer is not None] += 1
        return answer

    return counted


def _make() -> list[Service]:
    service = assembly.resolver_service(Path(sys.argv[1]))
    get, head = service.at_once, service.at_once_head
    if sys.argv[2] == "closed" or get is None or head is None:
        return [replace(service, at_once=None, at_once_head=None)]
    return [replace(service, at_once=_counted(get), at_once_head=_counted(head))]


if __name__ == "__main__":
    serve(_make, ["127.0.0.1:0"], lambda urls: print("ready", *urls, flush=True))
    print(_taken[True], _taken[False], flush=True)
