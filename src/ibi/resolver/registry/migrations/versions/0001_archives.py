"""The registered and included Archives."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "registry_0001"
down_revision = None


def upgrade() -> None:
    """Make the table of Archives."""
    op.create_table(
        "archives",
        sa.Column("service_ibi", sa.String, primary_key=True),
        sa.Column("spelling", sa.String, nullable=False),
        sa.Column("key_hash", sa.String, nullable=False),
        sa.Column("url_hosts", sa.String, nullable=False),
        sa.Column("registered_at", sa.String, nullable=False),
        sa.Column("included", sa.Boolean, nullable=False),
        sa.Column("confirmed", sa.Boolean, nullable=False),
        sa.Column("address", sa.String),
        sa.Column("ip", sa.String),
        sa.Column("protocol", sa.String),
        sa.Column("platform_version", sa.String),
        sa.Column("admin_mail", sa.String),
        sa.Column("changed_at", sa.String),
        sa.Column("change", sa.Integer, nullable=False),
    )
