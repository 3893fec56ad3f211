"""Worlds of items that are spread over Archives, what honest Archives say of them, and what is true of them.

Items have next editions, translations and metadata, each an item of its own that any Archive may hold. An Archive
that holds an item knows what it is linked with; no other does. So what is true does not depend on who answers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofs.resolution.answers import Steps, names, qualifier, relations, suits
from proofs.resolution.cast import Archive, ScriptedReply, ibip, rep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proofs.resolution.oracle import Question

LANGUAGES = ("en", "es", "pt", "pt-BR")
SHAPES: tuple[Steps, ...] = tuple(
    tuple(shape)
    for shape in ("", "!", "+", ":", "!+", "+!", "!:", "+:", ":+", "!+:", "+!:", "!:+", "+:+", "!+:+", "+!:+")
)
"""The item itself and the fourteen compositions (URL-06)."""


@dataclass
class Item:
    """One item: what it is called, what it is linked with, and who holds it in which state."""

    number: int
    forms: tuple[str, ...]
    language: str
    next: int | None = None
    translations: dict[str, int] = field(default_factory=dict)
    metadata: int | None = None
    described: bool = False  # its holders show metadata that are no item
    holders: dict[int, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its names, as pairs carry them."""
        return " ".join(self.forms)

    @property
    def languages(self) -> dict[str, int]:
        """In which languages it is, and where (AMB-47)."""
        return {**self.translations, self.language: self.number}


@dataclass
class World:
    """Items and Archives."""

    archives: list[Archive]
    items: list[Item]

    def named(self, name: str) -> Item | None:
        """The item of a name in small letters."""
        return next((item for item in self.items if name in names(item.text)), None)

    # What Archives say

    def reply(self, archive: Archive, question: Question, *, filtered: bool, key: str) -> ScriptedReply:
        """What an honest Archive answers (SVC-03, SVC-14 to SVC-16), in full or through the filter (SVC-19)."""
        item = self.named(question.name)
        state = item.holders.get(archive.number) if item else None
        if item is None or state is None:
            return ScriptedReply({})
        pairs = {"archiveaddress": archive.address, "ibi.archiveservice": f"rep {archive.name}"}
        if state == "Deleted":
            return ScriptedReply(
                {**pairs, "ibi": item.text, "state": state, "timestamp": "2021-01-01T00:00:00Z"}
            )
        pairs["urlkey"] = key
        if item.next is not None and self._last(archive, item) is None:
            pairs["ibi.nextedition"] = self.items[item.next].text
        for steps, other in self._related(archive, item):
            rest = qualifier(steps)
            if other is None:
                described = self._described(archive, item, steps)
                shown = {
                    "url": archive.url(f"m{described.number}"),
                    "contenttype": "Metadata",
                    "state": described.holders[archive.number],
                }
                pairs |= {word + rest: text for word, text in shown.items()}
                continue
            pairs["ibi" + rest] = other.text
            held = other.holders.get(archive.number, "Deleted")
            if held != "Deleted":
                shown = {"url": archive.url(f"i{other.number}"), "contenttype": "Data", "state": held}
                pairs |= {word + rest: text for word, text in shown.items()}
        return ScriptedReply(_filtered(pairs, question.steps) if filtered else pairs)

    def _holds(self, archive: Archive, item: Item) -> bool:
        return item.holders.get(archive.number, "Deleted") != "Deleted"

    def _last(self, archive: Archive, item: Item) -> Item | None:
        """The last edition, as far as this Archive can know it."""
        while item.next is not None:
            if not self._holds(archive, item):
                return None
            item = self.items[item.next]
        return item

    def _related(self, archive: Archive, item: Item) -> Iterator[tuple[Steps, Item | None]]:
        """All relations that an Archive knows; None for metadata that are no item."""
        for shape in SHAPES:
            yield from self._walk(archive, item, shape, ())

    def _walk(
        self, archive: Archive, item: Item, rest: Steps, taken: Steps
    ) -> Iterator[tuple[Steps, Item | None]]:
        if not rest:
            yield taken, item
        elif self._holds(archive, item):
            for step, other in self._steps(archive, item, rest[0]):
                if other is not None:
                    yield from self._walk(archive, other, rest[1:], (*taken, step))
                elif not rest[1:]:
                    yield (*taken, step), None

    def _steps(self, archive: Archive, item: Item, sign: str) -> list[tuple[str, Item | None]]:
        if sign == "!":
            last = self._last(archive, item)
            return [("!", last)] if last is not None else []
        if sign == "+":
            return [(f"+({language})", self.items[other]) for language, other in item.languages.items()]
        if item.metadata is not None:
            return [(":", self.items[item.metadata])]
        return [(":", None)] if item.described else []

    def _described(self, archive: Archive, item: Item, steps: Steps) -> Item:
        """Which item the metadata at the end of some steps describe."""
        for step in steps[:-1]:
            item = next(
                other for sign, other in self._steps(archive, item, step[0]) if sign == step and other
            )
        return item

    # What is true

    def true_end(self, item: Item, steps: Steps, languages: Sequence[str]) -> tuple[str, list[Item]] | None:
        """Where some steps lead ("i3", or "m3": what describes item 3), and by which items; None if nowhere."""
        way = [item]
        for index, step in enumerate(steps):
            here = way[-1]
            if step == "!":
                while way[-1].next is not None:
                    way.append(self.items[way[-1].next or 0])
            elif step.startswith("+"):
                wanted = languages if step == "+" else (step[2:-1],)
                found = (
                    suits(wanted, set(here.languages))
                    if step == "+"
                    else _covered(step[2:-1], here.languages)
                )
                if found is None and step != "+":
                    return None
                way.append(self.items[here.languages[found]] if found else here)
            elif here.metadata is not None:
                way.append(self.items[here.metadata])
            else:
                return (f"m{here.number}", way) if here.described and not steps[index + 1 :] else None
        return f"i{way[-1].number}", way

    def true_ends(self, item: Item, steps: Steps, languages: Sequence[str]) -> list[tuple[str, list[Item]]]:
        """The same, then what is right where that cannot be had: without the last bare translation (AMB-46)."""
        found = self.true_end(item, steps, languages)
        bare = next((at for at in range(len(steps) - 1, -1, -1) if steps[at] == "+"), None)
        fewer = [] if bare is None else self.true_ends(item, steps[:bare] + steps[bare + 1 :], languages)
        return ([found] if found else []) + fewer


