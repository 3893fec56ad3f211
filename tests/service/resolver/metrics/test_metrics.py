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
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from ibi.http.metrics.numbers import FOLDER
from ibi.http.metrics.shared_counters import SharedCounters
from ibi.http.request import Request
from ibi.resolver.metrics.metrics import REDIRECT, ResolverMetrics
from ibi.resolver.model.alert import AlertKind
from proofs.resolver.lending import archives, item, make_resolver
from support.resolver.fast_path_fixture import serve_fast_path
from support.resolver.shared_files import until

PROGRAM = """
import sys
from pathlib import Path
from ibi.resolver.metrics.metrics import ResolverMetrics

metrics = ResolverMetrics(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    metrics.started()
    metrics.ended("redirect", 0.02, 0.0)
metrics.started()
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
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src")},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "counted\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=20)


class Counts:
    def __init__(self) -> None:
        self.delivered = self.queued = 0
        self.dropped: Counter[str] = Counter()


def numbers(metrics: ResolverMetrics) -> dict[str, float]:
    """The numbers by name, as a program reads them."""
    lines = metrics.text().decode("ascii").splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    assert len({name for name, _, _ in pairs}) == len(pairs)
    return {name.removeprefix("ibi_resolver_"): float(value) for name, _, value in pairs}


def request(peer: str, **headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "method": "GET",
        "raw_path": b"/-/metrics",
        "query_string": b"",
        "headers": named,
        "client": (peer, 1),
    }
    return Request.of(scope, ())


def test_numbers_are_summed_over_processes_and_outlive_them_but_what_is_in_hand_does_not(
    tmp_path: Path,
) -> None:
    here = ResolverMetrics(tmp_path)
    here.started()
    here.ended(REDIRECT, 0.02, 0.0)
    others = [Resolving(tmp_path, 10), Resolving(tmp_path, 100)]
    try:
        seen = numbers(here)
        assert (seen['resolutions_total{outcome="redirect"}'], seen["in_flight"], seen["workers"]) == (
            111,
            2,
            3,
        )
    finally:
        for other in others:
            other.kill()
    seen = numbers(here)
    assert (seen['resolutions_total{outcome="redirect"}'], seen["in_flight"], seen["workers"]) == (111, 0, 1)
    assert seen["resolution_seconds_count"] == 111
    assert seen["resolution_seconds_sum"] == pytest.approx(111 * 0.02)
    assert seen['resolution_seconds_bucket{le="0.01"}'] == 0
    assert (
        seen['resolution_seconds_bucket{le="0.025"}'] == seen['resolution_seconds_bucket{le="+Inf"}'] == 111
    )


def test_a_new_process_takes_the_file_of_one_that_has_ended_and_counts_on(tmp_path: Path) -> None:
    for count in (1, 2, 3):
        metrics = ResolverMetrics(tmp_path)
        metrics.started()
        metrics.ended(AlertKind.NOT_FOUND, 1.0, 0.0)
        assert numbers(metrics)['resolutions_total{outcome="not-found"}'] == count
        metrics.started()
        metrics.close()
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["0"]
    assert numbers(ResolverMetrics(tmp_path))["in_flight"] == 0


def test_numbers_of_another_version_are_begun_anew(tmp_path: Path) -> None:
    counters = SharedCounters(tmp_path / FOLDER, ["a", "b"])
    counters.values[1] += 1
    other = SharedCounters(tmp_path / FOLDER, ["a", "b", "c"])
    assert (other.totals().sums, len(other.totals().running)) == ([0.0] * 3, 1)
    counters.close()
    other.close()
    last = SharedCounters(tmp_path / FOLDER, ["c", "a"])
    assert last.totals().sums == [0.0, 0.0]


@pytest.mark.parametrize("content", [b"", b"x", bytes(10_000)])
def test_strange_files_in_the_folder_are_no_numbers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "0").write_bytes(content)
    (tmp_path / FOLDER / "note").write_bytes(content)
    metrics = ResolverMetrics(tmp_path)
    metrics.ended("redirect", 0.0, 0.0, rounds=1)
    assert numbers(metrics)["rounds_total"] == 1


def test_where_no_file_can_be_had_a_process_counts_for_itself_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).touch()
    metrics = ResolverMetrics(tmp_path)
    metrics.ended("redirect", 0.0, 0.0, rounds=1)
    assert (numbers(metrics)["rounds_total"], numbers(metrics)["workers"]) == (1, 1)
    assert len(caplog.records) == 1


def test_everything_that_is_counted_is_told_by_its_kind(tmp_path: Path) -> None:
    counts = Counts()
    metrics = ResolverMetrics(tmp_path)
    metrics.follow(counts, lambda: 7, lambda: 2)
    metrics.query_ended("answered", 0.2)
    metrics.query_ended("asleep")
    metrics.query_ended("a new kind of answer")
    metrics.ended("redirect", 0.0, 0.0, rounds=1, hint="right", cached="stale")
    counts.delivered, counts.queued, counts.dropped = 3, 1, Counter({"closing": 2, "a new reason": 1})
    for _ in range(2):  # what was told before is not counted again
        seen = numbers(metrics)
        assert seen['questions_total{result="answered"}'] == seen['questions_total{result="other"}'] == 1
        assert seen["question_seconds_count"] == 1
        assert (seen['hints_total{result="right"}'], seen['remembered_total{answer="stale"}']) == (1, 1)
        assert (seen["archives_included"], seen["archives_asleep"]) == (7, 2)
        assert (seen["thanks_delivered_total"], seen["thanks_queued"]) == (3, 1)
        assert seen['thanks_dropped_total{reason="closing"}'] == 2
        assert seen['thanks_dropped_total{reason="other"}'] == 1
    counts.delivered, counts.queued = 4, 0
    metrics.leave(counts)
    counts.delivered = 100
    assert numbers(metrics)["thanks_delivered_total"] == 4
    for kind in AlertKind:
        metrics.started()
        metrics.ended(kind, 0.0, 0.0)
        assert numbers(metrics)[f'resolutions_total{{outcome="{kind}"}}'] == 1
    assert numbers(metrics)['resolutions_total{outcome="other"}'] == 0


def test_what_stores_count_is_added_up_over_all_processes_also_past_ones(tmp_path: Path) -> None:
    for lost in (3, 4):
        metrics = ResolverMetrics(tmp_path)
        metrics.follow_stores(lambda: lost, lambda: 0, lambda: 1, lambda: 2)  # noqa: B023 - read in this turn only
        metrics.text()
        metrics.close()
    seen = numbers(ResolverMetrics(tmp_path))
    assert [seen[f'not_kept_total{{where="{where}"}}'] for where in ("answers", "hints", "evidence")] == [
        7,
        0,
        2,
    ]
    assert seen["disputes_total"] == 4


def test_durations_are_counted_in_buckets_that_stay_as_they_are(tmp_path: Path) -> None:
    """Operators draw their figures by these bounds."""
    bounds = "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.15 0.25 0.5 1.0 2.0 3.0 5.0 10.0 +Inf"
    for name in ("resolution_seconds", "question_seconds"):
        start = f'{name}_bucket{{le="'
        found = [
            each.removeprefix(start).rstrip('"}')
            for each in numbers(ResolverMetrics(tmp_path))
            if start in each
        ]
        assert " ".join(found) == bounds


def test_gauges_that_every_process_knows_whole_are_not_added_up(tmp_path: Path) -> None:
    many = [ResolverMetrics(tmp_path) for _ in range(3)]
    for each in many:
        each.follow(Counts(), lambda: 5, lambda: 2)
        each.text()
    seen = numbers(many[0])
    assert (seen["archives_included"], seen["archives_asleep"]) == (5, 2)


def test_what_a_worker_without_clicks_shows_is_seconds_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its one click was acknowledged, and an Archive excluded, since it last counted; another process shows both."""
    monkeypatch.setattr("ibi.http.metrics.numbers._LOOK_SECONDS", 0.05, raising=False)
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around) as resolver:
            assert " 302 " in resolver.ask(item(0, 0))
            other = ResolverMetrics(tmp_path)
            until(lambda: numbers(other)["archives_included"] == 2)
            resolver.include(around[0])
            until(lambda: numbers(other)["archives_included"] == 1)
            until(lambda: numbers(other)["thanks_delivered_total"] == 1)
            other.close()


