"""Sets: parts of what is held that a harvester may ask for by themselves (OAI-PMH 2.0, 2.6; pure).

    openaccess  openaire  driver        what everybody may have: under the names that aggregators ask for
    openaire_data                       data sets, for the same
    kind-Dissertation  language-pt      by what DataCite calls the kind, and by language

A record is in the sets of its item as it is now; a removed item stays in those that it was in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Part(NamedTuple):
    """One set. `spec`: its setSpec; `name`: for people; `key`: what the index calls this part."""

    spec: str
    name: str
    key: str


_OPEN: Final = (
    Part("openaccess", "Open access", "access:open"),
    Part("openaire", "OpenAIRE", "access:open"),
    Part("driver", "Open Access DRIVERset", "access:open"),
)
_DATA: Final = Part("openaire_data", "OpenAIRE: data sets", "kind:Dataset")
_BY: Final = {"kind": "Kind", "language": "Language"}
_BETWEEN: Final = "-"
"""No colon: it would make a set of everything that has a kind (2.6)."""


def known_parts(values: Mapping[str, Mapping[str, int]]) -> Iterator[Part]:
    """All sets that there are; `values`: which kinds and languages the index has."""
    yield from (*_OPEN, _DATA)
    for what, name in _BY.items():
        for value in sorted(values.get(what, {})):
            yield Part(f"{what}{_BETWEEN}{value}", f"{name}: {value}", f"{what}:{value}")


def index_part(spec: str) -> str | None:
    """What the index calls a set, or all records for ""; None for a set that there never is."""
    if not spec:
        return "data"
    fixed = next((part.key for part in (*_OPEN, _DATA) if part.spec == spec), None)
    if fixed is not None:
        return fixed
    what, _, value = spec.partition(_BETWEEN)
    return f"{what}:{value}" if what in _BY and value else None


def specs_of(kind: str, language: str, *, is_open: bool) -> tuple[str, ...]:
    """The sets that an item of this kind and language is in."""
    specs = [part.spec for part in _OPEN] if is_open else []
    if f"kind:{kind}" == _DATA.key:
        specs.append(_DATA.spec)
    specs += [f"{what}{_BETWEEN}{value}" for what, value in (("kind", kind), ("language", language)) if value]
    return tuple(specs)
