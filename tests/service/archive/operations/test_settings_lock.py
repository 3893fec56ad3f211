"""No change of the settings is lost: each act that writes them has the lock of the data directory before it reads."""

from __future__ import annotations

import pytest

from support.archive.three_ways import BY_NAME, Given, Ways
from support.concurrency.threads import waits_for

ACTS: list[tuple[str, Given]] = [
    ("set", {"page_rate": "7"}),
    ("peer", {"name": "b", "address": "http://b.example/"}),
    ("forget-peer", {"name": "b"}),
    ("join", {"resolver": "http://127.0.0.1:8099"}),
    ("switch", {"switched_on": "no"}),
    ("leave", {"resolver": "http://127.0.0.1:8099"}),
]


@pytest.mark.parametrize(("name", "given"), ACTS, ids=[name for name, _ in ACTS])
def test_an_act_waits_for_what_is_changing_the_settings(ways: Ways, name: str, given: Given) -> None:
    assert waits_for(ways.data, lambda: ways.by_json(BY_NAME[name], given)).refusal == ""
