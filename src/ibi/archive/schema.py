"""The tables of the catalogue as they are now; the migrations lead from an older state to this one."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, String, Table

MIGRATIONS = Path(__file__).parent / "migrations"
"""Where the steps from version to version stand."""

metadata = MetaData()

item = Table(
    "item",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("rep", String, comment="as spelled; at least one of rep and ibip is there"),
    Column("ibip", String, comment="as spelled"),
    Column("aliases", String, comment="older opaque ids, blanks between"),
    Column("key", String, unique=True, comment="the depositor's own key"),
    Column("state", String, nullable=False),
    Column("content_type", String, nullable=False),
    Column("timestamp", String, nullable=False),
    Column("language", String),
    Column("transferable", Boolean, nullable=False),
    Column("url", String, comment="of a linked item"),
    Column("target", String, comment="name of the file served by default"),
    Column("file_list_public", Boolean, nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("next_edition", String, comment="forms of an IBI, as all links: rep x ibip y"),
    Column("translations", String, comment="JSON: forms by language"),
    Column("metadata_item", String),
    Column("metadata", String, comment="JSON: Dublin Core by element"),
    Column("formats", String, comment="JSON: URLs of metadata by format"),
    Column("thanks", Integer, nullable=False, server_default="0", comment="acknowledgments counted"),
    CheckConstraint("rep IS NOT NULL OR ibip IS NOT NULL", name="item_is_named"),
    CheckConstraint("state IN ('Original', 'Copy', 'Deleted')", name="item_state"),
    CheckConstraint("content_type IN ('Data', 'Metadata')", name="item_content_type"),
    comment="one row an item: so it has one state, and is never both original and copy (ARC-04)",
)

name = Table(
    "name",
    metadata,
    Column("name", String, primary_key=True, comment="canonical; older opaque ids by exact case"),
    Column("item", Integer, ForeignKey("item.number"), nullable=False),
    Column("main", Boolean, nullable=False, comment="whether it is the one that items are sorted by"),
    comment="one row a name: so no two items share one (ARC-01), and both forms find the item (ARC-17)",
    sqlite_with_rowid=False,
)
Index("name_of_item", name.c.item)

file = Table(
    "file",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("name", String, primary_key=True, comment="percent-encoded, as it was given"),
    Column("size", Integer, nullable=False),
    Column("sha256", String, nullable=False),
    Column("media_type", String, nullable=False),
    comment="the manifest: what is not listed here is not served",
    sqlite_with_rowid=False,
)

thanked = Table(
    "thanked",
    metadata,
    Column("url_key", String, primary_key=True, comment="a urlkey that came back: it counts once"),
    Column("expires", Integer, nullable=False, comment="POSIX seconds; later it would be refused anyway"),
    sqlite_with_rowid=False,
)
Index("thanked_expires", thanked.c.expires)
