"""What is there at the end: each acknowledged deposit with its files, byte by byte, once, at each node."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from proofs.nodes.asking import ask
from proofs.nodes.field import RESOLVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proofs.common.report import Report
    from proofs.nodes.asking import Reply
    from proofs.nodes.field import Field, Node
    from proofs.nodes.truth import Acknowledged, Deposited

_FOUND, _OK = 302, 200
_SECONDS: Final = 60.0  # for which something may be refused, after all is ready again
_LED: Final = 40  # deposits that are looked for by the resolver, too


def look(report: Report, field: Field, acknowledged: Acknowledged, since: int) -> None:
    """Look for all deposits from number `since` on; report what is lost, changed or doubled."""
    deposits, end = acknowledged.deposits[since:], time.monotonic() + _SECONDS
    nodes = field.of("archive")
    with ThreadPoolExecutor(4) as threads:
        turns = [(made, nodes[number % len(nodes)]) for number, made in enumerate(deposits)]
        for faults in threads.map(lambda turn: _faults(turn[0], turn[1], end), turns):
            for fault in faults:
                report.violate(fault)
    report.count("deposits looked for", len(deposits))
    _look_into_the_catalogue(report, field, acknowledged)
    _look_at_the_resolver(report, field, deposits[-_LED:], end)


def _faults(made: Deposited, node: Node, end: float) -> list[str]:
    found = []
    for file, content in made.files.items():
        for each in filter(None, (made.rep, made.ibip)):
            reply = _answer(("127.0.0.1", node.port), f"/col/{each}/doc/{quote(file)}", end)
            if reply.status != _OK:
                found.append(f"an acknowledged deposit is lost at {node}: {each}/{file}: {reply}")
            elif reply.body != content:
                found.append(f"an acknowledged deposit has other bytes at {node}: {each}/{file}")
            if len(content) > 1 << 20:
                break
    return found


def _answer(
    address: tuple[str, int], target: str, end: float, headers: Mapping[str, str] | None = None
) -> Reply:
    """The answer; until `end` it may be refused, because something was killed a moment ago."""
    while True:
        reply = ask(address, target, headers=headers)
        if not reply.refused or time.monotonic() > end:
            return reply
        time.sleep(0.5)


def _look_into_the_catalogue(report: Report, field: Field, acknowledged: Acknowledged) -> None:
    """Compare the items of the database with what was deposited."""
    rows = field.postgresql.execute(
        "SELECT key FROM item WHERE key IS NOT NULL AND key <> ''", field.archive_database()
    )
    keys = [str(key) for (key,) in rows]
    report.demand(len(keys) == len(set(keys)), "a deposit is there twice")
    lost = {each.key for each in acknowledged.deposits} - set(keys)
    report.demand(not lost, f"acknowledged, and not in the catalogue: {sorted(lost)[:3]}")
    unknown = set(keys) - acknowledged.begun
    report.demand(not unknown, f"was not deposited: {sorted(unknown)[:3]}")


def _look_at_the_resolver(report: Report, field: Field, deposits: Sequence[Deposited], end: float) -> None:
    for made in deposits:
        reply = _answer(field.at(RESOLVER), f"/{made.rep}", end)
        report.demand(reply.status == _FOUND, f"the resolver does not lead to {made.rep}: {reply}")
    headers = {"Authorization": f"Bearer {field.resolver_token}"}
    for node in field.of("resolver"):
        reply = _answer(("127.0.0.1", node.port), "/-/api/log/verify", end, headers)
        whole = reply.status == _OK and json.loads(reply.body)["whole"]
        report.demand(whole, f"the evidence is not whole at {node}: {reply}")
