"""The registry, wrong keys and the evidence, with the triggers that tell all nodes of a change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resolver_0001"
down_revision = None

# When an Archive was heard is written every minute, and no node has to read for that.
_COUNTED = (
    "service_ibi, spelling, key_hash, url_hosts, registered_at, included, confirmed, address, ip, protocol,"
    " platform_version, admin_mail, changed_at, state, mirrored_from, contact, contact_name, source, included_at,"
    " confirmed_address, confirmed_at, move_allowed, back_at, title, title_pt, gone"
)
_REGISTRY_CHANGED = (
    f"CREATE TRIGGER registry_changed AFTER INSERT OR DELETE OR UPDATE OF {_COUNTED} ON archives"
    " FOR EACH STATEMENT EXECUTE FUNCTION count_change('registry')"
)
_EVIDENCE_CHANGED = (
    "CREATE TRIGGER evidence_changed AFTER INSERT OR DELETE OR UPDATE ON evidence_head"
    " FOR EACH STATEMENT EXECUTE FUNCTION count_change('evidence')"
)


def upgrade() -> None:
    """Make the tables as the newest registry of one node has them, and the others."""
    _make_archives()
    op.create_table(
        "moves",
        sa.Column("service_ibi", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("ip", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("silent_since", sa.Double),
        sa.Column("checks", sa.Integer, nullable=False),
    )
    op.create_table(
        "wrong_key",
        sa.Column("number", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("moment", sa.Double, nullable=False),
    )
    op.create_index("wrong_key_of_name", "wrong_key", ["name", "moment"])
    op.create_index("wrong_key_by_moment", "wrong_key", ["moment"])
    op.create_table(
        "evidence",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "evidence_head",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
    )
    op.execute(_REGISTRY_CHANGED)
    op.execute(_EVIDENCE_CHANGED)


def _make_archives() -> None:
    def text(name: str, default: str | None = None) -> sa.Column[str]:
        return sa.Column(name, sa.Text, nullable=default is None, server_default=default)

    def needed(name: str) -> sa.Column[str]:
        return sa.Column(name, sa.Text, nullable=False)

    def truth(name: str) -> sa.Column[bool]:
        return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())

    op.create_table(
        "archives",
        sa.Column("service_ibi", sa.Text, primary_key=True),
        *map(needed, ("spelling", "key_hash", "url_hosts", "registered_at")),
        *map(truth, ("included", "confirmed", "move_allowed", "gone")),
        *map(text, ("address", "ip", "protocol", "platform_version", "admin_mail", "changed_at", "heard_at")),
        *map(text, ("confirmed_address", "confirmed_at")),
        sa.Column("change", sa.Integer, nullable=False),
        text("state", "registered"),
        *(
            text(name, "")
            for name in ("mirrored_from", "contact", "contact_name", "source", "title", "title_pt")
        ),
        sa.Column("included_at", sa.Double),
        sa.Column("back_at", sa.Double),
    )
