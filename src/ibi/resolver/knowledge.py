"""What a resolver learns from its resolutions: where items are, and who showed an original first.

Everything here may be lost or wrong without a wrong redirect: it changes who is asked first, and which of two right
answers is preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.vocabulary import State
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.location_index import Place
from ibi.resolver.questions import question

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.identifier.forms import Name
    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.evidence import Evidence
    from ibi.resolver.location_index import LocationIndex
    from ibi.resolver.memory import Memory
    from ibi.resolver.memory_rows import Mark
    from ibi.resolver.selection import Archive

_NOWHERE: Final = Place(None, None)
_GROWING: Final = frozenset({StepKind.LAST_EDITION, StepKind.TRANSLATION})
"""Relations to items that may come into being at any moment."""


@dataclass(slots=True)
class Knowledge:
    """What is known in one data directory. `now` gives POSIX seconds."""

    index: LocationIndex
    memory: Memory
    evidence: Evidence
    now: Callable[[], float]

    def learn(
        self,
        request: UrlRequest,
        archive: Archive,
        answer: UrlList,
        place: Place,
        *,
        has_it_no_more: bool,
    ) -> None:
        """An Archive has answered a request about an item whose `place` was known so far.

        `has_it_no_more`: whether who held its original certainly does not hold it now: it said so, or is gone.
        """
        service = archive.service_ibi.canonical
        is_hint = place.hint == service
        shows = answer.state is State.ORIGINAL and place.original != service
        if is_hint and not shows:
            return  # all of this is known, as it mostly is
        names = {request.ibi.canonical, *(answer.forms.canonicals if answer.forms else ())}
        forms = answer.forms or _forms(request.ibi) if shows else None
        is_first = forms is not None and place.original is None
        if not is_hint or is_first:
            hint, original = None if is_hint else service, service if is_first else None
            self.index.remember(names, hint=hint, original=original)
        if forms is None:
            return
        if place.original is None:
            self.evidence.original(forms, service)
        elif has_it_no_more:
            self.index.moved(names, service)
            self.evidence.migrated(forms, place.original, service)

    def nobody_has(self, request: UrlRequest, mark: str) -> bool:
        """Whether all these Archives (`mark`) said a moment ago that they do not know the item."""
        return self.memory.nobody(f"{question(request)} {mark}")

    def absent(self, alert: Alert, request: UrlRequest, mark: str, seconds: int, since: Mark) -> None:
        """Remember that all have said so, for so long; but not that an item has no further edition or translation.

        `since`: what `memory.mark` said before they were asked.
        """
        complete = alert.kind is Kind.NOT_FOUND and not alert.known
        grows = any(step.kind in _GROWING for step in request.verbs.relation.steps)
        if seconds and complete and not grows:
            self.memory.keep_nobody(f"{question(request)} {mark}", seconds, since)

    def told(self, alert: Alert, name: Name) -> None:
        """An alert that may have to be investigated, or a removal."""
        forms = _forms(name)
        if alert.kind is Kind.SUSPECT_ORIGINALS:
            self.evidence.alert(str(alert.kind), str(name), alert.archives)
        elif alert.kind is Kind.DELETED and forms is not None and alert.archives:
            self.evidence.deleted(forms, alert.archives[0])

    def close(self) -> None:
        """Write down what waits."""
        self.index.close()
        self.memory.close()
        self.evidence.close()


class Places:
    """Where items are, as one round knows it: it looks once for each, and nowhere without an index."""

    __slots__ = ("_index", "_known")

    def __init__(self, index: LocationIndex | None) -> None:
        self._index = index
        self._known: dict[str, Place] = {}

    def of(self, name: str) -> Place:
        """Of the item of this canonical name."""
        if self._index is None:
            return _NOWHERE
        place = self._known.get(name)
        if place is None:
            place = self._known[name] = self._index.of(name)
        return place

    def forget(self) -> None:
        """Look anew from now on."""
        self._known.clear()


def _forms(name: Name) -> IBIForms | None:
    return None if isinstance(name, LegacyId) else IBIForms.of(name)
