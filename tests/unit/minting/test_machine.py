"""What a state has recorded of its machine is compared with what the machine says today, and for years."""

from __future__ import annotations

import ctypes
import re
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from ibi.minting.machine import UNKNOWN, this_machine

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def test_the_identity_of_a_machine_is_spelled_as_every_state_has_recorded_it() -> None:
    """Spelled in any other way, every state would be one of another machine, and its Archive could mint nothing."""
    known = [path.read_text(encoding="ascii").strip() for path in MACHINE_IDS if path.exists()]
    if not any(known):
        assert this_machine().identity == UNKNOWN
        return
    machine_id = next(filter(None, known))
    assert this_machine().identity == sha256(f"ibi {machine_id}".encode()).hexdigest()[:16]


def test_a_machine_without_an_id_has_an_identity_of_one_word_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, *_: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    machine = this_machine()
    assert (machine.identity, machine.boot) == (UNKNOWN, UNKNOWN)
    assert UNKNOWN == "-"


def test_a_run_of_the_machine_is_one_word() -> None:
    boot = this_machine().boot
    assert boot == UNKNOWN or re.fullmatch("[0-9a-f-]{36}", boot)


def test_the_clock_counts_nanoseconds_and_does_not_stand_still() -> None:
    machine = this_machine()
    first, running = machine.now(), machine.running()
    machine.sleep(0.002)
    assert 2_000_000 <= machine.running() - running < 60 * 10**9
    assert abs(machine.now() - first) < 60 * 10**9
    with pytest.raises(ValueError, match="negative"):
        machine.sleep(-1)


@pytest.mark.parametrize(
    ("answer", "synchronised"), [(0, True), (4, True), (5, False), (6, True), (-1, None)]
)
def test_the_answer_of_the_kernel_says_whether_the_clock_is_synchronised(
    monkeypatch: pytest.MonkeyPatch, answer: int, synchronised: bool | None
) -> None:
    library = SimpleNamespace(adjtimex=lambda _: answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert this_machine().synchronised() is synchronised


def test_a_kernel_that_cannot_be_asked_says_nothing_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    assert this_machine().synchronised() is None
