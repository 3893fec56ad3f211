"""All SQL of the catalogue: a module for each table, or for each question about several tables.

It never opens a database and never starts a transaction of its own, `Catalogue` aside: every function takes an
`SqlRunner`, so that what it writes belongs to the transaction of its caller. How SQL is written: decision 0028.

Entry points: `catalogue.Catalogue`, `history`, `listings`, `batches`.
"""
