"""The fixtures of an Archive, which stand in tests/support for both tiers."""

from support.archive.fixtures import archive, files_place, full, joined, new_archive, own

__all__ = ["archive", "files_place", "full", "joined", "new_archive", "own"]
