"""The rules of leases at their edge, and the steps in which a reply is applied."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibi.protocol.extensions.changes import ChangesReply
from ibi.resolver.cache.lease import LEASE_SECONDS, NEVER, Moment, apply_reply, lease_age, may_keep

BEGAN = Moment(1000.0, 5000.0)


@pytest.mark.parametrize(
    ("boot", "real", "age"),
    [
        (0.0, 0.0, 0.0),
        (10.0, 20.0, 20.0),
        (20.0, 10.0, 20.0),
        (59.9, 0.0, 59.9),
        (60.0, 0.0, 60.0),
        (0.0, 60.0, 60.0),
        (99.0, 1.0, 60.0),
        (-0.1, 1.0, 60.0),
        (1.0, -0.1, 60.0),
    ],
)
def test_a_lease_runs_a_minute_by_both_clocks(boot: float, real: float, age: float) -> None:
    assert lease_age(BEGAN, Moment(BEGAN.boot + boot, BEGAN.real + real)) == pytest.approx(age)
    assert lease_age(NEVER, BEGAN) == LEASE_SECONDS


def test_the_shared_table_begins_with_leases_that_never_began() -> None:
    assert NEVER == (0.0, 0.0)  # shared memory is zero at first, and is compared with this


@pytest.mark.parametrize(
    ("as_of", "applying", "kept"),
    [("p", False, True), ("p", True, False), ("o", False, False), ("", False, False)],
)
def test_an_answer_is_kept_as_of_the_position_that_is_applied(as_of: str, applying: bool, kept: bool) -> None:
    assert may_keep(as_of, "p", applying=applying) is kept


class Store:
    """Notes what is done to it, in order."""

    def __init__(self, position: str, *, applying: bool) -> None:
        self.steps: list[str] = []
        self._position, self._applying = position, applying

    def position(self) -> str:
        return self._position

    def is_applying(self) -> bool:
        return self._applying

    def forget(self, names: Sequence[str] | None) -> None:
        self.steps.append(f"forget {names}")

    def change_versions(self, names: Sequence[str] | None) -> None:
        self.steps.append(f"change {names}")

    def move_to(self, position: str) -> None:
        self.steps.append(f"move {position}")

    def renew(self, sent: Moment) -> None:
        self.steps.append(f"renew {sent.boot:g}")


ALL = ["forget ('a',)", "change ('a',)", "move q"]


@pytest.mark.parametrize(
    ("position", "applying", "more", "steps"),
    [
        ("p", False, False, [*ALL, "renew 1000"]),
        ("p", False, True, ALL),
        ("q", False, False, ["renew 1000"]),
        ("q", True, False, [*ALL, "renew 1000"]),
        ("q", False, True, []),
    ],
)
def test_a_reply_is_applied_in_the_order_that_leads_no_reader_wrong(
    position: str, applying: bool, more: bool, steps: list[str]
) -> None:
    store = Store(position, applying=applying)
    seen = [len(store.steps) for _ in apply_reply(ChangesReply("w", "q", ("a",), more), BEGAN, store)]
    assert store.steps == steps
    assert seen == [*range(1, len(steps) + 1)]  # other processes may go on after each step
