"""`ibi archive init` at a terminal: four questions, each answer checked at once."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import COMMAND

pytestmark = pytest.mark.long


class Terminal:
    """A person at a pseudo-terminal, who waits for words and types a line."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def read_until(self, words: str, seconds: float = 20) -> str:
        """What is shown up to these words, from where the last ones stood."""
        start = len(self.seen)
        end = time.monotonic() + seconds
        while words not in self.seen[start:]:
            assert time.monotonic() < end, self.seen
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    piece = os.read(self._master, 4096)
                except OSError:  # the other end is closed
                    piece = b""
                assert piece, self.seen
                self.seen += piece.decode()
        return self.seen[start:]

    def answer(self, question: str, line: str) -> str:
        """Wait for a question and type a line; returns what was shown before."""
        shown = self.read_until(question)
        os.write(self._master, f"{line}\n".encode())
        return shown

    def end_input(self) -> None:
        """Type Ctrl-D."""
        os.write(self._master, b"\x04")


@contextmanager
def terminal(*words: object) -> Iterator[Terminal]:
    master, slave = os.openpty()
    environment = {**os.environ, "LANGUAGE": "en", "TERM": "xterm"}
    command = [*COMMAND, "archive", "init", *map(str, words)]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            yield Terminal(master, process)
        finally:
            process.kill()
            process.wait()
            os.close(master)


@pytest.mark.proves("REG-01", "ARC-10")
def test_four_questions_make_an_archive_and_the_doctor_looks_at_it(tmp_path: Path) -> None:
    data = tmp_path / "a"
    with terminal("--data", data, "--for-trying") as person:
        person.answer("Where will the Archive answer", "http://archive.example")
        assert "an address is a host" in person.answer(
            "Where will the Archive answer", "archive.example:8081"
        )
        person.answer("IP address", "nowhere")
        person.answer("IP address", "192.0.2.7")
        assert "[admin@archive.example]" in person.answer("mail address? [", "")
        person.answer("Which resolver", "resolver.example")
        assert "given by its root" in person.answer("Which resolver", "http://127.0.0.1:9")
        shown = person.read_until("Start it with")
        assert person.process.wait(60) == 0
    assert "The checkup found" in shown
    assert "does not answer" in shown  # the resolver: a warning, which undoes nothing
    settings = ArchiveSettings.read(data)
    assert (settings.address, settings.ip) == ("archive.example:8081", "192.0.2.7")
    assert (settings.admin, settings.resolver) == ("admin@archive.example", "http://127.0.0.1:9")
    assert str(settings.service.rep).startswith("example/archive.8081/")


def test_what_options_say_is_not_asked(tmp_path: Path) -> None:
    data = tmp_path / "a"
    given = ("--ip", "192.0.2.7", "--admin", "a@archive.example", "--for-trying")
    with terminal("--data", data, *given) as person:
        person.answer("Where will the Archive answer", "archive.example")
        shown = person.answer("Which resolver", "")
        person.read_until("Start it with")
        assert person.process.wait(60) == 0
    assert "IP address" not in shown
    assert "mail address" not in shown
    assert ArchiveSettings.read(data).resolver == ""


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C until it is heard, as people do: Python misses one that comes just before it waits for input."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return


@pytest.mark.parametrize("interrupted", [False, True], ids=["end of input", "Ctrl-C"])
def test_a_command_that_is_cancelled_leaves_nothing_behind(tmp_path: Path, interrupted: bool) -> None:
    data = tmp_path / "a"
    with terminal("--data", data) as person:
        person.read_until("Where will the Archive answer")
        if interrupted:
            _interrupt(person.process)
        else:
            person.end_input()
        assert person.process.wait(60) == (130 if interrupted else 1)
    assert not data.exists()


def test_an_answer_that_never_fits_is_not_asked_for_for_ever(tmp_path: Path) -> None:
    with terminal("--data", tmp_path / "a") as person:
        for _ in range(20):
            person.answer("Where will the Archive answer", "/")
        person.read_until("nothing was made")
        assert person.process.wait(60) == 1


@pytest.mark.parametrize("given", [[], ["--address", "a.example"], ["--ip", "192.0.2.1"]])
def test_without_a_terminal_missing_options_are_wrong_usage(tmp_path: Path, given: list[str]) -> None:
    done = subprocess.run(
        [*COMMAND, "archive", "init", "--data", str(tmp_path / "a"), *given],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "LANGUAGE": "en"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--address and --ip are required" in done.stderr
    assert not (tmp_path / "a").exists()


def test_the_findings_of_the_doctor_are_in_the_json_too(tmp_path: Path) -> None:
    words = ["--address", "archive.example", "--ip", "192.0.2.1", "--for-trying", "--json"]
    done = subprocess.run(
        [*COMMAND, "archive", "init", "--data", str(tmp_path / "a"), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    made = json.loads(done.stdout)
    assert {"settings", "disk", "minting", "database"} <= {finding["name"] for finding in made["findings"]}
    assert not [finding for finding in made["findings"] if finding["verdict"] == "fault"]
