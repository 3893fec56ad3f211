"""The fixtures of the client, which stand in tests/support."""

from support.client.network import network, resolver

__all__ = ["network", "resolver"]
