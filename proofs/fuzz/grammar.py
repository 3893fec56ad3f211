"""Names, URLs, messages and the rest, made after the rules of `grammar.txt`: valid, or nearly so."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

_PLACE: Final = re.compile(r"<([a-z_]+)>")
_DEEPEST: Final = 12  # then the first alternative is taken
_NO_DEEPER: Final = 24  # then nothing is


@cache
def rules() -> dict[str, list[str]]:
    """The alternatives of each rule."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in Path(__file__).with_name("grammar.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("|"):
            found[name].append(line[2:].encode().decode("unicode_escape"))
        elif not line.startswith("#"):
            name = line
            found[name] = []
    return found


def expand(rule: str, chance: random.Random, depth: int = 0) -> str:
    """A text of a rule."""
    choices = rules()[rule]
    chosen = choices[0] if depth > _DEEPEST else chance.choice(choices)
    if "<" not in chosen:
        return chosen
    return _PLACE.sub(lambda place: _placed(place, chance, depth + 1), chosen)


def expand_text(text: str, chance: random.Random) -> str:
    """A text whose places are filled after the rules."""
    return _PLACE.sub(lambda place: _placed(place, chance, 1), text)


def _placed(place: re.Match[str], chance: random.Random, depth: int) -> str:
    if place[1] not in rules():
        return place[0]
    return expand(place[1], chance, depth) if depth < _NO_DEEPER else ""
