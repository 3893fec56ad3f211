"""The numbers of an Archive's metrics that are read from its catalogue, its jobs and its backups, each on its own."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from shutil import disk_usage
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.archive.model.handover import GiverStage
from ibi.archive.service.metrics import ArchiveMetrics
from ibi.archive.store.tables import copies, fixity, listings, memberships, transfers
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, SetupError
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import LAST, REP, WHEN, NewArchive, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NONE = {
    "catalogue_readable": {"": 1}, "files": {"": 4}, "files_bytes": {"": 25 + 3 + 3 + (1 << 20)},
    "files_damaged": {"": 0}, "copies_lagging": {"": 0}, "originals_unsettled": {"": 0}, "transfers_open": {"": 0},
    "transfers_in_trouble": {"": 0}, "items": {"Original": 4, "Copy": 0, "Deleted": 1},
    "resolvers": dict.fromkeys(MembershipStanding, 0),
}  # fmt: skip


@pytest.fixture
def jobs() -> Any:
    states = ("running", "done", "done", "failed")
    return SimpleNamespace(all=lambda: [SimpleNamespace(state=state) for state in states])


@pytest.fixture
def metrics(archive: NewArchive, tmp_path: Path, jobs: Any) -> Iterator[ArchiveMetrics]:
    fill(archive)
    made = ArchiveMetrics(tmp_path, archive.catalogue, jobs)
    yield made
    made.close()


def answer(
    metrics: ArchiveMetrics,
    archive: NewArchive,
    method: str = "GET",
    peer: str = "127.0.0.1",
    forwarded: str = "",
    **more: object,
) -> Response:
    async def receive() -> dict[str, Any]:
        raise AssertionError

    headers = {b"x-forwarded-for": forwarded.encode()} if forwarded else {}
    request = Request(method, "/-/metrics", "", headers, peer=peer)
    settings = replace(archive.settings, **more)  # type: ignore[arg-type]  # by name
    return asyncio.run(metrics.respond(settings, request, receive))


def numbers(metrics: ArchiveMetrics, archive: NewArchive, **more: Any) -> dict[str, dict[str, float]]:
    assert answer(metrics, archive, **more).status == 200
    found = dict(metrics.present())
    free = found.pop("disk_free_bytes")[""]
    assert 0.5 < free / disk_usage(archive.data).free < 2
    assert {state: count for state, count in found.pop("jobs").items() if count} == {
        "running": 1, "done": 2, "failed": 1,
    }  # fmt: skip
    return found


def test_an_archive_that_is_well_has_its_items_and_files_and_no_troubles(
    metrics: ArchiveMetrics, archive: NewArchive
) -> None:
    assert numbers(metrics, archive) == NONE


def test_each_trouble_has_its_number(metrics: ArchiveMetrics, archive: NewArchive) -> None:
    rep, last = (archive.catalogue.holding(parse_name(name)) for name in (REP, LAST))
    assert rep
    assert last
    handing = OutgoingTransfer(
        id="0" * 32, item=last.number, peer="b", address="http://b.example", passage="", proof="", remove=False,
        who="maria", stage=GiverStage.OFFERED, moment=WHEN,
    )  # fmt: skip
    trouble = HoldingError("it is full")
    with archive.catalogue.writing() as writer:
        run = writer.run
        fixity.record_results(
            run, [AuditResult(ListedFile(rep.number, rep.forms, rep.files[0]), FileFault.SIZE, WHEN)]
        )
        listings.unsettle_originals(run, WHEN, 0)
        for number, each in enumerate(
            (handing, *[replace(handing, problem=trouble)] * 2, replace(handing, stage=GiverStage.DONE))
        ):
            transfers.save_outgoing(run, replace(each, id=f"{number}" * 32))
        for name, standing in (("a", "included"), ("b", "included"), ("c", "refused")):
            memberships.save(
                run, MembershipRecord(f"http://{name}.example", MembershipStanding(standing), WHEN)
            )
    assert archive.load({"rep": f"{LAST}.59", "url": "http://far.example/", "state": "Copy"}).added == 1
    copy = archive.catalogue.holding(parse_name(f"{LAST}.59"))
    assert copy
    with archive.catalogue.writing() as writer:
        source = CopySource(archive="http://b.example", since=WHEN, problem=trouble)
        copies.save_source(writer.run, copy.number, source)
    found = numbers(metrics, archive)
    assert {name: each for name, each in found.items() if each != NONE[name]} == {
        "files_damaged": {"": 1}, "copies_lagging": {"": 1}, "originals_unsettled": {"": 4},
        "transfers_open": {"": 3}, "transfers_in_trouble": {"": 2}, "items": {"Original": 4, "Copy": 1, "Deleted": 1},
        "resolvers": dict.fromkeys(MembershipStanding, 0) | {"included": 2, "refused": 1},
    }  # fmt: skip


def test_a_catalogue_that_cannot_be_read_leaves_the_other_numbers(
    metrics: ArchiveMetrics,
    archive: NewArchive,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_run: object) -> int:
        raise SetupError("the database p cannot be used: full")

    monkeypatch.setattr(fixity, "total", fail)
    assert numbers(metrics, archive) == {"catalogue_readable": {"": 0}}
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (
            logging.WARNING,
            "the catalogue could not be read for the metrics: the database p cannot be used: full",
        )
    ]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose time is three hours behind UTC."""
    monkeypatch.setenv("TZ", "BRT3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_the_moment_of_the_newest_backup_is_a_number(
    metrics: ArchiveMetrics, archive: NewArchive, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    assert "last_backup_timestamp_seconds" not in numbers(metrics, archive, backup_folder=str(folder))
    for name in ("20231114T221320Z", "20231114T221320Z-2", "20221114T221320Z"):
        (folder / name).mkdir()
        (folder / name / "backup.json").touch()
    found = numbers(metrics, archive, backup_folder=str(folder))
    assert found["last_backup_timestamp_seconds"] == {"": 1_700_000_000}


@pytest.mark.parametrize(
    ("method", "peer", "networks", "status"),
    [
        ("GET", "127.0.0.1", (), 200), ("HEAD", "127.0.0.1", (), 200), ("GET", "", (), 200),
        ("GET", "192.0.2.7", (), 404), ("GET", "192.0.2.7", ("192.0.2.0/24",), 200), ("POST", "127.0.0.1", (), 404),
    ],
)  # fmt: skip
def test_only_clients_inside_read_them(
    metrics: ArchiveMetrics,
    archive: NewArchive,
    method: str,
    peer: str,
    networks: tuple[str, ...],
    status: int,
) -> None:
    found = answer(metrics, archive, method, peer, metrics_networks=networks)
    assert found.status == status
    assert bool(metrics.present()) == (status == 200)
    if status == 404:
        assert (found.body, dict(found.headers)["cache-control"]) == (
            b"there is no such page here\n",
            "no-store",
        )


@pytest.mark.parametrize("forwarded", ["192.0.2.7", "192.0.2.7, 127.0.0.1"])
@pytest.mark.parametrize("peer", ["", "127.0.0.1"])
def test_a_reader_behind_a_proxy_of_this_machine_is_outside(
    metrics: ArchiveMetrics, archive: NewArchive, peer: str, forwarded: str
) -> None:
    found = answer(metrics, archive, "GET", peer, forwarded, trusted_proxies=("127.0.0.1",))
    assert found.status == 404
