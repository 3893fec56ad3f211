"""A bar on stderr, where a person may be looking."""

from __future__ import annotations

from typing import Self


class Progress:
    """How far something has come, of a `total` in whatever unit; shown on a terminal only."""

    def __init__(self, title: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(
            *columns,
            console=console,
            disable=not console.is_terminal,
            transient=True,
            redirect_stdout=False,  # results are for programs, not for the bar to be drawn around
        )
        self._task = self._bar.add_task("", total=total)

    def at(self, done: int) -> None:
        """So much is done."""
        self._bar.update(self._task, completed=done)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
