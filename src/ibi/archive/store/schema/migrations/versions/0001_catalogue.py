"""The first catalogue: items, their names, their files, and the urlkeys that came back."""

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "item",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("rep", sa.String),
        sa.Column("ibip", sa.String),
        sa.Column("aliases", sa.String),
        sa.Column("key", sa.String, unique=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("content_type", sa.String, nullable=False),
        sa.Column("timestamp", sa.String, nullable=False),
        sa.Column("language", sa.String),
        sa.Column("transferable", sa.Boolean, nullable=False),
        sa.Column("url", sa.String),
        sa.Column("target", sa.String),
        sa.Column("file_list_public", sa.Boolean, nullable=False),
        sa.Column("file_count", sa.Integer, nullable=False),
        sa.Column("next_edition", sa.String),
        sa.Column("translations", sa.String),
        sa.Column("metadata_item", sa.String),
        sa.Column("metadata", sa.String),
        sa.Column("formats", sa.String),
        sa.Column("thanks", sa.Integer, nullable=False, server_default="0"),
        sa.CheckConstraint("rep IS NOT NULL OR ibip IS NOT NULL", name="item_is_named"),
        sa.CheckConstraint("state IN ('Original', 'Copy', 'Deleted')", name="item_state"),
        sa.CheckConstraint("content_type IN ('Data', 'Metadata')", name="item_content_type"),
    )
    op.create_table(
        "name",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), nullable=False),
        sa.Column("main", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("name_of_item", "name", ["item"])
    op.create_table(
        "file",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("media_type", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "thanked",
        sa.Column("url_key", sa.String, primary_key=True),
        sa.Column("expires", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("thanked_expires", "thanked", ["expires"])
