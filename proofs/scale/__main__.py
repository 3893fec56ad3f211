"""`python -m proofs.scale`: print what a world of this size asks of the nodes of a resolver."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from proofs.scale import constants
from proofs.scale.constants import NODES, World
from proofs.scale.limits import breaking_points, limits
from proofs.scale.model import cores_for_fan_outs, fan_outs_a_core, load, nodes_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proofs.scale.model import Load

_LINES: tuple[tuple[str, Callable[[Load], str]], ...] = (
    ("clicks a second and node", lambda one: _number(one.clicks)),
    ("of these from the redirect cache", lambda one: f"{one.repeated:.0%}"),
    ("from a cached answer", lambda one: f"{one.cached:.0%}"),
    ("asking an Archive", lambda one: f"{one.queries:.0%}"),
    ("questions for one redirect, without fan-outs", lambda one: f"{one.queries:.2f}"),
    ("questions for one redirect, fan-outs included", lambda one: _number(one.questions)),
    ("fan-outs a second and node: the holder is down", lambda one: _number(one.silent)),
    ("fan-outs a second and node: moved, and the hint was dropped", lambda one: _number(one.lost)),
    ("requests for changes a second and node", lambda one: _number(one.changes)),
    ("cores of a node in use, without fan-outs", lambda one: f"{one.seconds_without_fan_outs:.2f}"),
    (
        "cores of a node that fan-outs would need",
        lambda one: _number(one.seconds - one.seconds_without_fan_outs),
    ),
    ("memory of a node", lambda one: _bytes(one.memory)),
    ("disk of a node", lambda one: _bytes(one.disk)),
)


def pages(world: World) -> Iterator[str]:
    """Yield the lines of both tables."""
    needed = [nodes_needed(world, node) for node in NODES]
    loads = [load(world, node, nodes) for node, nodes in zip(NODES, needed, strict=True)]
    yield (
        f"{world.archives:,} Archives, {world.names:,} names by Zipf's law, {world.clicks:,.0f} clicks a second, "
        f"{world.moved_a_year:.0%} of the items moving a year for {world.years} years, "
        f"{world.down:.0%} of the Archives down; nodes of {NODES[0].cores} cores, "
        f"of which {constants.BUSY:.0%} are used in the mean\n"
    )
    yield f"| | {' | '.join(node.name for node in NODES)} |"
    yield f"|---|{'---:|' * len(NODES)}"
    yield f"| nodes for all but the fan-outs | {' | '.join(str(count) for count in needed)} |"
    for what, value in _LINES:
        yield f"| {what} | {' | '.join(value(one) for one in loads)} |"
    cores = [cores_for_fan_outs(world, one) for one in loads]
    yield f"| cores for the fan-outs of all nodes | {' | '.join(map(str, cores))} |"
    yield f"\nOne core can send {fan_outs_a_core(world):.2f} fan-outs a second.\n"
    yield "| as shipped, the limit of | wanted | allowed | times | exceeded from | beyond it |"
    yield "|---|---:|---:|---:|---:|---|"
    by_name = {limit.what: limit for limit in limits(world, NODES[0], needed[0])}
    for what, archives in breaking_points(world, NODES[0]).items():
        limit = by_name[what]
        size = _bytes if what.startswith("bytes") else _number
        since = f"{float(f'{archives:.1g}'):,.0f} Archives" if archives else "never here"
        yield (
            f"| {what} | {size(limit.wanted)} | {size(limit.allowed)} | {_number(limit.times)} | {since} | "
            f"{limit.beyond} |"
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _bytes(value: float) -> str:
    return f"{value / 1e9:,.1f} GB" if value >= 1e8 else f"{value / 1e6:,.0f} MB"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in pages(World()))
