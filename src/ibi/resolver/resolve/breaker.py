"""The circuit breakers: an Archive that fails is not asked for a while (threat T10); pure.

What readers send never opens one, or a few odd URLs would silence an Archive, or all of them, for all readers. Five
failed connections in a row open it at once. Any other failure may have been provoked by the question: so the fifth in
a row, or a request for a pause, has the resolver ask a question of its own (`probes`), and that decides.

An answer that is not believed is followed by questions of the resolver's own, too (T08).

An Archive that sleeps was not asked, so it may hold the item: while one sleeps, no reader is told that no Archive holds
it. There is one exception: an Archive at whose address another one answers, or one that tells of other items than it is
asked for (`WrongArchive`), is left out of account, since no answer from that address would be believed (T08). Readers
are then told so if no other Archive holds the item. For the same reason, only an answer to a question of the resolver's
own closes that circuit.

Where most Archives sleep, the fault is more likely at our own end, as a line that was down for a minute; then each is
tried again every second, so that all are back as soon as it is mended.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, PeerBusy, PeerUnreachable, QueryRefused, WrongArchive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ibi.errors import IbiError

FAILURES: Final = 5
"""So many failed connections since its last answer, and an Archive sleeps; so many failures: it is probed (T10)."""

PAUSE: Final = 30.0
"""Seconds of the first pause; the n-th in a row is n times as long."""

LONGEST_PAUSE: Final = 300.0
"""Seconds that no pause is longer than."""

PROBE_WAIT: Final = 30.0
"""Seconds after which a probe that has not reported is taken for lost, and the next caller sends another one."""

CHECK_EVERY: Final = 30.0
"""Seconds between two probes that acknowledgments without a reply bring, or answers that are not believed (T08)."""

SOON: Final = 1.0
"""Seconds after which a sleeping Archive is tried again while more than half of all sleep."""

HEARD_SECONDS: Final = 1.0
"""Seconds since its last answer in which an Archive is not suspected of having died, however slow it is."""


@dataclass(slots=True)
class Circuit:
    """What is known of an Archive that failed and has not been heard since; only the breakers change it.

    `failures`: how many in a row, `unreached` of them without a connection; `why`: the reason of the last one, if it
    was told; `until`: it sleeps, or slept, until that moment (0 where it never did).
    """

    failures: int = 0
    why: IbiError | None = None
    until: float = 0.0
    unreached: int = 0
    opened: int = 0  # how many times in a row; a pause that it asked for does not count
    probed_at: float = 0.0
    probed: bool = False  # a question of our own is under way
    suspected: bool = False  # that is so because an acknowledgment got no reply

    @property
    def is_disbelieved(self) -> bool:
        """Whether it is known that its answers are in another Archive's name, or about other items."""
        return isinstance(self.why, WrongArchive)  # which only a probe proves, and then the circuit opens


