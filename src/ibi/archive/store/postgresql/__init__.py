"""A catalogue in PostgreSQL, and what the nodes of an Archive share in its database.

The statements of `store.tables` are the same for both databases, and so are their callers. `data_directory`
opens one or the other. Beside it, only these ask which database it is: `tables.catalogue.Catalogue`, for its
connections, and `archive.ingest.importing`, which reads records while a transaction waits for PostgreSQL.

    cursor         how a statement is written for the driver        copying    all rows, to another database
    item_reader    the items of many requests, by one statement     moving     an Archive, to another store
    upload_rows    the uploads under way                            nodes      settings and other shared documents

`cursor` and `item_reader` need the driver, which is an extra: they are imported only for a catalogue in PostgreSQL.
Every Archive imports `nodes`, which needs no driver.

Entry points: `cursor.NamedCursor`, `copying.copy_rows`.
"""
