"""What was asked in one resolution, so that nothing is asked twice (AMB-53, note 5, threat T09); pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.protocol.verb_list import VerbList


class Asked:
    """Questions by the canonical names of the item and the verbs; the file is the same in all of them."""

    def __init__(self) -> None:
        self._known: set[tuple[str, tuple[str, ...]]] = set()

    def add(self, canonicals: Iterable[str], verbs: VerbList) -> None:
        """The item of these names has been asked for: it will not be, under any of them."""
        self._known.update((canonical, verbs.verbs) for canonical in canonicals)

    def has(self, canonicals: Iterable[str], verbs: VerbList) -> bool:
        """Whether it has been asked for under any of these names."""
        return any((canonical, verbs.verbs) in self._known for canonical in canonicals)
