"""The name of the institution where an item was deposited, which stays with it in other Archives."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0007"
down_revision = "catalogue_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From a catalogue in which each item bore the name of the Archive that held it."""
    op.add_column("item", sa.Column("institution", sa.String))
    # Copies without an ETag are fetched whole at their next refresh, and so get the name.
    op.execute("UPDATE copied SET tag = ''")
