"""Relations: the steps from an item to a related one. One value has three spellings.

    in a persistent URL      !:(oai_dc)
    in a list of verbs       GetLastEdition GetMetadata(oai_dc)
    in the name of a pair    .lastedition.metadata(oai_dc)

Steps are read from left to right: "!+" is the translation of the last edition.

See URL-05: modifiers; URL-06: compositions; SVC-06: relations.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import ParseError
from ibi.protocol import _grammar
from ibi.protocol.language import canonical_language, covers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_STEPS = 4  # the longest compositions are !+:+ and +!:+


class StepKind(Enum):
    """The three kinds of steps from an item to a related one; each value is (modifier, verb, qualifier)."""

    LAST_EDITION = ("!", "GetLastEdition", ".lastedition")
    TRANSLATION = ("+", "GetTranslation", ".translation")
    METADATA = (":", "GetMetadata", ".metadata")


_KINDS = {word: kind for kind in StepKind for word in kind.value}
"""Each kind under each of its three spellings, which are all different."""


class Step(NamedTuple):
    """One step; `parameter` is a language, a metadata format, or None."""

    kind: StepKind
    parameter: str | None = None

    def spelled(self, spelling: int) -> str:
        """Spell the step as modifier (0), verb (1) or qualifier (2)."""
        word: str = self.kind.value[spelling]
        return word if self.parameter is None else f"{word}({self.parameter})"

    def accepts(self, other: Step) -> bool:
        """Whether `other` fulfils this step: a bare translation accepts any language (SVC-19, AMB-47)."""
        if self == other:
            return True
        if self.kind is not StepKind.TRANSLATION or other.kind is not StepKind.TRANSLATION:
            return False
        return self.parameter is None or (
            other.parameter is not None and covers(self.parameter, other.parameter)
        )


class Relation(NamedTuple):
    """A relation from an item to another one, or to the item itself if there are no steps."""

    steps: tuple[Step, ...] = ()

    @classmethod
    def from_modifier(cls, text: str) -> Relation:
        """Read the modifier of a persistent URL: "" or one of 14 compositions. Raises ParseError."""
        return _read(text, 0)

    @classmethod
    def from_qualifier(cls, text: str) -> Relation:
        """Read the qualifier of a pair name. Raises ParseError."""
        return _read(text, 2)

    @classmethod
    def from_verbs(cls, verbs: Iterable[str]) -> Relation:
        """Read verbs other than GetFileList. Raises ParseError, also for an order that is no composition."""
        return _of_verbs(tuple(verbs))

    @property
    def modifier(self) -> str:
        """The spelling of a persistent URL: "!:(oai_dc)"."""
        return "".join(step.spelled(0) for step in self.steps)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The spelling of a verb list: ("GetLastEdition", "GetMetadata(oai_dc)")."""
        return tuple(step.spelled(1) for step in self.steps)

    @property
    def qualifier(self) -> str:
        """The spelling of a pair name: ".lastedition.metadata(oai_dc)"."""
        return _qualifier(self)

    @property
    def kinds(self) -> tuple[StepKind, ...]:
        """The kinds of the steps, without parameters."""
        return tuple(step.kind for step in self.steps)

    def leading(self) -> Iterator[Relation]:
        """Yield the beginnings of this relation: shorter than it, not empty, the longest first (RES-09)."""
        for length in range(len(self.steps) - 1, 0, -1):
            yield Relation(self.steps[:length])

    def after(self, lead: Relation) -> Relation:
        """Return the steps that remain after the beginning `lead`."""
        return Relation(self.steps[len(lead.steps) :])

    def accepts(self, other: Relation) -> bool:
        """Whether `other` fulfils this relation, step by step."""
        return len(self.steps) == len(other.steps) and all(map(Step.accepts, self.steps, other.steps))


@lru_cache(maxsize=1024)
def _of_verbs(verbs: tuple[str, ...]) -> Relation:
    return _composed("+".join(verbs), [parse_verb(verb) for verb in verbs])


@lru_cache(maxsize=1024)
def parse_verb(text: str) -> Step:
    """Read one verb; case matters in verbs, not in languages (AMB-43: language tags). Raises ParseError."""
    match = _VERB(text)
    if match is None:
        raise ParseError(
            "verb", text, "the verbs are GetLastEdition, GetTranslation, GetMetadata and GetFileList"
        )
    return _step(text, match[1], match[2])


def composes(kinds: Iterable[StepKind]) -> bool:
    """Return whether steps of these kinds may follow one another (SVC-06: relations).

    If they may, so may the first of them alone, the first two, and so on.
    """
    return _SHAPE("".join(kind.value[0] for kind in kinds)) is not None


@lru_cache(maxsize=1024)
def _read(text: str, spelling: int) -> Relation:
    what, elements = ("modifier", _MODIFIERS) if spelling == 0 else ("relation", _QUALIFIERS)
    steps: list[Step] = []
    at = 0
    # One step more than the longest composition is read, so that a longer text is refused, not cut.
    while at < len(text) and len(steps) <= _MOST_STEPS:
        match = elements(text, at)
        if match is None:
            raise ParseError(
                what, text, "a modifier is made of !, + and :, a language or format in brackets", at
            )
        steps.append(_step(text, match[1], match[2], at))
        at = match.end()
    return _composed(text, steps)


def _step(text: str, word: str, parameter: str | None, at: int = 0) -> Step:
    kind = _KINDS[word]
    if parameter is None:
        return Step(kind)
    if kind is StepKind.TRANSLATION:
        return Step(kind, canonical_language(parameter))
    if kind is StepKind.METADATA and _grammar.format_match(parameter):
        return Step(kind, parameter)
    raise ParseError(
        "relation", text, "what stands in the brackets is no language and no metadata format", at
    )


def _composed(text: str, steps: list[Step]) -> Relation:
    if not composes(step.kind for step in steps):
        problem = "these steps cannot follow one another: see the fourteen compositions"
        raise ParseError("relation", text, problem)
    return Relation(tuple(steps))


@lru_cache(maxsize=1024)
def _qualifier(relation: Relation) -> str:
    return "".join(step.spelled(2) for step in relation.steps)


_PARAMETER = r"(?:\(([^()]*)\))?"
_MODIFIERS = re.compile(rf"([!+:]){_PARAMETER}").match
_QUALIFIERS = re.compile(rf"(\.lastedition|\.translation|\.metadata){_PARAMETER}(?=\.|\Z)").match
_VERB = re.compile(rf"(GetLastEdition|GetTranslation|GetMetadata){_PARAMETER}").fullmatch
# The fourteen compositions and the empty one: edition and translation in either order, metadata, its translation.
_SHAPE = re.compile(r"(?:!\+?|\+!?)?(?::\+?)?").fullmatch

ITEM = Relation()
"""The empty relation: the item itself."""
