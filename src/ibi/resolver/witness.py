"""Who writes down what happened: what the rooms of membership need of the evidence."""

from __future__ import annotations

from typing import Protocol


class Witness(Protocol):
    """Keeps what happened, in order: `ibi.resolver.evidence`."""

    def write(self, what: str, **facts: str | int) -> None:
        """Keep it; durable on return. Raises SetupError."""

    def note(self, what: str, **facts: str | int) -> None:
        """Keep it soon."""
