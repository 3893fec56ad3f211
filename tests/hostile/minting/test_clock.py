"""A clock that stands in the year 10000: one sentence, and no date is made of it (threat T32)."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ibi.cli import main
from ibi.identifier.dates import date_text

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = "a.example/w/2020/01.01.00.00"
SENTENCE = b"ibi: the clock of this machine is past the year 9998: set it right\n"

# The commands as they are, on a machine whose clock is wrong.
MACHINE = """
import sys, time
time.time_ns = lambda: 253402300800 * 10**9
time.time = lambda: 253402300800.0
from ibi.cli import main
sys.exit(main(sys.argv[1:]))
"""


def in_the_year_10000(folder: Path, words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", MACHINE, *words.split()]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an Archive `a` and a resolver `r`, made when the clock was right."""
    folder = tmp_path_factory.mktemp("late")
    address = "--address a.example --ip 127.0.0.1"
    words = f"archive init --data {folder / 'a'} {address} --service-ibi {SERVICE}"
    assert main(words.split()) == 0
    words = f"resolver init --data {folder / 'r'} --address r.example --service-ibi J8LNKB5R7W/3FUQHC5"
    assert main(words.split()) == 0
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "mint --data new --host urlib.net", "mint recover --data new",
        "archive init --data new --address b.example",
        "archive delete --data a x.example/y/2020/01.02.00.00 --reason x",
        "archive serve --data a --bind 127.0.0.1:0", "resolver serve --data r --bind 127.0.0.1:0",
        f"resolver register --data r --archive-service {SERVICE}", "resolver log show --data r",
    ],
)  # fmt: skip
def test_a_clock_past_the_calendar_is_one_sentence(folder: Path, words: str) -> None:
    done = in_the_year_10000(folder, words)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", SENTENCE)
    assert not (folder / "new").exists()


def test_what_needs_no_clock_goes_on_and_the_doctor_tells_of_it(folder: Path) -> None:
    assert in_the_year_10000(folder, f"inspect {SERVICE}").returncode == 0
    done = in_the_year_10000(folder, "doctor --data r")
    assert SENTENCE.strip().removeprefix(b"ibi: ") in done.stdout
    assert b"Traceback" not in done.stderr


def test_the_library_gives_no_label_for_it(folder: Path) -> None:
    script = MACHINE.replace("from ibi.cli import main\nsys.exit(main(sys.argv[1:]))", "") + (
        "from ibi.errors import ClockError\nfrom ibi.minting import Subsystem\n"
        "try:\n    with Subsystem.open('library', host='urlib.net') as subsystem:\n        subsystem.mint()\n"
        "except ClockError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False, cwd=folder
    )
    assert (done.stdout, done.stderr) == (SENTENCE.removeprefix(b"ibi: "), b"")


def test_a_date_past_the_calendar_can_be_told() -> None:
    assert date_text(253402300800 * 10**9) == "9999-12-31T23:59:59Z"
