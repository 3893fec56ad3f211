"""How long the index may look for something: words that many items have, in long phrases or with very many endings.

Counted is what a thread computes, not what it waits: a busy machine gives the same answers, only later.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVERY: Final = 100  # steps of SQLite between two looks at the clock


class TooLong(Exception):
    """What was looked for takes longer than it may."""


class Patience:
    """So many seconds for all statements of one question together."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextmanager
    def with_(self, database: sqlite3.Connection) -> Iterator[None]:
        """Have what is looked for meanwhile end in time. Raises TooLong where that was before it had found all."""
        end = time.thread_time() + self._left
        database.set_progress_handler(lambda: time.thread_time() > end, _EVERY)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise TooLong from None
        finally:
            database.set_progress_handler(None, 0)
            self._left = end - time.thread_time()
