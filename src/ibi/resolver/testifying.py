"""Which of all that Archives said an alert tells (RES-13): decided from the explanation; pure.

Where many were asked, those are named that tell something; the others are counted, each for what it said.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from ibi.resolver.explanation import Statement
from ibi.resolver.testimony import WORDS, Hearing, Hearings, Witness, silence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.resolver.alerts import Alert
    from ibi.resolver.explanation import Explanation, RoundTold
    from ibi.resolver.testimony import What

MOST_NAMED: Final = 30
"""Archives that one alert names with what they said; where more have spoken, those that know nothing are counted."""

MOST_ROUNDS: Final = 8
"""Rounds of which one alert tells; the last ones, which led to it."""

_NOTHING: Final = "nothing known"
_RANKS: Final = {what: rank for rank, what in enumerate(WORDS)}


def witnessed(alert: Alert, story: Explanation) -> Alert:
    """An alert together with what each Archive said in the rounds that led to it; as it is where that is no matter."""
    if alert.round is None or not story.rounds:
        return alert
    rounds = story.rounds[-MOST_ROUNDS:]
    told = [[*_telling(each)] for each in rounds]
    told[-1] += _elsewhere(alert, story.rounds)
    ignorant = [_ignorant(each) for each in rounds]
    if sum(map(len, told)) + sum(ignorant) <= MOST_NAMED:
        ignorant = [0] * len(ignorant)
        for number, each in enumerate(rounds):
            told[number] += _witnesses(said for said in each.statements if said.what == _NOTHING)
            told[number] += [Witness(str(one.service_ibi), one.address, _NOTHING) for one in each.recalled]
    named = _most_telling(told)
    first = len(story.rounds) - len(rounds) + 1
    hearings = map(_hearing, count(first), rounds, told, named, ignorant)
    return replace(alert, testimony=Hearings(tuple(hearings)))


def _most_telling(told: list[list[Witness]]) -> list[set[int]]:
    """Of each round, the places of those that are named."""
    ranked = sorted(
        (_RANKS[each.what], each.archive, number, place)
        for number, witnesses in enumerate(told)
        for place, each in enumerate(witnesses)
    )
    named: list[set[int]] = [set() for _ in told]
    for *_, number, place in ranked[:MOST_NAMED]:
        named[number].add(place)
    return named


def _hearing(
    number: int, told: RoundTold, witnesses: list[Witness], named: set[int], ignorant: int
) -> Hearing:
    """One round, of which those at these places are named, and the others counted."""
    shown = [each for place, each in enumerate(witnesses) if place in named]
    counts: Counter[What] = Counter(each.what for place, each in enumerate(witnesses) if place not in named)
    counts[_NOTHING] += ignorant
    return Hearing(
        number,
        told.ibi,
        told.verbs,
        told.file_path,
        tuple(sorted(shown, key=lambda each: (_RANKS[each.what], each.archive))),
        tuple((what, counts[what]) for what in WORDS if counts[what]),
    )


def _telling(told: RoundTold) -> Iterator[Witness]:
    """All but those that know nothing of the item, as mostly most of them."""
    yield from _witnesses(said for said in told.said if isinstance(said, Statement) and said.what != _NOTHING)
    for archive in told.late:
        yield Witness(archive, "", "not waited for")


def _ignorant(told: RoundTold) -> int:
    now = sum(not isinstance(said, Statement) or said.what == _NOTHING for said in told.said)
    return now + len(told.recalled)


def _witnesses(statements: Iterable[Statement]) -> Iterator[Witness]:
    return (Witness(said.archive, said.address, said.what, said.why) for said in statements)


def _elsewhere(alert: Alert, rounds: list[RoundTold]) -> list[Witness]:
    """Whoever was silent without being one of the Archives here: another resolver."""
    asked = {archive for each in rounds for archive in each.asked}
    silent = alert.round.silent if alert.round else ()
    return [Witness(name, "", silence(why), why) for name, why in silent if name not in asked]
