"""What a resolver counts, told at /-/metrics in the Prometheus text format (docs/contract.md).

The sums are those of all processes that share the data directory, also of those that have ended, so a counter never
falls; what is in hand at the moment is told of those that run. Nobody can be told from a number: there is no label
for a reader, an item or an Archive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import ibi
from ibi.exchange import NO_STORE, Response
from ibi.resolver.alerts import Kind
from ibi.resolver.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ibi.resolver.tallies import Totals
    from ibi.resolver.visitor import Visitor

REDIRECT: Final = "redirect"
"""The outcome of a resolution that is no alert."""
OTHER: Final = "other"
"""Where a value is counted that has no place of its own."""

FOLDER: Final = "metrics"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
HERE: Final = ("127.0.0.0/8", "::1/128")
"""Who may read the metrics where nothing else is settled: this machine."""

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Seconds up to which a duration falls into one bucket of a histogram; longer ones fall into the last."""

_LOOK_EVERY: Final = 1.0  # seconds between two looks at what others count themselves
_DROPPED: Final = (
    *("too many waiting", "closing", "too old", "garbled", "silent"),
    *("only prefetched", "no key to thank with", "an older answer", "no longer included"),
)
_FORWARDED: Final = (b"forwarded", b"via", b"x-real-ip")


class Thanked(Protocol):
    """How thanks stand: readers whose Archive was thanked, is still to be, or was not, by reason."""

    delivered: int
    queued: int
    dropped: Counter[str]


class _Family(NamedTuple):
    """One name, what it counts, and the values of its label: one number each."""

    name: str
    help: str
    label: str = ""
    values: tuple[str, ...] = ("",)
    kind: str = "counter"
    of_all: bool = False  # of a gauge that every process knows whole: the greatest counts, not the sum


_FAMILIES: Final = (
    _Family(
        "resolutions_total",
        "Persistent URLs, by what came of them.",
        "outcome",
        (REDIRECT, *map(str, Kind), OTHER),
    ),
    _Family("rounds_total", "Rounds in which Archives were asked."),
    _Family(
        "questions_total",
        "Questions to Archives, by what came back.",
        "result",
        ("answered", "silent", "garbled", "asleep", OTHER),
    ),
    _Family(
        "hints_total",
        "Whether who was asked first held the item.",
        "result",
        ("right", "wrong", "none", OTHER),
    ),
    _Family(
        "remembered_total",
        "Questions that were not asked, by what was remembered.",
        "answer",
        ("fresh", "stale", "negative", OTHER),
    ),
    _Family("thanks_delivered_total", "Readers whose Archive was thanked."),
    _Family(
        "thanks_dropped_total", "Readers whose Archive was not, by reason.", "reason", (*_DROPPED, OTHER)
    ),
    _Family("thanks_queued", "Readers whose Archive is still to be thanked.", kind="gauge"),
    _Family("in_flight", "Resolutions under way.", kind="gauge"),
    _Family("archives_included", "Archives that take part.", kind="gauge", of_all=True),
    _Family("archives_asleep", "Of these, how many are not asked for now.", kind="gauge", of_all=True),
    _Family("resolution_seconds", "How long resolutions took.", kind="histogram"),
    _Family("question_seconds", "How long Archives took to answer.", kind="histogram"),
)


def _size(family: _Family) -> int:
    """Numbers of a family: a histogram has its buckets and its sum."""
    return len(BOUNDS) + 2 if family.kind == "histogram" else len(family.values)


def _layout() -> tuple[dict[str, int], list[str]]:
    """Where each family begins, and the names of all numbers."""
    begins: dict[str, int] = {}
    names: list[str] = []
    for family in _FAMILIES:
        begins[family.name] = len(names)
        parts = family.values if family.kind != "histogram" else (*map(str, BOUNDS), "more", "sum")
        names += [f"{family.name} {part}" for part in parts]
    return begins, names


_BEGINS, _NAMES = _layout()
_IN_FLIGHT: Final = _BEGINS["in_flight"]
_ROUNDS: Final = _BEGINS["rounds_total"]
_RESOLUTION: Final = _BEGINS["resolution_seconds"]
_QUESTION: Final = _BEGINS["question_seconds"]
_DELIVERED: Final = _BEGINS["thanks_delivered_total"]
_QUEUED: Final = _BEGINS["thanks_queued"]
_INCLUDED: Final = _BEGINS["archives_included"]
_ASLEEP: Final = _BEGINS["archives_asleep"]
_GAUGES: Final = [_BEGINS[family.name] for family in _FAMILIES if family.kind == "gauge"]


def _places(name: str) -> dict[str, int]:
    """The place of each value of a family's label."""
    family = next(each for each in _FAMILIES if each.name == name)
    return {value: _BEGINS[name] + number for number, value in enumerate(family.values)}


@dataclass(slots=True)
class _Followed:
    """What counts by itself, and how much of it is counted here already."""

    thanks: Thanked
    included: Callable[[], int]
    asleep: Callable[[], int]
    seen: Counter[str] = field(default_factory=Counter)

    def more(self, name: str, count: int) -> int:
        """How much has come to it."""
        before, self.seen[name] = self.seen[name], count
        return count - before


