"""The state of an Archive, whole, as commands, pages and programs show it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.handover import GiverStage
from ibi.archive.preservation import status
from ibi.archive.store.tables import copies, fixity, listings, memberships, transfers
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.fixity import AuditPosition, AuditResult, FileFault
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, IbiError
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import LAST, NOW, REP, WHEN, NewArchive, fill, settings_for

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding

LATER = "2023-11-15T22:13:20Z"
FIRST, SECOND, LEFT = (f"http://r{number}.example" for number in (1, 2, 3))
SERVICE = "J8LNKB5R7W/3FUQHC5"


def say(message: IbiError | str) -> str:
    return f"<{message}>"


def held(archive: NewArchive, name: str) -> Holding:
    found = archive.catalogue.holding(parse_name(name))
    assert found is not None
    return found


def sections(archive: NewArchive, resolvers: Resolvers) -> dict[str, Any]:
    with archive.catalogue.reading() as run:
        return status.sections(run, resolvers, say)


def test_the_identity_of_an_archive_is_that_of_its_settings() -> None:
    settings = settings_for("archive.example:81", aliases=("b.example",), mint_host="m.example", retired=True)
    assert status.identity(settings) == {
        "service": str(settings.service), "address": "archive.example:81", "aliases": ["b.example"],
        "ip": "127.0.0.1", "admin": "admin@archive.example", "labels": "m.example", "switched_on": True,
        "retired": True,
    }  # fmt: skip


def test_a_new_archive_has_nothing_to_report(archive: NewArchive) -> None:
    assert sections(archive, Resolvers(archive.settings)) == {
        "items": {"Original": 1, "Copy": 0, "Deleted": 0}, "resolvers": [], "transfers": [],
        "copies": {"lagging": 0, "since": ""},
        "audit": {"files": 0, "faults": 0, "begun": "", "ended": "<no>"}, "unsettled": 0,
    }  # fmt: skip


def test_each_section_says_what_is_the_matter(archive: NewArchive) -> None:
    fill(archive)
    archive.load({"rep": f"{LAST}.59", "url": "http://far.example/", "state": "Copy"})
    damaged, given, copy = (held(archive, name) for name in (REP, LAST, f"{LAST}.59"))
    trouble = HoldingError("it is full")
    handing = OutgoingTransfer(
        id="1" * 32, item=given.number, peer="b", address="http://b.example", passage="", proof="", remove=False,
        who="maria", stage=GiverStage.OFFERED, moment=WHEN,
    )  # fmt: skip
    listed = ListedFile(damaged.number, damaged.forms, damaged.files[0])
    with archive.catalogue.writing() as writer:
        run = writer.run
        fixity.record_results(
            run, [AuditResult(listed, None, WHEN), AuditResult(listed, FileFault.SIZE, LATER)]
        )
        fixity.save_position(run, "duty", AuditPosition(NOW, ended=True))
        fixity.save_position(run, "command", AuditPosition(NOW + 1))
        listings.unsettle_originals(run, WHEN, 0)
        copies.save_source(
            run, copy.number, CopySource(archive="http://b.example", since=WHEN, problem=trouble)
        )
        for each in (
            handing,
            replace(handing, id="2" * 32, stage=GiverStage.HANDED, problem=trouble, moment=LATER),
            replace(handing, id="3" * 32, stage=GiverStage.DONE),
        ):
            transfers.save_outgoing(run, each)
        for url, standing, heard, problem in (
            (SECOND, MembershipStanding.REFUSED, LATER, trouble),
            (LEFT, MembershipStanding.INCLUDED, "", None),
        ):
            memberships.save(run, MembershipRecord(url, standing, WHEN, heard, problem))
    resolvers = Resolvers(settings_for("archive.example", resolver=FIRST, resolver_service=SERVICE))
    found = sections(archive, resolvers.joining(SECOND, None, also=True))
    unknown = {"service": "", "since": "", "heard": "", "problem": ""}
    assert found == {
        "items": {"Original": 4, "Copy": 1, "Deleted": 1},
        "resolvers": [
            {**unknown, "url": FIRST, "service": SERVICE, "standing": "<not queried yet>"},
            {"url": SECOND, "service": "", "standing": "<refused>", "since": WHEN, "heard": LATER,
             "problem": "<it is full>"},
            {**unknown, "url": LEFT, "standing": "<included>", "since": WHEN},
        ],
        "transfers": [
            {"transfer": number * 32, "item": LAST, "to": "http://b.example", "stage": stage, "since": since,
             "problem": problem}
            for number, stage, since, problem in (("1", "offered", WHEN, ""), ("2", "handed", LATER, "<it is full>"))
        ],
        "copies": {"lagging": 1, "since": WHEN},
        "audit": {"files": 4, "faults": 1, "begun": WHEN, "ended": "<yes>"},
        "unsettled": 4,
    }  # fmt: skip
    with archive.catalogue.reading() as run:
        (known,) = fixity.faults(run)
    assert status.of_fault(known) == {
        "ibi": REP, "file": damaged.files[0].name, "fault": FileFault.SIZE.value, "found": LATER, "good": WHEN,
    }  # fmt: skip
