"""Ingest: many items at once, from files and from other repositories.

It never writes the catalogue by itself: records go through `store.item_store`, or through `store.tables.batches` within
its transactions.

Entry points: `importing.FileImporter`, `harvesting.Harvester`, `batch.RecordIngest`.
"""
