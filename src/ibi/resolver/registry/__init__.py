"""Which Archives are registered, which of them are included, and the list that other resolvers mirror.

All SQL of the registry is here; its tables in PostgreSQL are made by `resolver.shared`. It never asks an Archive:
`members` decides which ones may be included.

Entry points: `registry.Registry`, `mirror.Mirror` and `published_list.Publisher`.
"""
