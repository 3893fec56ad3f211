"""`ibi mint`: what it prints has happened, and never happens again."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from ibi import identifier
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.repository import UniformRepositoryName
from support.cli.archive_commands import make_archive
from support.cli.in_process import ibi
from support.pipes import wait_until_full
from support.ports import free_port

PAGE = (Path(__file__).parents[3] / "docs/reference/minting.md").read_text(encoding="utf-8")
HOST = ("--host", "mint.example.org", "--ip", "150.163.34.243")


def command(data: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ibi", "mint", "--data", str(data), *words]


@contextmanager
def running(words: list[str]) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A command at work: the process, what it prints, and what it says."""
    environment = {**os.environ, "LANGUAGE": "en"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        yield process, process.stdout, process.stderr


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


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
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
def test_a_prefix_without_an_owner_is_minted_under_only_for_trying(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
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


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (
            lambda _: None,
            "if the other one never gives a label again: ibi mint recover --data {data} --moved",
        ),
        (
            lambda data: (data / "minting/state").write_bytes(b"x"),
            "labels wait until it is repaired: ibi mint recover --data {data}",
        ),
    ],
    ids=["copied", "damaged"],
)
def test_a_state_that_is_not_trusted_is_refused_with_the_command_that_repairs_it(
    tmp_path: Path, spoil: Callable[[Path], object], remedy: str
) -> None:
    data, file = tmp_path / "copy", tmp_path / "a.jsonl"
    make_archive(tmp_path / "a", free_port())
    file.write_text('{"url": "http://far.example/"}')
    deposit = ["archive", "deposit", "--title", "T", str(file), "--data"]
    assert ibi(*deposit, str(tmp_path / "a")).returncode == 0
    shutil.copytree(tmp_path / "a", data)
    spoil(data)
    for words in (
        ["mint", "--data", str(data), "--host", "mint.example.org"],
        [*deposit, str(data)],
        ["archive", "import", "--data", str(data), str(file)],
    ):
        refused = ibi(*words)
        assert refused.returncode == 1
        assert refused.stderr.splitlines()[0].endswith("; " + remedy.format(data=data))


def test_automatic_granularity_gives_many_within_seconds(tmp_path: Path) -> None:
    done = mint(tmp_path, *HOST, "--granularity", "auto", "--count", "20000")
    assert (done.returncode, done.stderr) == (0, "")
    labels = done.stdout.split()
    assert len(set(labels)) == len(labels) == 40_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_between_two_lines(tmp_path: Path, number: signal.Signals) -> None:
    words = command(tmp_path, *HOST, "--granularity", "0.00001", "--count", "10000000")
    with running(words) as (process, labels, messages):
        lines = [labels.readline() for _ in range(100)]
        process.send_signal(number)
        lines += labels.readlines()
        output = messages.read()
    assert process.returncode == 130
    assert output == f"stopped after {len(lines)} labels\n"
    assert all(line.endswith("\n") and len(line.split()) == 2 for line in lines)


