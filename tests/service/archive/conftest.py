"""The fixtures of an Archive, which stand in tests/support for both tiers."""

from support.archive.fixtures import archive, full, joined, new_archive, own, store

__all__ = ["archive", "full", "joined", "new_archive", "own", "store"]
