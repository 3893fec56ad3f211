"""The SQL of the catalogue: a module for each table, or for each group of queries over several tables.

Functions here take an `SqlRunner` or a `CatalogueWriter` of `Catalogue`, so that their writes belong to the transaction
of their caller. They open no database and start no transaction. How SQL is written: decision 0028.

There are three exceptions. `consistency` opens SQLite files itself, to copy a catalogue for a backup. In
`store.postgresql`, `item_reader` reads items by a connection of its own, and `copying` and `moving` copy all rows.
The index of the search has its own database and its own SQL, in `archive.search`.

Entry points: `catalogue.Catalogue`, `history`, `listings`, `batches`.
"""
