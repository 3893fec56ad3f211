"""P-M4: in a small world, tried out wholly, no sequence of requests gets a label twice.

The world: twelve moments around a full minute, five granularities, up to six requests; before each request the
granularity may change, the clock may go back, the process may start anew, and a window of dates may be burnt. What a
request gets depends only on the last date, the granularity and the clock. So:

1. *Steps.* From every last date that up to six requests can lead to, every next request is tried, one draw at a time
   and in windows of one to six. Each date must be the one that the definition gives (`oracle.py`) and later than the
   last: then every walk through the world, burnt windows and restarts included, strictly increases.
2. *Labels.* Every date that came up is spelled in both forms: no two alike, each read back to its date (`reading.py`).
3. *Stories.* Sequences on a clock that never goes back are played once more from end to end, nothing remembered between
   them but the last date, and their labels counted.
4. *Table 6.2* of the report, to the last digit (GEN-39).

What it cannot show: anything of clocks, disks and processes; and granularities finer than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise, product

from ibi.identifier.distributor import distribute, distribute_many
from ibi.identifier.generator import LabelGenerator
from proofs.common.report import Report, Scale
from proofs.minting import oracle
from proofs.minting.reading import TICKS, moment_of_ibip, moment_of_rep

NAME = "P-M4"
HOLDS = "dates as defined, strictly increasing; labels differ in both forms; Table 6.2 exact"

MINUTE = 1287588120  # a full minute, in seconds
OFFSETS = "-60 -1 -0.1 -0.001 -0.000000001 0 0.0005 0.05 0.999 1 60 3600"
MOMENTS = tuple((MINUTE + Fraction(offset)) * TICKS // 1 for offset in OFFSETS.split())
GRAINS = (60 * TICKS, TICKS, TICKS // 10, TICKS // 100, TICKS // 1000)
REQUESTS = 6
AHEAD = TICKS // 5  # how far windows may run ahead of the clock (note 9)

HOST, IP = "mtc-m18.sid.inpe.br", "150.163.34.243"

TABLE = (  # GEN-39: the request, the creation date, the date, both suffixes
    ("1287587646.394023", 1287587646, 1287587646, "2010/10.20.15.14.06", "38ERDLB"),
    ("1287588012.2930", 1287588012, 1287588000, "2010/10.20.15.20", "38ERE6E"),
    ("1287588115.186234", 1287588115, 1287588060, "2010/10.20.15.21", "38ERE8L"),
    ("1287588115.3462", 1287588115, 1287588115, "2010/10.20.15.21.55", "38EREAM"),
    ("1287588115.99623", 1287588116, 1287588116, "2010/10.20.15.21.56", "38EREAN"),
    ("1287588116.72", 1287588117, 1287588117, "2010/10.20.15.21.57", "38EREAP"),
    ("1287588539.788342", 1287588539, 1287588480, "2010/10.20.15.28", "38EREQ8"),
)


def prove(scale: Scale, seed: int) -> Report:
    """Walk through the whole world; nothing is left to chance, so the seed changes nothing."""
    del seed
    _due.cache_clear()
    report = Report(NAME, HOLDS)
    dates = _steps(report, scale.pick(2, 4, REQUESTS))
    _labels(report, dates)
    _histories(report, scale.pick(4, 5, REQUESTS))
    _table(report)
    return report


def _steps(report: Report, depth: int) -> set[int]:
    """Every request from every last date within `depth` requests. Returns all dates that came up."""
    known: set[int | None] = {None, *MOMENTS}
    frontier, dates = set(known), set[int]()
    for _ in range(depth):
        reached: set[int | None] = set()
        for last, grain, now in product(frontier, GRAINS, MOMENTS):
            date = _single(report, last, grain, now)
            reached.add(date)
            if last is not None:
                dates.update(_windows(report, last, grain, now))
        dates.update(date for date in reached if date is not None)
        frontier = reached - known
        known |= reached
    report.count("last dates", len(known))
    report.count("sequences covered", (1 + len(MOMENTS)) * sum(60**n for n in range(1, depth + 1)))
    return dates


def _single(report: Report, last: int | None, grain: int, now: int) -> int:
    """One draw, held against the definition."""
    report.count("steps")
    slot, due = distribute(last, grain, now), _due(last, grain, now)
    if (slot.creation, slot.date) != due:
        report.violate(
            f"distribute({last}, {grain}, {now}) gives {slot.date} of {slot.creation}, defined is {due}"
        )
    if last is not None and slot.date <= last:
        report.violate(f"distribute({last}, {grain}, {now}) goes back to {slot.date}")
    return slot.date


def _windows(report: Report, last: int, grain: int, now: int) -> Iterator[int]:
    """Windows of one to six dates at one moment: the dates of as many single draws, each due when it should be."""
    single: list[tuple[int, int]] = []  # creation, date
    for _ in range(REQUESTS):
        single.append(_due(single[-1][1] if single else last, grain, now))
    for count, until in product(range(1, REQUESTS + 1), (now, now + AHEAD, now + 3600 * TICKS)):
        report.count("windows")
        batch = distribute_many(last, grain, now, count, until)
        given = list(batch)
        expected = [date for number, (_, date) in enumerate(single[:count]) if date <= until or not number]
        due = [now] * len(batch.head) + list(batch.tail)
        call = f"distribute_many({last}, {grain}, {now}, {count}, {until})"
        if given != expected or batch.last != given[-1] or len(batch) != len(given):
            report.violate(f"{call} gives {given} and not {expected}")
        elif any(moment < creation for moment, (creation, _) in zip(due, single, strict=False)):
            report.violate(f"{call} gives a date out before it is due")
        elif any(a >= b for a, b in pairwise([last, *given])):
            report.violate(f"{call} does not increase: {given}")
        parts = batch.split(count // 2)
        report.demand([*parts[0], *parts[1]] == given, f"{call} is torn by a split")
    yield from (date for _, date in single)


@cache
def _due(last: int | None, grain: int, now: int) -> tuple[int, int]:
    """Creation and date by the definition, in ticks."""
    seconds = None if last is None else Fraction(last, TICKS)
    drawn = oracle.draw(seconds, Fraction(grain, TICKS), Fraction(now, TICKS))
    return int(drawn.creation * TICKS), int(drawn.date * TICKS)


def _labels(report: Report, dates: set[int]) -> None:
    """Both forms of every date: all different, and each read back to its date."""
    ordered = sorted(dates)
    labels = list(LabelGenerator(HOST, ip=IP).spell(ordered))
    report.count("dates", len(ordered))
    report.count(
        "duplicates", 2 * len(ordered) - len({rep for rep, _ in labels}) - len({ibip for _, ibip in labels})
    )
    report.demand(not report.counts["duplicates"], "two dates share a label")
    for date, (rep, ibip) in zip(ordered, labels, strict=True):
        report.demand(
            ibip is not None and moment_of_rep(rep) == moment_of_ibip(ibip) == date,
            f"{rep} {ibip} is not {date}",
        )


def _histories(report: Report, longest: int) -> None:
    """Sequences on a clock that stands or goes on, the granularity changed once at every possible place."""
    for length in range(1, longest + 1):
        for clock in combinations_with_replacement(MOMENTS, length):
            for grains in _schedules(length):
                _history(report, clock, grains)


@cache
def _schedules(length: int) -> tuple[tuple[int, ...], ...]:
    """Every way to have one granularity, or one first and another from some request on."""
    changes = product(GRAINS, GRAINS, range(1, length + 1))
    return tuple({(first,) * place + (second,) * (length - place): None for first, second, place in changes})


def _history(report: Report, clock: tuple[int, ...], grains: tuple[int, ...]) -> None:
    last, given = None, list[int]()
    for now, grain in zip(clock, grains, strict=True):
        slot = distribute(last, grain, now)
        if (slot.creation, slot.date) != _due(last, grain, now):
            report.violate(f"in the story {clock} {grains}, {slot.date} is not as defined")
        last = slot.date
        given.append(last)
    report.counts["stories"] += 1
    if len(set(given)) < len(given):
        report.count("duplicates")
        report.violate(f"the story {clock} {grains} repeats a date")


def _table(report: Report) -> None:
    last: int | None = None
    labels = LabelGenerator(HOST, ip=IP)
    for request, creation, date, rep, ibip in TABLE:
        slot = distribute(last, TICKS, int(Fraction(request) * TICKS))
        forms = labels.label(slot.date)
        shown = (slot.creation, slot.date, str(forms.rep).split("/", 2)[2], str(forms.ibip).split("/")[1])
        report.demand(shown == (creation * TICKS, date * TICKS, rep, ibip), f"Table 6.2, {request}: {shown}")
        report.count("rows of Table 6.2")
        last = slot.date
