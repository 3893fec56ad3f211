"""The tables of the registry; its migrations stand in `resolver/migrations`."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, String, Table

metadata = MetaData()

archives = Table(
    "archives",
    metadata,
    Column("service_ibi", String, primary_key=True, comment="canonical: equal labels are one row"),
    Column("spelling", String, nullable=False, comment="as registered; the path of the base URL"),
    Column("key_hash", String, nullable=False, comment="argon2; the key itself is never stored"),
    Column(
        "url_hosts", String, nullable=False, default="", comment="hosts its URLs are bound to, blanks between"
    ),
    Column("registered_at", String, nullable=False, comment="of one that has applied: when it did"),
    Column("included", Boolean, nullable=False, default=False),
    Column("confirmed", Boolean, nullable=False, default=False),
    Column("address", String),
    Column("ip", String),
    Column("protocol", String),
    Column("platform_version", String),
    Column("admin_mail", String, comment="as the Archive itself said last"),
    Column("changed_at", String, comment="of the last inclusion or exclusion"),
    Column(
        "change",
        Integer,
        nullable=False,
        default=0,
        comment="counts changes: a slow inclusion may be outdated",
    ),
    Column("state", String, nullable=False, default="registered", comment="applied, registered or mirrored"),
    Column(
        "mirrored_from",
        String,
        nullable=False,
        default="",
        comment="public key of the resolver that lists it",
    ),
    Column("contact", String, nullable=False, default="", comment="whom to write to, as registered"),
    Column("contact_name", String, nullable=False, default=""),
    Column("source", String, nullable=False, default="", comment="where the last accepted request came from"),
    Column("included_at", Float, comment="POSIX seconds: since when it is included at this address"),
    Column("heard_at", String, comment="its last accepted request, to the minute"),
    Column("confirmed_address", String, comment="where it confirmed last"),
    Column("confirmed_at", String),
    Column("move_allowed", Boolean, nullable=False, default=False, comment="by the administrator, once"),
)

moves = Table(
    "moves",
    metadata,
    Column("service_ibi", String, primary_key=True, comment="canonical"),
    Column("address", String, nullable=False, comment="where the Archive wants to move"),
    Column("ip", String, nullable=False),
    Column("since", Float, nullable=False, comment="POSIX seconds: when it first asked"),
    Column("silent_since", Float, comment="POSIX seconds: the first check that the old address missed"),
    Column("checks", Integer, nullable=False, comment="how many it has missed since"),
)
