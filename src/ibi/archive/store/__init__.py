"""Where an Archive keeps its items: the catalogue (its SQL is in `tables`), the files, and the changes of both at once.

It never speaks HTTP, and never mints a label by itself: the function that mints is given to it.

Entry points: `data_directory.DataDirectory`, `item_store.ItemStore`, `deposit.deposit`, `tables.catalogue.Catalogue`.
"""
