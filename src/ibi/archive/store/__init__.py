"""Stores the items of an Archive: the catalogue (its SQL is in `tables`), files, and joint changes.

It never speaks HTTP, and never mints a label by itself: its caller passes the function that mints.

Entry points: `data_directory.DataDirectory`, `item_store.ItemStore`, `item_changes.deposit`,
`tables.catalogue.Catalogue`.
"""
