"""Uploads under way of an Archive, in pieces, so that each of its nodes can go on with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "shared_0002"
down_revision = "shared_0001"
only_adds = True


def upgrade() -> None:
    """Make the tables of uploads and of their pieces."""
    op.create_table(
        "upload",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("touched", sa.Double, nullable=False),
    )
    op.create_index("upload_of_token", "upload", ["token"])
    op.create_table(
        "upload_piece",
        sa.Column("upload", sa.Text, sa.ForeignKey("upload.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("start", sa.BigInteger, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    # Not compressed: most files are already, and the length of a piece is then read without the piece.
    op.execute("ALTER TABLE upload_piece ALTER COLUMN content SET STORAGE EXTERNAL")
