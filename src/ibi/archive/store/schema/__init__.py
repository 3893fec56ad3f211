"""The schema of the catalogue as it is now; the migrations lead to it from older ones.

Statements are not made of these tables but written as text (decision 0028).
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of the migrations."""

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
    Column("access", String, nullable=False, server_default="open"),
    Column("embargo", String, comment="the day on which an embargoed item becomes open"),
    Column("rights", String),
    Column("licence", String),
    Column("reason", String, comment="why it was removed"),
    CheckConstraint("rep IS NOT NULL OR ibip IS NOT NULL", name="item_is_named"),
    CheckConstraint("state IN ('Original', 'Copy', 'Deleted')", name="item_state"),
    CheckConstraint("content_type IN ('Data', 'Metadata')", name="item_content_type"),
    CheckConstraint("access IN ('open', 'embargoed', 'restricted', 'closed')", name="item_access"),
    comment="one row an item: so it has one state, and is never both original and copy (ARC-04)",
)

Index("item_removed", item.c.number, sqlite_where=item.c.state == "Deleted")
Index("item_next_edition", item.c.next_edition, sqlite_where=item.c.next_edition.is_not(None))

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
    Column("staged", String, comment="its name in staging, until it is moved to its place"),
    comment="the manifest: what is not listed here is not served",
    sqlite_with_rowid=False,
)
Index("file_staged", file.c.staged, sqlite_where=file.c.staged.is_not(None))

leaving = Table(
    "leaving",
    metadata,
    Column("path", LargeBinary, primary_key=True, comment="below DIR/col: what is no longer listed and goes"),
    sqlite_with_rowid=False,
)

event = Table(
    "event",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("number", Integer, primary_key=True, comment="1, 2, … of its item"),
    Column("moment", String, nullable=False),
    Column("who", String, nullable=False),
    Column("what", String, nullable=False),
    Column("detail", String, comment="JSON"),
    comment="the history of the items; nothing is ever taken out of it",
    sqlite_with_rowid=False,
)

# `number` goes up with each transaction that commits.
changed = Table(
    "changed", metadata, Column("number", Integer, primary_key=True), Column("item", Integer, nullable=False)
)

fixity = Table(
    "fixity",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("sha256", String, nullable=False, comment="what was listed when it was read"),
    Column("read", String, nullable=False, comment="when it was last read"),
    Column("good", String, comment="when it was last found good"),
    Column("fault", String, comment="a value of tables.fixity.FileFault; none while it is good"),
    comment="what audits found in the stored files",
    sqlite_with_rowid=False,
)
Index("fixity_fault", fixity.c.item, sqlite_where=fixity.c.fault.is_not(None))

audit = Table(
    "audit",
    metadata,
    Column("walk", String, primary_key=True, comment="whose: the command, or the running Archive"),
    Column("begun", Float, nullable=False, comment="POSIX seconds"),
    Column("item", Integer, nullable=False, comment="up to and with which file all were read"),
    Column("name", String, nullable=False),
    Column("done", Integer, nullable=False, comment="bytes"),
    Column("ended", Boolean, nullable=False),
    comment="how far each audit has come",
    sqlite_with_rowid=False,
)

sidecar = Table(
    "sidecar",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("owed", Integer, nullable=False, comment="changes that its item.json does not tell yet"),
    comment="the items that have or had files, beside which an item.json tells all about them",
)
Index("sidecar_owed", sidecar.c.item, sqlite_where=sidecar.c.owed > 0)

SIDECAR_TRIGGERS = (
    """CREATE TRIGGER sidecar_of_file AFTER INSERT ON file
    BEGIN INSERT INTO sidecar (item, owed) VALUES (new.item, 1)
    ON CONFLICT (item) DO UPDATE SET owed = owed + 1; END""",
    """CREATE TRIGGER sidecar_of_event AFTER INSERT ON event
    BEGIN UPDATE sidecar SET owed = owed + 1 WHERE item = new.item; END""",
)
"""Every change of an item adds to its history, and so marks its item.json as outdated."""

