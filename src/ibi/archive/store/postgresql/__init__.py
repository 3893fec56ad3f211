"""A catalogue in PostgreSQL: how statements are said to it, and how all rows are copied to another store.

The rest of the store does not know which database it has. Imported only where there is one, or is to be one.

Entry points: `cursor.NamedCursor`, `copying.copy_rows`.
"""
