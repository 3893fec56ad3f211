"""The ledgers of an Archive: what it writes down besides its items, each with its own table and all SQL about it.

A ledger takes a `Run` of the catalogue, so that what it writes belongs to the transaction at hand.
"""
