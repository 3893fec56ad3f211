"""All SQL of the catalogue: a module for each table, or for each group of queries over several tables.

Only `Catalogue` opens a database or starts a transaction: every function takes an `SqlRunner`, so that its
writes belong to the transaction of its caller. How SQL is written: decision 0028.

Entry points: `catalogue.Catalogue`, `history`, `listings`, `batches`.
"""
