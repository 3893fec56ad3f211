"""`ibi archive init` at a terminal: four questions, each answer checked at once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ibi.runtime.settings import ArchiveSettings
from support.cli.terminal import interrupt, terminal
from support.concurrency.forked import run_ibi

pytestmark = pytest.mark.long


@pytest.mark.proves("REG-01", "ARC-10")
def test_four_questions_make_an_archive_and_the_doctor_looks_at_it(tmp_path: Path) -> None:
    data = tmp_path / "a"
    with terminal("archive", "init", "--data", data, "--for-trying") as person:
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
    with terminal("archive", "init", "--data", data, *given) as person:
        person.answer("Where will the Archive answer", "archive.example")
        shown = person.answer("Which resolver", "")
        person.read_until("Start it with")
        assert person.process.wait(60) == 0
    assert "IP address" not in shown
    assert "mail address" not in shown
    assert ArchiveSettings.read(data).resolver == ""


@pytest.mark.parametrize("interrupted", [False, True], ids=["end of input", "Ctrl-C"])
def test_a_command_that_is_cancelled_leaves_nothing_behind(tmp_path: Path, interrupted: bool) -> None:
    data = tmp_path / "a"
    with terminal("archive", "init", "--data", data) as person:
        person.read_until("Where will the Archive answer")
        if interrupted:
            interrupt(person.process)
        else:
            person.end_input()
        assert person.process.wait(60) == (130 if interrupted else 1)
    assert not data.exists()


def test_an_answer_that_never_fits_is_not_asked_for_for_ever(tmp_path: Path) -> None:
    with terminal("archive", "init", "--data", tmp_path / "a") as person:
        for _ in range(20):
            person.answer("Where will the Archive answer", "/")
        person.read_until("nothing was made")
        assert person.process.wait(60) == 1


@pytest.mark.parametrize("given", [[], ["--address", "a.example"], ["--ip", "192.0.2.1"]])
def test_without_a_terminal_missing_options_are_wrong_usage(tmp_path: Path, given: list[str]) -> None:
    done = run_ibi(
        "archive", "init", "--data", tmp_path / "a", *given,
        stdin=subprocess.DEVNULL, text=True, env={**os.environ, "LANGUAGE": "en"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "--address and --ip are required" in done.stderr
    assert not (tmp_path / "a").exists()


def test_the_findings_of_the_doctor_are_in_the_json_too(tmp_path: Path) -> None:
    words = ["--address", "archive.example", "--ip", "192.0.2.1", "--for-trying", "--json"]
    done = run_ibi("archive", "init", "--data", tmp_path / "a", *words, text=True)
    assert done.returncode == 0, done
    made = json.loads(done.stdout)
    assert {"settings", "disk", "minting", "database"} <= {finding["name"] for finding in made["findings"]}
    assert not [finding for finding in made["findings"] if finding["verdict"] == "fault"]
