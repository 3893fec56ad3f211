"""The fixtures of an Archive, which stand in tests/support for both tiers; here no test opens a socket."""

from support.archive.fixtures import archive, files_place, new_archive

__all__ = ["archive", "files_place", "new_archive"]
