"""The whole schema of a database of PostgreSQL, as lines of text that a test compares with those that it has itself."""

from __future__ import annotations

from support.engines.postgresql import PostgreSQL

_COLUMNS = """
SELECT c.relname || ': ' || string_agg(attname || ' ' || format_type(atttypid, atttypmod)
    || CASE WHEN attnotnull THEN '' ELSE ' NULL' END || CASE attidentity WHEN '' THEN '' ELSE ' identity' END
    || CASE attstorage WHEN 'e' THEN ' external' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), ''), ', ' ORDER BY attnum)
FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 GROUP BY c.relname ORDER BY c.relname
"""
_CONSTRAINTS = """
SELECT conrelid::regclass || ': ' || pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'f', 'u', 'c') ORDER BY 1
"""
_INDEXES = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ '_pk' ORDER BY indexname"
)
_TRIGGERS = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname"


def schema_lines(postgresql: PostgreSQL, url: str) -> list[str]:
    """Each table with its columns, each constraint, index and trigger of the database that a URL names."""
    database = url.rpartition("/")[2]
    return [
        row[0]
        for statement in (_COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS)
        for row in postgresql.execute(statement, database)
    ]
