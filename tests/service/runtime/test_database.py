"""The database module knows which version a database has, and what the newest is, without the program that migrates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from ibi.archive.store import schema
from ibi.resolver.registry.registry import MIGRATIONS
from ibi.runtime import database


@pytest.mark.parametrize("migrations", [schema.MIGRATIONS, MIGRATIONS], ids=["catalogue", "registry"])
def test_the_versions_of_a_database_are_those_that_alembic_knows(migrations: Path) -> None:
    steps = ScriptDirectory(str(migrations)).walk_revisions()
    assert database._versions(migrations) == [step.revision for step in steps][::-1]


def test_nothing_but_a_migration_waits_for_alembic(tmp_path: Path) -> None:
    init = f"archive init --data {tmp_path / 'a'} --address archive.example --ip 127.0.0.1"
    service = ("--service-ibi", "LK47B6W/362SFKH")
    subprocess.run([sys.executable, "-m", "ibi", *init.split(), *service], check=True, capture_output=True)
    shown = f"ibi.cli.main(['archive', 'list', '--data', {str(tmp_path / 'a')!r}])"
    code = f"import sys, ibi.cli; status = {shown}; sys.exit(status or 'alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
