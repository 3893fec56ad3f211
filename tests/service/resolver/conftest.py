"""The fixtures of a resolver's cache, which stand in tests/support."""

from support.resolver.fixtures import clock, memory, path

__all__ = ["clock", "memory", "path"]
