"""The program as a later version would be: the same source, with one more migration for each of its chains."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import ibi

CHAINS = ("archive/store/schema", "runtime/shared", "resolver/shared")
_REVISION = re.compile(r'^revision = "((\w+)_(\d+))"$', re.MULTILINE)
_MIGRATION = '''"""What a later version adds."""

import sqlalchemy as sa
from alembic import op

revision = "{chain}_{number:04}"
down_revision = "{before}"
{adds}

def upgrade() -> None:
    """From the version before."""
    op.create_table("later_{chain}", sa.Column("a", sa.Integer, primary_key=True))
    {more}
'''
_MORE = {
    "catalogue": 'op.add_column("item", sa.Column("later", sa.String))',
    "shared": 'op.add_column("session", sa.Column("later", sa.String))',
    "resolver": 'op.add_column("archives", sa.Column("later", sa.String))',
}


def newer_program(folder: Path, *, only_adds: bool = True) -> Path:
    """Make it in a folder, which is to be on the path of a Python; return the folder."""
    shutil.copytree(Path(ibi.__path__[0]), folder / "ibi", ignore=shutil.ignore_patterns("__pycache__"))
    for chain in CHAINS:
        add_migration(folder / "ibi" / chain / "migrations", only_adds=only_adds)
    return folder


def add_migration(migrations: Path, *, only_adds: bool) -> str:
    """Add a migration to a folder of them; return the version that it leads to."""
    versions = migrations / "versions"
    newest = max(versions.glob("[0-9]*.py"))
    found = _REVISION.search(newest.read_text("utf-8"))
    assert found is not None
    before, chain, number = found[1], found[2], int(found[3]) + 1
    adds = "only_adds = True\n" if only_adds else ""
    text = _MIGRATION.format(chain=chain, number=number, before=before, adds=adds, more=_MORE[chain])
    (versions / f"{number:04}_later.py").write_text(text)
    return f"{chain}_{number:04}"


def python_path(program: Path) -> str:
    """The variable PYTHONPATH with which a Python runs this program."""
    return os.pathsep.join(filter(None, (str(program), os.environ.get("PYTHONPATH", ""))))
