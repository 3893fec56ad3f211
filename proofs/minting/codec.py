"""P-M6: what is written of a date is read back as that date, in both forms, and no two dates are written alike.

Dates by chance from 1995 to 9999, at every fineness; and the edges: powers of 27, ends of months, years and leap
days, leading and trailing zeros of fractions, the nines before every turn. For each date:

- `label` and `spell` write the same texts;
- the library reads the date back from each form, and so does a second reader that shares nothing with it
  (`reading.py`);
- no other date among all has either text; dates of one host sort as their moments.

What it cannot show: dates outside these years, and labels that others have written.
"""

from __future__ import annotations

import random
from calendar import timegm
from collections.abc import Iterable, Iterator
from itertools import islice

from ibi.errors import ParseError
from ibi.identifier.generator import LabelGenerator
from proofs.common.report import Report, Scale
from proofs.minting.reading import EPOCH, TICKS, moment_of_ibip, moment_of_rep

NAME = "P-M6"
HOLDS = "decode(encode(x)) = x in both forms and two readings; injective; spell = label"

FIRST, LAST = EPOCH * TICKS, 253402300800 * TICKS - 1  # 1995-08-01, and the last tick of the year 9999
FINENESS = [60 * TICKS, *(10**power for power in range(10))]
SUBSYSTEMS = (
    LabelGenerator("mtc-m18.sid.inpe.br", ip="150.163.34.243"),
    LabelGenerator("a.example.org", 8080, "2a00:1450:4001::200e", 802),
)
_AT_ONCE = 10_000


def prove(scale: Scale, seed: int) -> Report:
    """Write and read back every edge, and dates by chance up to the number of the scale."""
    report = Report(NAME, HOLDS)
    edges = set(_edges(range(1995, 10000, scale.pick(179, 7, 1))))
    report.count("edges", len(edges))
    dates = _enough(edges, random.Random(seed), scale.pick(15_000, 200_000, 1_000_000))
    report.count("dates", len(dates))
    ordered = sorted(dates)
    for number, subsystem in enumerate(SUBSYSTEMS):
        part = ordered if number == 0 else ordered[::10]
        _round_trips(report, subsystem, part)
    _refusals(report)
    return report


def _enough(edges: set[int], chance: random.Random, count: int) -> set[int]:
    dates = set(edges)
    while len(dates) < len(edges) + count:
        moment, grain = chance.randint(FIRST, LAST), chance.choice(FINENESS)
        dates.add(max(FIRST, moment - moment % grain))
    return dates


def _edges(years: Iterable[int]) -> Iterator[int]:
    """Dates at which something turns over, one tick before each and one after, as far as they may be written."""
    seconds = {EPOCH + 27**power for power in range(8)} | {EPOCH, FIRST // TICKS + 1, LAST // TICKS}
    for year in (*years, 1996, 2000, 2038, 2100, 9999):
        seconds |= {timegm((year, month, day, 0, 0, 0)) for month, day in ((1, 1), (2, 28), (3, 1), (12, 31))}
    seconds |= {
        timegm((year, month, 1, 0, 0, 0)) for year in (1995, 1996, 2000, 2038, 2100) for month in range(1, 13)
    }
    turns = {
        second * TICKS + shift for second in seconds for shift in (-60 * TICKS, -TICKS, 0, TICKS, 60 * TICKS)
    }
    fractions = {digit * 10**power for power in range(9) for digit in range(1, 10)}
    fractions |= {TICKS - 10**power for power in range(10)} | {27**power for power in range(1, 7)}
    fractions |= {(10**power + 1) * 10**shift for power in range(1, 9) for shift in range(9 - power)}
    turns |= {second * TICKS + part for second in (EPOCH, 1287588120, 4107542399) for part in fractions}
    near = (turn + shift for turn in turns for shift in (-1, 0, 1))
    return (date for date in near if FIRST <= date <= LAST)


def _round_trips(report: Report, subsystem: LabelGenerator, dates: Iterable[int]) -> None:
    reps, ibips, count, before = set[str](), set[str](), 0, None
    waiting = iter(dates)
    while some := list(islice(waiting, _AT_ONCE)):
        for date, (rep, ibip) in zip(some, subsystem.spell(some), strict=True):
            forms = subsystem.label(date)
            assert forms.rep is not None and forms.ibip is not None and ibip is not None  # noqa: PT018, S101 - for mypy
            if (str(forms.rep), str(forms.ibip)) != (rep, ibip):
                report.violate(f"{date}: spell gives {rep} {ibip}, label gives {forms}")
            if not forms.rep.date.ticks == forms.ibip.date.ticks == date:
                report.violate(f"{date}: the library reads {forms} as {forms.rep.date} and {forms.ibip.date}")
            if not moment_of_rep(rep) == moment_of_ibip(ibip) == date:
                report.violate(f"{date}: {rep} {ibip} name other moments")
            if before is not None and not before < forms.rep:
                report.violate(f"{rep} does not come after {before}")
            before = forms.rep
            reps.add(rep)
            ibips.add(ibip)
            count += 1
    report.count("labels", 2 * count)
    report.count("duplicates", 2 * count - len(reps) - len(ibips))
    report.demand(len(reps) == len(ibips) == count, f"{2 * count - len(reps) - len(ibips)} labels came twice")


def _refusals(report: Report) -> None:
    """Before the epoch nothing is written (GEN-70)."""
    subsystem = SUBSYSTEMS[0]
    for date in (FIRST - 1, FIRST - TICKS, 0, -1):
        report.count("dates too old")
        for write in (lambda date: [*subsystem.spell([date])], subsystem.label):
            try:
                written = write(date)
            except ParseError:
                continue
            report.violate(f"{date} is before the epoch and became {written}")
