"""What an Archive counts, as a program reads it from /-/metrics of a real one, and for whom it is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ibi.accounts.tokens import Scope
from ibi.app import archive_tasks
from ibi.app.archive import archive_directory, archive_service, indexer
from ibi.archive.membership.joining import WatchedArchiveSettings
from ibi.archive.service.metrics import REQUEST_KINDS, TASKS, ArchiveMetrics, CountedClient, kind_of_request
from ibi.errors import PeerError
from ibi.protocol.extensions.changes import ChangesReply, ChangesRequest
from ibi.runtime.tasks import DoneBy
from support.archive.archive_fixture import SERVICE, NewArchive
from support.archive.running_archive import running_archive
from support.concurrency.open_files import open_files
from support.peers import BODY, PUBLIC, TARGET, peer
from support.programs import Program, Reply
from support.scripted_archive import Behaviour, ScriptedArchives

DEPOSIT = Scope.DEPOSIT


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[ArchiveMetrics]:
    """Those of an Archive without a catalogue."""
    nothing: Any = SimpleNamespace(close=lambda: None)
    counted = ArchiveMetrics(tmp_path, nothing, nothing)
    yield counted
    counted.close()


def page(program: Program, **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(HTTPConnection("127.0.0.1", program.port, timeout=60)) as connection:
        connection.request("GET", "/-/metrics", headers={"Accept": "application/openmetrics-text", **named})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def samples(text: str) -> dict[str, float]:
    """The numbers, by their names without the prefix and the values of their labels."""
    return {
        " ".join((each.name.removeprefix("ibi_archive_"), *each.labels.values())): each.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # it has no types
        for each in family.samples
    }


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("GET", b"/x/y?servicesubject=urlRequest", "message"),
        ("GET", b"/", "page"),
        ("GET", b"/-/item/a/b", "page"),
        ("GET", b"/unknown/\xff/path", "page"),
        ("GET", b"/col/a/b/doc/x.pdf", "file"),
        ("GET", b"/-/zip/a/b", "file"),
        ("GET", b"/-/search?text=x", "search"),
        ("GET", b"/-/oai?verb=Identify", "harvest"),
        ("POST", b"/-/api/items", "deposit"),
        ("PATCH", b"/-/api/items/a/b", "edit"),
        ("PUT", b"/-/api/items/a/b/files/x", "edit"),
        ("DELETE", b"/-/api/items/a/b/files/x", "edit"),
        ("DELETE", b"/-/api/items/a/b?reason=files", "delete"),
        ("GET", b"/-/api/items/a/b", "api"),
        ("GET", b"/-/api/itemsize", "api"),
        ("GET", b"/-/api/state", "api"),
        ("POST", b"/-/admin/deposit", "deposit"),
        ("POST", b"/-/admin/files/a/b", "edit"),
        ("POST", b"/-/admin/delete/a/b?x", "delete"),
        ("GET", b"/-/admin/delete/a/b", "administration"),
        ("POST", b"/-/admin/sign-in", "administration"),
        ("GET", b"/-/healthz", "health"),
    ],
)
def test_each_request_has_one_of_few_kinds(method: str, target: bytes, kind: str) -> None:
    assert kind_of_request(method, target) == kind
    assert kind in REQUEST_KINDS


@pytest.mark.one_store("sqlite", "a token that another process has made counts at once there")
def test_an_archive_tells_what_it_was_asked_what_it_holds_and_what_is_wrong(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    (backups / "20261121T235300Z").mkdir(parents=True)
    (backups / "20261121T235300Z" / "backup.json").write_text("{}")
    data = tmp_path / "data"
    with running_archive(data, backup_folder=str(backups)) as program:
        item = {"metadata": {"title": ["One"]}, "url": "http://far.example/"}
        assert program.ask("POST", "/items", item, DEPOSIT).status == 201
        assert program.ask("POST", "/items", {"metadata": 7}, DEPOSIT).status == 422
        assert program.ask("POST", "/items", item).status == 401
        for _ in range(3):
            assert program.get(f"/{SERVICE.rep}?servicesubject=strange").status == 400
        assert program.get("/col/nothing").status in {400, 404}
        status, text = page(program)
    assert status == 200
    found = samples(text)
    assert found["requests_total deposit 2xx"] == 1
    assert found["requests_total deposit 4xx"] == 2
    assert found["requests_total file 4xx"] == 1
    assert found["request_seconds_count deposit"] == 3
    assert found["items Original"] == 2
    assert found["catalogue_readable"] == 1
    assert found["requests_total message 4xx"] == 3
    assert found["workers"] == 1
    assert found["disk_free_bytes"] > 1
    assert found["last_backup_timestamp_seconds"] == 1_795_305_180
    assert found["files_damaged"] == found["transfers_open"] == found["jobs failed"] == 0


def test_they_are_for_this_machine_and_the_networks_of_the_settings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_archive(tmp_path, metrics_networks=("203.0.113.0/24",)) as program:
        assert page(program)[0] == 404
    backups = tmp_path / "backups"  # no folder, which takes only their moment away
    backups.touch()
    with running_archive(tmp_path / "other", backup_folder=str(backups)) as program:
        status, whole = page(program)
        found = samples(whole)
        assert (status, found["catalogue_readable"], found["disk_free_bytes"] > 1) == (200, 1, True)
        assert "last_backup_timestamp_seconds" not in found
        status, text = page(program, X_Forwarded_For="203.0.113.7")
        assert (status, "ibi_archive" in text) == (404, False)
    logged = f"the metrics are incomplete: {backups} cannot be used: Not a directory"
    assert logged in capfd.readouterr().err


def test_messages_that_were_answered_at_once_are_counted_with_the_others(metrics: ArchiveMetrics) -> None:
    metrics.answered("message", 200, 0.5)
    metrics.counts.at_once[200] += 3
    metrics.counts.at_once[400] += 1
    metrics.counts.changes["names"] += 2
    for _ in range(2):
        metrics.poll()  # each is counted once
    found = samples(metrics.text(open_metrics=True).decode())
    assert found["change_requests_total names"] == 2
    assert (found["requests_total message 2xx"], found["requests_total message 4xx"]) == (4, 1)
    assert found["request_seconds_count message"] == 5


def test_at_their_end_they_close_the_catalogue_that_they_read(tmp_path: Path) -> None:
    closed = list[bool]()
    catalogue: Any = SimpleNamespace(close=lambda: closed.append(True))
    ArchiveMetrics(tmp_path, catalogue, catalogue).close()
    assert closed == [True]


def test_a_refusal_for_load_is_told_apart(metrics: ArchiveMetrics) -> None:
    for status in (429, 503, 507, 404):
        metrics.answered("page", status, 0.0)
    found = samples(metrics.text(open_metrics=True).decode())
    assert [found[f"refused_for_load_total {status}"] for status in (429, 503, 507)] == [1, 1, 1]
    assert (found["requests_total page 4xx"], found["requests_total page 5xx"]) == (2, 2)


def test_every_periodic_task_is_counted_and_its_loop_was_decided(
    tmp_path: Path, metrics: ArchiveMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        archive_tasks, "PeriodicTasks", lambda tasks, _, **__: tasks
    )  # as lists of their tasks
    with running_archive(tmp_path / "data"):
        directory = archive_directory(tmp_path / "data")
        with directory.catalogue() as catalogue:
            watched = WatchedArchiveSettings(directory.path)
            loops: Any = archive_tasks.task_loops(watched, directory, catalogue, None, metrics.task_ended)
            found = [{task.name: task.done_by for task in tasks()} for tasks in loops]
            names = {name for tasks in found for name in tasks}
            names.add(indexer(directory, catalogue).task().name)
            names.add("objects")  # only where files are in an S3 store
    assert names == set(TASKS)
    # A new task belongs here: beside those that it may wait for, and that may wait for it, in the order in which they
    # are done; and done by one of several nodes, unless it is about what each node keeps for itself.
    assert found == [
        {"hand-overs": DoneBy.ONE_NODE},
        {"settling": DoneBy.ONE_NODE},
        {"refresh": DoneBy.ONE_NODE},
        {"uploads": DoneBy.EACH_NODE, "holdings filter": DoneBy.EACH_NODE, "audit": DoneBy.ONE_NODE},
    ]
    metrics.task_ended("audit", False)
    assert samples(metrics.text(open_metrics=True).decode())["tasks_total failed audit"] == 1


@pytest.mark.parametrize(
    ("manner", "outcome"),
    [
        (Behaviour(BODY), "answered"),
        (Behaviour(BODY, status="403 Forbidden"), "refused"),
        (Behaviour(BODY, lie="reset"), "failed"),
    ],
)
def test_a_message_to_a_resolver_is_counted_by_its_outcome(
    metrics: ArchiveMetrics, manner: Behaviour, outcome: str
) -> None:

    async def send() -> None:
        resolver = peer(manner)
        async with ScriptedArchives((resolver,)) as around:
            client = CountedClient(PUBLIC, around.names, partial(metrics.message_ended, "notice"))
            try:
                await client.get("a.example", TARGET, 5.0)
            except PeerError:
                assert outcome == "failed"
            finally:
                await client.close()

    asyncio.run(send())
    found = samples(metrics.text(open_metrics=True).decode())
    counted = {name: number for name, number in found.items() if name.startswith("resolver_messages_total")}
    assert {name for name, number in counted.items() if number} == {
        f"resolver_messages_total notice {outcome}"
    }


@pytest.mark.parametrize("published", [True, False])
def test_requests_for_changes_are_counted_by_what_they_got(tmp_path: Path, published: bool) -> None:
    word = "5d1e0c4b7a9f2368"

    def send(program: Program, after: str = "") -> Reply:
        return program.get(f"/{SERVICE.rep}?{ChangesRequest(word, after).query()}")

    with running_archive(tmp_path, holdings_filter=published) as program:
        first = send(program)
        if published:
            newest = ChangesReply.read(first.body, word).to
            assert [send(program, newest).status for _ in range(2)] == [200, 200]
        assert program.get(f"/{SERVICE.rep}?servicesubject=changesRequest").status == 400
        found = samples(page(program)[1])
    counted = {name: number for name, number in found.items() if name.startswith("change_requests_total")}
    by_outcome = (
        {"anything": 1, "names": 2, "refused": 0} if published else {"anything": 0, "names": 0, "refused": 1}
    )
    assert counted == {f"change_requests_total {outcome}": number for outcome, number in by_outcome.items()}


def test_an_archive_whose_settings_change_while_it_closes_leaves_no_file_open(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive("archive.example")
    archive.catalogue.close()

    async def serve() -> None:
        service = archive_service(archive.data)
        replace(archive.settings, page_rate=7.0).write(archive.data)
        assert service.close is not None
        await service.close()

    asyncio.run(serve())
    gc.collect()
    assert open_files(archive.data, mapped=False) == []
