"""What keeping items needs: access, files on their way, history, and the laws of the catalogue."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "catalogue_0002"
down_revision = "catalogue_0001"
branch_labels = None
depends_on = None

_SIDECAR_TRIGGERS = (
    """CREATE TRIGGER sidecar_of_file AFTER INSERT ON file
    BEGIN INSERT INTO sidecar (item, owed) VALUES (new.item, 1)
    ON CONFLICT (item) DO UPDATE SET owed = owed + 1; END""",
    """CREATE TRIGGER sidecar_of_event AFTER INSERT ON event
    BEGIN UPDATE sidecar SET owed = owed + 1 WHERE item = new.item; END""",
)
"""Every change of an item adds to its history, and so marks its item.json as outdated."""

_LAWS = (
    """CREATE TRIGGER removed_for_ever BEFORE UPDATE OF state ON item
    WHEN old.state = 'Deleted' AND new.state <> 'Deleted'
    BEGIN SELECT RAISE(ABORT, 'law: a removed item stays removed'); END""",
    """CREATE TRIGGER original_stays BEFORE UPDATE OF state ON item
    WHEN old.state = 'Original' AND new.state = 'Copy' AND NOT old.transferable
    BEGIN SELECT RAISE(ABORT, 'law: this original is not transferable'); END""",
    """CREATE TRIGGER item_stays BEFORE DELETE ON item
    BEGIN SELECT RAISE(ABORT, 'law: no item is forgotten'); END""",
    """CREATE TRIGGER name_stays BEFORE DELETE ON name
    BEGIN SELECT RAISE(ABORT, 'law: no name is taken away'); END""",
    """CREATE TRIGGER name_keeps_its_item BEFORE UPDATE ON name
    WHEN new.name <> old.name OR new.item <> old.item
    BEGIN SELECT RAISE(ABORT, 'law: a name means one item for ever'); END""",
    """CREATE TRIGGER event_stays BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'law: history is not forgotten'); END""",
)
"""What no program may do to a catalogue, this one or another (ARC-07, ARC-08, GEN-05)."""


def upgrade() -> None:
    """From a catalogue that could only be filled."""
    _items()
    _membership()
    _visits()
    _copies()
    _transfers()
    _fixity()


def _required(kind: type[sa.String | sa.Integer], *names: str) -> list[sa.Column[Any]]:
    """Columns of one kind that are never empty."""
    return [sa.Column(name, kind, nullable=False) for name in names]


def _items() -> None:
    """Access, files on their way, and what happened to items."""
    op.execute(
        "ALTER TABLE item ADD COLUMN access VARCHAR NOT NULL DEFAULT 'open'"
        " CONSTRAINT item_access CHECK (access IN ('open', 'embargoed', 'restricted', 'closed'))"
    )
    for name in ("embargo", "rights", "licence", "reason"):
        op.add_column("item", sa.Column(name, sa.String))
    op.create_index("item_removed", "item", ["number"], sqlite_where=sa.text("state = 'Deleted'"))
    op.add_column("file", sa.Column("staged", sa.String))
    op.create_index("file_staged", "file", ["staged"], sqlite_where=sa.text("staged IS NOT NULL"))
    op.create_table("leaving", sa.Column("path", sa.LargeBinary, primary_key=True), sqlite_with_rowid=False)
    op.create_table(
        "event",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        *_required(sa.String, "moment", "who", "what"),
        sa.Column("detail", sa.String),
        sqlite_with_rowid=False,
    )


def _membership() -> None:
    """The place at resolvers, and where harvests stand."""
    op.create_table(
        "membership",
        sa.Column("resolver", sa.String, primary_key=True),
        *_required(sa.String, "state", "since"),
        sa.Column("heard", sa.String),
        sa.Column("problem", sa.String),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "harvested",
        sa.Column("repository", sa.String, primary_key=True),
        sa.Column("part", sa.String, primary_key=True),
        sa.Column("format", sa.String, primary_key=True),
        *_required(sa.String, "token", "begun", "newest", "since"),
        sqlite_with_rowid=False,
    )


def _visits() -> None:
    """Statistics, and for how many readers each urlkey has counted."""
    op.add_column("thanked", sa.Column("readers", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "visits",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        sa.Column("month", sa.String, primary_key=True),
        sa.Column("country", sa.String, primary_key=True),
        *_required(sa.Integer, "investigations", "unique_investigations", "requests", "unique_requests"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "visit_mark",
        sa.Column("mark", sa.LargeBinary, primary_key=True),
        sa.Column("until", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("visit_mark_until", "visit_mark", ["until"])
    op.create_table(
        "visit_key",
        sa.Column("day", sa.String, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _copies() -> None:
    """Where copies came from."""
    op.create_table(
        "copied",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        *_required(sa.String, "archive", "service", "url", "original", "tag"),
        sa.Column("compared", sa.Boolean, nullable=False),
        *_required(sa.String, "checked", "since"),
        sa.Column("problem", sa.String),
        sa.Column("private", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("copied_checked", "copied", ["checked"])


def _transfers() -> None:
    """Originals on their way to and from other Archives."""
    op.create_table(
        "giving",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), nullable=False),
        *_required(sa.String, "peer", "address", "passage", "proof", "fingerprint", "service"),
        sa.Column("remove", sa.Boolean, nullable=False),
        *_required(sa.String, "who", "stage", "moment"),
        sa.Column("problem", sa.String),
        sqlite_with_rowid=False,
    )
    op.create_index("giving_of_item", "giving", ["item"])
    op.create_index("giving_stage", "giving", ["stage"])
    op.create_table(
        "receiving",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number")),
        *_required(sa.String, "giver", "address", "seal", "fingerprint", "history", "stage", "moment"),
        sqlite_with_rowid=False,
    )


def _fixity() -> None:
    """When files were read again, what was found, and which sidecars are owed; the laws come last."""
    op.create_table(
        "fixity",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        *_required(sa.String, "sha256", "read"),
        sa.Column("good", sa.String),
        sa.Column("fault", sa.String),
        sqlite_with_rowid=False,
    )
    op.create_index("fixity_fault", "fixity", ["item"], sqlite_where=sa.text("fault IS NOT NULL"))
    op.create_table(
        "audit",
        sa.Column("walk", sa.String, primary_key=True),
        sa.Column("begun", sa.Float, nullable=False),
        sa.Column("item", sa.Integer, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sidecar",
        sa.Column("item", sa.Integer, sa.ForeignKey("item.number"), primary_key=True),
        sa.Column("owed", sa.Integer, nullable=False),
    )
    op.create_index("sidecar_owed", "sidecar", ["item"], sqlite_where=sa.text("owed > 0"))
    op.execute("INSERT INTO sidecar (item, owed) SELECT DISTINCT item, 1 FROM file")
    for trigger in _SIDECAR_TRIGGERS:
        op.execute(trigger)
    for law in _LAWS:
        op.execute(law)
