"""The table of the registry; its migrations stand in `resolver/migrations`."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table

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
    Column("registered_at", String, nullable=False),
    Column("included", Boolean, nullable=False, default=False),
    Column("confirmed", Boolean, nullable=False, default=False),
    Column("address", String),
    Column("ip", String),
    Column("protocol", String),
    Column("platform_version", String),
    Column("admin_mail", String),
    Column("changed_at", String, comment="of the last inclusion or exclusion"),
    Column(
        "change",
        Integer,
        nullable=False,
        default=0,
        comment="counts changes: a slow inclusion may be outdated",
    ),
)
