"""The search index of an Archive, derived from its catalogue, and the searches, lists and feeds that read it.

The package never writes the catalogue. No backup has the index: it can be rebuilt (decisions 0021 and 0022).

Entry points: `search.search`, `index.SearchIndex`, `indexing.Indexer`, `feeds`.
"""
