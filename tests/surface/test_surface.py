"""What strangers see is as it was: everything that tests/surface/golden holds is found again.

The walk is long, so it is made once for all processes of a run. What was meant to change is written down anew by
`python tests/surface/regenerate.py`; the review of the change reads in `git diff` what users will notice.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
from typing import Any

import pytest

from surface.commands import leaves
from surface.record import GOLDEN, recorded, written

HELD = sorted(path.stem for path in GOLDEN.glob("*.json"))
pytestmark = pytest.mark.timeout(300)  # the processes wait for the one that walks


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a network shows now; made by the first process that needs it, and read by the others."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    result = shared / "surface.json"
    with (shared / "surface.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(recorded(tmp_path_factory.mktemp("surface"))), encoding="utf-8")
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", HELD)
def test_a_surface_is_as_it_was(name: str, seen: dict[str, Any]) -> None:
    held = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    now = written(seen.get(name, {}))
    changed = "\n".join(
        difflib.unified_diff(held.splitlines(), now.splitlines(), "held", "now", lineterm="", n=6)
    )
    if changed:
        pytest.fail(f"if this is meant: python tests/surface/regenerate.py\n{changed}", pytrace=False)


def test_every_surface_that_is_looked_at_is_held(seen: dict[str, Any]) -> None:
    assert sorted(seen) == HELD


def test_what_every_command_prints_for_programs_is_held() -> None:
    """A new command with --json needs an example in `record.py`."""
    held = json.loads((GOLDEN / "json.json").read_text(encoding="utf-8"))
    telling = {name for name, parser in leaves().items() if "--json" in parser._option_string_actions}
    examples = {name for name in telling if any(f"{title} ".startswith(f"{name} ") for title in held)}
    assert telling - examples == set()


def _paths(column: int) -> set[str]:
    """What docs/reference/http.md says is there over HTTP, up to what differs: 1 at a resolver, 2 at an Archive."""
    text = (
        (GOLDEN.parents[2] / "docs/reference/http.md")
        .read_text(encoding="utf-8")
        .partition("\n## Over HTTP\n")[2]
    )
    table = text.partition("\n| path |")[2].partition("\n\n")[0]
    rows = [re.split(r" *[|] *", row.strip()[1:-1]) for row in table.splitlines()[2:]]
    found = {name for row in rows if row[column].strip() for name in re.findall(r"`([^`]+)`", row[0])}
    assert found
    return {re.split("[<…?]", path)[0] for path in found}


@pytest.mark.parametrize(("column", "program"), [(1, "resolver"), (2, "first")])
def test_every_page_of_the_reference_is_asked(column: int, program: str) -> None:
    titles = [
        title for path in GOLDEN.glob("http-*.json") for title in json.loads(path.read_text(encoding="utf-8"))
    ]
    requested = [title for title in titles if title.startswith(f"{program}: ")]
    elsewhere = {"/-/static/", "/-/api/openapi.json"}  # in golden files of their own
    lacking = {
        path for path in _paths(column) - elsewhere if not any(f" {path}" in title for title in requested)
    }
    assert lacking == set()
