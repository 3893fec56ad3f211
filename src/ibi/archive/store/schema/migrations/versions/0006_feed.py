"""A feed of all changes, for programs beside the Archive: each event has its number in the order of commits."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0006"
down_revision = "catalogue_0005"
branch_labels = None
depends_on = None

# Older events get no number: who follows the feed begins with all items as they are. The last one gets the number
# that it has in `changed`, so that a place in the feed is known by an event from the beginning.
_LAST = """UPDATE event SET feed = last.number
    FROM (SELECT number, item FROM changed ORDER BY number DESC LIMIT 1) AS last
    WHERE event.item = last.item AND event.number = (SELECT max(number) FROM event WHERE item = last.item)"""
_TRIGGER = """CREATE TRIGGER changed_by_event AFTER INSERT ON event
    BEGIN INSERT INTO changed (item) VALUES (new.item);
    UPDATE event SET feed = last_insert_rowid() WHERE item = new.item AND number = new.number;
    DELETE FROM changed WHERE number <= last_insert_rowid() - 10000; END"""


def upgrade() -> None:
    """From a catalogue that knew the order of its last 10,000 events alone."""
    op.add_column("event", sa.Column("feed", sa.Integer))
    op.create_index("event_feed", "event", ["feed"], unique=True, sqlite_where=sa.text("feed IS NOT NULL"))
    op.execute("DROP TRIGGER changed_by_event")
    op.execute(_LAST)
    op.execute(_TRIGGER)
