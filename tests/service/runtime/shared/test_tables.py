"""The tables of what nodes share, column by column: each program that shares a store has to find the same."""

from __future__ import annotations

from ibi.runtime.database import migrate, open_engine
from ibi.runtime.shared.store import MIGRATIONS
from support.engines.postgresql import PostgreSQL

COLUMNS = """
SELECT c.relname || ': ' || string_agg(attname || ' ' || format_type(atttypid, atttypmod)
    || CASE WHEN attnotnull THEN '' ELSE ' NULL' END || CASE attidentity WHEN '' THEN '' ELSE ' identity' END
    || CASE attstorage WHEN 'e' THEN ' external' ELSE '' END, ', ' ORDER BY attnum)
FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 GROUP BY c.relname ORDER BY c.relname
"""
INDEXES = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ '_pk' ORDER BY indexname"
)
CONSTRAINTS = """
SELECT conrelid::regclass || ': ' || pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'f') ORDER BY 1
"""
TRIGGERS = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"


def test_the_tables_are_these(postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    engine = open_engine(url)
    migrate(engine, MIGRATIONS)
    engine.dispose()

    def of(statement: str) -> list[str]:
        return [row[0] for row in postgresql.execute(statement, url.rpartition("/")[2])]

    assert of(COLUMNS) == [
        "attempt: number bigint identity, name bytea, moment double precision",
        "change_count: name text, number bigint",
        "document: name text, content text",
        "may_go_on: chain text, version text, oldest text",
        "reply: name text, facts text, moment double precision",
        "session: hash text, account text, stamp text, begun double precision, seen double precision, language text",
        "shared_version: version_num character varying(32)",
        "upload: id text, token text, length bigint, metadata text, touched double precision",
        "upload_piece: upload text, start bigint, content bytea external",
    ]
    assert of(INDEXES) == [
        "CREATE INDEX attempt_by_moment ON public.attempt USING btree (moment)",
        "CREATE INDEX attempt_of_name ON public.attempt USING btree (name, moment)",
        "CREATE INDEX reply_by_moment ON public.reply USING btree (moment)",
        "CREATE INDEX session_of_account ON public.session USING btree (account, begun)",
        "CREATE INDEX upload_of_token ON public.upload USING btree (token)",
    ]
    assert of(CONSTRAINTS) == [
        "attempt: PRIMARY KEY (number)",
        "change_count: PRIMARY KEY (name)",
        "document: PRIMARY KEY (name)",
        "may_go_on: PRIMARY KEY (chain)",
        "reply: PRIMARY KEY (name)",
        "session: PRIMARY KEY (hash)",
        "shared_version: PRIMARY KEY (version_num)",
        "upload: PRIMARY KEY (id)",
        "upload_piece: FOREIGN KEY (upload) REFERENCES upload(id) ON DELETE CASCADE",
        "upload_piece: PRIMARY KEY (upload, start)",
    ]
    (trigger,) = of(TRIGGERS)
    assert trigger == (
        "CREATE TRIGGER document_changed AFTER INSERT OR DELETE OR UPDATE ON public.document"
        " FOR EACH ROW EXECUTE FUNCTION count_change('document')"
    )
