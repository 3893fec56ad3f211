"""What resolvers are told of: the items of the last 10,000 events, in the order in which they were committed."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0003"
down_revision = "catalogue_0002"
branch_labels = None
depends_on = None

_TRIGGER = """CREATE TRIGGER changed_by_event AFTER INSERT ON event
    BEGIN INSERT INTO changed (item) VALUES (new.item);
    DELETE FROM changed WHERE number <= last_insert_rowid() - 10000; END"""


def upgrade() -> None:
    """From a catalogue that remembered events by their items only."""
    op.create_table(
        "changed",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("item", sa.Integer, nullable=False),
    )
    op.execute(_TRIGGER)
