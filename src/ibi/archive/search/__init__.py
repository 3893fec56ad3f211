"""The search index of an Archive, derived from its catalogue, and what is read from it: searches, lists, feeds.

It never writes the catalogue, and is never in a backup: it can be rebuilt at any time (decisions 0021 and 0022).

Entry points: `search.search`, `index.SearchIndex`, `indexing.Indexer`, `feeds`.
"""
