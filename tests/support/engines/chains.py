"""Chains of migrations that are made for a test."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from ibi.archive.store import schema

_ENV = (schema.MIGRATIONS / "env.py").read_text(encoding="utf-8")


def migrations(folder: Path, *statements: str, only_add: frozenset[int] = frozenset()) -> Path:
    """A folder of migrations "things_0001" and so on, each with one statement; some say that they only add."""
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text(_ENV)
    before = None
    for number, statement in enumerate(statements, 1):
        revision = f"things_{number:04}"
        step = f"""\
            from alembic import op
            import sqlalchemy as sa
            revision = "{revision}"
            down_revision = {before!r}
            {"only_adds = True" if number in only_add else ""}
            def upgrade(): {statement}
            """
        (folder / "versions" / f"{number:04}_step.py").write_text(dedent(step))
        before = revision
    return folder


def table(name: str) -> str:
    """The statement that makes a table with one column, `value`."""
    return f'op.create_table("{name}", sa.Column("value", sa.Integer))'
