"""What administrators decide about Archives: it stands in the evidence, or it is not done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ibi import assembly
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence import FILE, Evidence
from ibi.resolver.mail import Mail
from ibi.resolver.registrar import Registrar
from ibi.resolver.registry import Registry
from resolver.desk import desk_at, unwritable
from resolver.member import ARCHIVE, KEY, SERVICE, use_cheap_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

IBI = parse_ibi(ARCHIVE)
BY = "account root"


@dataclass
class Office:
    data: Path
    registry: Registry
    evidence: Evidence
    registrar: Registrar

    def written(self) -> list[str]:
        return [entry.what for entry in self.evidence.entries()]


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    use_cheap_keys(monkeypatch)
    registry = assembly.registry(tmp_path, new=True)
    evidence, mail = Evidence(tmp_path / FILE, time.time), Mail("", "", "")
    yield Office(tmp_path, registry, evidence, Registrar(registry, evidence, lambda: mail, SERVICE))
    evidence.close()
    registry.close()


ACTIONS: dict[str, Callable[[Registrar], object]] = {
    "register": lambda registrar: registrar.register(IBI, KEY, by=BY),
    "approve": lambda registrar: registrar.approve(IBI, BY),
    "refuse": lambda registrar: registrar.refuse(IBI, BY),
    "unregister": lambda registrar: registrar.unregister(IBI, BY),
    "rotate": lambda registrar: registrar.rotate(IBI, BY),
    "allow-move": lambda registrar: registrar.allow_move(IBI, BY),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_what_cannot_be_written_down_is_not_done(office: Office, action: str) -> None:
    registered = action in {"unregister", "rotate", "allow-move"}
    if registered:
        office.registry.register(IBI, KEY)
    elif action != "register":
        office.registry.apply(IBI, "archive.example", "")
    before = office.registry.registered()
    with unwritable(office.data), pytest.raises(SetupError, match="cannot be written"):
        ACTIONS[action](office.registrar)
    assert office.registry.registered() == before
    assert office.registry.check_key(IBI, KEY) == registered
    assert office.written() == []
    ACTIONS[action](office.registrar)
    assert (office.registry.registered() != before) == (action != "rotate")
    assert office.registry.check_key(IBI, KEY) == (action in {"register", "allow-move"})
    assert len(office.written()) == 1


def test_an_archive_that_was_applied_for_and_is_registered_by_hand_is_written_down_once(
    office: Office,
) -> None:
    office.registry.apply(IBI, "archive.example", "")
    assert office.registrar.register(IBI, KEY, by=BY) == KEY
    assert office.registrar.register(IBI, KEY, ["archive.example"], by=BY) == KEY  # the same, with hosts
    assert office.written() == ["registered"]


def test_a_new_key_that_cannot_be_written_down_is_not_in_force_and_the_page_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cheap_keys(monkeypatch)
    with desk_at(tmp_path) as desk:
        desk.registry.register(IBI, KEY)
        root = desk.somebody("root")
        root.look("/-/admin/archives")
        with unwritable(desk.data):
            sent = root.send("/-/admin/archives", ("ibi", ARCHIVE), ("what", "key"), ("sure", "yes"))
        assert sent.status == 422
        assert "cannot be written" in sent.text
        assert desk.registry.check_key(IBI, KEY)


def test_nobody_loses_a_new_key_because_the_page_that_shows_it_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_office: object) -> None:
        raise TimeoutError

    use_cheap_keys(monkeypatch)
    monkeypatch.setattr("ibi.assembly.resolver_admin.WithOffice._members", busy)
    with desk_at(tmp_path) as desk:
        desk.registry.register(IBI, KEY)
        root = desk.somebody("root")
        root.look("/-/admin/log")
        assert (
            root.send("/-/admin/archives", ("ibi", ARCHIVE), ("what", "key"), ("sure", "yes")).status == 503
        )
        assert desk.registry.check_key(IBI, KEY)
