"""The tables of the registry of one node, column by column."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ibi.resolver.registry.registry import MIGRATIONS
from ibi.runtime.database import migrate, open_engine

COLUMNS = """SELECT name || ' ' || type || iif("notnull", '', ' NULL') || coalesce(' DEFAULT ' || dflt_value, '')
    || iif(pk, ' PRIMARY KEY', '') FROM pragma_table_info(?)"""


def test_the_tables_are_these(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "registry.sqlite")) as made:
        names = made.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        found = {name: [row[0] for row in made.execute(COLUMNS, (name,))] for (name,) in names}
    assert found == {
        "alembic_version": ["version_num VARCHAR(32) PRIMARY KEY"],
        "archives": [
            "service_ibi VARCHAR PRIMARY KEY", "spelling VARCHAR", "key_hash VARCHAR", "url_hosts VARCHAR",
            "registered_at VARCHAR", "included BOOLEAN", "confirmed BOOLEAN", "address VARCHAR NULL",
            "ip VARCHAR NULL", "protocol VARCHAR NULL", "platform_version VARCHAR NULL", "admin_mail VARCHAR NULL",
            "changed_at VARCHAR NULL", "change INTEGER", "state VARCHAR DEFAULT 'registered'",
            "mirrored_from VARCHAR DEFAULT ''", "contact VARCHAR DEFAULT ''", "contact_name VARCHAR DEFAULT ''",
            "source VARCHAR DEFAULT ''", "included_at FLOAT NULL", "heard_at VARCHAR NULL",
            "confirmed_address VARCHAR NULL", "confirmed_at VARCHAR NULL", "move_allowed BOOLEAN DEFAULT 0",
            "back_at FLOAT NULL", "gone BOOLEAN DEFAULT 0", "title VARCHAR DEFAULT ''",
            "title_pt VARCHAR DEFAULT ''",
        ],
        "moves": [
            "service_ibi VARCHAR PRIMARY KEY", "address VARCHAR", "ip VARCHAR", "since FLOAT",
            "silent_since FLOAT NULL", "checks INTEGER",
        ],
    }  # fmt: skip
