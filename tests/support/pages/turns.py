"""Which page is typed in which language."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

TREES: Final = ("pt-BR", "en")
_T = TypeVar("_T")


def in_turn(pages: Sequence[_T]) -> list[tuple[str, _T]]:
    """Pair each page with one language after the other; with `IBI_ALL_PAGES=1` (`make typed`), with both.

    Both have the same commands, which a test of its own compares, so typing them twice shows little more.
    """
    if os.environ.get("IBI_ALL_PAGES") == "1":
        return [(tree, page) for tree in TREES for page in pages]
    return [(TREES[number % 2], page) for number, page in enumerate(pages)]
