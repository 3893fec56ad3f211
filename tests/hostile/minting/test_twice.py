"""Ways in which one label could be given twice: whatever is done to files, names and processes, it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from ibi.errors import LostState, MintingError, SetupError
from ibi.identifier.dates import MINUTE, TICKS
from ibi.minting import Subsystem, WaitingRoom, state
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from ibi.minting.subsystem import open_subsystems
from support.machine import FalseMachine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.minting.machine import Machine

LISTED = '[{name}]\nhost = "{host}"\ngranularity = "{step}"\nfor_trying = true\n'


class Meddled(FalseMachine):
    """A machine on which another process does something while a process waits for the first time."""

    meddle: Callable[[], object] | None = None

    def sleep(self, seconds: float) -> None:
        meddle, self.meddle = self.meddle, None
        if meddle:
            meddle()
        super().sleep(seconds)


@pytest.mark.proves("GEN-44")
def test_a_command_and_the_listed_subsystems_of_one_directory_never_give_one_label(tmp_path: Path) -> None:
    host = "repository.your.example"
    (tmp_path / "subsystems.toml").write_text(LISTED.format(name="first", host=host, step="0.1"))
    words = ("--data", str(tmp_path), "--host", host, "--for-trying", "--granularity", "0.1", "--count", "20")
    served = set()
    with open_subsystems(tmp_path, this_machine(), ClockLimits())[0].namer as first:
        command = subprocess.Popen(
            [sys.executable, "-m", "ibi", "mint", *words], stdout=-1, stderr=-1, text=True
        )
        while command.poll() is None:
            served.add(str(first.mint().rep))
    printed = set(command.communicate()[0].split())
    assert not printed & served


@pytest.mark.proves("GEN-44")
def test_subsystems_that_change_names_never_give_a_label_of_the_other(tmp_path: Path) -> None:
    clock = FalseMachine()

    def opened(*hosts: str) -> list[Subsystem]:
        tables = [LISTED.format(name=name, host=host, step=1) for name, host in zip("ab", hosts, strict=True)]
        (tmp_path / "subsystems.toml").write_text("\n".join(tables))
        return [place.namer for place in open_subsystems(tmp_path, clock.machine, ClockLimits())]

    with ExitStack() as entered:
        idle, busy = map(entered.enter_context, opened("x.a.example", "y.a.example"))
        idle.mint()
        clock.pass_by(300 * TICKS)
        given = {str(busy.mint().rep) for _ in range(3)}
    clock.pass_by(5 * TICKS)
    with opened("y.a.example", "x.a.example")[0] as renamed:
        assert not given & {str(renamed.mint().rep) for _ in range(3)}


@pytest.mark.proves("GEN-44")
def test_a_process_that_forks_between_two_labels_gives_each_label_once(tmp_path: Path) -> None:
    with Subsystem.open(tmp_path, host="a.b.example", granularity="0.001", for_trying=True) as subsystem:
        labels = subsystem.mint_many(100)
        for _ in range(3):
            next(labels)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.write(write, "\n".join(str(next(labels).rep) for _ in range(5)).encode())
            os._exit(0)
        mine = {str(next(labels).rep) for _ in range(5)}
        os.waitpid(child, 0)
        os.close(write)
        other = os.read(read, 4096)
        os.close(read)
    assert not mine & set(other.decode().split())


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_repair_that_broke_off_does_not_leave_two_states_to_draw_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    clock = FalseMachine()
    given: list[int] = []
    with WaitingRoom(tmp_path, clock.machine) as service:
        given += [service.draw(TICKS // 1000) for _ in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(state, "flush_folder", fail)  # the new state is in place, and its replica is not
            with pytest.raises(SetupError):
                recover(tmp_path, clock.machine)
        clock.pass_by(70 * TICKS)
        with suppress(LostState):
            given.append(service.draw(TICKS))
        with suppress(LostState), WaitingRoom(tmp_path, clock.machine) as command:
            given += [command.draw(TICKS) for _ in range(3)]
    assert len(given) == len(set(given))


@pytest.mark.proves("GEN-44")
def test_a_waiting_room_that_one_thread_leaves_is_not_closed_under_another_one(tmp_path: Path) -> None:
    clock = Meddled()
    waiting_room = WaitingRoom(tmp_path, clock.machine)
    with waiting_room:
        clock.meddle = lambda: waiting_room.__exit__(None, None, None)  # the end of another thread's `with`
        first = waiting_room.reserve(MINUTE, 1).last
        assert waiting_room.reserve(MINUTE, 1).last > first


@pytest.mark.proves("GEN-44")
def test_threads_that_enter_and_leave_one_subsystem_all_get_labels(tmp_path: Path) -> None:
    subsystem = Subsystem.open(tmp_path, host="a.b.example", granularity="0.000001", for_trying=True)
    given: list[str] = []
    faults: list[BaseException] = []
    end = time.monotonic() + 1

    def work() -> None:
        while time.monotonic() < end and not faults:
            try:
                with subsystem:
                    given.append(str(subsystem.mint().rep))
            except BaseException as error:  # noqa: BLE001 - shown by the test
                faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(given) == len(set(given)) > len(threads)


def remove_lock(data: Path, _: Machine) -> None:
    (data / "minting/lock").unlink()


def replace_lock(data: Path, _: Machine) -> None:
    shutil.copy2(data / "minting/lock", data / "copy")
    (data / "copy").replace(data / "minting/lock")


def empty_folder(data: Path, _: Machine) -> None:
    shutil.rmtree(data / "minting")
    (data / "minting").mkdir()


def remove_lock_and_repair(data: Path, machine: Machine) -> None:
    remove_lock(data, machine)
    recover(data, machine)


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("meddle", [remove_lock, replace_lock, empty_folder, remove_lock_and_repair])
@pytest.mark.parametrize("drawn", [0, 1])
def test_who_waits_with_a_lock_that_is_gone_gives_no_label_of_the_next_one(
    tmp_path: Path, meddle: Callable[[Path, Machine], None], drawn: int
) -> None:
    clock = Meddled()
    given: list[int] = []

    def interfere() -> None:
        meddle(tmp_path, clock.machine)
        with suppress(MintingError), WaitingRoom(tmp_path, clock.machine) as other:
            given.append(other.reserve(MINUTE, 1).last)

    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        given += [waiting_room.draw(MINUTE) for _ in range(drawn)]
        clock.meddle = interfere
        with suppress(MintingError):
            given.append(waiting_room.reserve(MINUTE, 1).last)
    assert len(given) == len(set(given))


@pytest.mark.proves("GEN-44")
def test_a_child_that_was_forked_during_a_draw_does_not_keep_the_lock(tmp_path: Path) -> None:
    children: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        children.append(child)

    clock = Meddled()
    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        clock.meddle = fork
        waiting_room.reserve(MINUTE, 1)
        next_one = threading.Thread(target=waiting_room.reserve, args=(MINUTE, 1))
        next_one.start()
        next_one.join(10)
        waits = next_one.is_alive()
        os.kill(children[0], 9)
        os.waitpid(children[0], 0)
        next_one.join()
    assert not waits


@pytest.mark.proves("GEN-44")
def test_a_program_that_changes_its_folder_goes_on_in_the_same_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here/labels", "there/labels/minting"):
        (tmp_path / name).mkdir(parents=True)
    clock = FalseMachine()
    monkeypatch.chdir(tmp_path / "here")
    with WaitingRoom("labels", clock.machine) as waiting_room, WaitingRoom("labels", clock.machine) as other:
        monkeypatch.chdir(tmp_path / "there")
        waiting_room.reserve(TICKS, 1)
        monkeypatch.chdir(tmp_path / "here")
        other.reserve(TICKS, 1)
    assert not (tmp_path / "there/labels/minting/state").exists()
