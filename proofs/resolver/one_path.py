"""A resolver that counts what its fast path gives: `python -m proofs.resolver.one_path DATA open|closed`.

It listens at a free port of this machine, prints `ready URL`, and at its end how often the fast path gave an answer
that it looked up, how often it was asked and gave none, and how often it gave one out of its process' cache. Closed,
it is the same resolver without a fast path.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.app.resolver import resolver_service
from ibi.http.server.workers import serve

if TYPE_CHECKING:
    from ibi.http.server.config import Answer, AtOnce, Repeat
    from ibi.http.server.head import Head
    from ibi.http.server.service import Service

_counts: Counter[str] = Counter()


def _counted(at_once: AtOnce) -> AtOnce:
    def counted(method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
        answer = at_once(method, target, head, peer)
        _counts["declined" if answer is None else "given"] += 1
        return answer

    return counted


def _counted_again(again: Repeat) -> Repeat:
    def counted(target: bytes, head: Head) -> Answer | None:
        answer = again(target, head)
        _counts["again"] += answer is not None
        return answer

    return counted


def _make() -> list[Service]:
    service = resolver_service(Path(sys.argv[1]))
    if sys.argv[2] == "closed" or service.at_once is None or service.repeat is None:
        return [replace(service, at_once=None)]
    return [replace(service, at_once=_counted(service.at_once), repeat=_counted_again(service.repeat))]


if __name__ == "__main__":
    serve(_make, ["127.0.0.1:0"], lambda urls: print("ready", *urls, flush=True))
    print(_counts["given"], _counts["declined"], _counts["again"], flush=True)
