"""What breaks first: each limit of the program or of a node, beside what this world asks of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ibi.resolver.cache import answers, filters, hints, lease_table
from ibi.resolver.registry.published_list import MOST_LISTED
from ibi.resolver.resolve.policy import MOST_LIKELY
from proofs.scale import constants
from proofs.scale.model import fan_outs_a_core, filter_bytes, hints_wanted, load, nodes_needed
from proofs.scale.popularity import distinct, zipf

if TYPE_CHECKING:
    from proofs.scale.constants import Node, World

_FALSE_YES = 0.01  # of a holdings filter


class ScaleLimit(NamedTuple):
    """A limit: what it is about, how much is wanted and allowed (in the same unit), and what happens beyond it."""

    what: str
    wanted: float
    allowed: float
    beyond: str

    @property
    def times(self) -> float:
        """How many times too small it is; below 1: it holds."""
        return self.wanted / self.allowed


def limits(world: World, node: Node, nodes: int) -> list[ScaleLimit]:
    """Return the limits that matter."""
    groups = zipf(world.names)
    one = load(world, node, nodes)
    a_day = distinct(groups, one.clicks, constants.DAY)
    fan_outs = nodes * node.cores * (1 - constants.BUSY) * fan_outs_a_core(world)
    return [
        ScaleLimit(
            "fan-outs a second, of all nodes, in the cores that are left",
            (one.silent + one.lost) * nodes, fan_outs,
            "the fair queue refuses rounds (503): readers of moved names whose hint was dropped, and of names "
            "that do not exist, wait behind those whose Archive is down",
        ),
        ScaleLimit(
            "filters that wrongly say yes to a name", world.archives * _FALSE_YES, MOST_LIKELY,
            "filters decide nothing",
        ),
        ScaleLimit(
            "bytes of all holdings filters", filter_bytes(world), filters.MOST_BYTES,
            "the filters of later Archives are not used",
        ),
        ScaleLimit(
            "bytes of hints", hints_wanted(world, groups) * constants.HINT_BYTES, hints.MOST_BYTES,
            "some are dropped; a moved name whose hint was dropped costs a fan-out",
        ),
        ScaleLimit(
            "bytes of the answers of a day", a_day * constants.ANSWER_BYTES, answers.MOST_BYTES,
            "more clicks ask an Archive",
        ),
        ScaleLimit(
            "bytes of the redirects of a day, in each process",
            distinct(groups, one.clicks / node.processes, constants.DAY) * constants.REDIRECT_BYTES,
            constants.AS_SHIPPED.redirects,
            "more clicks take the ordinary path",
        ),
        ScaleLimit(
            "Archives in a published list", world.archives, MOST_LISTED,
            "another resolver cannot mirror the list",
        ),
        ScaleLimit(
            "leases of Archives", world.archives, lease_table.MOST_SLOTS,
            "answers of further Archives live for `max-age`",
        ),
    ]  # fmt: skip


def breaking_points(world: World, node: Node) -> dict[str, int]:
    """Return from how many Archives each limit is exceeded, the first one first; 0: it holds in this world.

    Names and clicks grow with the Archives. Numbers are rounded to steps of a fifth.
    """
    points: dict[str, int] = {}
    archives = 10.0
    while archives <= world.archives:
        share = archives / world.archives
        smaller = replace(
            world, archives=int(archives), names=int(world.names * share), clicks=world.clicks * share
        )
        for limit in limits(smaller, node, nodes_needed(smaller, node)):
            if limit.times > 1:
                points.setdefault(limit.what, smaller.archives)
        archives *= 10**0.1
    return points | {limit.what: 0 for limit in limits(world, node, 1) if limit.what not in points}
