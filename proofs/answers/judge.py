"""The judge: an answer to a `urlRequest`, the way of a click, and what is found at a link, against the oracle.

An Archive may leave pairs unfiltered (SVC-18), so what an answer says beyond what it must say has to be true only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from proofs.answers.oracle import DELETED, LAST, Node, Steps, Wanted, World

if TYPE_CHECKING:
    from proofs.answers.served import Reply

Pairs = dict[str, tuple[str, ...]]
OK: Final = 200

_PAIR: Final = re.compile(r"([!-z|~]+) +(\{[^{}]*\}|[!-z|~]+)")
_LIST: Final = re.compile(rf"(?:{_PAIR.pattern}(?:(?: |\r\n){_PAIR.pattern})*)?")
_KEY: Final = re.compile(r"\d{10,}(-\d{10,})?")
_QUALIFIER: Final = re.compile(r"\.(lastedition|translation|metadata)(?:\(([^)]*)\))?")
_SIGNS: Final = {"lastedition": "!", "translation": "+", "metadata": ":"}
_ABOUT: Final = ("archiveaddress", "ibi.archiveservice", "ibi.platformsoftware")
_QUALIFIED: Final = ("contenttype", "ibi", "state", "timestamp", "url")
_OWN: Final = {
    "acknowledgment.batch",
    "edition.farthest",
    "changes.asof",
    "changes.rests",
    "changes.seconds",
}
"""Names of our own (extensions of the standard)."""


def read(body: bytes) -> Pairs:
    """Read a pair list (MSG-11). Raises ValueError."""
    text = body.decode("ascii")
    if not _LIST.fullmatch(text):
        raise ValueError(text)
    found = _PAIR.findall(text)
    pairs = {name: tuple(value.strip("{}").split()) for name, value in found}
    if len(pairs) != len(found) or list(pairs) != sorted(pairs):
        raise ValueError(text)
    for value in (value for _, value in found if value.startswith("{")):
        if len(value.strip("{}").split()) == 1:
            raise ValueError(value)
    return pairs


def forms(world: World, name: str) -> set[str]:
    """The names of an item, as forms of IBI."""
    item = world.items[name]
    return {f"{form} {item[form]}" for form in ("rep", "ibip") if item[form]}


def forms_in(words: tuple[str, ...]) -> set[str]:
    """The forms in a pair; {""} if they are none."""
    shape = words[::2] in {("rep",), ("ibip",), ("rep", "ibip")} and len(words) % 2 == 0
    return {f"{words[n]} {words[n + 1]}" for n in range(0, len(words), 2)} if shape else {""}


@dataclass
class AnswerJudge:
    """Judges what an Archive says of one item to one request."""

    world: World
    place: str
    service: str
    name: str
    steps: Steps
    wanted: Wanted

    def faults(self, reply: Reply) -> Iterator[str]:
        """Every way in which the answer is wrong."""
        if reply.status != OK or not reply.headers.get("content-type", "").startswith("text/plain"):
            yield f"status {reply.status}, {reply.headers.get('content-type')}"
            return
        try:
            pairs = read(reply.body)
        except ValueError as error:
            yield f"no pair list: {error}"
            return
        item = self.world.items[self.name]
        if self.place not in item["held"]:
            if pairs:
                yield f"knows what it does not hold: {pairs}"
            return
        yield from (f"{name} is missing" for name in (*_ABOUT, *sorted(self._must())) if name not in pairs)
        yield from self._about(pairs)
        for name, value in pairs.items():
            yield from self._untrue(name, value)

    def _must(self) -> set[str]:
        """The names of the pairs that have to be there (SVC-19)."""
        item = self.world.items[self.name]
        if item["held"][self.place] == DELETED:
            return {"ibi", "state", "timestamp"}
        must, urls = {"ibi"}, 0
        for qualifier, node, held in self.world.known(self.place, Node(self.name), self.steps):
            offered = held and self.world.url(self.place, node, self.wanted)
            if not node.page and not (node.form and not offered):
                must.add(f"ibi{qualifier}")
            if offered:
                urls += 1
                must |= {f"{word}{qualifier}" for word in _QUALIFIED if word != "ibi"}
        if urls:
            return must | {"urlkey"}
        for length in range(1, len(self.steps)):
            for qualifier, node, _ in self.world.known(self.place, Node(self.name), self.steps[:length]):
                if not node.page and not node.form:
                    must.add(f"ibi{qualifier}")
        leaves = (LAST, "") in self.steps[:1] and self.world.last(self.name, self.place) is None
        return must | ({"ibi.nextedition"} if leaves else set())

    def _about(self, pairs: Pairs) -> Iterator[str]:
        about = [pairs.get(name) for name in _ABOUT]
        true = [(self.world.addresses[self.place],), ("rep", self.service), ()]
        if about != true:
            yield f"says of its Archive {about}"

    def _untrue(self, name: str, value: tuple[str, ...]) -> Iterator[str]:
        """What is wrong with a pair, whether it had to be there or not."""
        item = self.world.items[self.name]
        word, dot, rest = name.partition(".")
        if name in _ABOUT or name in _OWN:
            return
        if name == "urlkey":
            if not (len(value) == 1 and _KEY.fullmatch(value[0])) or name not in self._must():
                yield f"{name} {value}"
        elif name == "ibi.nextedition":
            true = forms(self.world, item["next_edition"]) if "next_edition" in item else set()
            if not forms_in(value) <= true or (LAST, "") not in self.steps:
                yield f"{name} {value}, not {true}"
        elif word == "tombstone":
            if item["held"][self.place] != DELETED or not self._stays_known(rest, value):
                yield f"{name} {value}"
        elif word not in _QUALIFIED:
            yield f"{name} is no name of the standard"
        else:
            true_values = list(self._true(word, dot + rest))
            if value not in true_values and not (word == "ibi" and forms_in(value) in true_values):
                yield f"{name} {value}, not {true_values}"

    def _stays_known(self, what: str, value: tuple[str, ...]) -> bool:
        """Whether a fact of a removed item is true (our extension): of its metadata, why, and what follows it."""
        item = self.world.items[self.name]
        if what == "replacement":
            return "next_edition" in item and forms_in(value) <= forms(self.world, item["next_edition"])
        element = {"title": "title", "people": "creator", "date": "date"}.get(what)
        texts = item.get("metadata", {}).get(element, ()) if element else [item.get("reason", "")]
        return unquote(" ".join(value)) in texts

    def _true(self, word: str, qualifier: str) -> Iterator[object]:
        """The values that a pair may have."""
        steps = tuple((_SIGNS[kind], parameter) for kind, parameter in _QUALIFIER.findall(qualifier))
        if "".join(match[0] for match in _QUALIFIER.finditer(qualifier)) != qualifier:
            return
        item = self.world.items[self.name]
        if item["held"][self.place] == DELETED:
            if not steps:
                yield {"ibi": forms(self.world, self.name), "state": (DELETED,)}.get(
                    word, (item["timestamp"],)
                )
            return
        for found, node, held in self.world.known(self.place, Node(self.name), steps):
            if found == qualifier:
                yield from self._values(word, node, held=held)

    def _values(self, word: str, node: Node, *, held: bool) -> Iterator[object]:
        item = self.world.items[node.name]
        if word == "ibi":
            every = forms(self.world, node.name)
            yield every
            yield from ({form} for form in every)
        elif held:
            yield {
                "url": (self.world.url(self.place, node, self.wanted),),
                "state": (item["held"][self.place],),
                "timestamp": (item["timestamp"],),
                "contenttype": (self.world.content_type(node, self.wanted),),
            }[word]


def click_faults(reply: Reply, outcomes: set[str]) -> Iterator[str]:
    """What is wrong with the resolver's answer to a click, if one of these was to come of it."""
    came = reply.headers.get("location", "")
    if reply.status != 302:
        kind = json.loads(reply.body)["kind"] if reply.body.startswith(b"{") else ""
        came = f"{reply.status} {kind}"
    if came not in outcomes:
        yield f"leads to {came}, not to {' or '.join(sorted(outcomes))}"


