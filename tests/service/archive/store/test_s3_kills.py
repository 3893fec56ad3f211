"""Depositors who are killed at each call to the S3 store: what was acknowledged is there, and nothing is half."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibi.archive.store.s3_files import UNLISTED_SECONDS, S3Files
from ibi.identifier.forms import parse_ibi
from support.archive.preservation_fixture import ArchiveFolder, make_archive
from support.engines.killed_depositor import EDITED, FIRST, KILLED, LEFT
from support.engines.seaweedfs import BUCKET, SeaweedFS

MOST_CALLS = 80


@contextmanager
def depositors(data: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "support.engines.killed_depositor", str(data)]
    tests = Path(__file__).parents[3]  # where the module is found
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tests
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def content_of(kept: ArchiveFolder, name: str) -> dict[str, bytes] | None:
    with kept.catalogue() as catalogue:
        held = catalogue.holding(parse_ibi(name))
    if held is None:
        return None
    found = {}
    for file in held.files:
        with kept.file_store.open(held.forms, file) as opened:
            found[file.name] = opened.read()
            assert hashlib.sha256(found[file.name]).hexdigest() == file.sha256
    return found


def allowed(acknowledged: list[str]) -> list[dict[str, bytes] | None]:
    """What an item may be: as acknowledged last, or as the change after it left it."""
    states = [None, FIRST, EDITED, LEFT]
    return states[len(acknowledged) : len(acknowledged) + 2]


@pytest.mark.long
def test_a_depositor_killed_at_any_call_loses_nothing_and_leaves_nothing(
    seaweedfs: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in seaweedfs.environment().items():
        monkeypatch.setenv(variable, value)
    prefix = f"kills-{time.time_ns()}"
    kept = make_archive(tmp_path / "archive", files=f"s3://{BUCKET}/{prefix}")
    killed, names = 0, list[str]()
    with depositors(kept.data) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for when in ("before", "after"):
            for number in range(1, MOST_CALLS, 1 if when == "before" else 3):
                names.append(f"a.example/{when}/2010/01.01.{number // 60:02}.{number % 60:02}")
                process.stdin.write(f"{number} {when} {names[-1]}\n")
                process.stdin.flush()
                acknowledged, status = json.loads(process.stdout.readline())
                found = content_of(kept, names[-1])
                assert found in allowed(acknowledged), (number, when, acknowledged, found and found.keys())
                if status != KILLED:
                    assert (status, found) == (0, LEFT)
                    break
                killed += 1
    assert killed > 25
    # The next one at work finishes what was begun.
    store = kept.file_store
    assert isinstance(store, S3Files)
    with kept.item_store() as item_store, item_store.unit_of_work("tester"):
        pass
    with kept.catalogue() as catalogue:
        store.place_files(catalogue)
        assert (catalogue.staged_files(), catalogue.paths_to_remove()) == ([], [])
        store.remove_old_unlisted(catalogue, time.time() + UNLISTED_SECONDS + 60)
        listed = set()
        for held in catalogue.all():
            listed |= {f"col/{held.forms.main.canonical}/doc/{file.sha256}" for file in held.files}
    keys = {key for key in seaweedfs.keys(prefix) if "item.json" not in key}
    assert keys == {*listed, "ibi-archive.json"}
    for name in names:
        found = content_of(kept, name)
        assert found is None or found in (FIRST, EDITED, LEFT)
