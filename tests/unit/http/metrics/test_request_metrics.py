"""Requests are counted by kind, by class of status and by how soon their answers begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ibi
from ibi.archive.service import metrics as archives
from ibi.http.metrics.numbers import Families, Family
from ibi.http.metrics.requests import RequestMetrics, families_of_requests
from ibi.minting import metrics as mints
from ibi.resolver.metrics import metrics as resolvers

FAMILIES = Families(
    "ibi_test",
    [*families_of_requests(("page", "file")), Family("open", "Open things.", kind="gauge")],
    [Family("size", "How large things are.", {"thing": ()}), Family("absent", "What is not known.")],
)


class Metrics(RequestMetrics):
    """The numbers of a small program."""

    def present(self) -> dict[str, dict[str, float]]:
        return {"size": {"a": 1.0, "b": 2.0}}


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    made = Metrics(tmp_path, FAMILIES, lambda _, target: "file" if target.startswith(b"/col") else "page")
    yield made
    made.close()


SUM, MAXIMUM = False, True
GAUGES = [
    (archives.FAMILIES, {"acknowledgments_waiting": SUM}),
    (mints.FAMILIES, {}),
    (
        resolvers.FAMILIES,
        {"thanks_queued": SUM, "in_flight": SUM, "archives_included": MAXIMUM, "archives_asleep": MAXIMUM},
    ),
]


@pytest.mark.parametrize(("families", "decided"), GAUGES, ids=lambda each: getattr(each, "prefix", ""))
def test_whether_the_values_of_processes_are_added_up_was_decided_for_each_gauge(
    families: Families, decided: dict[str, bool]
) -> None:
    """A gauge of which each process knows the total (`of_all`) would be shown once for each process."""
    gauges = [each for each in families.all if each.kind == "gauge"]
    assert {each.name: each.of_all for each in gauges} == decided


def counted(metrics: Metrics) -> dict[str, float]:
    """What is not nothing."""
    pairs = (line.rpartition(" ") for line in metrics.text().decode().splitlines() if line[0] != "#")
    return {name.removeprefix("ibi_test_"): float(value) for name, _, value in pairs if float(value)}


USUAL = {f'info{{version="{ibi.__version__}"}}': 1, "workers": 1, 'size{thing="a"}': 1, 'size{thing="b"}': 2}


def test_an_answer_counts_in_its_class_and_from_its_bucket_on(metrics: Metrics) -> None:
    metrics.answered("file", 206, 5.0)
    metrics.answered("file", 299, 10.5, 2)
    metrics.answered("page", 429, 0.0005)
    metrics.values[FAMILIES.begin("open")] += 3
    every = (
        "0.001",
        "0.0025",
        "0.005",
        "0.01",
        "0.025",
        "0.05",
        "0.1",
        "0.15",
        "0.25",
        "0.5",
        "1.0",
        "2.0",
        "3.0",
    )
    page, file = 'request_seconds_bucket{kind="page",le="', 'request_seconds_bucket{kind="file",le="'
    assert counted(metrics) == {
        **USUAL,
        'requests_total{kind="file",status="2xx"}': 3,
        'requests_total{kind="page",status="4xx"}': 1,
        'refused_for_load_total{status="429"}': 1,
        **{f'{page}{bound}"}}': 1 for bound in (*every, "5.0", "10.0", "+Inf")},
        'request_seconds_count{kind="page"}': 1,
        'request_seconds_sum{kind="page"}': 0.0005,
        f'{file}5.0"}}': 1,
        f'{file}10.0"}}': 1,
        f'{file}+Inf"}}': 3,
        'request_seconds_count{kind="file"}': 3,
        'request_seconds_sum{kind="file"}': 26.0,
        "open": 3,
    }


LOAD = (
    "Requests refused since one client asked for too much (429), too much was under way (503), or the disk was full "
    "(507)."
)


def test_what_each_number_means_and_how_it_is_stored(metrics: Metrics) -> None:
    lines = metrics.text().decode().splitlines()
    assert [line.removeprefix("# ") for line in lines if line.startswith("#")] == [
        "HELP ibi_test_requests_total Requests, by kind and class of status.",
        "TYPE ibi_test_requests_total counter",
        f"HELP ibi_test_refused_for_load_total {LOAD}",
        "TYPE ibi_test_refused_for_load_total counter",
        "HELP ibi_test_request_seconds How soon answers began.",
        "TYPE ibi_test_request_seconds histogram",
        "HELP ibi_test_open Open things.",
        "TYPE ibi_test_open gauge",
        "HELP ibi_test_size How large things are.",
        "TYPE ibi_test_size gauge",
        "HELP ibi_test_absent What is not known.",
        "TYPE ibi_test_absent gauge",
        "HELP ibi_test_workers Processes that answer.",
        "TYPE ibi_test_workers gauge",
        "HELP ibi_test_info The version of the program.",
        "TYPE ibi_test_info gauge",
    ]
    names = {line.partition(" ")[0].partition("{")[0] for line in lines if not line.startswith("#")}
    assert names - FAMILIES.exposed == set()
    assert FAMILIES.exposed - names == {"ibi_test_absent"}


@pytest.mark.parametrize(
    ("messages", "fails", "found"),
    [
        ([{"status": 200}, {"body": b"x"}], False, {'requests_total{kind="page",status="2xx"}'}),
        ([], True, {'requests_total{kind="page",status="5xx"}'}),
        ([{"status": 200}], True, {'requests_total{kind="page",status="2xx"}'}),
        (
            [{"status": 503}],
            False,
            {'requests_total{kind="page",status="5xx"}', 'refused_for_load_total{status="503"}'},
        ),
    ],
)
def test_each_request_counts_once(
    metrics: Metrics, messages: list[dict[str, Any]], fails: bool, found: set[str]
) -> None:
    async def app(_scope: object, _receive: object, send: Any) -> None:
        for message in messages:
            await send(message)
        if fails:
            raise RuntimeError

    async def main() -> None:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "raw_path": b"/", "query_string": b""}
        if fails:
            with pytest.raises(RuntimeError):
                await metrics.counted(app)(scope, None, send)
        else:
            await metrics.counted(app)(scope, None, send)
        assert sent == messages
        await metrics.counted(_unseen)({"type": "lifespan"}, None, None)

    asyncio.run(main())
    totals = {name: value for name, value in counted(metrics).items() if "total{" in name}
    assert totals == dict.fromkeys(found, 1)


async def _unseen(scope: dict[str, str], _receive: object, _send: object) -> None:
    assert scope == {"type": "lifespan"}


def test_after_the_end_gauges_are_zero_and_what_was_counted_stays(tmp_path: Path) -> None:
    gauges = [Family(name, "Things.", kind="gauge", of_all=name == "known") for name in ("known", "open")]
    made = Metrics(tmp_path, Families("ibi_test", [*FAMILIES.all, *gauges], FAMILIES.read), lambda *_: "page")
    made.values[FAMILIES.begin("open")] = 2
    made.answered("page", 200, 0.5)
    made.close()
    pages = {name: value for name, value in counted(made).items() if "page" in name and "bucket" not in name}
    assert pages == {
        'requests_total{kind="page",status="2xx"}': 1,
        'request_seconds_count{kind="page"}': 1,
        'request_seconds_sum{kind="page"}': 0.5,
    }
    assert counted(made).keys().isdisjoint({"known", "open", "workers"})
