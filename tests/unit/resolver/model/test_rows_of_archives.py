"""What a row of the registry says of an Archive: every column is read, and into its own field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.model.archive import (
    Archive,
    AwayArchive,
    Move,
    RegisteredArchive,
    away_archive,
    included_archive,
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
