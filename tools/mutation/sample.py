"""Which mutants are tried: lines drawn at random, of an area or of those that a change touches. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice, zip_longest
from typing import Final

from mutation.operators import Point, points

AREAS: Final = (
    "archive",
    "resolver",
    "http+accounts+api+web",
    "runtime",
    "identifier+protocol",
    "minting",
)
"""Each is a list of folders or files below `src/ibi`, with `+` between them."""

Place = tuple[str, Point]
"""A file, named as below `src`, and a point of it."""


def files_of(area: str, files: Iterable[str]) -> list[str]:
    """The files (named as below `src`) of an area: one of AREAS, or any list of the same form."""
    parts = tuple(f"ibi/{part}" for part in area.split("+"))
    return sorted(
        file for file in files if file in parts or file.startswith(tuple(f"{part}/" for part in parts))
    )


def drawn(
    sources: Mapping[str, str], number: int, seed: int, lines: Mapping[str, Collection[int]] | None = None
) -> list[Place]:
    """At most `number` mutants: lines first, whatever they hold, then for each one of the ways to change it.

    A line comes again, in another way, only where there are fewer lines than mutants are wanted. `sources`: file ->
    text; `lines`: only these, by file. The same arguments give the same mutants.
    """
    by_line: dict[tuple[str, int], list[Point]] = {}
    for file, text in sorted(sources.items()):
        for point in points(text):
            if lines is None or point.line in lines.get(file, ()):
                by_line.setdefault((file, point.line), []).append(point)
    chance = random.Random(seed)  # noqa: S311 - a sample that can be drawn again
    places = chance.sample(sorted(by_line), len(by_line))
    ways = [[(file, point) for point in _shuffled(by_line[file, line], chance)] for file, line in places]
    rounds = (place for each in zip_longest(*ways) for place in each if place is not None)
    return list(islice(rounds, number))


def _shuffled(found: list[Point], chance: random.Random) -> list[Point]:
    return chance.sample(found, len(found))


_FILE: Final = re.compile(r"\+\+\+ b/src/(.+)")
_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def touched(diff: str) -> dict[str, set[int]]:
    """File (named as below `src`) -> the lines, from 1, that a `git diff -U0` adds or changes."""
    lines, file = dict[str, set[int]](), ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            named = _FILE.fullmatch(line)
            file = named[1] if named else ""
        elif file and (hunk := _HUNK.match(line)):
            first, many = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + many))
    return lines
