"""The fixtures of a resolver's cache, which stand in tests/support."""

from support.resolver.fixtures import clock, memory, path
from support.resolver.shared_store import data

__all__ = ["clock", "data", "memory", "path"]
