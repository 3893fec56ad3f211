"""Subsystems that mint, for those who put labels into other programs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from ibi.errors import MintingError, MintingNotAllowed, ParseError
from ibi.identifier.dates import TICKS
from ibi.identifier.forms import IBIForms
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from support.machine import FalseMachine

GENERATOR = LabelGenerator("mint.example.org", ip="150.163.34.243")


def at(directory: Path, machine: FalseMachine, granularity: int | None = TICKS) -> Subsystem:
    return Subsystem(WaitingRoom(directory, machine.machine), GENERATOR, granularity)


def opened(directory: Path, granularity: str = "auto") -> Subsystem:
    return Subsystem.open(directory, host="mint.example.org", ip="150.163.34.243", granularity=granularity)


@pytest.mark.proves("GEN-08", "GEN-40")
def test_a_label_has_both_forms_and_its_moment_has_come(tmp_path: Path) -> None:
    with opened(tmp_path, "0.001") as subsystem:
        forms = subsystem.mint()
    assert isinstance(forms, IBIForms)
    assert forms.rep is not None
    assert forms.ibip is not None
    assert forms.rep.date.ticks == forms.ibip.date.ticks
    assert (forms.main.date.ticks or 0) <= time.time_ns()


def test_many_labels_come_in_order_and_cost_few_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    sync = os.fdatasync

    def counted(handle: int) -> None:
        nonlocal syncs
        syncs += 1
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", counted)
    with opened(tmp_path) as subsystem:
        subsystem.mint()
        syncs = 0
        labels = [label for chunk in subsystem.chunks(100_000) for label in chunk]
    assert len({label.rep for label in labels}) == len({label.ibip for label in labels}) == 100_000
    assert [label.date for label in labels] == sorted(label.date for label in labels)
    assert syncs <= 100


@pytest.mark.proves("GEN-40")
def test_no_chunk_comes_before_the_moment_of_its_last_label(tmp_path: Path) -> None:
    machine = FalseMachine(wakes_early=0.3)
    with at(tmp_path, machine, TICKS // 1000) as subsystem:
        for chunk in subsystem.chunks(1000):
            assert chunk[-1].date <= machine.at
    assert machine.slept >= 0.9


@pytest.mark.proves("GEN-36", "GEN-43", "GEN-46")
def test_automatic_granularity_gives_a_thousand_labels_in_about_a_second_and_one_that_is_short(
    tmp_path: Path,
) -> None:
    machine = FalseMachine()
    with at(tmp_path, machine, None) as subsystem:
        assert len(list(subsystem.mint_many(1000))) == 1000
        assert machine.slept <= 1.3
        assert subsystem.mint().main.date.fraction == ""


def test_threads_share_a_subsystem(tmp_path: Path) -> None:
    given: list[str] = []
    with opened(tmp_path, "0.000001") as subsystem:
        threads = [
            threading.Thread(target=lambda: given.extend(map(str, subsystem.mint_many(200))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(given)) == len(given) == 800


@pytest.mark.proves("AMB-10")
def test_a_name_without_an_owner_starts_nothing(tmp_path: Path) -> None:
    for names in ({"host": "a.localhost"}, {"host": "a.example.org", "ip": "10.0.0.1"}):
        with pytest.raises(MintingNotAllowed):
            Subsystem.open(tmp_path / "new", **names)  # type: ignore[arg-type]  # two names of two arguments
    for host in ("archive", "150.163.34.243", "[::1]", ""):
        with pytest.raises(ParseError):
            Subsystem.open(tmp_path / "new", host=host)
    with pytest.raises(ParseError):
        Subsystem.open(tmp_path / "new", host="a.example.org", granularity="2")
    assert not (tmp_path / "new").exists()


def test_a_subsystem_has_the_usual_ports_and_one_second_unless_others_are_wanted(tmp_path: Path) -> None:
    usual = Subsystem.open(tmp_path / "usual", host="mint.example.org", ip="150.163.34.243")
    assert (usual.generator.port, usual.generator.ip_port, usual.granularity) == (80, 800, TICKS)
    assert usual.generator.why_not_unique is None
    trial = Subsystem.open(
        tmp_path / "trial", host="a.localhost", port=8080, ip="10.0.0.1", ip_port=8081, for_trying=True
    )
    assert (trial.generator.port, trial.generator.ip_port) == (8080, 8081)
    assert trial.generator.why_not_unique is not None


def test_a_directory_that_was_opened_under_other_names_records_them(tmp_path: Path) -> None:
    """Labels with the new prefixes may have been given elsewhere: see `WaitingRoom`."""
    names = list[str]()
    for host in ("a.example.org", "b.example.org"):
        with Subsystem.open(tmp_path, host=host, granularity="0.001") as subsystem:
            subsystem.mint()
        names.append((tmp_path / "minting/state").read_text().split()[7])
    assert names[0] != names[1]


def test_a_subsystem_that_is_left_notes_that_nothing_was_touched(tmp_path: Path) -> None:
    lock = tmp_path / "minting/lock"
    machine = FalseMachine()
    with at(tmp_path, machine) as subsystem:
        for _ in range(2):
            subsystem.waiting_room.reserve(1, 1)
        crashed = lock.read_bytes()
    assert lock.read_bytes() != crashed


def test_a_label_shows_its_moment_and_its_forms(tmp_path: Path) -> None:
    machine = FalseMachine()
    with at(tmp_path, machine) as subsystem:
        (chunk,) = subsystem.chunks(1)
        assert [len(each) for each in subsystem.chunks(0)] == []
    (label,) = chunk
    assert label.datetime == "2010-11-01T04:18:13Z"
    assert (str(label.forms.rep), str(label.forms.ibip)) == (label.rep, label.ibip)
    assert label.forms == GENERATOR.label(label.date)


def test_every_list_of_labels_is_due_before_the_next_is_waited_for(tmp_path: Path) -> None:
    machine = FalseMachine()
    with at(tmp_path, machine, TICKS // 10) as subsystem:
        for chunk in subsystem.chunks(5):
            assert chunk[-1].date <= machine.at < chunk[-1].date + TICKS // 10


def test_a_child_gives_none_of_the_labels_that_its_parent_has_requested(tmp_path: Path) -> None:
    machine = FalseMachine()
    with at(tmp_path, machine, TICKS // 1000) as subsystem:
        subsystem.mint()
        machine.pass_by(TICKS)
        for labels in (subsystem.mint_many(3), subsystem.chunks(500)):
            next(labels)
            child = os.fork()
            if not child:
                try:
                    list(labels)
                except MintingError as error:
                    os._exit(40 + str(error).startswith("labels that were requested before a fork"))
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
            assert len(list(labels)) > 0