@pytest.mark.parametrize(
    ("who", "networks", "allowed"),
    [
        (request("127.0.0.1"), (), True),
        (request("::1"), (), True),
        (request("203.0.113.7"), (), False),
        (request("127.0.0.1", x_forwarded_for="203.0.113.7"), (), False),
        (request("127.0.0.1", forwarded="for=203.0.113.7"), (), False),
        (request("127.0.0.1", via="1.1 proxy"), (), False),
        (request("10.1.2.3"), ("10.0.0.0/8",), True),
        (request("127.0.0.1"), ("10.0.0.0/8",), False),
        (request("10.1.2.3", x_forwarded_for="203.0.113.7"), ("10.0.0.0/8",), False),
        (request("127.0.0.1", x_forwarded_for="127.0.0.2"), (), True),
        (request("127.0.0.1", x_forwarded_for="unknown"), (), False),
        (request("10.1.2.3", x_forwarded_for="203.0.113.7, fe80::1%eth0"), ("10.0.0.0/8",), False),
    ],
)
def test_they_are_not_shown_to_clients_outside(
    tmp_path: Path, who: Request, networks: tuple[str, ...], allowed: bool
) -> None:
    answer = ResolverMetrics(tmp_path).answer(who, networks)
    assert (answer is not None) is allowed


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/openmetrics-text;version=x\x00", "text/plain;version=1.0.0"]
)
def test_clients_that_do_not_ask_for_openmetrics_get_the_prometheus_format(
    tmp_path: Path, accept: str
) -> None:
    metrics = ResolverMetrics(tmp_path)
    request = Request("GET", "/-/metrics", "", {b"accept": accept.encode()}, ("127.0.0.1",))
    response = metrics.answer(request, ())
    assert response is not None
    if "openmetrics" not in accept:
        assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert list(prometheus_families(response.body.decode()))
    metrics.close()


def test_openmetrics_says_the_same(tmp_path: Path) -> None:
    metrics = ResolverMetrics(tmp_path)
    metrics.started(3)
    metrics.ended(REDIRECT, 0.02, 0.0, 2, rounds=1, hint="right")
    accept = b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    response = metrics.answer(Request("GET", "/-/metrics", "", {b"accept": accept}, ("127.0.0.1",)), ())
    assert response is not None
    assert response.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = response.body.decode()
    assert text.endswith("# EOF\n")

    def samples(families: Any) -> dict[tuple[str, str], float]:
        return {(each.name, str(each.labels)): each.value for family in families for each in family.samples}

    found = samples(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]  # the library says no types here
    assert found == samples(prometheus_families(metrics.text().decode()))
    assert found["ibi_resolver_resolutions_total", "{'outcome': 'redirect'}"] == 2
    assert found["ibi_resolver_resolution_seconds_bucket", "{'le': '0.025'}"] == 2
    assert found["ibi_resolver_in_flight", "{}"] == 1
    metrics.close()
