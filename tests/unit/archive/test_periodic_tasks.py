"""The periodic tasks of an Archive that are made here: how often, on which nodes, and how long they may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibi.archive.membership.holdings_filter import HoldingsFilterFile
from ibi.archive.replication.copying import SLOWEST_SECONDS
from ibi.archive.replication.refreshing import refresh_task
from ibi.archive.service.metrics import TASKS
from ibi.runtime.tasks import DoneBy, PeriodicTask


def facts(task: PeriodicTask) -> tuple[str, float, DoneBy, float]:
    assert task.name in TASKS
    return task.name, task.every, task.done_by, task.longest


def test_the_holdings_filter_is_looked_at_by_each_node(tmp_path: Path) -> None:
    catalogue: Any = None
    task = HoldingsFilterFile(catalogue, tmp_path).task()
    assert facts(task) == ("holdings filter", 600.0, DoneBy.EACH_NODE, PeriodicTask("", 1, task.do).longest)


def test_one_node_refreshes_copies_and_may_take_two_days_for_one() -> None:
    copier: Any = None
    task = refresh_task(copier, 24, lambda: 0.0)
    assert facts(task) == ("refresh", 60.0, DoneBy.ONE_NODE, 2 * SLOWEST_SECONDS)
    assert SLOWEST_SECONDS == 86_400