LAWS = (
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

thanked = Table(
    "thanked",
    metadata,
    Column("url_key", String, primary_key=True, comment="a urlkey that came back: it counts once"),
    Column("expires", Integer, nullable=False, comment="POSIX seconds; later it would be refused anyway"),
    Column("readers", Integer, nullable=False, server_default="0", comment="in the row of a key's sum"),
    sqlite_with_rowid=False,
)
Index("thanked_expires", thanked.c.expires)

copied = Table(
    "copied",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("archive", String, nullable=False, comment="root URL of the Archive of the original"),
    Column("service", String, nullable=False, comment="IBI of its Archive service"),
    Column("url", String, nullable=False, comment="of the only file, where nothing else is known"),
    Column("original", String, nullable=False, comment="timestamp of the original as last seen"),
    Column("tag", String, nullable=False, comment="its ETag then"),
    Column("compared", Boolean, nullable=False, comment="whether digests were given to compare with"),
    Column("checked", String, nullable=False, comment="when it was last looked at"),
    Column("since", String, nullable=False, comment="since when it is not known to be equal"),
    Column("problem", String, comment="JSON: why not"),
    Column("private", Boolean, nullable=False, comment="whether it may be in a private network"),
    comment="where copies come from",
    sqlite_with_rowid=False,
)
Index("copied_checked", copied.c.checked)

giving = Table(
    "giving",
    metadata,
    Column("id", String, primary_key=True),
    Column("item", Integer, ForeignKey("item.number"), nullable=False),
    Column("peer", String, nullable=False),
    Column("address", String, nullable=False, comment="root URL of the receiver"),
    Column("passage", String, nullable=False, comment="what the receiver fetches with"),
    Column("proof", String, nullable=False, comment="what makes the receiver the owner"),
    Column("fingerprint", String, nullable=False, comment="of the item when this Archive stepped back"),
    Column("service", String, nullable=False, comment="IBI of the receiver's Archive service, from then on"),
    Column("remove", Boolean, nullable=False),
    Column("who", String, nullable=False),
    Column("stage", String, nullable=False, comment="a value of handover.GiverStage"),
    Column("moment", String, nullable=False),
    Column("problem", String, comment="JSON: what went wrong last"),
    comment="the originals that go to other Archives",
    sqlite_with_rowid=False,
)
Index("giving_of_item", giving.c.item)
Index("giving_stage", giving.c.stage)

receiving = Table(
    "receiving",
    metadata,
    Column("id", String, primary_key=True),
    Column("item", Integer, ForeignKey("item.number"), comment="once it is here"),
    Column("giver", String, nullable=False, comment="name of its token"),
    Column("address", String, nullable=False, comment="root URL of the giver"),
    Column("seal", String, nullable=False, comment="SHA-256 of the proof"),
    Column("fingerprint", String, nullable=False, comment="of what was fetched"),
    Column("history", String, nullable=False, comment="JSON: what the giver tells of it"),
    Column("stage", String, nullable=False, comment="a value of handover.ReceiverStage"),
    Column("moment", String, nullable=False),
    comment="the originals that come from other Archives",
    sqlite_with_rowid=False,
)

membership = Table(
    "membership",
    metadata,
    Column("resolver", String, primary_key=True, comment="its root URL"),
    Column("state", String, nullable=False, comment="a value of tables.memberships.MembershipStanding"),
    Column("since", String, nullable=False),
    Column("heard", String, comment="when the resolver last gave an answer"),
    Column("problem", String, comment="JSON: what went wrong last"),
    comment="how the Archive stands at its resolvers",
    sqlite_with_rowid=False,
)

harvested = Table(
    "harvested",
    metadata,
    Column("repository", String, primary_key=True, comment="base URL of an OAI-PMH repository"),
    Column("part", String, primary_key=True, comment="its set, empty for all records"),
    Column("format", String, primary_key=True, comment="metadataPrefix"),
    Column("token", String, nullable=False, comment="where an interrupted list goes on"),
    Column("begun", String, nullable=False, comment="when that list began, by the clock over there"),
    Column("newest", String, nullable=False, comment="the newest datestamp in it so far"),
    Column("since", String, nullable=False, comment="from which datestamp on the next list is asked for"),
    comment="how far the records of other repositories have been taken in",
    sqlite_with_rowid=False,
)

visits = Table(
    "visits",
    metadata,
    Column("item", Integer, ForeignKey("item.number"), primary_key=True),
    Column("month", String, primary_key=True, comment="2026-11"),
    Column("country", String, primary_key=True, comment="two letters; empty where none is told"),
    Column("investigations", Integer, nullable=False),
    Column("unique_investigations", Integer, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("unique_requests", Integer, nullable=False),
    comment="how often items were looked at and fetched, by the rules of COUNTER",
    sqlite_with_rowid=False,
)

visit_fingerprint = Table(
    "visit_mark",
    metadata,
    Column("mark", LargeBinary, primary_key=True, comment="keyed hash: what must not be counted twice"),
    Column("until", Float, nullable=False, comment="POSIX seconds; an hour ahead at most"),
    sqlite_with_rowid=False,
)
Index("visit_mark_until", visit_fingerprint.c.until)

visit_key = Table(
    "visit_key",
    metadata,
    Column("day", String, primary_key=True),
    Column("content", LargeBinary, nullable=False, comment="what makes the marks of this day"),
    sqlite_with_rowid=False,
)
