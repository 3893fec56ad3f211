"""What readers call an Archive in Portuguese, if it has another name there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "registry_0005"
down_revision = "registry_0004"


def upgrade() -> None:
    """Add the column."""
    op.add_column("archives", sa.Column("title_pt", sa.String, nullable=False, server_default=""))
