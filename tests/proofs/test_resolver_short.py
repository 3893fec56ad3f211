"""The proofs of the resolver's processes in their short forms."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Scale
from proofs.resolver import restart

pytestmark = pytest.mark.alone

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_no_question_fails_while_resolvers_come_and_go() -> None:
    report = restart.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["restarts"] == 2
    assert report.counts["questions"] >= 2_000
    assert report.counts["failed"] == 0
    assert report.counts["last answers on a connection"] >= 12
