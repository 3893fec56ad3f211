"""What readers call an Archive: written at the registration, or sent by the Archive itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "registry_0004"
down_revision = "registry_0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("archives", sa.Column("title", sa.String, nullable=False, server_default=""))
