"""The description of the JSON interface as a served Archive gives it, word for word."""

from __future__ import annotations

import json
from pathlib import Path

import ibi
from support.archive.running_archive import running_archive

RECORDED = Path(__file__).parents[3] / "surface" / "golden" / "openapi-archive.json"


def test_a_served_archive_describes_its_interface_as_it_is_recorded(tmp_path: Path) -> None:
    with running_archive(tmp_path / "archive") as program:
        described = program.get("/-/api/openapi.json").content()
    assert described["info"].pop("version") == ibi.__version__
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    del recorded["info"]["version"]
    assert described == recorded
