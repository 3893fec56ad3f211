"""The item that takes the place of a removed one, if the librarian who removed it named one."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0008"
down_revision = "catalogue_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From a catalogue in which only the next edition took the place of a removed item."""
    # Copies are not fetched anew: a removed item has none.
    op.add_column("item", sa.Column("replacement", sa.String))
