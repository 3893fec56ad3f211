"""What a resolver counts: summed over real processes, none of it lost, and shown to those inside alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ibi.resolver.alerts import Kind
from ibi.resolver.metrics import FOLDER, REDIRECT, Metrics
from ibi.resolver.tallies import Tallies
from ibi.resolver.visitor import Visitor

PROGRAM = """
import sys
from pathlib import Path
from ibi.resolver.metrics import Metrics

metrics = Metrics(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    metrics.begun()
    metrics.resolved("redirect", 0.02, 0.0)
metrics.begun()
print("counted", flush=True)
sys.stdin.read()
"""


class Resolving:
    """A process that resolves so often, and has one more resolution under way until it is killed."""

    def __init__(self, data: Path, times: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "counted\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=20)


class Thanks:
    def __init__(self) -> None:
        self.delivered = self.queued = 0
        self.dropped: Counter[str] = Counter()


def told(metrics: Metrics) -> dict[str, float]:
    """The numbers by name, as a program reads them."""
    lines = metrics.text().decode("ascii").splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    assert len({name for name, _, _ in pairs}) == len(pairs)
    return {name.removeprefix("ibi_resolver_"): float(value) for name, _, value in pairs}


def visitor(peer: str, **headers: str) -> Visitor:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "method": "GET",
        "raw_path": b"/-/metrics",
        "query_string": b"",
        "headers": named,
        "client": (peer, 1),
    }
    return Visitor.of(scope)


def test_numbers_are_summed_over_processes_and_outlive_them_but_what_is_in_hand_does_not(
    tmp_path: Path,
) -> None:
    here = Metrics(tmp_path)
    here.begun()
    here.resolved(REDIRECT, 0.02, 0.0)
    others = [Resolving(tmp_path, 10), Resolving(tmp_path, 100)]
    try:
        seen = told(here)
        assert (seen['resolutions_total{outcome="redirect"}'], seen["in_flight"], seen["workers"]) == (
            111,
            2,
            3,
        )
    finally:
        for other in others:
            other.kill()
    seen = told(here)
    assert (seen['resolutions_total{outcome="redirect"}'], seen["in_flight"], seen["workers"]) == (111, 0, 1)
    assert seen["resolution_seconds_count"] == 111
    assert seen["resolution_seconds_sum"] == pytest.approx(111 * 0.02)
    assert seen['resolution_seconds_bucket{le="0.01"}'] == 0
    assert (
        seen['resolution_seconds_bucket{le="0.025"}'] == seen['resolution_seconds_bucket{le="+Inf"}'] == 111
    )


def test_whoever_comes_takes_the_file_of_one_who_has_gone_and_counts_on(tmp_path: Path) -> None:
    for count in (1, 2, 3):
        metrics = Metrics(tmp_path)
        metrics.begun()
        metrics.resolved(Kind.NOT_FOUND, 1.0, 0.0)
        assert told(metrics)['resolutions_total{outcome="not-found"}'] == count
        metrics.begun()
        metrics.close()
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["0"]
    assert told(Metrics(tmp_path))["in_flight"] == 0


def test_numbers_of_another_version_are_begun_anew(tmp_path: Path) -> None:
    tallies = Tallies(tmp_path / FOLDER, ["a", "b"])
    tallies.values[1] += 1
    other = Tallies(tmp_path / FOLDER, ["a", "b", "c"])
    assert (other.totals().sums, len(other.totals().running)) == ([0.0] * 3, 1)
    tallies.close()
    other.close()
    last = Tallies(tmp_path / FOLDER, ["c", "a"])
    assert last.totals().sums == [0.0, 0.0]


@pytest.mark.parametrize("content", [b"", b"x", bytes(10_000)])
def test_strange_files_in_the_folder_are_no_numbers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "0").write_bytes(content)
    (tmp_path / FOLDER / "note").write_bytes(content)
    metrics = Metrics(tmp_path)
    metrics.round()
    assert told(metrics)["rounds_total"] == 1


def test_where_no_file_can_be_had_a_process_counts_for_itself_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).touch()
    metrics = Metrics(tmp_path)
    metrics.round()
    assert (told(metrics)["rounds_total"], told(metrics)["workers"]) == (1, 1)
    assert len(caplog.records) == 1


def test_everything_that_is_counted_is_told_by_its_kind(tmp_path: Path) -> None:
    thanks = Thanks()
    metrics = Metrics(tmp_path)
    metrics.follow(thanks, lambda: 7, lambda: 2)
    metrics.asked("answered", 0.2)
    metrics.asked("asleep")
    metrics.asked("a new kind of answer")
    metrics.hint("right")
    metrics.remembered("stale")
    thanks.delivered, thanks.queued, thanks.dropped = 3, 1, Counter({"closing": 2, "a new reason": 1})
    for _ in range(2):  # what was told before is not counted again
        seen = told(metrics)
        assert seen['questions_total{result="answered"}'] == seen['questions_total{result="other"}'] == 1
        assert seen["question_seconds_count"] == 1
        assert (seen['hints_total{result="right"}'], seen['remembered_total{answer="stale"}']) == (1, 1)
        assert (seen["archives_included"], seen["archives_asleep"]) == (7, 2)
        assert (seen["thanks_delivered_total"], seen["thanks_queued"]) == (3, 1)
        assert seen['thanks_dropped_total{reason="closing"}'] == 2
        assert seen['thanks_dropped_total{reason="other"}'] == 1
    thanks.delivered, thanks.queued = 4, 0
    metrics.leave(thanks)
    thanks.delivered = 100
    assert told(metrics)["thanks_delivered_total"] == 4
    for kind in Kind:
        metrics.begun()
        metrics.resolved(kind, 0.0, 0.0)
        assert told(metrics)[f'resolutions_total{{outcome="{kind}"}}'] == 1
    assert told(metrics)['resolutions_total{outcome="other"}'] == 0


def test_gauges_that_every_process_knows_whole_are_not_added_up(tmp_path: Path) -> None:
    many = [Metrics(tmp_path) for _ in range(3)]
    for each in many:
        each.follow(Thanks(), lambda: 5, lambda: 0)
        each.text()
    assert told(many[0])["archives_included"] == 5


@pytest.mark.parametrize(
    ("who", "networks", "allowed"),
    [
        (visitor("127.0.0.1"), (), True),
        (visitor("::1"), (), True),
        (visitor("203.0.113.7"), (), False),
        (visitor("127.0.0.1", x_forwarded_for="203.0.113.7"), (), False),
        (visitor("127.0.0.1", forwarded="for=203.0.113.7"), (), False),
        (visitor("127.0.0.1", via="1.1 proxy"), (), False),
        (visitor("10.1.2.3"), ("10.0.0.0/8",), True),
        (visitor("127.0.0.1"), ("10.0.0.0/8",), False),
        (visitor("10.1.2.3", x_forwarded_for="203.0.113.7"), ("10.0.0.0/8",), False),
    ],
)
def test_they_are_shown_to_nobody_outside(
    tmp_path: Path, who: Visitor, networks: tuple[str, ...], allowed: bool
) -> None:
    answer = Metrics(tmp_path).answer(who, networks)
    assert (answer is not None) is allowed
