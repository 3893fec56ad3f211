"""The tables of what nodes share, column by column: each program that shares a store has to find the same."""

from __future__ import annotations

from ibi.runtime.database import migrate, open_engine
from ibi.runtime.shared.store import MIGRATIONS
from support.engines.postgresql import PostgreSQL
from support.engines.schema import schema_lines


def test_the_tables_are_these(postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    engine = open_engine(url)
    migrate(engine, MIGRATIONS)
    engine.dispose()
    assert schema_lines(postgresql, url) == [
        "attempt: number bigint identity, name bytea, moment double precision",
        "change_count: name text, number bigint",
        "document: name text, content text",
        "may_go_on: chain text, version text, oldest text",
        "reply: name text, facts text, moment double precision",
        "session: hash text, account text, stamp text, begun double precision, seen double precision, language text",
        "shared_version: version_num character varying(32)",
        "upload: id text, token text, length bigint, metadata text, touched double precision",
        "upload_piece: upload text, start bigint, content bytea external",
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
        "CREATE INDEX attempt_by_moment ON public.attempt USING btree (moment)",
        "CREATE INDEX attempt_of_name ON public.attempt USING btree (name, moment)",
        "CREATE INDEX reply_by_moment ON public.reply USING btree (moment)",
        "CREATE INDEX session_of_account ON public.session USING btree (account, begun)",
        "CREATE INDEX upload_of_token ON public.upload USING btree (token)",
        (
            "CREATE TRIGGER document_changed AFTER INSERT OR DELETE OR UPDATE ON public.document"
            " FOR EACH ROW EXECUTE FUNCTION count_change('document')"
        ),
    ]
