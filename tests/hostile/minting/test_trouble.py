"""Minting where something is wrong: it ends, it does not repair by halves, and it says what is so."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import ClockError, LostState
from ibi.identifier.dates import TICKS
from ibi.identifier.generator import LabelGenerator, is_public_ip
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.batcher import Busy, LabelBatcher
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from support.cli.in_process import ibi
from support.machine import FalseMachine
from support.pipes import wait_until_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRIAL = ("--host", "a.b.example", "--for-trying")
DOCS = Path(__file__).parents[3] / "docs/reference/minting.md"


@contextmanager
def served(data: Path, *words: str) -> Iterator[Callable[[dict[str, Any]], tuple[int, Any]]]:
    """A running service; the function orders labels and gives status and answer."""
    token = ibi("mint", "token", "--data", data, "--name", "me").stdout.strip()
    serve = f"mint serve --data {data} --bind 127.0.0.1:0".split()
    command = [sys.executable, "-m", "ibi", *serve, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        assert service.stdout is not None
        address = service.stdout.readline().removeprefix("ready http://").strip()

        def order(fields: dict[str, Any]) -> tuple[int, Any]:
            connection = http.client.HTTPConnection(address, timeout=60)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/-/api/mint", json.dumps(fields), headers)
            answer = connection.getresponse()
            found = answer.status, json.loads(answer.read())
            connection.close()
            return found

        try:
            yield order
        finally:
            service.terminate()


def lose(state: Path) -> None:
    state.unlink()


def damage(state: Path) -> None:
    state.write_bytes(b"x")


@pytest.mark.proves("AMB-18")
@pytest.mark.parametrize("harm", [lose, damage])
def test_a_copied_state_stays_one_when_it_is_harmed_besides(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    clock = FalseMachine()
    with WaitingRoom(tmp_path / "here", clock.machine) as waiting_room:
        waiting_room.draw(TICKS)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    harm(tmp_path / "there/minting/state")
    other = FalseMachine(clock.at)
    other.identity = "another-machine"
    with pytest.raises(LostState, match="--moved"):
        recover(tmp_path / "there", other.machine)


@pytest.mark.proves("AMB-18")
@pytest.mark.parametrize("harm", [lose, damage])
def test_a_repair_does_not_trust_a_clock_that_the_replica_contradicts(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    clock = FalseMachine()
    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        waiting_room.draw(TICKS)
    harm(tmp_path / "minting/state")
    clock.at += 3650 * 86400 * TICKS
    with pytest.raises(ClockError):
        recover(tmp_path, clock.machine)


def test_a_machine_that_does_not_name_its_runs_may_be_started_anew(tmp_path: Path) -> None:
    clock = FalseMachine()
    clock.boot, clock.up = "-", 30 * 86400 * TICKS
    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        waiting_room.draw(TICKS)
    clock.restart("-")
    clock.at += 60 * TICKS
    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        waiting_room.draw(TICKS)


@pytest.mark.proves("AMB-18")
@pytest.mark.parametrize(
    "text",
    [
        "http://urlib.net/b.example/a/2010/01.01.00.00.05",
        "https://urlib.net/8JMKD3MGP8W/35MMLL8",
        "b.example/a/2010/01.01.00.00.05/doc/x.pdf",
    ],
)
def test_labels_in_links_are_found_among_those_given(tmp_path: Path, text: str) -> None:
    (tmp_path / "given").write_text(f"b.example/a/2005/01.01.00.00\n{text}\n")
    ibi("mint", "--data", tmp_path, *TRIAL)
    done = ibi("mint", "recover", "--data", tmp_path, "--given", tmp_path / "given")
    assert "given: 2 labels" in done.stdout
    assert "the latest: 2005" not in done.stdout


def test_a_list_with_a_very_long_word_is_read(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("a" * 1_000_000 + "\nb.example/a/2005/01.01.00.00\n")
    ibi("mint", "--data", tmp_path, *TRIAL)
    assert ibi("mint", "recover", "--data", tmp_path, "--given", tmp_path / "given").returncode == 0


def test_a_repair_by_root_leaves_the_state_to_whom_it_belongs(tmp_path: Path) -> None:
    ibi("mint", "--data", tmp_path, *TRIAL)
    state = tmp_path / "minting/state"
    owner, group = (
        (os.geteuid(), os.getegid()) if os.geteuid() else (65534, 65534)
    )  # only root gives files away
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, owner, group)
    assert ibi("mint", "recover", "--data", tmp_path).returncode == 0
    assert (state.stat().st_uid, state.stat().st_gid) == (owner, group)


@pytest.mark.parametrize("word", ["TERM", "INT"])
def test_a_command_whose_reader_has_stopped_reading_can_be_stopped(tmp_path: Path, word: str) -> None:
    count = ("--granularity", "0.00001", "--count", "100000")
    command = [sys.executable, "-m", "ibi", "mint", "--data", str(tmp_path), *TRIAL, *count]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as minting:
        assert minting.stdout is not None
        minting.stdout.read(1)
        wait_until_full(minting.stdout.fileno())
        assert minting.poll() is None
        minting.send_signal(getattr(signal, f"SIG{word}"))
        try:
            assert minting.wait(60) != 0
        finally:
            minting.kill()


def test_many_labels_come_in_lists_that_fit_into_memory(tmp_path: Path) -> None:
    clock = FalseMachine()
    generator = LabelGenerator("a.b.example", for_trying=True)
    with Subsystem(WaitingRoom(tmp_path, clock.machine), generator, 1000) as subsystem:
        assert max(map(len, subsystem.chunks(300_000))) <= 50_000


@pytest.mark.long
def test_workers_that_share_a_coarse_granularity_all_give_labels(tmp_path: Path) -> None:
    async def run() -> list[int]:
        batchers = [
            LabelBatcher(WaitingRoom(tmp_path, this_machine()), generator, TICKS, sharers=4) for _ in range(4)
        ]

        async def draws(batcher: LabelBatcher) -> int:
            given = 0
            for _ in range(3):
                try:
                    given += len(await batcher.draw(1))
                except Busy:
                    continue
            return given

        return await asyncio.gather(*map(draws, batchers))

    generator = LabelGenerator("a.b.example", for_trying=True)
    with WaitingRoom(tmp_path, this_machine()):
        assert asyncio.run(run()) == [3, 3, 3, 3]


def test_a_batcher_whose_thread_cannot_be_started_refuses_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        batcher = LabelBatcher(waiting_room, LabelGenerator("a.b.example", for_trying=True))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError, match="new thread"):
                await asyncio.wait_for(batcher.draw(1), 10)
        assert len(await batcher.draw(1)) == 1

    with WaitingRoom(tmp_path, this_machine()) as waiting_room:
        asyncio.run(run())


def test_an_order_that_can_never_be_served_is_not_told_to_come_back(tmp_path: Path) -> None:
    with served(tmp_path, *TRIAL, "--granularity", "1") as order:
        assert 400 <= order({"count": 11})[0] < 500


def test_an_order_for_ibips_goes_to_a_subsystem_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "subsystems.toml").write_text(
        '[first]\nhost = "a.b.example"\nip = "8.8.8.8"\nfor_trying = true\n'
        '[second]\nhost = "c.b.example"\nfor_trying = true\n'
    )
    with served(tmp_path) as order:
        assert [order({"forms": "ibip"})[0] for _ in range(3)] == [200, 200, 200]


@pytest.fixture
def harmed(tmp_path: Path) -> Path:
    """A directory of one listed subsystem whose state is damaged."""
    (tmp_path / "subsystems.toml").write_text('[first]\nhost = "a.b.example"\nfor_trying = true\n')
    ibi("mint", "--data", tmp_path / "first", *TRIAL)
    damage(tmp_path / "first/minting/state")
    ibi("mint", "token", "--data", tmp_path, "--name", "me")
    return tmp_path


def test_doctor_sees_the_faults_of_listed_subsystems(harmed: Path) -> None:
    done = ibi("doctor", "--data", harmed)
    assert done.returncode == 1
    assert "damaged" in done.stdout


@pytest.mark.proves("AMB-18")
def test_recover_does_not_say_repaired_while_a_listed_subsystem_is_not(harmed: Path) -> None:
    done = ibi("mint", "recover", "--data", harmed)
    repaired = ibi("mint", "--data", harmed / "first", *TRIAL).returncode == 0
    assert repaired or "repaired" not in done.stdout


@pytest.mark.proves("AMB-10")
@pytest.mark.parametrize("host", ["localhost.localdomain", "nas.lan", "in-addr.arpa", "x.onion"])
def test_names_without_an_owner_are_for_trying_only(host: str) -> None:
    assert LabelGenerator(f"www.{host}", for_trying=True).why_not_unique


@pytest.mark.proves("AMB-10")
@pytest.mark.parametrize("ip", ["fec0::1", "3fff::1", "192.88.99.1", "192.0.0.8"])
def test_addresses_that_are_no_machines_are_not_public(ip: str) -> None:
    assert not is_public_ip(ip)


def test_the_commands_on_the_page_about_minting_are_not_refused() -> None:
    lines = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if "--for-trying" not in line]
    assert {ip for line in lines for ip in re.findall(r"--ip (\S+)", line)} == {"ADDRESS"}, "the reader's own"
