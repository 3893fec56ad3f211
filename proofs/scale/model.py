"""The model: what one resolver of several nodes asks, keeps and needs, in the mean of a second."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from proofs.scale import constants
from proofs.scale.popularity import distinct, hits, zipf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proofs.scale.constants import Node, World
    from proofs.scale.popularity import Group


@dataclass(frozen=True)
class Load:
    """What one of `nodes` nodes does in a second, and needs.

    Shares of its clicks: `repeated` (redirect cache), `cached` (answer cache), `queries`. Fan-outs a second: for names
    whose holder is down (`silent`), and for moved names whose hint was dropped (`lost`). `changes`: requests for
    changes a second. `seconds`: of cores, with fan-outs and without. Memory and disk in bytes.
    """

    nodes: int
    clicks: float
    repeated: float
    cached: float
    queries: float
    silent: float
    lost: float
    changes: float
    questions: float
    seconds: float
    seconds_without_fan_outs: float
    memory: float
    disk: float


def load(world: World, node: Node, nodes: int) -> Load:
    """Return the load of one node, if the balancer gives each of them any click."""
    groups = zipf(world.names)
    clicks = world.clicks / nodes
    repeated = hits(groups, clicks / node.processes, node.redirects / constants.REDIRECT_BYTES, constants.DAY)
    known = hits(groups, clicks, node.answers / constants.ANSWER_BYTES, constants.DAY)
    cached = max(0.0, known - repeated)
    queries = 1 - repeated - cached
    silent = clicks * world.down * queries if node.widens else 0.0
    lost = clicks * queries * world.moved * (1 - hints_kept(world, node, groups))
    changes = world.archives * changes_requests(clicks / world.archives)
    fan_outs = (silent + lost) * world.archives
    seconds = (
        clicks * repeated * constants.REPEATED_CLICK
        + clicks * cached * constants.CACHED_CLICK
        + clicks * queries * constants.QUERY_CLICK
        + changes * constants.CHANGES_QUESTION
    )
    return Load(
        nodes, clicks, repeated, cached, queries, silent, lost, changes,
        questions=queries + fan_outs / clicks,
        seconds=seconds + fan_outs * constants.FAN_OUT_QUESTION,
        seconds_without_fan_outs=seconds,
        memory=node.processes * (constants.PROCESS_BYTES + world.archives * constants.ARCHIVE_BYTES + node.redirects),
        disk=min(node.answers, world.names * constants.ANSWER_BYTES) + hints_on_disk(world, node, groups),
    )  # fmt: skip


def nodes_needed(world: World, node: Node) -> int:
    """Return how many nodes do the work without any fan-out in at most BUSY of their cores."""
    nodes = 1
    while load(world, node, nodes).seconds_without_fan_outs > constants.BUSY * node.cores:
        nodes += 1
    return nodes


def changes_requests(clicks: float) -> float:
    """Return how often a second a node requests the changes of an Archive that gets so many clicks a second.

    The first use after RENEWED_AFTER renews the lease; without any use, the Archive is asked now and then.
    """
    used = 1 / (constants.RENEWED_AFTER + 1 / clicks) if clicks else 0.0
    return max(used, 1 / constants.REQUESTED_EVERY)


def hints_wanted(world: World, groups: Sequence[Group]) -> float:
    """Return how many hints there would be without a limit: of all names asked for in a year, and all moved ones."""
    return max(distinct(groups, world.clicks, 365 * constants.DAY), world.names * world.moved)


def hints_kept(world: World, node: Node, groups: Sequence[Group]) -> float:
    """Return the share of the hints that the file can hold; which ones are dropped does not depend on use."""
    return min(1.0, node.hints / constants.HINT_BYTES / hints_wanted(world, groups))


def hints_on_disk(world: World, node: Node, groups: Sequence[Group]) -> float:
    """Return the bytes of the file of hints."""
    return min(node.hints, hints_wanted(world, groups) * constants.HINT_BYTES)


def fan_outs_a_core(world: World) -> float:
    """Return how many fan-outs to all Archives one core can send in a second."""
    return 1 / (world.archives * constants.FAN_OUT_QUESTION)


def filter_bytes(world: World) -> float:
    """Return the bytes of the holdings filters of all Archives."""
    return world.names * constants.FILTER_BYTES


def cores_for_fan_outs(world: World, one: Load) -> int:
    """Return how many cores all fan-outs of all nodes would need."""
    return ceil((one.silent + one.lost) * one.nodes / fan_outs_a_core(world))
