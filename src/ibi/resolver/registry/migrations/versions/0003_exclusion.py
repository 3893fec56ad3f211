"""Until when an Archive is excluded, as it said itself: until a moment, or for good (threat T04)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "registry_0003"
down_revision = "registry_0002"


def upgrade() -> None:
    """Add the columns; who is excluded now has not said that it will not be back."""
    op.add_column("archives", sa.Column("back_at", sa.Float))
    op.add_column("archives", sa.Column("gone", sa.Boolean, nullable=False, server_default=sa.false()))
