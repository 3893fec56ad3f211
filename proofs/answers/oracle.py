"""What an Archive must answer and where a persistent URL must lead, told naively from the standard.

It knows the items as the plain dictionaries of `items`, and nothing of our code. A relation is walked step by step,
from left to right (URL-06): in one Archive among what it holds, for a reader among what all hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from proofs.answers.items import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proofs.answers.items import Item

LAST, TRANSLATION, METADATA = "!", "+", ":"
DELETED, ORIGINAL = "Deleted", "Original"
WORDS: Final = {LAST: ".lastedition", TRANSLATION: ".translation", METADATA: ".metadata"}

WRITTEN: Final = "bibtex"
"""One of the formats that an Archive makes of an item itself."""

Step = tuple[str, str]
"""A modifier and its parameter, "" without one."""
Steps = tuple[Step, ...]


class Node(NamedTuple):
    """What is reached: an item, its metadata where these have no name of their own; in a format or in any."""

    name: str
    page: bool = False
    form: str = ""


class Wanted(NamedTuple):
    """What is wanted besides the relation, and by whom: a file, or the list of files; with or without a licence."""

    path: str = ""
    file_list: bool = False
    licensed: bool = False


class Reader(NamedTuple):
    """The languages of a reader, the most wanted first; whether only the original will do; by which policy."""

    languages: tuple[str, ...] = ()
    original: bool = False
    strict: bool = False
    by_name: bool = False
    """Whether the language is chosen among all that are named, not among those alone for which there is a URL."""
    gives_up_later: bool = False
    """Whether the bare translations after one that is given up are given up with it."""


@dataclass(frozen=True)
class World:
    """All items, and the address of each Archive and of the server elsewhere."""

    items: Mapping[str, Item]
    addresses: Mapping[str, str]

    # -- what an Archive knows (SVC-03 to SVC-17) --------------------------------------------------------------

    def known(self, place: str, node: Node, steps: Steps) -> Iterator[tuple[str, Node, bool]]:
        """Relations with their nodes that these steps name in an Archive, and whether it holds them.

        A translation without a language names all; one in a language its variants, too (AMB-47).
        """
        if not steps:
            yield "", node, self.lives(node.name, place)
            return
        is_removed = steps[0][0] == LAST and place in self.items[node.name]["held"]
        if not self.lives(node.name, place) and not is_removed:
            return
        (sign, parameter), rest = steps[0], steps[1:]
        for tag, found in self._targets(place, node, sign, parameter):
            here = WORDS[sign] + (f"({tag})" if tag else "")
            yield from ((here + more, *reached) for more, *reached in self.known(place, found, rest))  # type: ignore[misc]  # two are left of three

    def _targets(self, place: str, node: Node, sign: str, parameter: str) -> list[tuple[str, Node]]:
        if sign == LAST:
            last = self.last(node.name, place)
            return [] if last is None else [("", Node(last))]
        if sign == METADATA:
            return [(parameter, found) for found in self._metadata(node, parameter)]
        tags = self.translations(node)
        return [(tag, found) for tag, found in tags.items() if not parameter or _satisfies(tag, parameter)]

    def last(self, name: str, place: str) -> str | None:
        """The last edition in an Archive; None if the editions go on elsewhere (SVC-14, SVC-16, note 41)."""
        living = name
        while name := self.items[name].get("next_edition", ""):
            if place not in self.items[name]["held"]:
                return None
            living = name if self.lives(name, place) else living
        return living

    def _metadata(self, node: Node, form: str) -> list[Node]:
        item = self.items[node.name]
        if form == WRITTEN:
            return [Node(node.name, page=True, form=form)]
        if "metadata_item" in item:
            return [Node(item["metadata_item"], form=form)]
        return (
            [Node(node.name, page=True, form=form)]
            if "metadata" in item or form in item.get("formats", {})
            else []
        )

    def translations(self, node: Node) -> dict[str, Node]:
        """Every language of what is reached, its own among them (URL-11, URL-13, AMB-47)."""
        item = self.items[node.name]
        if node.page and item["contenttype"] == "Data":
            return {"": node}
        own = {item.get("language", ""): node}
        return own | {tag: Node(to, form=node.form) for tag, to in item.get("translations", {}).items()}

    def lives(self, name: str, place: str) -> bool:
        """Whether an Archive holds an item that was not removed."""
        return bool(self.items[name]["held"].get(place, DELETED) != DELETED)

    # -- what is told of it (SVC-04, SVC-08 to SVC-12, notes 27, 39, 41) ---------------------------------------

    def url(self, place: str, node: Node, wanted: Wanted) -> str:  # noqa: PLR0911 - as many kinds of URLs
        """The URL of what is reached; "" if there is none."""
        item, ibi = self.items[node.name], self._ibi(node.name)
        base = f"http://{self.addresses[place]}"
        if node.form in item.get("formats", {}):
            return self._there(item["formats"][node.form])
        own_page = (
            item["contenttype"] == "Metadata" and "metadata" in item and not item.keys() & {"url", "files"}
        )
        if node.form:
            makes = self._makes(place, node, own_page=own_page)
            return f"{base}/-/metadata/{ibi}?format={node.form}" if makes else ""
        if wanted.file_list:
            return f"{base}/-/files/{ibi}"
        if wanted.path and self.withheld(node.name, wanted):
            return f"{base}/-/files/{ibi}"
        if wanted.path:
            has = not node.page and wanted.path.lstrip("/") in item.get("files", {})
            return f"{base}/col/{ibi}/doc{wanted.path}" if has else ""
        if node.page or own_page:
            return f"{base}/-/metadata/{ibi}"
        if self.withheld(node.name, wanted):
            return f"{base}/-/item/{ibi}"
        files = item.get("files", {})
        target = item.get("target") or (next(iter(files)) if len(files) == 1 else "")
        whole = f"{base}/col/{ibi}/doc/{target}" if target else f"{base}/-/item/{ibi}"
        return self._there(item["url"]) if "url" in item else whole

    def _makes(self, place: str, node: Node, *, own_page: bool) -> bool:
        """Whether the Archive makes the format of the metadata that it has, of the item or of a record of it."""
        item = self.items[node.name]
        has = "metadata" in item
        if node.form == WRITTEN and not has and "metadata_item" in item:
            record = self.items[item["metadata_item"]]
            has = place in record["held"] and "metadata" in record
        return node.form in {"oai_dc", WRITTEN} and (own_page or (node.page and has))

    def _there(self, url: str) -> str:
        return url.replace("elsewhere", self.addresses["elsewhere"], 1)

    def _ibi(self, name: str) -> str:
        return self.items[name]["rep"] or self.items[name]["ibip"]  # type: ignore[no-any-return]  # a name is a text

    def withheld(self, name: str, wanted: Wanted) -> bool:
        """Whether this reader may not have the data of an item (SVC-10)."""
        item = self.items[name]
        later = item["access"] == "embargoed" and item["embargo"] > "2900"
        return later or item["access"] == "closed" or (item["access"] == "restricted" and not wanted.licensed)

    def content_type(self, node: Node, wanted: Wanted) -> str:
        """Whether what is offered is data or metadata."""
        is_data = self.items[node.name]["contenttype"] == "Data" and not node.page and not node.form
        return "Data" if is_data and not self.withheld(node.name, wanted) else "Metadata"

    # -- where a reader is led (URL-06 to URL-13, RES-05 to RES-14) --------------------------------------------

    def outcomes(self, name: str, steps: Steps, wanted: Wanted, reader: Reader) -> set[str]:
        """The URLs to which a reader may be led, or the alert: "410 deleted" and the like.

        Where a bare translation was given up, the alert may be about all the steps or those that are left: RES-14
        does not tell whether an earlier question, too, is asked anew without it.
        """
        if (
            reader.original
            and not reader.strict
            and list(self.items[name]["held"].values()).count(ORIGINAL) > 1
        ):
            return {"409 suspect-originals"}
        readings = [
            reader._replace(by_name=by_name, gives_up_later=later)
            for by_name in (False, True)
            for later in (False, True)
        ]
        return set[str]().union(*(self._outcomes(name, steps, wanted, reading) for reading in readings))

    def _outcomes(self, name: str, steps: Steps, wanted: Wanted, reader: Reader) -> set[str]:
        found = self._follow(Node(name), steps, wanted, reader)
        if isinstance(found, str):
            given_up = found == "404 not-found" and (TRANSLATION, "") in steps
            return {found, _absent(steps)} if given_up else {found}
        held = self.items[found.name]["held"]
        if reader.original:
            holders = [place for place, state in held.items() if state == ORIGINAL]
            if len(holders) > 1:
                return {"409 suspect-originals"}
            if not holders:
                return {"404 no-original"}
            copied = (
                {"404 no-original"} if steps and len(held) > 1 else set()
            )  # RES-14: had_url, and only of a copy
            return {self.url(holders[0], found, wanted)} | copied
        return {self.url(place, found, wanted) for place in held if self.lives(found.name, place)}

    def _follow(self, node: Node, steps: Steps, wanted: Wanted, reader: Reader) -> Node | str:
        places = [place for place in self.items[node.name]["held"] if self.lives(node.name, place)]
        if not places:
            return "410 deleted"
        if not steps:
            return node if any(self.url(place, node, wanted) for place in places) else "404 not-found"
        (sign, parameter), rest = steps[0], steps[1:]
        if sign == LAST:
            return self._follow(Node(self._farthest(node.name)), rest, wanted, reader)
        if sign == METADATA:
            found = self._metadata(node, parameter)
            offered = any(self.url(place, found[0], Wanted()) for place in PLACES) if found else False
            return self._follow(found[0], rest, wanted, reader) if offered else _absent(rest)
        return self._translate(node, parameter, rest, wanted, reader)

    def _farthest(self, name: str) -> str:
        """The newest living edition in all Archives (URL-18)."""
        living = name
        while name := self.items[name].get("next_edition", ""):
            living = name if any(self.lives(name, place) for place in self.items[name]["held"]) else living
        return living

    def _translate(
        self, node: Node, language: str, rest: Steps, wanted: Wanted, reader: Reader
    ) -> Node | str:
        tags = self.translations(node)
        led = {tag: self._follow(to, rest, wanted, reader) for tag, to in tags.items()}
        if language:
            fit = sorted(
                (tag for tag in tags if _satisfies(tag, language)), key=lambda tag: (tag != language, tag)
            )
            good = [led[tag] for tag in fit if isinstance(led[tag], Node)]
            return good[0] if good else led[fit[0]] if fit else "404 no-translation"
        good_tags = [tag for tag, to in led.items() if reader.by_name or isinstance(to, Node)]
        chosen = best_language(good_tags, reader.languages)
        found = "404 not-found" if chosen is None else led[chosen]
        if isinstance(found, Node) or found.startswith("410"):
            return found
        if reader.gives_up_later:  # the last bare translation is given up first
            rest = tuple(step for step in rest if step != (TRANSLATION, ""))
        return self._follow(node, rest, wanted, reader)  # in any language (RES-14)


def _absent(steps: Steps) -> str:
    """The alert where nothing is found, of what is left of a relation (RES-14)."""
    return (
        "404 no-translation" if any(sign == TRANSLATION and tag for sign, tag in steps) else "404 not-found"
    )


def _satisfies(tag: str, wanted: str) -> bool:
    return tag == wanted or tag.startswith(f"{wanted}-")


def best_language(tags: Sequence[str], ranges: Sequence[str]) -> str | None:
    """Which of these languages suits a reader (AMB-45); that of no language is better than none."""
    for wanted in ranges:
        for part in (wanted, wanted.partition("-")[0]):
            for tag in sorted(tags):
                if tag == part:
                    return tag
            for tag in sorted(tags):
                if "-" not in part and tag.startswith(f"{part}-"):
                    return tag
    return "" if "" in tags else None
