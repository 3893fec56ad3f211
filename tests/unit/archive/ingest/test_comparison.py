"""What a held item takes over from a record that describes it again."""

from __future__ import annotations

import pytest

from ibi.archive.ingest.comparison import updated
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import CONTENT_KEY, Draft
from ibi.identifier.forms import IBIForms, parse_ibi

OLD, NEW = f"{CONTENT_KEY}old", f"{CONTENT_KEY}new"
FORMS = IBIForms.of(parse_ibi("archive.example/first/2026/09.14.16.40"))


@pytest.mark.parametrize(
    ("held", "described", "kept"),
    [
        ("", "", ""), ("", OLD, OLD), ("", "own", "own"),
        (OLD, "", OLD), (OLD, NEW, NEW), (OLD, "own", "own"),
        ("own", "", "own"), ("own", NEW, "own"), ("own", "other", "other"),
    ],
)  # fmt: skip
def test_a_key_of_a_depositor_gives_way_to_another_one_only(held: str, described: str, kept: str) -> None:
    holding = Holding(forms=FORMS, timestamp="2026-01-01T00:00:00Z", key=held)
    assert updated(holding, Draft(None, described, None, {}, {})).key == kept
