"""What a row of the registry says of an Archive: every column is read, and into its own field."""

from __future__ import annotations

from dataclasses import fields
from hashlib import sha256
from typing import Any

import pytest

from ibi.errors import IbiError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.archive import (
    Archive,
    ArchiveResponse,
    AwayArchive,
    Members,
    Move,
    RegisteredArchive,
    away_archive,
    included_archive,
    moment_text,
    registered_archive,
)

SERVICE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
TITLES = ArchiveTitles("Library", "Biblioteca")
ROW: dict[str, Any] = {
    "spelling": SERVICE,
    "key_hash": "$argon2id$x",
    "url_hosts": "a.example b.example",
    "registered_at": "2026-01-01T00:00:00Z",
    "included": 1,
    "confirmed": 1,
    "address": "archive.example:81",
    "ip": "192.0.2.7",
    "protocol": "2013:01.01.01.01",
    "platform_version": "2014:11.09.02.16.15",
    "admin_mail": "admin@archive.example",
    "changed_at": "2026-01-02T00:00:00Z",
    "change": 7,
    "state": "applied",
    "mirrored_from": "a public key",
    "contact": "maria@archive.example",
    "contact_name": "Maria",
    "source": "192.0.2.8",
    "included_at": 1_700_000_000.5,
    "heard_at": "2026-01-03T00:00:00Z",
    "confirmed_address": "archive.example:82",
    "move_allowed": 1,
    "back_at": 1_800_000_000.5,
    "title": "Library",
    "title_pt": "Biblioteca",
}
INCLUDED = Archive(
    service_ibi=parse_ibi(SERVICE),
    address="archive.example:81",
    ip="192.0.2.7",
    protocol="2013:01.01.01.01",
    platform_version="2014:11.09.02.16.15",
    admin_mail="admin@archive.example",
    confirmed=True,
    url_hosts=("a.example", "b.example"),
    included_at=1_700_000_000.5,
    titles=TITLES,
)
MOVE = Move("archive.example:83", "192.0.2.9", reported_at=1.0)


def test_an_included_archive_has_all_that_its_row_says() -> None:
    assert included_archive(ROW) == INCLUDED
    assert away_archive(ROW) == AwayArchive(INCLUDED, 1_767_312_000.0, 1_800_000_000.5)
    assert not included_archive(ROW | {"confirmed": 0}).confirmed
    assert included_archive(ROW | {"included_at": None}).included_at == 0.0


def test_a_registered_archive_has_all_that_its_row_says() -> None:
    expected = RegisteredArchive(
        service_ibi=parse_ibi(SERVICE),
        url_hosts=("a.example", "b.example"),
        registered_at="2026-01-01T00:00:00Z",
        changed_at="2026-01-02T00:00:00Z",
        included=INCLUDED,
        applied=True,
        contact="maria@archive.example",
        contact_name="Maria",
        address="archive.example:81",
        admin_mail="admin@archive.example",
        source="192.0.2.8",
        heard_at="2026-01-03T00:00:00Z",
        confirmed_address="archive.example:82",
        move_allowed=True,
        back_at=1_800_000_000.5,
        move=MOVE,
        change=7,
        key_hash="$argon2id$x",
        mirrored_from="a public key",
        titles=TITLES,
    )
    assert registered_archive(ROW, MOVE) == expected
    of_nothing = RegisteredArchive(expected.service_ibi, (), "", None, None)
    for field in fields(RegisteredArchive):
        if field.name not in {"service_ibi", "registered_at"}:
            assert getattr(expected, field.name) != getattr(of_nothing, field.name), field.name


@pytest.mark.parametrize("state", ["registered", "mirrored"])
def test_one_that_was_never_included_has_no_address(state: str) -> None:
    nothing = dict.fromkeys(("address", "admin_mail", "key_hash", "changed_at", "heard_at", "back_at"))
    found = registered_archive(ROW | nothing | {"included": 0, "state": state, "move_allowed": 0})
    assert (found.address, found.admin_mail, found.key_hash, found.included) == ("", "", "", None)
    assert (found.applied, found.move_allowed, found.move) == (False, False, None)
    assert "argon2" not in repr(registered_archive(ROW))


@pytest.mark.parametrize("probation", [True, False])
def test_the_included_archives_are_indexed_as_resolutions_need_them(*, probation: bool) -> None:
    first, second = Archive(parse_ibi("A.example/x/2020/01.01.00.00"), "a"), Archive(parse_ibi(SERVICE), "b")
    new = Archive(parse_ibi("a.example/x/2020/01.01.00.01"), "c", confirmed=False)
    away = {each.service: AwayArchive(each, 1.0, None) for each in (INCLUDED, first)}
    services = f"{first.service} {SERVICE} {new.service} away"
    assert Members.of([first, second, new], probation=probation) == Members(
        regular=(first, second) if probation else (first, second, new),
        probationary=(new,) if probation else (),
        by_service={each.service: each for each in (first, second, new)},
        by_prefix={"a.example/x": (first, new), "sid.inpe.br/mtc-m21": (second,)},
        version=sha256(services.encode()).hexdigest()[:16],
        away={},
    )
    alone = Members.of((), probation=probation, away=away)
    assert (alone.away, alone.regular, alone.by_prefix) == (away, (), {})
    # The order in which they went away makes no other version.
    assert alone.version == sha256(f"away {first.service} {SERVICE}".encode()).hexdigest()[:16]


def test_mail_about_an_archive_goes_to_the_registered_contact_or_to_its_own_address() -> None:
    row = {"contact": "", "admin_mail": None}
    mails = [registered_archive(ROW | more).mail for more in ({}, {"contact": ""}, row)]
    assert mails == ["maria@archive.example", "admin@archive.example", ""]


def test_a_moment_is_written_to_the_second_and_an_answer_counts_if_it_is_believed() -> None:
    assert moment_text(1_767_312_000.999) == "2026-01-02T00:00:00Z"
    wrong, empty = IbiError("wrong"), UrlList({})
    responses = ((empty, None), (empty, wrong), (None, wrong), (None, None))
    assert [ArchiveResponse(INCLUDED, *each).counts for each in responses] == [True, False, False, False]
