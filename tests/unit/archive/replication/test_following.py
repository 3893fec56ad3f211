"""When a copy is refreshed once more."""

from __future__ import annotations

from ibi.archive.replication.following import ASK_EVERY, SILENT_SECONDS, TRIES, Retry


def test_a_copy_that_its_original_fails_is_tried_again_at_growing_distances_and_not_for_ever() -> None:
    retry = Retry()
    planned = [(retry.plan(100.0, counts=True), retry.at - 100.0) for _ in range(TRIES)]
    assert planned == [
        (True, ASK_EVERY),
        (True, 4 * ASK_EVERY),
        (True, 16 * ASK_EVERY),
        (False, 64 * ASK_EVERY),
    ]


def test_a_copy_whose_archive_is_silent_is_tried_as_often_as_it_takes() -> None:
    retry = Retry()
    for failures in range(3 * TRIES):
        assert retry.plan(100.0, counts=False)
        assert retry.at - 100.0 == min(ASK_EVERY * 4 ** min(failures, TRIES), SILENT_SECONDS)
    assert (retry.failures, retry.faults) == (TRIES, 0)