def test_a_person_at_the_terminal_sees_how_far_it_has_come(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    words = command(tmp_path, *HOST, "--granularity", "auto", "--count", "20000000")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LANGUAGE": "en"}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown, ended = b"", False
        while piece := _piece(controller):
            shown += piece
            if b" of 20,000,000" in shown and not ended:
                process.terminate()
                ended = True
    os.close(controller)
    assert process.returncode == 130
    assert b"labels given" in shown
    assert b" of 20,000,000" in shown


def _piece(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # how a terminal says that the other end is closed
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


def test_recover_reads_labels_in_any_text_and_says_how_many_lines_have_none(tmp_path: Path) -> None:
    rep, ibip = mint(tmp_path / "data", *HOST).stdout.split()
    given = tmp_path / "given.txt"
    lines = [
        f'{{"labels":[{{"rep":"{rep}","ibip":"{ibip}"}},{{"rep":"{rep}","ibip":null}}]}}',
        f"https://urlib.net/{ibip}?ibiurl.language=pt and http://x.org/?u=http%3A%2F%2Furlib.net%2F{rep}%3F",
        "a" * 5000 + f"/{rep}/doc/a.pdf",
        "few/less than a/b, and 8JMKD3MGP8W/",
        "",
    ]
    given.write_text("\n".join(lines), encoding="utf-8")
    done = ibi("mint", "recover", "--data", str(tmp_path / "data"), "--given", str(given))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{given}: 6 labels\n    lines without a label: 1\n    the latest: 20")


def test_a_path_of_very_many_folders_is_one_sentence(tmp_path: Path) -> None:
    done = mint(tmp_path.joinpath(*["d"] * 1500), *HOST)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ibi: a path has too many folders in it, or a file is nested too deeply\n"


# ---- several subsystems in one directory


@pytest.fixture
def several(tmp_path: Path) -> Path:
    (tmp_path / "subsystems.toml").write_text(
        '[first]\nhost = "mint.example.org"\ngranularity = "0.1"\n'
        '[second]\nhost = "mint.example.org"\nport = 8080\nip = "150.163.34.243"\n'
    )
    return tmp_path


@pytest.mark.proves("GEN-04", "GEN-44")
def test_a_listed_subsystem_gives_labels_of_its_own_range_names_and_granularity(several: Path) -> None:
    done = mint(several, "--subsystem", "first", "--count", "2")
    assert (done.returncode, done.stderr) == (0, "")
    label = (
        r"example\.org/mint/2\d{3}/\d\d(\.\d\d){1,4}(\.\d)?\n"  # trailing zeros of the moment are left out
    )
    assert re.fullmatch(f"({label}){{2}}", done.stdout)
    assert (several / "first/minting/state").exists()
    rep, ibip = mint(several, "--subsystem", "second", "--granularity", "0.001").stdout.split()
    assert rep.startswith("example.org/mint.8080/")
    assert ibip.startswith("8JMKD3MGP8W/")
    assert not (several / "minting").exists()


@pytest.mark.proves("GEN-44")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ("--host", "mint.example.org"),
            1,
            "leave out --host, and give --subsystem and one of: first, second",
        ),
        (("--subsystem", "third"), 1, "it lists: first, second"),
        (("--subsystem", "first", "--port", "80"), 1, "leave out --port"),
        (("--subsystem", "first", "--for-trying", "--ip", "8.8.8.8"), 1, "leave out --for-trying, --ip"),
        (("--subsystem", "first", "--host", "mint.example.org"), 2, "exclude each other"),
        ((), 2, "--host --subsystem"),
    ],
)
def test_where_subsystems_are_listed_one_of_them_is_named_and_nothing_else(
    several: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    done = mint(several, *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert [path.name for path in several.iterdir()] == ["subsystems.toml"]


def test_a_subsystem_of_a_directory_without_a_list_is_one_sentence(tmp_path: Path) -> None:
    for words in (("mint",), ("mint", "recover")):
        done = ibi(*words, "--data", str(tmp_path), "--subsystem", "first")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.proves("AMB-18")
def test_recover_goes_through_every_listed_subsystem(several: Path) -> None:
    words = ("mint", "recover", "--data", str(several))
    mint(several, "--subsystem", "first")
    (several / "first/minting/state").write_bytes(b"x")
    done = ibi(*words)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.split("second:\n")
    assert first.startswith(f"first:\nthe minting state in {several / 'first'} is damaged")
    assert "repaired: the next label is later than" in first
    assert second == "no label has been given here yet\n"
    assert mint(several, "--subsystem", "first").returncode == 0
    mint(several, "--subsystem", "second")
    for name in ("first", "second"):
        (several / name / "minting/state").write_bytes(b"x")
    assert ibi(*words, "--subsystem", "second").stdout.startswith("second:\n")
    assert [mint(several, "--subsystem", name).returncode for name in ("first", "second")] == [1, 0]


@pytest.mark.proves("AMB-18")
def test_a_subsystem_that_cannot_be_repaired_does_not_hold_up_the_others(several: Path) -> None:
    for name in ("first", "second"):
        mint(several, "--subsystem", name)
    shutil.copytree(several / "first", several / "copy")
    shutil.rmtree(several / "first")
    (several / "copy").rename(several / "first")
    (several / "second/minting/state").write_bytes(b"x")
    done = ibi("mint", "recover", "--data", str(several))
    assert done.returncode == 1
    assert done.stderr.startswith("ibi: first: the minting state in ")
    assert done.stderr.count("\n") == 1
    assert [mint(several, "--subsystem", name).returncode for name in ("first", "second")] == [1, 0]


# ---- stopped while the output is read, and while it is not


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_stopped_while_its_reader_sleeps_counts_every_whole_line(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = command(tmp_path, *HOST, "--granularity", "0.00001", "--count", "1000000")
    with running(words) as (process, labels, messages):
        first = labels.read(1)
        wait_until_full(labels.fileno())
        process.send_signal(number)
        output = messages.read()  # to the end of the process, while the labels are not read
        lines = (first + labels.read()).splitlines(keepends=True)
    assert process.returncode == 130
    assert output == f"stopped after {len(lines)} labels\n"
    assert len(lines) > 100
    assert all(line.endswith("\n") and len(line.split()) == 2 for line in lines)


def test_ctrl_c_ends_it_between_two_lines_while_a_bar_is_shown(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    words = command(tmp_path, *HOST, "--granularity", "0.00001", "--count", "1000000")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LANGUAGE": "en"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as process:
        os.close(terminal)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2000)]
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
        shown = b""
        while piece := _piece(controller):
            shown += piece
    os.close(controller)
    assert process.returncode == 130
    assert f"stopped after {len(lines)} labels" in shown.decode()
    assert all(line.endswith("\n") and len(line.split()) == 2 for line in lines)


# ---- the page


def test_the_commands_of_the_page_give_labels_under_the_reader_s_names(tmp_path: Path) -> None:
    table = re.search(r"((?:^    .*\n|^\n)*^    \[theses\](?:\n|.)*?)^`ibi", PAGE, re.MULTILINE)
    assert table
    (tmp_path / "several").mkdir()
    own = {"ADDRESS": "150.163.34.243", "HOST": "repository.your.domain", "1000000": "3"}
    listed = table[1].replace("    ", "").replace("ADDRESS", own["ADDRESS"])
    (tmp_path / "several/subsystems.toml").write_text(listed, encoding="utf-8")
    prefixes = []
    for line in re.findall(r"^    ibi mint (--data [^>\n]+)", PAGE, re.MULTILINE):
        words = [own.get(word, word) for word in line.split()]
        words[1] = str(tmp_path / words[1])
        done = ibi("mint", *words)
        assert done.returncode == 0, done.stderr
        prefixes.append({word.split("/2")[0] for word in done.stdout.split()})
    assert len(prefixes) == 4
    assert prefixes[1] & prefixes[2]
    assert not prefixes[1] & prefixes[3]


def test_a_listed_subsystem_mints_without_any_package_but_ours(tmp_path: Path) -> None:
    (tmp_path / "subsystems.toml").write_text('[first]\nhost = "a.example.org"\nfor_trying = true\n')
    program = (
        "import sys; sys.path.append(sys.argv.pop(1)); from ibi.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    source = str(Path(identifier.__file__).parents[2])
    words = ["mint", "--data", str(tmp_path), "--subsystem", "first", "--count", "1"]
    # Without `site`, nothing that is installed can be imported.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, source, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"example\.org/a/[0-9/.]+\n", done.stdout)
