"""Languages of items and of readers: their tags, and which one suits a reader (URL-11, AMB-43 to AMB-47)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ibi.errors import ParseError
from ibi.protocol import _grammar

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_HEADER = 1024  # characters of Accept-Language that are read
_MAX_RANGES = 32  # languages of Accept-Language that are read


def canonical_language(text: str) -> str:
    """Return "pt-BR" for "PT-br". Raises ParseError unless it is two letters, perhaps with a country."""
    if _grammar.language_match(text) is None:
        raise ParseError("language", text, "a language is two letters, perhaps with a country: pt or pt-BR")
    language, hyphen, country = text.partition("-")
    return language.lower() + hyphen + country.upper()


def covers(wanted: str, available: str) -> bool:
    """Return whether the wanted language accepts the available one: "pt" also accepts "pt-BR" (AMB-47)."""
    return available == wanted or available.startswith(f"{wanted}-")


@dataclass(frozen=True, slots=True)
class LanguagePreference:
    """The language ranges that a reader's browser prefers, best first; never sent to Archives.

    `refused`: the ranges with quality 0. See RES-03: Archives learn no preference.
    """

    ranges: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, header: str) -> LanguagePreference:
        """Read an Accept-Language header. Elements that cannot be read are ignored; no header is an error."""
        return _preference(header[:_MAX_HEADER])

    def choose(self, available: Iterable[str]) -> str | None:
        """Return the language that fits best, None if none fits (RFC 4647 Lookup, the ranges in order).

        A range loses its last subtag until it equals an available language. If it never does, the range
        accepts an available language with a country, the first in alphabetical order.
        """
        offered = {tag.lower(): tag for tag in sorted(available) if tag.lower() not in self.refused}
        for wanted in self.ranges:
            subtags = wanted.split("-")
            while subtags:
                prefix = "-".join(subtags)
                if prefix in offered:
                    return offered[prefix]
                subtags.pop()
            # RFC 4647 Lookup does not let "pt" match "pt-BR"; this step is our addition (AMB-47: languages and
            # countries).
            with_country = (tag for lower, tag in offered.items() if covers(wanted, lower))
            if (found := next(with_country, None)) is not None:
                return found
        return None


@lru_cache(maxsize=256)
def _preference(header: str) -> LanguagePreference:
    wanted: list[tuple[float, str]] = []
    refused = set()
    for element in header.split(",")[:_MAX_RANGES]:
        tag, _, parameter = element.partition(";")
        tag = tag.strip(" \t").lower()
        quality = _quality(parameter)
        if not tag.replace("-", "").isalnum() or not tag.isascii():  # "*" is neither
            continue
        if quality > 0:
            wanted.append((-quality, tag))
        else:
            refused.add(tag)
    # The sort is stable: ranges of equal quality keep the order in which the browser sent them.
    wanted.sort(key=lambda ranked: ranked[0])
    return LanguagePreference(tuple(tag for _, tag in wanted), frozenset(refused))


def _quality(parameter: str) -> float:
    """Return the quality of a parameter such as "q=0.8"; 1 if there is none or it cannot be read."""
    name, _, value = parameter.strip(" \t").partition("=")
    digits = value.strip(" \t")
    if name.strip(" \t").lower() != "q" or not digits.replace(".", "", 1).isdecimal() or not digits.isascii():
        return 1.0
    return min(1.0, float(digits[:8]))