def _covered(language: str, offered: dict[str, int]) -> str | None:
    if language in offered:
        return language
    return next((other for other in sorted(offered) if other.startswith(f"{language}-")), None)


def _filtered(pairs: dict[str, str], steps: Steps) -> dict[str, str]:
    """SVC-19 and note 38: what helps to finish this very request."""

    def fits(found: Steps, wanted: Steps) -> bool:
        return len(found) == len(wanted) and all(
            mine == theirs
            or (theirs[0] == "+" == mine[0] and (theirs == "+" or mine.startswith(theirs[:-1] + "-")))
            for mine, theirs in zip(found, wanted, strict=True)
        )

    words = ("contenttype", "ibi", "state", "url")
    kept: set[str] = {name for name in ("archiveaddress", "ibi", "ibi.archiveservice") if name in pairs}
    for word in words:
        kept |= {word + qualifier(found) for found in relations(pairs, word) if fits(found, steps)}
    shown = any(name.startswith("url") for name in kept)
    if shown:
        kept.add("urlkey")
    elif "!" in steps:
        kept.add("ibi.nextedition")
    for length in range(1, len(steps)):
        if not shown or "+" in steps[:length]:
            leads = (found for found in relations(pairs, "ibi") if fits(found, steps[:length]))
            kept |= {"ibi" + qualifier(found) for found in leads}
    return {name: text for name, text in pairs.items() if name in kept}


def made(chance: random.Random, archives: list[Archive], *, removals: bool) -> World:
    """A world of chance: up to eight editions in a row, translations and metadata of some."""
    items: list[Item] = []

    def add(language: str) -> Item:
        number = len(items)
        long, short = f"rep {rep(number)}", f"ibip {ibip(number)}"
        forms = chance.choice(((long,), (long, short), (long, short), (short,)))
        items.append(Item(number, forms, language, holders=_holders(chance, archives, removals=removals)))
        return items[-1]

    edition = add(chance.choice(LANGUAGES))
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 7))):
        edition.next = len(items)
        edition = add(edition.language)
    for source in tuple(items):
        for language in chance.sample(LANGUAGES, chance.choice((0, 0, 1, 2))):
            if all(language[:2] != other[:2] for other in source.languages):  # either pt or pt-BR
                source.translations[language] = add(language).number
    for translation in [item for item in items if chance.random() < 0.15 and item.next is None]:
        translation.next = add(translation.language).number
    for source in tuple(items):
        way = chance.random()
        if way < 0.3:
            source.metadata = add(chance.choice(LANGUAGES)).number
        source.described = 0.3 <= way < 0.7
    return World(archives, items)


def _holders(chance: random.Random, archives: list[Archive], *, removals: bool) -> dict[int, str]:
    """One original, perhaps, and copies."""
    chosen = chance.sample(archives, min(len(archives), chance.choice((1, 1, 1, 2, 3))))
    states = ["Original" if chance.random() < 0.95 else "Copy", *("Copy" for _ in chosen[1:])]
    if removals:
        states = [state if chance.random() < 0.9 else "Deleted" for state in states]
    return {archive.number: state for archive, state in zip(chosen, states, strict=True)}
