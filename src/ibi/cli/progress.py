"""Progress of what takes long: words, a bar and counts on stderr, on a terminal only, and not after --quiet."""

from __future__ import annotations

import sys
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Final, Self

from ibi.cli.common import OUTPUT
from ibi.runtime.i18n import printable, reader_language, say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SHOWN_AFTER: Final = 1.0
"""Seconds after which progress is shown: what is quick leaves the terminal, and rich, alone."""

_POINTS_AND_COMMAS: Final = str.maketrans(".,", ",.")


class Progress:
    """Shows how much of a `total` is done, in items or in bytes; without a total or a count, only that work goes on."""

    def __init__(self, title: str, total: int | None = None, *, in_bytes: bool = False) -> None:
        self._title, self._in_bytes = title, in_bytes
        self._done, self._total = 0, total
        self._lock = Lock()  # the timer's thread shows what this one has counted
        self._bar: Bar | None = None
        self._timer: Timer | None = None
        if not OUTPUT.quiet and sys.stderr.isatty():
            self._timer = Timer(SHOWN_AFTER, self._show)
            self._timer.daemon = True

    def at(self, done: int, total: int | None = None) -> None:
        """Note that `done` of `total` is done; None leaves the total as it was."""
        with self._lock:
            self._done, self._total = done, self._total if total is None else total
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], **self._facts())

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # programs read the results, so the bar must not change them
        )
        with self._lock:
            bar.add_task(printable(self._title), **self._facts())
            bar.start()
            self._bar = bar

    def _facts(self) -> dict[str, Any]:
        """Return what rich shows of the counts."""
        if self._total:
            details = {"done": self._amount(self._done), "total": self._amount(self._total)}
            counts = say("{done} of {total}", None, **details)
        else:
            counts = self._amount(self._done) if self._done else ""
        return {"completed": self._done, "total": self._total, "counts": counts}

    def _amount(self, number: int) -> str:
        if not self._in_bytes:
            text = f"{number:,}"
        else:
            from rich.filesize import decimal

            text = decimal(number)
        return text if reader_language() == "en" else text.translate(_POINTS_AND_COMMAS)
