"""Which item comes before another one: items are found by their next edition."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0004"
down_revision = "catalogue_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From a catalogue in which editions led only forwards."""
    op.create_index(
        "item_next_edition", "item", ["next_edition"], sqlite_where=sa.text("next_edition IS NOT NULL")
    )
