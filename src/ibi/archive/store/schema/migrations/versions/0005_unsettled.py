"""Which originals came back from a backup, and may have moved or been removed since."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0005"
down_revision = "catalogue_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From a catalogue in which a restored original was claimed at once."""
    op.add_column("item", sa.Column("unsettled", sa.String))
    op.create_index("item_unsettled", "item", ["number"], sqlite_where=sa.text("unsettled IS NOT NULL"))
