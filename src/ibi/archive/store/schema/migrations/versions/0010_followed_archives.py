"""Up to which position this Archive follows others from which it has copies, and which copies are to be compared."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0010"
down_revision = "catalogue_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From a catalogue whose copies were compared with their originals once a day only."""
    op.add_column("copied", sa.Column("due", sa.String, nullable=False, server_default="~"))
    op.create_index("copied_from", "copied", ["archive", "service", "private"])
    op.create_index("copied_due", "copied", ["archive", "service"], sqlite_where=sa.text("due != ''"))
    op.create_table(
        "followed",
        sa.Column("archive", sa.String, primary_key=True),
        sa.Column("service", sa.String, primary_key=True),
        sa.Column("position", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
