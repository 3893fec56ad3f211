"""Readers are led right soon after every kind of change: the proof in its short form, and that it can fail."""

from __future__ import annotations

import pytest

from proofs.common.report import Scale
from proofs.freshness.changes import KINDS
from proofs.freshness.readers import Click, judged
from proofs.freshness.trials import LONGEST, proofs_of_all


@pytest.mark.long
@pytest.mark.timeout(400)
def test_readers_at_both_workers_are_led_right_soon_after_every_kind_of_change() -> None:
    with proofs_of_all() as proofs:
        reports = {kind: proof.prove(Scale.SHORT, 0) for kind, proof in proofs.items()}
    assert reports.keys() == KINDS.keys()
    assert [sentence for report in reports.values() for sentence in report.broken] == []
    for report in reports.values():
        assert report.counts["changes"] == 2
        assert report.counts["translation: worst ms"] < 1000 * LONGEST


def clicks(*led: str) -> list[Click]:
    return [Click("/x", at / 10, at / 10 + 0.05, place) for at, place in enumerate(led)]


def test_a_reader_is_led_right_from_the_first_click_after_which_none_was_led_wrong() -> None:
    assert judged(clicks("old", "old", "new", "new"), 0.0, "new") == pytest.approx(0.2)
    assert judged(clicks("new", "new"), 0.0, "new") == 0.0
    assert judged(clicks("old", "new", "old", "new"), 0.0, "new") == pytest.approx(0.3)
    assert judged(clicks("old", "new", "new"), 0.15, "new") == pytest.approx(0.05)
    assert judged(clicks("new", "old"), 0.0, "new") is None
    assert judged([], 0.0, "new") is None