def link_faults(world: World, url: str, reply: Reply, *, licensed: bool) -> Iterator[str]:
    """What is wrong with what is found at a link to an item."""
    status, wanted = expected_at(world, url, licensed=licensed)
    if reply.status != status:
        yield f"{url}: {reply.status}, not {status}"
    elif not all(text in reply.body for text in wanted):
        yield f"{url}: {wanted} is not in {reply.body[:200]!r}"
    elif "/col/" in url and status == OK and reply.body != wanted[0]:
        yield f"{url}: other bytes, {reply.body[:200]!r}"


def expected_at(world: World, url: str, *, licensed: bool) -> tuple[int, list[bytes]]:
    """The status at a link, and what has to be in the body (ARC-16, SVC-10, SVC-12)."""
    address, _, path = url.removeprefix("http://").partition("/")
    if address == world.addresses["elsewhere"]:
        return OK, [f"/{path}".encode()]
    place = next(place for place, at in world.addresses.items() if at == address)
    kind, _, rest = path.removeprefix("-/").partition("/")
    ibi, _, file = rest.partition("/doc/")
    ibi = ibi.partition("?")[0]
    name = next(name for name, item in world.items.items() if ibi in {item["rep"], item["ibip"]})
    item, wanted = world.items[name], Wanted(licensed=licensed)
    if not world.lives(name, place):
        return 410, []
    if kind == "col":
        return (403, []) if world.withheld(name, wanted) else (OK, [item["files"][file].encode()])
    if kind == "files":
        if world.withheld(name, wanted) or not item.get("file_list_public", True):
            return 403, []
        return OK, [file.partition("/")[0].encode() for file in item.get("files", {})]
    title = [text.encode() for text in item.get("metadata", {}).get("title", [])]
    return OK, title or [ibi.encode()]
