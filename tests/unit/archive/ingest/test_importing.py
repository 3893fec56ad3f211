"""The items of a dry run, which are in a temporary file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ibi.archive.ingest.importing import RunItem, RunItems
from ibi.archive.model.item import Holding
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from support.checks.full_disk import files_of_at_most

_SENTENCE = "the temporary file of the dry run cannot be written"
FORMS = IBIForms.parse("rep A.Example/B/2010/01.01.00.00 ibip LK47B6W/362SFKH")


def _item(name: str, key: str = "") -> RunItem:
    return RunItem(name, Holding(forms=FORMS, key=key, timestamp="2020-01-01T00:00:00Z"), {})


def test_the_latest_item_is_found_by_each_of_its_names_and_by_its_key() -> None:
    items = RunItems()
    names = [FORMS.rep, FORMS.ibip]
    assert None not in names
    for name in ("first", "second"):
        items.put(_item(name, "k"), [each for each in names if each is not None])
        items.put(_item("another"), [])
        for each in names:
            assert each is not None
            found = items.find(each.canonical)
            assert found is not None
            assert (found.name, found.holding.forms, found.earlier) == (name, FORMS, True)
    assert items.find("a.example/b/2011/01.01.00.00") is None
    items.close()


def test_a_disk_that_refuses_the_file_of_a_dry_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, large = RunItems(), _item("a" * 100_000)  # what is short is buffered
    with files_of_at_most(10), pytest.raises(SetupError, match=f"{_SENTENCE}: File too large"):
        items.put(large, [])
    items.close()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(SetupError, match=f"{_SENTENCE}: No such file"):
        RunItems()
