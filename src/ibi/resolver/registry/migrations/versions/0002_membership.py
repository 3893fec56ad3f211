"""Applications, the administrator's mail address, the guard of addresses, and when an Archive was last heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "registry_0002"
down_revision = "registry_0001"

_NEW = (
    sa.Column("state", sa.String, nullable=False, server_default="registered"),
    sa.Column("mirrored_from", sa.String, nullable=False, server_default=""),
    sa.Column("contact", sa.String, nullable=False, server_default=""),
    sa.Column("contact_name", sa.String, nullable=False, server_default=""),
    sa.Column("source", sa.String, nullable=False, server_default=""),
    sa.Column("included_at", sa.Float),
    sa.Column("heard_at", sa.String),
    sa.Column("confirmed_address", sa.String),
    sa.Column("confirmed_at", sa.String),
    sa.Column("move_allowed", sa.Boolean, nullable=False, server_default=sa.false()),
)


def upgrade() -> None:
    """Add the columns and the table of moves; an Archive that has confirmed keeps its address."""
    for column in _NEW:
        op.add_column("archives", column)
    op.execute("UPDATE archives SET included_at = CAST(strftime('%s', changed_at) AS REAL) WHERE included")
    op.execute("UPDATE archives SET confirmed_address = address, confirmed_at = changed_at WHERE confirmed")
    op.create_table(
        "moves",
        sa.Column("service_ibi", sa.String, primary_key=True),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("ip", sa.String, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("silent_since", sa.Float),
        sa.Column("checks", sa.Integer, nullable=False),
    )
