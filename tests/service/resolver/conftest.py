"""The fixtures of a resolver's cache, which stand in tests/support."""

from support.engines.shared_store import data
from support.resolver.fixtures import clock, memory, path

__all__ = ["clock", "data", "memory", "path"]
