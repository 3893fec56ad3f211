"""Those that are compared work turn about, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Name = TypeVar("Name")
Found = TypeVar("Found")


def turn_about(
    contenders: Mapping[Name, Callable[[], Found]],
    runs: int,
    before: Callable[[], object] = lambda: None,
) -> dict[Name, list[Found]]:
    """What each of them gave in each run; every other run goes backwards. `before` is called before each turn."""
    found: dict[Name, list[Found]] = {name: [] for name in contenders}
    for run in range(runs):
        names = list(contenders)
        for name in names[:: -1 if run % 2 else 1]:
            before()
            found[name].append(contenders[name]())
    return found
