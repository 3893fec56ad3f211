"""Documents, counters of changes, sessions, attempts to sign in, and replies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "shared_0001"
down_revision = None

_COUNTING = """
CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE part text := TG_ARGV[0];
BEGIN
    IF part = 'document' THEN
        part := 'document ' || CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END;
    END IF;
    INSERT INTO change_count (name, number) VALUES (part, 1)
        ON CONFLICT (name) DO UPDATE SET number = change_count.number + 1;
    PERFORM pg_notify('ibi_changes', part);
    RETURN NULL;
END $$
"""
_TRIGGER = (
    "CREATE TRIGGER document_changed AFTER INSERT OR UPDATE OR DELETE ON document"
    " FOR EACH ROW EXECUTE FUNCTION count_change('document')"
)


def upgrade() -> None:
    """Make the tables, and the trigger that counts the changes of documents and tells of them."""
    op.create_table(
        "document",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "change_count",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "session",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("stamp", sa.Text, nullable=False),
        sa.Column("begun", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("language", sa.Text, nullable=False),
    )
    op.create_index("session_of_account", "session", ["account", "begun"])
    op.create_table(
        "attempt",
        sa.Column("number", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("moment", sa.Double, nullable=False),
    )
    op.create_index("attempt_of_name", "attempt", ["name", "moment"])
    op.create_index("attempt_by_moment", "attempt", ["moment"])
    op.create_table(
        "reply",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("moment", sa.Double, nullable=False),
    )
    op.create_index("reply_by_moment", "reply", ["moment"])
    op.execute(_COUNTING)
    op.execute(_TRIGGER)
