"""The units of systemd that `ibi init` writes: systemd finds no fault in them, and they may do little."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from ibi.cli.setup.rendering import PORTS, Machine, drop_in, units

ROOT = Path(__file__).parents[4]
TOOL = runpy.run_path(str(ROOT / "tools/service_files.py"))
MOST_EXPOSED = 2.0


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze` with these words."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here")
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)


def write(folder: Path, machine: Machine, **changes: str) -> list[Path]:
    """Write the units of an instance of each kind; `changes`: what else is written for a line of a service."""
    paths = []
    for name, text in units(machine).items():
        if "@" not in name:
            continue
        for old, new in changes.items():
            text = re.sub(rf"^{old}=.*$", new, text, flags=re.MULTILINE)  # noqa: PLW2901 - changed step by step
        path = folder / name.replace("@", "@archive.example.org")
        path.write_text(text, "utf-8")
        paths.append(path)
    drop = folder / "ibi-archive@archive.example.org.socket.d"
    drop.mkdir()
    (drop / "port.conf").write_text(drop_in(8082, "::1"), "utf-8")
    return paths


def verify(folder: Path, machine: Machine, **changes: str) -> str:
    """What systemd says of the units: nothing, if all is right."""
    found = analyze("verify", "--man=no", "--recursive-errors=no", *write(folder, machine, **changes))
    # It ends with status 0 in spite of many faults, which it only writes.
    assert found.returncode == 0 or found.stderr
    return found.stdout + found.stderr


@pytest.mark.parametrize("data", ["/var/lib/ibi", "/srv/ibi/"])
def test_systemd_finds_no_fault(tmp_path: Path, data: str) -> None:
    assert verify(tmp_path, Machine(program="/bin/true", data=data)) == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"Type": "Tipe=notify"}, "Tipe"), ({"ExecStart": "ExecStart=/nowhere/ibi"}, "/nowhere/ibi")],
)
def test_systemd_would_find_a_fault(tmp_path: Path, changes: dict[str, str], complaint: str) -> None:
    assert complaint in verify(tmp_path, Machine(program="/bin/true"), **changes)


@pytest.mark.parametrize("data", ["/var/lib/ibi", "/srv/ibi"])
@pytest.mark.parametrize("kind", PORTS)
def test_a_service_is_exposed_a_little_only(tmp_path: Path, kind: str, data: str) -> None:
    write(tmp_path, Machine(program="/bin/true", data=data))
    path = tmp_path / f"ibi-{kind}@archive.example.org.service"
    found = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", path)
    assert found.returncode == 0, found.stdout
    exposure = re.search(r"exposure level for \S+: ([0-9.]+)", found.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= MOST_EXPOSED
    open_unit = tmp_path / "open@x.service"
    open_unit.write_text("[Service]\nExecStart=/bin/true\n", "utf-8")
    assert analyze("security", "--offline=true", "--threshold=20", open_unit).returncode != 0


def test_a_restart_is_tried_for_ever_and_data_are_written_in_one_folder_only() -> None:
    text = units(Machine())["ibi-archive@.service"]
    assert "\nStartLimitIntervalSec=0\n" in text
    assert "\nStateDirectory=ibi/archive/%i\n" in text
    assert "ReadWritePaths" not in text
    elsewhere = units(Machine(data="/srv/ibi"))["ibi-archive@.service"]
    assert "\nReadWritePaths=/srv/ibi/archive/%i\n" in elsewhere
    assert "StateDirectory" not in elsewhere


def test_the_files_in_packaging_are_those_of_the_templates() -> None:
    wanted = TOOL["files"]()
    assert {path: path.read_text("utf-8") for path in wanted} == wanted, "run: make docs"
    assert {
        path for folder in ("systemd", "proxy") for path in (ROOT / "packaging" / folder).iterdir()
    } == set(wanted)
