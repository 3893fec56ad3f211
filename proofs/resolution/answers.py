"""What an Archive's answer says, read naively from the standard (R15 9.2; RES-05 to RES-09, AMB-45 to AMB-53).

Nothing here is shared with the resolver: an answer is a mapping of text to text ("ibi.nextedition": "rep a/b/2020/01"),
a relation is a tuple of modifiers ("!", "+(pt)"), the names of an item are a set of texts in small letters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WORDS = {"!": ".lastedition", "+": ".translation", ":": ".metadata"}
_SIGNS = {word[1:]: sign for sign, word in _WORDS.items()}
_STEP = re.compile(r"\.(lastedition|translation|metadata)(\([^()]*\))?(?![^.])")
_SAFE = re.compile(
    r"https?://[a-z0-9.-]+\.example(/[!-\[\]-~]*)?"
).fullmatch  # all that an honest scenario has

Steps = tuple[str, ...]
Names = frozenset[str]


class ArchiveAnswer(NamedTuple):
    """What one Archive answered; `pairs` is empty where it knows nothing."""

    archive: str
    pairs: Mapping[str, str]


@lru_cache(maxsize=4096)
def qualifier(steps: Steps) -> str:
    """The spelling of a relation in the names of pairs."""
    return "".join(_WORDS[step[0]] + step[1:] for step in steps)


@lru_cache(maxsize=4096)
def names(text: str | None) -> Names:
    """The names in "rep x ibip y"."""
    return frozenset((text or "").lower().split()[1::2])


def relations(pairs: Mapping[str, str], word: str) -> Iterator[Steps]:
    """The relations for which there is a pair of a word."""
    for name in pairs:
        steps = _steps(name.removeprefix(word)) if name.startswith(word) else None
        if steps is not None:
            yield steps


@lru_cache(maxsize=4096)
def _steps(rest: str) -> Steps | None:
    found = list(_STEP.finditer(rest))
    if "".join(match[0] for match in found) != rest:
        return None
    return tuple(_SIGNS[match[1]] + (match[2] or "") for match in found)


def suits(languages: Sequence[str], offered: set[str]) -> str | None:
    """The offered language that a reader likes best: each as it is, without its country, with any country."""
    for language in languages:
        for wanted in (language, language.partition("-")[0]):
            if wanted in offered:
                return wanted
        for other in sorted(offered):
            if other.startswith(f"{language}-"):
                return other
    return None


def choose(
    pairs: Mapping[str, str], steps: Steps, languages: Sequence[str], among: Sequence[Steps]
) -> Steps | None:
    """The one relation among some that is the wanted one for this reader (RES-06, RES-07, note 38)."""
    taken: Steps = ()
    for index, step in enumerate(steps):
        nexts = {each[index] for each in among if len(each) == len(steps) and each[:index] == taken}
        if not nexts:
            return None
        best: str | None = step
        if step == "+":
            known = relations(pairs, "ibi")
            named = {each[index] for each in known if len(each) > index and each[:index] == taken}
            offered = {sign for sign in nexts | named if sign.startswith("+")}
            best = _translation(pairs, taken, offered, languages)
        elif step.startswith("+") and step not in nexts:
            best = next((sign for sign in sorted(nexts) if sign.startswith(step[:-1] + "-")), None)
        if best is None:
            return None
        taken = (*taken, best)
    return taken if taken in among else None


def _translation(
    pairs: Mapping[str, str], lead: Steps, offered: set[str], languages: Sequence[str]
) -> str | None:
    """Of the translations ("+", "+(pt)") after some steps the one for this reader."""
    best = suits(languages, {sign[2:-1] for sign in offered if sign != "+"})
    if best is not None:
        return f"+({best})"
    if "+" in offered:
        return "+"
    own = names(pairs.get("ibi" + qualifier(lead)))
    return next(
        (sign for sign in sorted(offered) if own & names(pairs.get("ibi" + qualifier((*lead, sign))))), None
    )


def speaks_for_itself(line: ArchiveAnswer, name: str) -> bool:
    """Whether an answer names who answers and what was asked for; to know nothing needs no name."""
    service, item = names(line.pairs.get("ibi.archiveservice")), names(line.pairs.get("ibi"))
    return not line.pairs or (line.archive in service and name in item)


def lives(line: ArchiveAnswer) -> bool:
    """Whether there is an item in an answer that has not been removed."""
    return bool(line.pairs) and line.pairs.get("state") != "Deleted"


def is_safe(url: str) -> bool:
    """Whether a reader may be sent there, as far as scenarios go (note 4)."""
    return _SAFE(url) is not None


def offered(line: ArchiveAnswer, *, safe: bool) -> list[Steps]:
    """The relations for which an answer has a living URL, perhaps only those to which readers may be sent."""
    return [
        steps
        for steps in relations(line.pairs, "url")
        if line.pairs.get("state" + qualifier(steps)) != "Deleted"
        and (not safe or is_safe(line.pairs["url" + qualifier(steps)]))
    ]


def continues(line: ArchiveAnswer, steps: Steps, languages: Sequence[str]) -> Iterator[tuple[Names, Steps]]:
    """Where an answer leads: the longest relation named, shorter ones, or the next edition; formats stay (RES-09)."""
    known = [each for each in relations(line.pairs, "ibi") if each]
    for length in range(len(steps), 0, -1):
        found = choose(line.pairs, steps[:length], languages, known)
        if found is not None:
            formats = tuple(step for step in steps[:length] if step.startswith(":("))
            yield names(line.pairs["ibi" + qualifier(found)]), formats + steps[length:]
    if steps[:1] == ("!",) and "ibi.nextedition" in line.pairs and ("!",) not in known:
        yield names(line.pairs["ibi.nextedition"]), steps
