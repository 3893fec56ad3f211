"""Which Archives are registered, which of them are included, and the list that other resolvers mirror.

All SQL of the registry is here. It never asks an Archive anything: whether one may be included is decided in `members`.

Entry points: `registry.Registry`, `mirror.Mirror` and `published_list.Publisher`.
"""
