"""A word for each change, by which a resolver's position is found again, and changes that are of no single item."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0009"
down_revision = "catalogue_0008"
branch_labels = None
depends_on = None

# Numbers go on, also those of changes that are forgotten with the old table, which had no words.
_FIRST = """INSERT INTO changed (number, word, moment, rules, item)
    SELECT max(coalesce((SELECT max(number) FROM changed_before), 0), coalesce((SELECT max(feed) FROM event), 0)) + 1,
    :word, CAST(strftime('%s', 'now') AS INTEGER), 0, NULL"""


def upgrade() -> None:
    """From a catalogue of which resolvers could not ask what has changed."""
    op.execute("DROP TRIGGER changed_by_event")
    op.rename_table("changed", "changed_before")
    op.create_table(
        "changed",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("word", sa.String, nullable=False),
        sa.Column("moment", sa.Integer, nullable=False),
        sa.Column("rules", sa.Integer, nullable=False),
        sa.Column("item", sa.Integer),
    )
    op.create_index("changed_anything", "changed", ["number"], sqlite_where=sa.text("item IS NULL"))
    op.execute(sa.text(_FIRST).bindparams(word=secrets.token_hex(8)))
    op.drop_table("changed_before")
