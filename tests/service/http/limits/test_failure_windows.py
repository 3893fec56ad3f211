"""The throttle, with a clock of its own and several processes."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import ibi.resolver
from ibi.errors import SetupError
from ibi.http.limits.window import MOST_NAMES, FailureLimit, Failures, FailureWindows
from ibi.resolver.members.shared_failures import SharedFailures
from ibi.runtime.shared.store import store_of
from support.concurrency.threads import waits_for
from support.engines.shared_store import data, on_both_stores
from support.resolver.clock import Clock

__all__ = ["data"]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TWO = FailureLimit("two", 2, 60.0)
ONE = FailureLimit("one", 1, 60.0)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both stores, unless it looks at the file itself, or fails 20,000 times."""
    on_both_stores(metafunc, but="FailureWindows" in str(inspect.signature(metafunc.function)))


@pytest.fixture
def throttle(data: Path, clock: Clock) -> Iterator[Failures]:
    store = store_of(data)
    throttle: Failures = (
        FailureWindows(data / "attempts", clock) if store is None else SharedFailures(store, clock)
    )
    yield throttle
    throttle.close()


def test_failures_are_forgotten_after_a_minute_and_not_before(throttle: Failures, clock: Clock) -> None:
    throttle.record_failure(TWO, "a")
    clock.now += 10.0
    throttle.record_failure(TWO, "a")
    assert throttle.wait(TWO, "a") == 50.0
    clock.now += 49.9
    assert throttle.wait(TWO, "a") > 0
    clock.now += 0.1
    assert throttle.wait(TWO, "a") == 0.0
    throttle.record_failure(TWO, "a")
    assert throttle.wait(TWO, "a") == 10.0


def test_attempts_under_way_count_until_they_have_ended(throttle: Failures, clock: Clock) -> None:
    assert throttle.wait(TWO, "a", 1) == 0.0
    assert throttle.wait(TWO, "a", 2) == 1.0
    throttle.record_failure(TWO, "a")
    clock.now += 10.0
    assert throttle.wait(TWO, "a", 1) == 50.0
    assert throttle.wait(TWO, "a", 2) == 1.0
    throttle.record_failure(TWO, "a")
    assert throttle.wait(TWO, "a") == 50.0
    assert throttle.wait(TWO, "a", 1) == 60.0


def test_names_and_kinds_are_counted_apart(throttle: Failures) -> None:
    throttle.record_failure(ONE, "a")
    assert throttle.wait(ONE, "a") > 0
    assert throttle.wait(ONE, "b") == 0.0
    assert throttle.wait(FailureLimit("other", 1, 60.0), "a") == 0.0


def test_a_clock_that_is_set_back_locks_no_client_out(throttle: Failures, clock: Clock) -> None:
    throttle.record_failure(ONE, "a")
    clock.now -= 500.0
    assert throttle.wait(ONE, "a") == 0.0


def test_what_another_process_counts_counts_here_too(throttle: FailureWindows, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ibi.http.limits.window import FailureLimit, FailureWindows\n"
        "throttle = FailureWindows(Path(sys.argv[1]), lambda: 1000.0)\n"
        "[throttle.record_failure(FailureLimit('two', 2, 60.0), 'a') for _ in range(2)]\n"
    )
    source = str(next(iter(ibi.resolver.__path__)).removesuffix("/ibi/resolver"))
    command = [sys.executable, "-c", program, str(tmp_path / "attempts")]
    subprocess.run(command, check=True, env={"PYTHONPATH": source})
    assert throttle.wait(TWO, "a") == 60.0


def test_its_memory_has_an_end(throttle: FailureWindows, clock: Clock) -> None:
    for number in range(MOST_NAMES + 5):
        clock.now += 0.001
        throttle.record_failure(ONE, str(number))
    assert sum(throttle.wait(ONE, str(number)) > 0 for number in range(MOST_NAMES + 5)) <= MOST_NAMES
    assert throttle.wait(ONE, str(MOST_NAMES + 4)) > 0
    assert throttle.wait(ONE, "0") == 0.0


def test_a_path_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be used"):
        FailureWindows(tmp_path / "file", clock)


def test_a_file_that_was_cut_off_is_put_aside_and_ends_no_process(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "attempts"
    for _ in range(2):  # of the files that were put aside, the last one stays
        first = FailureWindows(path, clock)
        first.record_failure(ONE, "a")
        first.close()
        size = (path / "data.mdb").stat().st_size
        os.truncate(path / "data.mdb", size - 1)
        again = FailureWindows(path, clock)
        assert again.wait(ONE, "a") == 0.0
        again.record_failure(ONE, "a")
        assert again.wait(ONE, "a") == 60.0
        again.close()
        assert (tmp_path / "attempts.damaged" / "data.mdb").stat().st_size == size - 1
    why = "moved to attempts.damaged, and failures are counted from zero"
    assert caplog.messages == [f"{path} is damaged (the file is too short): {why}"] * 2


def test_of_several_that_open_it_one_at_a_time_may_move_what_is_damaged(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "attempts"
    path.mkdir()
    (path / "data.mdb").write_bytes(b"no database" * 1000)
    throttle = waits_for(tmp_path / "attempts.door", lambda: FailureWindows(path, clock))
    assert (tmp_path / "attempts.damaged" / "data.mdb").exists()
    throttle.record_failure(ONE, "a")
    assert throttle.wait(ONE, "a") == 60.0
    throttle.close()


def test_the_file_is_for_its_owner_and_where_it_fails_no_name_is_locked_out(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    throttle = FailureWindows(tmp_path / "attempts", clock)
    throttle.record_failure(ONE, "a")
    assert throttle.wait(ONE, "a") == 60.0
    modes = [oct((tmp_path / "attempts" / each).stat().st_mode)[-3:] for each in (".", "data.mdb")]
    assert modes == ["700", "600"]
    throttle.close()  # from now on each transaction fails
    assert throttle.wait(ONE, "a") == 0.0
    throttle.record_failure(ONE, "a")
    reason = "Attempt to operate on closed/deleted/dropped object."
    assert caplog.messages == [f"a failed attempt was not counted: {reason}"]
