"""What administrators decide about Archives: it stands in the evidence, or it is not done."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import open_registry
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.members.mail import MailSender
from ibi.resolver.members.registrar import Registrar
from ibi.resolver.registry.registry import Registry
from support.engines.shared_store import in_wanted_store
from support.resolver.administration_fixture import administered_resolver, unwritable
from support.resolver.membership_fixture import ARCHIVE, KEY, SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

IBI = parse_ibi(ARCHIVE)
BY = "account root"


@dataclass
class Decisions:
    data: Path
    registry: Registry
    evidence: Evidence
    registrar: Registrar

    def written(self) -> list[str]:
        return [entry.what for entry in self.evidence.entries()]


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[Decisions]:
    registry = open_registry(in_wanted_store(tmp_path), new=True)
    evidence, mail = Evidence(tmp_path / EVIDENCE_FILE, time.time), MailSender("", "", "")
    yield Decisions(tmp_path, registry, evidence, Registrar(registry, evidence, lambda: mail, SERVICE))
    evidence.close()
    registry.close()


ACTIONS: dict[str, Callable[[Registrar], object]] = {
    "register": lambda registrar: registrar.register(IBI, KEY, by=BY),
    "approve": lambda registrar: registrar.approve(IBI, BY),
    "refuse": lambda registrar: registrar.refuse(IBI, BY, reason="Not ours."),
    "unregister": lambda registrar: registrar.unregister(IBI, BY),
    "rotate": lambda registrar: registrar.rotate(IBI, BY),
    "allow-move": lambda registrar: registrar.allow_move(IBI, BY),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_what_cannot_be_written_down_is_not_done(decisions: Decisions, action: str) -> None:
    registered = action in {"unregister", "rotate", "allow-move"}
    if registered:
        decisions.registry.register(IBI, KEY)
    elif action != "register":
        decisions.registry.apply(IBI, "archive.example", "")
    before = decisions.registry.registered()
    with unwritable(decisions.data), pytest.raises(SetupError, match=r"cannot be (written|used)"):
        ACTIONS[action](decisions.registrar)
    assert decisions.registry.registered() == before
    assert decisions.registry.check_key(IBI, KEY) == registered
    assert decisions.written() == []
    ACTIONS[action](decisions.registrar)
    assert decisions.registry.registered() != before
    assert decisions.registry.check_key(IBI, KEY) == (action in {"register", "allow-move"})
    assert len(decisions.written()) == 1


def test_an_archive_that_was_applied_for_and_is_registered_by_hand_is_written_down_once(
    decisions: Decisions,
) -> None:
    decisions.registry.apply(IBI, "archive.example", "")
    assert decisions.registrar.register(IBI, KEY, by=BY) == KEY
    assert decisions.registrar.register(IBI, KEY, ["archive.example"], by=BY) == KEY  # the same, with hosts
    assert decisions.written() == ["registered"]


def test_a_new_key_that_cannot_be_written_down_is_not_in_force_and_the_page_says_why(tmp_path: Path) -> None:
    with administered_resolver(tmp_path) as running:
        running.registry.register(IBI, KEY)
        root = running.browser("root")
        root.look("/-/admin/archives")
        with unwritable(running.data):
            sent = root.send("/-/admin/archives", ("ibi", ARCHIVE), ("what", "key"), ("sure", "yes"))
        assert sent.status == 422
        assert re.search("cannot be (written|used)", sent.text)
        assert running.registry.check_key(IBI, KEY)


def test_no_new_key_is_lost_because_the_page_that_shows_it_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_pages: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("ibi.app.resolver_admin.WithAdministration._members", busy)
    with administered_resolver(tmp_path) as running:
        running.registry.register(IBI, KEY)
        root = running.browser("root")
        root.look("/-/admin/log")
        assert (
            root.send("/-/admin/archives", ("ibi", ARCHIVE), ("what", "key"), ("sure", "yes")).status == 503
        )
        assert running.registry.check_key(IBI, KEY)
