"""How a statement of the catalogue is said to PostgreSQL."""

from __future__ import annotations

import pytest

from ibi.archive.store.postgresql.cursor import named


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a FROM b WHERE c = :c AND d = :d_1", "SELECT a FROM b WHERE c = %(c)s AND d = %(d_1)s"),
        ("SELECT a FROM b WHERE c LIKE 'x%' AND d = :d", "SELECT a FROM b WHERE c LIKE 'x%%' AND d = %(d)s"),
        ("SELECT a FROM b WHERE c LIKE 'x%'", "SELECT a FROM b WHERE c LIKE 'x%'"),
        ("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        ("SELECT 'BEGIN'", "SELECT 'BEGIN'"),
        ("SELECT julianday('now')", "SELECT extract(epoch FROM clock_timestamp())::FLOAT8"),
        ("SELECT a FROM b CROSS JOIN c ON d", "SELECT a FROM b JOIN c ON d"),
        (
            "SELECT a FROM json_each(:names) AS wanted",
            "SELECT a FROM json_array_elements_text(CAST(%(names)s AS JSON)) AS wanted (value)",
        ),
        (
            "SELECT json_extract(metadata, '$.date') FROM item",
            "SELECT CASE WHEN strpos(metadata, '\\u0000') = 0 THEN CAST(metadata AS JSON) #>> '{date}' END FROM item",
        ),
        ("PRAGMA integrity_check(20)", "SELECT 'ok'"),
    ],
)
def test_a_statement_is_said_as_postgresql_takes_it(statement: str, expected: str) -> None:
    assert named(statement) == expected
