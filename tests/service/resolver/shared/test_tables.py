"""The tables of the registry in a shared store, column by column: the nodes of a resolver have to find the same."""

from __future__ import annotations

from ibi.resolver.shared.tables import MIGRATIONS
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.shared.store import MIGRATIONS as SHARED
from support.engines.postgresql import PostgreSQL
from support.engines.schema import schema_lines

ARCHIVES = (
    "service_ibi text, spelling text, key_hash text, url_hosts text, registered_at text,"
    " included boolean DEFAULT false, confirmed boolean DEFAULT false, move_allowed boolean DEFAULT false,"
    " gone boolean DEFAULT false, address text NULL, ip text NULL, protocol text NULL, platform_version text NULL,"
    " admin_mail text NULL, changed_at text NULL, heard_at text NULL, confirmed_address text NULL,"
    " confirmed_at text NULL, change integer, state text DEFAULT 'registered'::text,"
    " mirrored_from text DEFAULT ''::text, contact text DEFAULT ''::text, contact_name text DEFAULT ''::text,"
    " source text DEFAULT ''::text, title text DEFAULT ''::text, title_pt text DEFAULT ''::text,"
    " included_at double precision NULL, back_at double precision NULL"
)
COUNTED = (
    "service_ibi, spelling, key_hash, url_hosts, registered_at, included, confirmed, address, ip, protocol,"
    " platform_version, admin_mail, changed_at, state, mirrored_from, contact, contact_name, source, included_at,"
    " confirmed_address, confirmed_at, move_allowed, back_at, title, title_pt, gone"
)


def test_the_tables_are_these(postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    engine = open_engine(url)
    migrate(engine, SHARED)
    before = schema_lines(postgresql, url)
    migrate(engine, MIGRATIONS)
    engine.dispose()
    after = schema_lines(postgresql, url)
    assert [line for line in after if line not in before] == [
        f"archives: {ARCHIVES}",
        "evidence: number bigint, line text",
        "evidence_head: one integer, number bigint, hash text, size bigint",
        (
            "moves: service_ibi text, address text, ip text, since double precision,"
            " silent_since double precision NULL, checks integer"
        ),
        "resolver_version: version_num character varying(32)",
        "wrong_key: number bigint identity, name bytea, moment double precision",
        "archives: PRIMARY KEY (service_ibi)",
        "evidence: PRIMARY KEY (number)",
        "evidence_head: PRIMARY KEY (one)",
        "moves: PRIMARY KEY (service_ibi)",
        "resolver_version: PRIMARY KEY (version_num)",
        "wrong_key: PRIMARY KEY (number)",
        "CREATE INDEX wrong_key_by_moment ON public.wrong_key USING btree (moment)",
        "CREATE INDEX wrong_key_of_name ON public.wrong_key USING btree (name, moment)",
        (
            "CREATE TRIGGER evidence_changed AFTER INSERT OR DELETE OR UPDATE ON public.evidence_head"
            " FOR EACH STATEMENT EXECUTE FUNCTION count_change('evidence')"
        ),
        (
            f"CREATE TRIGGER registry_changed AFTER INSERT OR DELETE OR UPDATE OF {COUNTED} ON public.archives"
            " FOR EACH STATEMENT EXECUTE FUNCTION count_change('registry')"
        ),
    ]
