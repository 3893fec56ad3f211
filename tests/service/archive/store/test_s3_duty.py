"""What an Archive with files in an S3 store does now and then, and what it finds out before it serves."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from pathlib import Path

import pytest

from ibi.archive.store.s3_check import check_place
from ibi.archive.store.s3_duty import EVERY, object_task
from ibi.archive.store.s3_files import UNLISTED_SECONDS, S3Files
from ibi.errors import SetupError
from ibi.runtime.tasks import PeriodicTask
from support.archive.archive_fixture import settings_for
from support.archive.preservation_fixture import NAME, make_archive
from support.engines.seaweedfs import BUCKET, SeaweedFS
from support.ports import free_port

SIX_HOURS = 6 * 3600


async def portion(task: PeriodicTask) -> None:
    """Do what is due of a task."""
    await task.do()


@pytest.fixture
def place(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of its own in the store, which programs of this test find by their environment."""
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(6)}"


def test_waiting_files_are_placed_each_time_and_unlisted_objects_removed_every_six_hours(
    seaweedfs: SeaweedFS, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = make_archive(tmp_path / "archive", files=place)
    caplog.set_level(logging.INFO, "ibi.archive.store.s3_duty")
    began = time.time() + UNLISTED_SECONDS + 60

    def staged() -> int:
        return len(seaweedfs.keys(f"{place.removeprefix(f's3://{BUCKET}/')}/staging"))

    def leave() -> None:
        with kept.item_store() as item_store:
            item_store.file_store.stage_stream("left.txt").finish()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Files, "place_files", lambda *_: None)  # as if killed before it
        kept.put(NAME, {"a.txt": b"one"})
    leave()
    assert staged() == 2
    with kept.catalogue() as catalogue:
        now = [began]
        task = object_task(catalogue, kept.file_store, lambda: now[0])
        assert (task.name, task.every) == ("objects", EVERY)
        left = []
        for now[0] in (
            began,
            began + SIX_HOURS - 1,
            began + SIX_HOURS,
            began + SIX_HOURS + 1,
            began + 2 * SIX_HOURS,
        ):
            asyncio.run(portion(task))
            left.append(staged())
            leave()
    assert left == [0, 1, 0, 1, 0]
    assert kept.held().files[0].staged == ""
    logged = [each.getMessage() for each in caplog.records if each.name == "ibi.archive.store.s3_duty"]
    assert logged == [f"{count} objects that no item lists were removed" for count in (1, 2, 2)]


def test_a_place_is_checked_by_a_process_of_its_own(place: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "archive", files=place)
    right = settings_for("archive.example", files=place)
    assert check_place(right) is None
    other = settings_for("archive.example", files=f"s3://{BUCKET}/{secrets.token_hex(6)}")
    with pytest.raises(
        SetupError, match=r"is not prepared for this Archive: its object ibi-archive\.json is missing"
    ):
        check_place(other)


def test_a_store_that_does_not_answer_is_told_and_waited_for(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    silent = check_place(settings_for("archive.example", files=place))
    assert str(silent).startswith(f"the store of the files, {place} at http://127.0.0.1:")
    assert "cannot be used now: " in str(silent)
