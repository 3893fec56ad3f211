"""The circuit breakers: an Archive that fails is not asked for a while (T10: slow or huge answers); pure.

The states of an Archive (in the README of this folder: how each is stored):

    closed      it is asked
    open        it failed: it is not asked for 30 s, the second time in a row for 60 s, 300 s at most
    half open   that time has passed: one probe decides whether the circuit closes or stays open
    paused      it asked for a pause (429 or 503 with Retry-After), and again when it was probed: it is not asked for
                that long, a minute at most

"Suspended" means open, half open or paused. A suspended Archive may hold the item all the same, so readers get
"incomplete" (503), not "not found" (404).

A reader's query must not be able to open a circuit by its content: a few odd URLs could then cut all readers off from
an Archive. Only failed connections cannot be provoked in this way: five without an answer between them open the
circuit at once. After five failures of any kind, after a request for a pause, and after an answer that is not believed
(T08: false answers), the resolver sends a query of its own, a probe (`probes`), and the result of the probe decides.

`WrongArchive` means that a probe has proved that another Archive answers at the address, or that the Archive answers
about other items than those it is asked for. Nothing from this address would be believed. So this Archive does not
keep readers from a 404 (T08: false answers), and only an answer to a probe closes its circuit.

If more than half of all Archives are suspended, the fault is probably on our side, such as a network line that was
down for a minute. Each open circuit may then be probed every second, so that it closes soon after the line is back. As
elsewhere, a probe is only sent when a reader's query is about to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from ibi.errors import ForbiddenAddress, PeerBusy, PeerUnreachable, QueryRefused, WrongArchive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ibi.errors import IbiError

FAILURES: Final = 5
"""Failures in a row that bring a probe; so many failed connections among them open the circuit (T10: slow answers)."""

OPEN_SECONDS: Final = 30.0
"""Seconds for which a circuit stays open first; the n-th time in a row, it is n times as long."""

LONGEST_OPEN_SECONDS: Final = 300.0
"""Seconds for which a circuit stays open at most."""

PROBE_WAIT: Final = 30.0
"""Seconds after which a probe without a result counts as lost, and the next caller sends another one."""

CHECK_EVERY: Final = 30.0
"""Seconds between two probes of an Archive that acknowledges slowly, or is not believed (T08: false answers)."""

SOON: Final = 1.0
"""Seconds after which an open circuit may be probed again while more than half of all Archives are suspended."""

HOUR: Final = 3600.0
"""Seconds of one count of answers."""

HOURS: Final = 24
"""Counts that are kept for each Archive."""

HEARD_SECONDS: Final = 1.0
"""Seconds after its last answer for which an Archive is not suspected of having died, however slow it is."""


@dataclass(slots=True)
class Circuit:
    """The state of an Archive that failed and has not answered since; only `CircuitBreakers` changes it.

    `failures`: how many in a row, `unreached` of them without a connection. `why`: the reason of the last
    one, None if it is not known. `until`: the moment until which it is suspended, perhaps past; 0 if it never was.
    """

    failures: int = 0
    why: IbiError | None = None
    until: float = 0.0
    unreached: int = 0
    opened: int = 0  # how many times in a row it opened; not counting pauses that the Archive asked for
    probed_at: float = 0.0
    probe_in_flight: bool = False
    suspected: bool = False  # a probe is in flight because an acknowledgment got no reply

    @property
    def is_disbelieved(self) -> bool:
        """Whether a probe has proved that its answers are in another Archive's service, or about other items."""
        return isinstance(self.why, WrongArchive)  # only a failed probe sets it, and opens the circuit


