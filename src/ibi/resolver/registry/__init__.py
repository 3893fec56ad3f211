"""Which Archives are registered, which of them are included, and the list that other resolvers mirror.

All SQL of the registry is here. It never asks an Archive: `members` decides which ones may be included.

Entry points: `registry.Registry`, `mirror.Mirror` and `published_list.Publisher`.
"""
