"""`ibi mint`, as a process: what it prints has happened, and never happens again."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.repository import UniformRepositoryName

HOST = ("--host", "mint.example.org", "--ip", "150.163.34.243")


def command(data: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ibi", "mint", "--data", str(data), *words]


def ibi(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LANGUAGE": "en"}
    command = [sys.executable, "-m", "ibi", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def mint(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return ibi("mint", "--data", str(data), *words)


@pytest.mark.proves("GEN-08", "GEN-16", "GEN-67", "CON-06")
def test_a_label_is_a_line_with_both_names_of_one_moment(tmp_path: Path) -> None:
    done = mint(tmp_path / "new", *HOST, "--port", "8080", "--ip-port", "802")
    assert (done.returncode, done.stderr) == (0, "")
    rep, ibip = done.stdout.split()
    assert rep.startswith("example.org/mint.8080/")
    assert ibip.startswith("8JMKD3MGP8W34M/")
    assert parse_ibi(rep).date.seconds == parse_ibi(ibip).date.seconds


def test_without_an_address_there_is_one_name(tmp_path: Path) -> None:
    assert len(mint(tmp_path, "--host", "mint.example.org").stdout.split()) == 1


def test_json_is_an_object_a_line(tmp_path: Path) -> None:
    done = mint(tmp_path, *HOST, "--json", "--count", "3", "--granularity", "0.001")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sorted(row) for row in rows] == [["datetime", "ibip", "rep"]] * 3
    names = [UniformRepositoryName.parse(row["rep"]) for row in rows]
    assert names == sorted(names)
    for row in rows:
        forms = IBIForms.parse(f"rep {row['rep']} ibip {row['ibip']}")
        assert forms.main.date.text == row["datetime"]


@pytest.mark.proves("GEN-41", "GEN-44")
def test_several_processes_and_a_kill_never_give_a_label_twice(tmp_path: Path) -> None:
    words = command(tmp_path, *HOST, "--granularity", "0.001", "--count", "1000000")
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    seen: list[str] = []
    for number, process in enumerate(running):
        with process:
            assert process.stdout is not None
            seen.extend(process.stdout.readline() for _ in range(30))
            process.send_signal((signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[number])
            seen.extend(process.stdout)
    labels = [label for line in seen if line.endswith("\n") for label in line.split()]
    assert len(labels) >= 3 * 30 * 2
    assert len(set(labels)) == len(labels)
    after = mint(tmp_path, *HOST, "--granularity", "0.001").stdout.split()
    assert not set(after) & set(labels)


def test_nobody_listening_any_more_ends_it_quietly(tmp_path: Path) -> None:
    words = command(tmp_path, *HOST, "--granularity", "0.001", "--count", "100000")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.proves("AMB-10")
@pytest.mark.parametrize(
    "words", [("--host", "a.localhost"), ("--host", "a.example.org", "--ip", "127.0.0.1")]
)
def test_what_nobody_owns_is_minted_under_only_for_trying(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = mint(tmp_path / "x", *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "only for trying out" in refused.stderr
    assert not (tmp_path / "x").exists()
    assert mint(tmp_path / "x", *words, "--for-trying").returncode == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--host", "localhost"), 1),
        (("--host", "1.2.3.4"), 1),
        (("--host", "a.example.org", "--ip", "x"), 1),
        (("--host", "a.example.org", "--port", "0"), 2),
        (("--host", "a.example.org", "--granularity", "2"), 2),
        (("--host", "a.example.org", "--count", "0"), 2),
        (("--host", "a.example.org", "--count", "\u0663"), 2),
        ((), 2),
    ],
)
def test_bad_words_are_refused_and_start_nothing(tmp_path: Path, words: tuple[str, ...], status: int) -> None:
    done = mint(tmp_path / "x", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_lost_date_mints_nothing(tmp_path: Path) -> None:
    assert mint(tmp_path, *HOST).returncode == 0
    (tmp_path / "minting" / "state").unlink()
    done = mint(tmp_path, *HOST)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_automatic_granularity_gives_many_within_seconds(tmp_path: Path) -> None:
    done = mint(tmp_path, *HOST, "--granularity", "auto", "--count", "20000")
    assert (done.returncode, done.stderr) == (0, "")
    labels = done.stdout.split()
    assert len(set(labels)) == len(labels) == 40_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_between_two_lines(tmp_path: Path, number: signal.Signals) -> None:
    words = command(tmp_path, *HOST, "--granularity", "0.00001", "--count", "10000000")
    environment = {**os.environ, "LANGUAGE": "en"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(100)]
        process.send_signal(number)
        lines += process.stdout.readlines()
        told = process.stderr.read()
    assert process.returncode == 130
    assert told == f"stopped after {len(lines)} labels\n"
    assert all(line.endswith("\n") and len(line.split()) == 2 for line in lines)


def test_a_person_at_the_terminal_sees_how_far_it_has_come(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    words = command(tmp_path, *HOST, "--granularity", "auto", "--count", "300000")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = b""
        while piece := _piece(screen):
            shown += piece
    os.close(screen)
    assert process.returncode == 0
    assert b"ibi mint" in shown
    assert b"%" in shown


def _piece(screen: int) -> bytes:
    try:
        return os.read(screen, 65536)
    except OSError:  # how a terminal says that nobody writes any more
        return b""


@pytest.mark.proves("GEN-44", "AMB-18")
def test_recover_says_what_it_found_and_minting_goes_on(tmp_path: Path) -> None:
    before = mint(tmp_path / "data", *HOST, "--count", "2", "--granularity", "0.1").stdout.split()
    given = tmp_path / "given.txt"
    given.write_text(f"Printed on paper: {before[0]}.\nand ({before[3]})\n", encoding="utf-8")
    shutil.rmtree(tmp_path / "data/minting")
    (tmp_path / "data/col").mkdir()
    assert mint(tmp_path / "data", *HOST).returncode == 1
    done = ibi("mint", "recover", "--data", str(tmp_path / "data"), "--given", str(given))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{given}: 2 labels" in done.stdout
    assert "is missing" in done.stdout
    assert "repaired: the next label is later than" in done.stdout
    after = mint(tmp_path / "data", *HOST, "--granularity", "0.1").stdout.split()
    assert len(after) == 2
    assert not set(after) & set(before)


def test_recover_refuses_what_only_the_operator_can_know(tmp_path: Path) -> None:
    mint(tmp_path / "data", *HOST)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    words = ("mint", "recover", "--data", str(tmp_path / "copy"))
    done = ibi(*words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "--moved" in done.stderr
    assert ibi(*words, "--moved").returncode == 0
    assert mint(tmp_path / "copy", *HOST).returncode == 0


def test_recover_finds_the_labels_of_the_items_of_an_archive(tmp_path: Path) -> None:
    data = str(tmp_path / "archive")
    made = ibi("archive", "init", "--data", data, "--address", "a.example.org", "--ip", "150.163.34.243")
    assert made.returncode == 0, made.stderr
    shutil.rmtree(tmp_path / "archive/minting")
    done = ibi("mint", "recover", "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert "items held: 2 labels" in done.stdout