class CircuitBreakers:
    """The Archives that failed since they were last heard. `now` is always in seconds that never go back."""

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        self.troubled: dict[str, Circuit] = {}
        """The state of the Archives that failed and have not answered since; while empty, `begin` is not needed."""
        self.heard_at: dict[str, float] = {}
        """When each Archive was last heard. Of one without trouble, this is all that is to be noted."""
        self.doubted: dict[str, float] = {}
        """The Archives whose answers were not believed, and when a question of our own was last asked for that."""
        self.suspected: dict[str, float] = {}
        """The Archives that gave no reply to an acknowledgment, and when a question of our own was last asked."""
        self.on_change = on_change
        """Called whenever other Archives are unreliable than before."""
        self._members = 0
        self._counted = (-1.0, False)

    def begin(self, name: str, now: float) -> float | None:
        """Return None if the Archive may be asked.

        Otherwise return the moment until which it is not asked. After that moment, where `is_open`, the first call
        returns None: its caller must send a probe, and its own question only if that is answered. All other callers
        get a later moment, until the probe has reported, or for PROBE_WAIT seconds. While most circuits are open, each
        may be probed every SOON seconds.
        """
        troubled = self.troubled.get(name)
        if troubled is None or (not troubled.opened and now >= troubled.until):
            return None
        if now < troubled.until:
            soon = troubled.opened and now >= troubled.probed_at + SOON and self._most_sleep(now)
            if not soon:
                return troubled.until
        troubled.probed, troubled.probed_at = True, now
        troubled.until = now + PROBE_WAIT
        return None

    def is_open(self, name: str) -> bool:
        """Whether a circuit is open or half open, so that its Archive must first answer a question of our own."""
        troubled = self.troubled.get(name)
        return troubled is not None and troubled.opened > 0

    def is_unreliable(self, name: str) -> bool:
        """Whether no reader is to be led by cached answers of this Archive: it is suspected, or its circuit is open."""
        troubled = self.troubled.get(name)
        return troubled is not None and (troubled.opened > 0 or troubled.suspected)

    def unreliable(self) -> set[str]:
        """Return the Archives of which that is so."""
        return {name for name in self.troubled if self.is_unreliable(name)}

    def open_circuits(self) -> dict[str, IbiError | None]:
        """Return the Archives whose circuit is open, or half open, and why."""
        return {name: circuit.why for name, circuit in self.troubled.items() if circuit.opened}

    def heard(self, name: str, now: float) -> None:
        """It answered a reader: whatever was held against it is forgotten, unless it is another Archive."""
        self.heard_at[name] = now
        troubled = self.troubled.get(name)
        if troubled is not None and not troubled.is_disbelieved:
            self._close(name)

    def recovered(self, name: str, now: float) -> None:
        """It has proved to be there: whatever was held against it is forgotten."""
        self.heard_at[name] = now
        self._close(name)

    def failed(self, name: str, now: float, why: IbiError | None = None) -> bool:
        """A reader's question got no answer. Return whether to ask one of our own now, and report what comes of it.

        A question that was sent before the breaker opened, and fails later, adds no pause.
        """
        if isinstance(why, QueryRefused):
            return False
        troubled = self.troubled.setdefault(name, Circuit())
        if troubled.is_disbelieved:
            return False
        troubled.failures += 1
        troubled.why = why or troubled.why
        if isinstance(why, PeerUnreachable | ForbiddenAddress):
            troubled.unreached += 1
        if troubled.opened or troubled.probed or now < troubled.until:
            return False
        if troubled.unreached >= FAILURES:
            self._open(troubled, now)
            return False
        troubled.probed = troubled.failures >= FAILURES or isinstance(why, PeerBusy)
        return troubled.probed

    def suspect(self, name: str, now: float, *, failed: bool) -> bool:
        """An acknowledgment has `failed`, or has no reply for a while. Return whether to ask a question of our own now.

        Until that is answered, nothing cached leads to the Archive. One that has answered a moment ago, and is merely
        slow, is not suspected, nor one more often than once in CHECK_EVERY seconds: else its readers, led by no cache,
        would make it slower.
        """
        heard_at, suspected_at = self.heard_at.get(name, -inf), self.suspected.get(name, -inf)
        if not failed and (now < suspected_at + CHECK_EVERY or now < heard_at + HEARD_SECONDS):
            return False
        troubled = self.troubled.setdefault(name, Circuit())
        if troubled.opened or troubled.probed or now < troubled.until:
            return False
        self.suspected[name] = now
        troubled.probed = troubled.suspected = True
        self.on_change()
        return True

    def doubt(self, name: str, now: float) -> bool:
        """An answer of it was not believed. Return whether to ask questions of our own now."""
        if now < self.doubted.get(name, -inf) + CHECK_EVERY:
            return False
        self.doubted[name] = now
        return True

    def probe_failed(self, name: str, began: float, now: float, why: IbiError | None) -> None:
        """Our own question, sent at `began`, got no answer; None: it could not be sent, which proves nothing."""
        if isinstance(why, WrongArchive):  # an answer that a reader has got meanwhile would prove nothing
            replaced = self.troubled.setdefault(name, Circuit())
            replaced.why = why
            self._open(replaced, now)
            return
        troubled = self.troubled.get(name)
        if troubled is None:
            return
        unreliable = self.is_unreliable(name)
        troubled.probed, troubled.suspected = False, False
        heard = self.heard_at.get(name, -inf) >= began  # it has answered a reader meanwhile
        if why is not None and not heard and not isinstance(why, PeerBusy):
            troubled.why = why
            self._open(troubled, now)
            return
        if why is not None and not heard and isinstance(why, PeerBusy):
            self.pause(name, now, why)
        if unreliable != self.is_unreliable(name):
            self.on_change()

    def pause(self, name: str, now: float, why: PeerBusy) -> None:
        """Leave it alone for as long as it asks for: it is there, so its circuit is not open any more."""
        troubled = self.troubled.setdefault(name, Circuit())
        troubled.until = now + why.seconds
        if not troubled.is_disbelieved:  # which only an answer disproves
            troubled.why, troubled.opened = why, 0

    def open_until(self, now: float) -> dict[str, float]:
        """The Archives that sleep now, and until when."""
        return {name: troubled.until for name, troubled in self.troubled.items() if now < troubled.until}

    def forget(self, included: Collection[str]) -> None:
        """Keep only what is known of these, who are all: an Archive that comes back later begins well."""
        self._members, unreliable = len(included), self.unreliable()
        self.troubled = {name: known for name, known in self.troubled.items() if name in included}
        self.suspected = {name: when for name, when in self.suspected.items() if name in included}
        if unreliable != self.unreliable():
            self.on_change()
        self.heard_at = {name: when for name, when in self.heard_at.items() if name in included}
        self.doubted = {name: when for name, when in self.doubted.items() if name in included}

    def _open(self, troubled: Circuit, now: float) -> None:
        """Begin a pause, longer than the one before unless most Archives sleep: then the fault is likely ours."""
        troubled.probed_at, troubled.probed = now, False
        troubled.opened += not (troubled.opened and self._most_sleep(now))
        troubled.until = now + min(troubled.opened * PAUSE, LONGEST_PAUSE)
        if troubled.opened == 1:
            self.on_change()

    def _close(self, name: str) -> None:
        troubled = self.troubled.pop(name, None)
        if troubled is not None and (troubled.opened or troubled.suspected):
            self.on_change()

    def _most_sleep(self, now: float) -> bool:
        """Whether more than half of all sleep. Counted once a moment: a round asks it for every Archive."""
        if self._counted[0] != now:
            self._counted = (now, 2 * len(self.open_until(now)) > self._members > 0)
        return self._counted[1]
