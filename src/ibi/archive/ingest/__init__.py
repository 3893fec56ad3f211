"""Ingest: adds or changes many items at once, from files and from other repositories.

It never writes the catalogue by itself: all writes are done by `store.item_store`, or by
`store.tables.batches` within transactions of the item store.

Entry points: `importing.FileImporter`, `harvesting.Harvester`, `batch.RecordIngest`.
"""
