"""Fences: what a write transaction checks first, so that work which another node has taken over writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from sqlalchemy import Connection

FENCE: Final[ContextVar[Callable[[Connection], None] | None]] = ContextVar("fence", default=None)
"""Called by `transaction` at its beginning, in PostgreSQL only; it raises SetupError if nothing may be written.

It belongs to the task that does the work, and to the tasks and threads that this one starts.
"""
