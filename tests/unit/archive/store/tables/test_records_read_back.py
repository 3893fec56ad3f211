"""What the tables of the catalogue keep beside its items is read back as it was saved, field by field."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ibi.archive.model.handover import GiverStage, ReceiverStage
from ibi.archive.store.tables import copies, fixity, memberships, transfers
from ibi.archive.store.tables.copies import CopySource, HarvestProgress
from ibi.archive.store.tables.fixity import AuditPosition, FileFault
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.transfers import IncomingTransfer, OutgoingTransfer
from ibi.errors import IbiError, NotHeld

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance

    from ibi.archive.store.tables.catalogue import SqlRunner
    from support.archive.archive_fixture import NewArchive

PROBLEM: Final = IbiError(
    "{path} cannot be read after {count} attempts of {seconds} s: {reason}",
    path=Path("/a/b"), count=3, seconds=0.5, reason=NotHeld("{name} is not held here", name="é"),
)  # fmt: skip
SOURCE: Final = CopySource(
    archive="http://b.example/",
    service="b.example/w/2020/01.01.00.00",
    url="http://b.example/x",
    original="2020-01-01T00:00:00Z",
    tag='"tag"',
    compared=False,
    checked="2020-01-02T00:00:00Z",
    since="2020-01-03T00:00:00Z",
    problem=PROBLEM,
    private=True,
)
HARVEST: Final = HarvestProgress(
    "http://c.example/oai", "a set", "marcxml", "token", "begun", "newest", "since"
)
OUTGOING: Final = OutgoingTransfer(
    id="an id",
    item=1,
    peer="b",
    address="http://b.example/",
    passage="passage",
    proof="proof",
    remove=True,
    who="maria",
    stage=GiverStage.HANDED,
    moment="2020-01-01T00:00:00Z",
    fingerprint="fingerprint",
    service="b.example/w/2020/01.01.00.00",
    problem=PROBLEM,
)
INCOMING: Final = IncomingTransfer(
    id="an id",
    item=1,
    giver="a token",
    address="http://a.example/",
    seal="seal",
    fingerprint="fingerprint",
    history=[{"what": "deposited", "who": "é"}],
    stage=ReceiverStage.STAGED,
    moment="2020-01-01T00:00:00Z",
)
MEMBER: Final = MembershipRecord(
    "http://resolver.example/",
    MembershipStanding.REFUSED,
    "2020-01-01T00:00:00Z",
    "2020-01-02T00:00:00Z",
    PROBLEM,
)


def _member(run: SqlRunner) -> MembershipRecord | None:
    return memberships.all_memberships(run).get(MEMBER.resolver)


KEPT: Final[list[tuple[DataclassInstance, Callable[..., None], Callable[[SqlRunner], Any], dict[str, Any]]]] = [
    (
        SOURCE,
        lambda run, source: copies.save_source(run, 1, source),
        lambda run: copies.source_of(run, 1),
        {"archive": "", "service": "", "url": "", "original": "", "tag": "", "compared": True, "checked": "",
         "since": "", "problem": None, "private": False},
    ),
    (
        HARVEST,
        copies.save_harvest,
        lambda run: copies.harvest_progress(run, HARVEST.repository, HARVEST.part, HARVEST.format),
        {"token": "", "begun": "", "newest": "", "since": ""},
    ),
    (
        OUTGOING,
        transfers.save_outgoing,
        lambda run: transfers.outgoing(run, OUTGOING.id),
        {"peer": "c", "address": "", "remove": False, "stage": GiverStage.DONE, "moment": "2021-01-01T00:00:00Z",
         "fingerprint": "", "service": "", "problem": None},
    ),
    (
        INCOMING,
        transfers.save_incoming,
        lambda run: transfers.incoming(run, INCOMING.id),
        {"item": None, "address": "", "seal": "", "fingerprint": "", "history": [], "stage": ReceiverStage.OWNED,
         "moment": "2021-01-01T00:00:00Z"},
    ),
    (
        MEMBER,
        memberships.save,
        _member,
        {"standing": MembershipStanding.WAITING, "since": "2021-01-01T00:00:00Z", "heard": "", "problem": None},
    ),
]  # fmt: skip


def _plain(record: DataclassInstance | None) -> dict[str, Any]:
    """The fields of a record, its problem as its sentence and its details."""
    assert record is not None
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    problem = values.pop("problem", None)
    return values | {"problem": problem and _facts_of(problem)}


def _facts_of(problem: IbiError) -> tuple[str, str, dict[str, object]]:
    """A problem as its sentence, before and after its details, and the details: texts but for numbers and problems."""
    details: dict[str, object] = {
        name: _facts_of(value)
        if isinstance(value, IbiError)
        else value
        if isinstance(value, int | float)
        else str(value)
        for name, value in problem.details.items()
    }
    return str(problem), problem.problem, details


@pytest.mark.parametrize(("record", "save", "read", "changes"), KEPT, ids=lambda each: type(each).__name__)
def test_each_field_comes_back_and_follows_every_change(
    archive: NewArchive,
    record: DataclassInstance,
    save: Callable[..., None],
    read: Callable[[SqlRunner], Any],
    changes: dict[str, Any],
) -> None:
    with archive.catalogue.writing() as writer:
        save(writer.run, record)
        assert _plain(read(writer.run)) == _plain(record)
        record = replace(record, **changes)
        save(writer.run, record)
        assert _plain(read(writer.run)) == _plain(record)


def test_what_was_never_saved_is_not_there(archive: NewArchive) -> None:
    with archive.catalogue.reading() as run:
        assert copies.source_of(run, 1) is None
        assert copies.original_of(run, 1) == ""
        assert copies.position_of(run, "http://b.example/", "b.example/w/2020/01.01.00.00") == ""
        assert copies.harvest_progress(run, "a", "b", "c") == HarvestProgress("a", "b", "c")
        assert (transfers.outgoing(run, "an id"), transfers.incoming(run, "an id")) == (None, None)
        assert (transfers.outgoing_of_item(run, 1), transfers.open_outgoing(run)) == ([], [])
        assert (memberships.all_memberships(run), fixity.position_of(run, "walk")) == ({}, None)
        assert (fixity.faults(run), fixity.total(run)) == ([], (0, 0))


def test_what_a_hand_over_began_with_stays(archive: NewArchive) -> None:
    """Its item, its secrets and who asked for it; and at the receiver whose it is."""
    began = replace(OUTGOING, stage=GiverStage.OFFERED)
    other = replace(began, id="another", moment="2019-01-01T00:00:00Z")
    with archive.catalogue.writing() as writer:
        run = writer.run
        for each in (began, other):
            transfers.save_outgoing(run, each)
        changed = replace(began, passage="other", proof="other", who="other", stage=GiverStage.HANDED)
        transfers.save_outgoing(run, changed)
        found = transfers.outgoing(run, began.id)
        assert _plain(found) == _plain(replace(began, stage=GiverStage.HANDED))
        assert [each.id for each in transfers.outgoing_of_item(run, 1)] == ["another", "an id"]
        assert [each.id for each in transfers.open_outgoing(run)] == ["another", "an id"]
        transfers.save_outgoing(run, replace(other, stage=GiverStage.ENDED))
        assert [each.id for each in transfers.open_outgoing(run)] == ["an id"]
        transfers.save_incoming(run, INCOMING)
        transfers.save_incoming(run, replace(INCOMING, giver="another token"))
        assert transfers.incoming(run, INCOMING.id) == INCOMING


def test_the_facts_of_a_source_are_these() -> None:
    assert SOURCE.facts() == {
        "archive": "http://b.example/",
        "service": "b.example/w/2020/01.01.00.00",
        "url": "http://b.example/x",
        "timestamp": "2020-01-01T00:00:00Z",
        "checked": "2020-01-02T00:00:00Z",
        "equal": False,
        "since": "2020-01-03T00:00:00Z",
        "compared": False,
        "problem": "/a/b cannot be read after 3 attempts of 0.5 s: é is not held here",
    }
    assert CopySource(archive="").facts() == {"equal": True, "compared": True}
    assert CopySource(archive="", url="http://b.example/x").place == "http://b.example/x"
    assert SOURCE.place == "http://b.example/"


def test_a_source_that_is_forgotten_and_a_resolver_that_was_left_are_gone(archive: NewArchive) -> None:
    with archive.catalogue.writing() as writer:
        copies.save_source(writer.run, 1, SOURCE)
        assert copies.original_of(writer.run, 1) == "http://b.example/"
        copies.forget_source(writer.run, 1)
        assert copies.source_of(writer.run, 1) is None
        memberships.save(writer.run, MEMBER)
        memberships.forget(writer.run, "http://other.example/")
        assert list(memberships.all_memberships(writer.run)) == [MEMBER.resolver]
        memberships.forget(writer.run, MEMBER.resolver)
        assert memberships.all_memberships(writer.run) == {}


def test_an_audit_goes_on_where_it_was(archive: NewArchive) -> None:
    with archive.catalogue.writing() as writer:
        for place in (AuditPosition(1.5), AuditPosition(2.5, 3, "a.txt", 4, ended=True)):
            fixity.save_position(writer.run, "walk", place)
            assert fixity.position_of(writer.run, "walk") == place
        assert fixity.position_of(writer.run, "another") is None


def test_a_fault_is_of_one_file_with_one_digest(archive: NewArchive) -> None:
    (archive.data / "a.txt").write_bytes(b"aaa")
    archive.load({"rep": "a.example/b/2010/01.01.00.00", "files": {"a.txt": "a.txt", "b.txt": "a.txt"}})
    (held,) = [each for each in archive.catalogue.all() if each.files]
    first, second = (ListedFile(held.number, held.forms, file) for file in held.files)
    moments = [f"2020-01-0{day}T00:00:00Z" for day in range(1, 5)]
    with archive.catalogue.writing() as writer:
        run = writer.run
        assert fixity.next_files(run, AuditPosition(0.0), 2) == [first, second]
        assert fixity.next_files(run, AuditPosition(0.0), 1) == [first]
        assert fixity.next_files(run, AuditPosition(0.0, held.number, "a.txt"), 2) == [second]
        assert fixity.total(run) == (2, 6)
        for moment, fault in zip(moments, (None, FileFault.SIZE, FileFault.DIGEST), strict=False):
            fixity.record_results(run, [fixity.AuditResult(first, fault, moment)])
        assert fixity.fault_of(run, held.number, first.file) is FileFault.DIGEST
        assert fixity.last_good(run, held.number, first.file) == moments[0]
        assert (
            fixity.fault_of(run, held.number, second.file),
            fixity.last_good(run, held.number, second.file),
        ) == (None, "")
        assert fixity.faults(run) == [fixity.KnownFault(first, FileFault.DIGEST, moments[2], moments[0])]
        replaced = replace(first.file, sha256="0" * 64)
        assert fixity.fault_of(run, held.number, replaced) is None
        assert fixity.last_good(run, held.number, replaced) == ""
        fixity.record_results(run, [fixity.AuditResult(second, FileFault.MISSING, moments[3])])
        assert [each.good for each in fixity.faults(run)] == [moments[0], ""]
        assert [each.listed for each in fixity.faults(run, 1)] == [first]
        fixity.forget_unlisted(run)
        assert len(fixity.faults(run)) == 2
