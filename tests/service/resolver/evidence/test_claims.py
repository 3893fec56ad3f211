"""Since when Archives claim an original, by the evidence, and at what cost."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from ibi.identifier.forms import IBIForms
from ibi.resolver.evidence.claims import MOST_ITEMS, READ_EVERY, ClaimTimes
from ibi.resolver.evidence.log import Evidence

if TYPE_CHECKING:
    from pathlib import Path

ITEM, OTHER = "dpi.inpe.br/banon/1998/08.02.08.56", "dpi.inpe.br/banon/1998/08.02.08.57"
FIRST, SECOND, THIRD = (f"a.example/{word}/2020/01.01.00.00" for word in "abc")


def test_each_archive_claims_since_the_first_entry_that_names_it(tmp_path: Path) -> None:
    log = tmp_path / "evidence.jsonl"
    moments = iter(range(1_800_000_000, 1_900_000_000))
    with closing(Evidence(log, lambda: next(moments))) as evidence:
        evidence.write("original", ibi=" ".join(IBIForms.parse(f"rep {ITEM}").words), archive=FIRST)
        evidence.write("original", ibi=f"rep {OTHER}", archive=THIRD)
        evidence.write(
            "alert", kind="suspect-originals", ibi=ITEM, archives=f"{FIRST} {SECOND}", disputed=ITEM
        )
        evidence.write(
            "alert", kind="suspect-originals", ibi=ITEM, archives=f"{SECOND} {FIRST}", disputed=ITEM
        )
    claims = ClaimTimes(log, time.monotonic).of(ITEM)
    assert claims is not None
    assert list(claims) == [FIRST, SECOND]
    assert claims[FIRST] < claims[SECOND]


def test_alerts_of_many_items_cost_one_reading_in_a_while(tmp_path: Path) -> None:
    now = 0.0
    claims = ClaimTimes(tmp_path / "evidence.jsonl", lambda: now)
    assert claims.of(ITEM) is None  # there is no log yet
    (tmp_path / "evidence.jsonl").touch()
    assert claims.of(ITEM) is None
    now += READ_EVERY
    assert claims.of(ITEM) == {}
    (tmp_path / "evidence.jsonl").unlink()
    assert (claims.of(ITEM), claims.of(OTHER)) == ({}, None)
    for number in range(MOST_ITEMS):
        assert claims.of(ITEM) == {}
        now += READ_EVERY
        (tmp_path / "evidence.jsonl").touch()
        claims.of(f"a.example/b/2020/01.01.{number // 60:02}.{number % 60:02}")
    assert claims.of(ITEM) is None  # it was forgotten