class CircuitBreakers:
    """The circuits of all Archives in one process, each by its `service` IBI, as text.

    `now` is always in seconds of a monotonic clock.
    """

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        self.circuits: dict[str, Circuit] = {}
        """Of Archives that failed and have not answered since. While empty, `begin` need not be called."""
        self.heard_at: dict[str, float] = {}
        """When each Archive was last heard. While `circuits` is empty, callers set only this."""
        self.doubted: dict[str, float] = {}
        """The Archives whose answers were not believed, and when a probe was last sent because of that."""
        self.suspected: dict[str, float] = {}
        """The Archives that did not reply to an acknowledgment, and when a probe was last sent for that."""
        self.hours: dict[str, list[int]] = {}
        """How many queries each Archive answered in each of the last 24 hours: 72 numbers, three for each hour.

        With `hour = int(now // 3600)`, the three numbers from index `hour % 24 * 3` on are `hour`, how many queries
        of that hour were answered, and how many were not. If the first is another hour, the three are a day old;
        -1 stands for no hour.
        """
        self.on_change = on_change
        """Called whenever the set of unreliable Archives changes."""
        self._members = 0
        self._counted = (-1.0, False)

    def begin(self, service: str, now: float, replied_at: float = -inf) -> Literal["ask", "probe"] | float:
        """Begin a query. Return "ask", "probe" (send a probe first), or until when the Archive is suspended.

        `replied_at`: when this or another process sent the last request for changes that the Archive has replied to
        (`cache.lease`). If its circuit opened before that, the Archive may be well again, and is probed at once.

        "probe" goes to the first caller after an open circuit's time has passed; that caller sends its query only
        if the probe is answered. Until the probe has a result, all other callers get the moment at which it will count
        as lost, PROBE_WAIT seconds after it was sent, and send no query. While most Archives are suspended, the first
        caller SOON seconds after the last probe gets "probe", although the time has not passed.
        """
        circuit = self.circuits.get(service)
        if circuit is None or (not circuit.opened and now >= circuit.until):
            return "ask"
        if now < circuit.until:
            soon = replied_at > circuit.probed_at or (
                now >= circuit.probed_at + SOON and self._most_suspended(now)
            )
            if not (circuit.opened and soon):
                return circuit.until
        circuit.probe_in_flight, circuit.probed_at = True, now
        circuit.until = now + PROBE_WAIT
        return "probe"

    def is_unreliable(self, service: str) -> bool:
        """Whether its cached answers count as expired, because it is suspected or its circuit is open."""
        circuit = self.circuits.get(service)
        return circuit is not None and (circuit.opened > 0 or circuit.suspected)

    def unreliable(self) -> set[str]:
        """Return the unreliable Archives (see `is_unreliable`)."""
        return {service for service in self.circuits if self.is_unreliable(service)}

    def open_circuits(self) -> dict[str, IbiError | None]:
        """Return the Archives whose circuit is open or half open, each with the reason."""
        return {service: circuit.why for service, circuit in self.circuits.items() if circuit.opened}

    def heard(self, service: str, now: float) -> None:
        """Record that it answered a reader; close its circuit, unless only a probe may (`WrongArchive`)."""
        self.heard_at[service] = now
        circuit = self.circuits.get(service)
        if circuit is not None and not circuit.is_disbelieved:
            self._close(service)

    def recovered(self, service: str, now: float) -> None:
        """Record that it has proved to be there: close its circuit in any case."""
        self.heard_at[service] = now
        self._close(service)

    def failed(self, service: str, now: float, why: IbiError | None = None) -> bool:
        """Record that a reader's query failed. Return whether the caller must send a probe now.

        A query that was sent before the circuit opened, and fails afterwards, does not extend the pause.
        """
        if isinstance(why, QueryRefused):
            return False
        circuit = self.circuits.setdefault(service, Circuit())
        if circuit.is_disbelieved:
            return False
        circuit.failures += 1
        circuit.why = why or circuit.why
        if isinstance(why, PeerUnreachable | ForbiddenAddress):
            circuit.unreached += 1
        if circuit.opened or circuit.probe_in_flight or now < circuit.until:
            return False
        if circuit.unreached >= FAILURES:
            self._open(circuit, now)
            return False
        circuit.probe_in_flight = circuit.failures >= FAILURES or isinstance(why, PeerBusy)
        return circuit.probe_in_flight

    def note_silence(self, service: str, now: float, *, failed: bool) -> bool:
        """Record that an acknowledgment `failed`, or has no reply yet. Return whether to send a probe now.

        Until the probe is answered, no cached answer leads to the Archive. An Archive may only be slow, and without
        the cache its readers would make it slower. So one without a reply yet is suspected once in CHECK_EVERY
        seconds at most, and not within HEARD_SECONDS of its last answer.
        """
        heard_at, suspected_at = self.heard_at.get(service, -inf), self.suspected.get(service, -inf)
        if not failed and (now < suspected_at + CHECK_EVERY or now < heard_at + HEARD_SECONDS):
            return False
        circuit = self.circuits.setdefault(service, Circuit())
        if circuit.opened or circuit.probe_in_flight or now < circuit.until:
            return False
        self.suspected[service] = now
        circuit.probe_in_flight = circuit.suspected = True
        self.on_change()
        return True

    def doubt(self, service: str, now: float) -> bool:
        """Record that an answer of it was not believed. Return whether the caller must send probes now."""
        if now < self.doubted.get(service, -inf) + CHECK_EVERY:
            return False
        self.doubted[service] = now
        return True

    def probe_failed(self, service: str, began: float, now: float, why: IbiError | None) -> None:
        """Record that a probe, sent at `began`, failed; without `why`, that proves nothing of the Archive."""
        if isinstance(why, WrongArchive):  # an answer to a reader meanwhile proves nothing
            replaced = self.circuits.setdefault(service, Circuit())
            replaced.why = why
            self._open(replaced, now)
            return
        circuit = self.circuits.get(service)
        if circuit is None:
            return
        unreliable = self.is_unreliable(service)
        circuit.probe_in_flight, circuit.suspected = False, False
        heard = self.heard_at.get(service, -inf) >= began  # it has answered a reader meanwhile
        if why is not None and not heard and not isinstance(why, PeerBusy):
            circuit.why = why
            self._open(circuit, now)
            return
        if why is not None and not heard and isinstance(why, PeerBusy):
            self.pause(service, now, why)
        if unreliable != self.is_unreliable(service):
            self.on_change()

    def pause(self, service: str, now: float, why: PeerBusy) -> None:
        """Do not ask it for as long as it asks for. It is there, so its circuit is not open any more."""
        circuit = self.circuits.setdefault(service, Circuit())
        circuit.until = now + why.seconds
        if not circuit.is_disbelieved:  # only an answer to a probe ends that
            circuit.why, circuit.opened = why, 0

    def suspended_until(self, now: float) -> dict[str, float]:
        """Return the suspended Archives (open, half open or paused), and until when."""
        return {service: circuit.until for service, circuit in self.circuits.items() if now < circuit.until}

    def forget(self, included: Collection[str], moved: Collection[str] = ()) -> None:
        """Forget all Archives but the included ones: one that comes back later has a closed circuit.

        So has one that `moved` to another address.
        """
        self._members, unreliable = len(included), self.unreliable()
        self.circuits = {
            service: known
            for service, known in self.circuits.items()
            if service in included and service not in moved
        }
        self.suspected = {service: when for service, when in self.suspected.items() if service in included}
        if unreliable != self.unreliable():
            self.on_change()
        self.heard_at = {service: when for service, when in self.heard_at.items() if service in included}
        self.doubted = {service: when for service, when in self.doubted.items() if service in included}
        self.hours = {service: kept for service, kept in self.hours.items() if service in included}

    def count(self, service: str, now: float, *, answered: bool) -> None:
        """Count a query of a reader in the present hour."""
        hours = self.hours.setdefault(service, [-1, 0, 0] * HOURS)
        hour = int(now // HOUR)
        at = hour % HOURS * 3
        if hours[at] != hour:
            hours[at : at + 3] = hour, 0, 0
        hours[at + (1 if answered else 2)] += 1

    def last_day(self, service: str, now: float) -> tuple[tuple[int, int], ...]:
        """Return (answered, not answered) of each of the last 24 hours, the present one last; () if never asked."""
        hours = self.hours.get(service)
        if hours is None:
            return ()
        last = int(now // HOUR)
        known = {hours[at]: (hours[at + 1], hours[at + 2]) for at in range(0, 3 * HOURS, 3)}
        return tuple(known.get(hour, (0, 0)) for hour in range(last - HOURS + 1, last + 1))

    def _open(self, circuit: Circuit, now: float) -> None:
        """Open a circuit, each time for longer, except while most Archives are suspended: the fault may be ours."""
        circuit.probed_at, circuit.probe_in_flight = now, False
        circuit.opened += not (circuit.opened and self._most_suspended(now))
        circuit.until = now + min(circuit.opened * OPEN_SECONDS, LONGEST_OPEN_SECONDS)
        if circuit.opened == 1:
            self.on_change()

    def _close(self, service: str) -> None:
        circuit = self.circuits.pop(service, None)
        if circuit is not None and (circuit.opened or circuit.suspected):
            self.on_change()

    def _most_suspended(self, now: float) -> bool:
        """Whether more than half of all Archives are suspended. Cached for one `now`: a round calls it often."""
        if self._counted[0] != now:
            self._counted = (now, 2 * len(self.suspended_until(now)) > self._members > 0)
        return self._counted[1]