class Metrics:
    """The numbers of one process. Its methods are for one thread; those that count take well under a microsecond."""

    def __init__(self, data: Path) -> None:
        self._tallies = Tallies(data / FOLDER, _NAMES, _GAUGES)
        self._values = self._tallies.values
        self._followed: list[_Followed] = []
        self._looked = 0.0
        self._outcomes = _places("resolutions_total")
        self._questions = _places("questions_total")
        self._hints = _places("hints_total")
        self._remembered = _places("remembered_total")
        self._dropped = _places("thanks_dropped_total")

    def follow(self, thanks: Thanked, included: Callable[[], int], asleep: Callable[[], int]) -> None:
        """Take over what others count by themselves, at most once a second, until `leave`.

        `included` and `asleep` tell how many Archives take part, and how many of these are not asked for now.
        """
        self._followed.append(_Followed(thanks, included, asleep))

    def leave(self, thanks: Thanked) -> None:
        """Take over the last of it: these thanks are closed."""
        self._look()
        self._followed = [each for each in self._followed if each.thanks is not thanks]

    # -- counting ------------------------------------------------------------------------------------------------

    def begun(self, count: int = 1) -> None:
        """So many resolutions begin."""
        self._values[_IN_FLIGHT] += count

    def resolved(self, outcome: str, seconds: float, now: float, count: int = 1) -> None:
        """So many resolutions are over: REDIRECT or the kind of their alert; `now` in the loop's seconds."""
        values = self._values
        values[_IN_FLIGHT] -= count
        values[self._outcomes.get(outcome, self._outcomes[OTHER])] += count
        self._observe(_RESOLUTION, seconds, count)
        if now - self._looked >= _LOOK_EVERY:
            self._looked = now
            self._look()

    def round(self, count: int = 1) -> None:
        """Archives are asked once more for one resolution, or for the first time; so often."""
        self._values[_ROUNDS] += count

    def asked(self, result: str, *waits: float) -> None:
        """Questions have come to an end: "answered", "silent", "garbled", or "asleep" for one that was not sent.

        `waits`: the seconds that each of them took, if they were sent.
        """
        self._values[self._questions.get(result, self._questions[OTHER])] += len(waits) or 1.0
        for seconds, count in Counter(waits).items() if len(waits) > 1 else zip(waits, (1,), strict=False):
            self._observe(_QUESTION, seconds, count)

    def hint(self, result: str, count: int = 1) -> None:
        """Who was asked first held the item ("right") or did not ("wrong"), or nobody was to be preferred ("none")."""
        self._values[self._hints.get(result, self._hints[OTHER])] += count

    def remembered(self, answer: str, count: int = 1) -> None:
        """No Archive was asked, since there was a "fresh", a "stale" or a "negative" answer."""
        self._values[self._remembered.get(answer, self._remembered[OTHER])] += count

    def _observe(self, begin: int, seconds: float, count: int = 1) -> None:
        values = self._values
        values[begin + bisect_left(BOUNDS, seconds)] += count
        values[begin + len(BOUNDS) + 1] += count * seconds

    def _look(self) -> None:
        """Take over what others count."""
        values, queued = self._values, 0
        for each in self._followed:
            values[_INCLUDED], values[_ASLEEP] = each.included(), each.asleep()
            queued += each.thanks.queued
            values[_DELIVERED] += each.more("delivered", each.thanks.delivered)
            for reason, count in each.thanks.dropped.items():
                values[self._dropped.get(reason, self._dropped[OTHER])] += each.more(reason, count)
        values[_QUEUED] = queued

    # -- telling -------------------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """All of it in the Prometheus text format, version 0.0.4."""
        self._look()
        totals = self._tallies.totals()
        lines = [line for family in _FAMILIES for line in _lines(family, totals)]
        lines += _head("workers", "Processes that answer.", "gauge")
        lines.append(f"ibi_resolver_workers {len(totals.running)}")
        lines += _head("info", "The version of the program.", "gauge")
        lines.append(f'ibi_resolver_info{{version="{ibi.__version__}"}} 1')
        return ("\n".join(lines) + "\n").encode()

    def answer(self, visitor: Visitor, networks: Sequence[str] = HERE) -> Response | None:
        """GET /-/metrics; None for whoever may not know: to them there is no such page."""
        return Response(200, self.text(), TEXT, NO_STORE) if _is_inside(visitor, networks or HERE) else None

    def close(self) -> None:
        """Count what is still to be counted, and leave."""
        self._look()
        self._tallies.close()


def _is_inside(visitor: Visitor, networks: Sequence[str]) -> bool:
    """Whether all the addresses that a request came by lie in these networks.

    A proxy that nobody has declared is a part of this machine, perhaps, and its readers are not.
    """
    if any(visitor.headers.get(name) for name in _FORWARDED):
        return False
    inside = [ip_network(network, strict=False) for network in networks]
    addresses = [ip_address(address) for address in visitor.addresses]
    return all(
        any(address.version == network.version and address in network for network in inside)
        for address in addresses
    )


def _head(name: str, sentence: str, kind: str) -> list[str]:
    return [f"# HELP ibi_resolver_{name} {sentence}", f"# TYPE ibi_resolver_{name} {kind}"]


def _lines(family: _Family, totals: Totals) -> Iterator[str]:
    name, begin = f"ibi_resolver_{family.name}", _BEGINS[family.name]
    yield from _head(family.name, family.help, family.kind)
    if family.kind == "histogram":
        yield from _histogram(name, totals.sums[begin : begin + _size(family)])
        return
    for place, value in enumerate(family.values, begin):
        numbers = [each[place] for each in totals.running]
        number = totals.sums[place]
        if family.kind == "gauge":
            number = max(numbers, default=0.0) if family.of_all else sum(numbers)
        label = f'{{{family.label}="{value}"}}' if family.label else ""
        yield f"{name}{label} {number:.17g}"


def _histogram(name: str, numbers: Sequence[float]) -> Iterator[str]:
    """Buckets hold what is in the ones before them too."""
    count = 0.0
    for bound, number in zip((*map(str, BOUNDS), "+Inf"), numbers, strict=False):
        count += number
        yield f'{name}_bucket{{le="{bound}"}} {count:.17g}'
    yield f"{name}_sum {numbers[-1]:.17g}"
    yield f"{name}_count {count:.17g}"
