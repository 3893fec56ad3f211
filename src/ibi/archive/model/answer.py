"""The answer of an Archive to a URL request (R15 chapter 9, Algorithms 1 and 2; pure).

A relation leads, step by step, from the requested item to the item (or the page of metadata) whose URL is
wanted. `relations` follows the steps; this module writes the results into a pair list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.access import nothing_withheld
from ibi.archive.model.relations import ItemRelations, RelationTarget
from ibi.errors import AnswerTooLong, BadItem
from ibi.protocol import pair_list, vocabulary
from ibi.protocol import url_list as url_lists
from ibi.protocol.extensions.tombstone import LONGEST_TITLE, Tombstone
from ibi.protocol.messages import UrlRequest
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.relation import ITEM, Relation, Step, StepKind
from ibi.protocol.url_list import Entry, UrlList, entry_pairs
from ibi.protocol.verb_list import GET_FILE_LIST, VerbList
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ibi.archive.model.access import Withheld
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.identifier.forms import IBIForms, Name
    from ibi.protocol.pair_list import PairList, Value

ITEM_URL, FILE_URL, FILE_LIST_URL = 1, 2, 3
"""The variants of a URL (SVC-08: which URL is given)."""
# A quarter is left, because other answers may have longer names of pairs, a longer key, or other IBI forms.
LONGEST_ANSWER: Final = pair_list.MAX_BODY * 3 // 4
"""Bytes of the longest answer about an item that is added or changed."""
MOST_PAIRS: Final = pair_list.MAX_PAIRS * 3 // 4
"""Pairs of the longest answer about an item that is added or changed."""
MOST_RELATIONS: Final = url_lists.MOST_RELATIONS * 3 // 4
"""Relations in the longest answer about such an item: translations, or formats of metadata."""

# Up to 16 links of 8 KiB each cannot make an answer reach the limits.
_FEW: Final = 16

_MOST_PEOPLE: Final = 10  # authors of a removed item that an answer names
# `record_values.author` divides names more carefully, but reads files of Babel, which a pure module must not.
_ORCID: Final = re.compile(
    r"[\s,;]*[(\[<]?(?:https?://)?(?:orcid\.org/)?(?:\d{4}-){3}\d{3}[\dX][)\]>]?\s*\Z", re.ASCII
)


@dataclass(frozen=True)
class ArchiveIdentity:
    """The facts of an Archive that every answer needs.

    `relations`: the relations that it answers for (SVC-07: which relations); None for all that can be derived from
    its items. `pages`: whether it has the pages and files of this software; else only the URLs of its items are
    known. `root`: the root of its URLs, "https://archive.example"; "": http and its address.
    """

    address: str
    service: IBIForms
    platform_software: IBIForms | None = None
    relations: tuple[Relation, ...] | None = None
    pages: bool = True
    root: str = ""

    @cached_property
    def pairs(self) -> PairList:
        """The pairs of every answer."""
        return {
            vocabulary.ARCHIVE_ADDRESS: self.address,
            vocabulary.ARCHIVE_SERVICE: self.service.words,
            vocabulary.PLATFORM_SOFTWARE: self.platform_software.words if self.platform_software else (),
            **(
                {vocabulary.ARCHIVE_ROOT: self.root}
                if self.root not in {"", f"http://{self.address}"}
                else {}
            ),
        }

    @cached_property
    def base(self) -> str:
        """The beginning of its URLs: "http://archive.example:8080"."""
        return self.root or f"http://{self.address}"

    @cached_property
    def minimal(self) -> bool:
        """Whether the Archive is minimal: it answers for items and for no other relation (CON-01)."""
        return self.relations == (ITEM,)


def url_list(
    lookup: Lookup,
    identity: ArchiveIdentity,
    request: UrlRequest,
    url_key: str,
    *,
    filtered: bool = True,
    withheld: Withheld = nothing_withheld,
) -> UrlList:
    """Answer a URL request; the answer is empty if the item is not held (SVC-03: the order of decisions).

    With `filtered`, only the pairs that the request needs are derived: those that the standard's filter would leave
    of the full answer (SVC-18: filtering changes no outcome; SVC-19: what the filter keeps). `withheld` tests whether
    the reader may not have the data of an item (SVC-10: URLs by reader). Raises Unsettled, and ParseError for verbs
    that form no relation (URL-10: possible verbs). A minimal Archive ignores the verbs, so it never raises ParseError
    (CON-03).
    """
    wanted = ITEM if identity.minimal or not request.verbs.verbs else request.verbs.relation
    holding = lookup(request.ibi)
    if holding is None:
        return UrlList({})
    if holding.unsettled:
        holding.check_settled()
    pairs: PairList = identity.pairs | {vocabulary.IBI: holding.forms.words}
    if holding.deleted:
        left = pairs | _tombstone(holding).pairs
        return UrlList(
            left | {vocabulary.STATE: ItemState.DELETED.value, vocabulary.TIMESTAMP: holding.timestamp}
        )
    relations = ItemRelations(lookup, identity.base if identity.pages else None, holding, withheld)
    variant = url_variant(request.file_path, request.verbs.verbs)
    if identity.minimal and not (variant == FILE_URL and holding.file(request.file_path)):
        variant = ITEM_URL
    builder = _Builder(relations, identity, request.file_path, variant, pairs)
    if filtered:
        builder.add_filtered(wanted, url_key)
    else:
        builder.add_all(url_key)
    return UrlList(pairs)


def _tombstone(holding: Holding) -> Tombstone:
    """Return what stays known of a removed item."""
    metadata = holding.metadata or {}
    title = next((value for value, _ in metadata.get("title", ()) if value.strip()), "")
    people = "; ".join(
        _ORCID.sub("", value[:LONGEST_TITLE]) for value, _ in metadata.get("creator", ())[:_MOST_PEOPLE]
    )
    date = next((value for value, _ in metadata.get("date", ())), "")
    return Tombstone(title, people, date, holding.reason, holding.replacement or holding.next_edition)


class _Builder(NamedTuple):
    """The second half of Algorithm 2: it adds the pairs of each relation to `pairs`."""

    relations: ItemRelations
    identity: ArchiveIdentity
    file_path: str
    variant: int
    pairs: PairList

    def add_all(self, url_key: str) -> None:
        """Add all pairs of all relations (lines 17 to 32)."""
        self._add_next_edition()
        self.pairs[vocabulary.URL_KEY] = url_key
        self._add_relations(None)

    def add_filtered(self, wanted: Relation, url_key: str) -> None:
        """Add the pairs that the resolver needs to finish the resolution (SVC-19: what the filter keeps).

        If the requested language or format is not here, the languages or formats that a whole answer names are added:
        the resolver does not choose among them, but can show them to the reader (note 19: languages and formats).
        """
        if self._add_relations(wanted):
            self.pairs[vocabulary.URL_KEY] = url_key
            # Each further step may take the resolver a round, so the names on the way are added, too.
            for lead in wanted.leading() if len(wanted.steps) > 1 else ():
                # The resolver needs them if it chooses among translations: for `+`, and for `+(pt)` if there are pt-BR
                # and pt-PT. The chosen one may be in another Archive, where it is asked for by its name. For `!+`, the
                # last edition may itself be in the language that the reader prefers: then it is listed among the
                # translations, under its own name.
                until_next = wanted.steps[: len(lead.steps) + 1]
                if Step(StepKind.TRANSLATION) in until_next or self._has_variants(lead):
                    self._add_names(lead)
            return
        if any(step.kind is StepKind.LAST_EDITION for step in wanted.steps):
            self._add_next_edition()
        # An original is claimed even if it lacks the requested relation (T05: false claims of originals; note 6:
        # silence is no absence). An answer that leads to the next edition is the exception: it has no pair `state`
        # (Example 10.2 of the standard).
        if vocabulary.NEXT_EDITION not in self.pairs and self.relations.item.holding is not None:
            self.pairs[vocabulary.STATE] = self.relations.item.holding.state.value
        for lead in wanted.leading():
            self._add_names(lead)
        if any(step.parameter for step in wanted.steps):
            for relation, related in self._derive(None):
                if relation.kinds == wanted.kinds:
                    self.pairs.update(entry_pairs(relation, Entry(self._url(related), related.forms)))

    def _has_variants(self, lead: Relation) -> bool:
        translated = lead.steps[-1].kind is StepKind.TRANSLATION
        return translated and len({relation for relation, _ in self._derive(lead)}) > 1

    def _add_names(self, pattern: Relation) -> None:
        for relation, related in self._derive(pattern):
            self.pairs.update(entry_pairs(relation, Entry(forms=related.forms)))

    def _add_next_edition(self) -> None:
        edition = self.relations.later_editions
        if edition.following is not None:
            self.pairs[vocabulary.NEXT_EDITION] = edition.following.words
        if edition.farthest is not None:
            self.pairs[vocabulary.FARTHEST_EDITION] = edition.farthest.words

    def _add_relations(self, pattern: Relation | None) -> bool:
        """Add the pairs of every relation that the pattern accepts; return whether a URL was among them."""
        any_url = False
        for relation, related in self._derive(pattern):
            url, holding = self._url(related), related.holding
            if url is None or holding is None:
                entry = Entry(url, related.forms)
            else:
                any_url = True
                # A reader who may not have the data gets the page about them, which is metadata (SVC-10: URLs by
                # reader).
                kind = ContentType.METADATA if self.relations.is_withheld(related) else related.content_type
                entry = Entry(url, related.forms, holding.state, kind, holding.timestamp)
            self.pairs.update(entry_pairs(relation, entry))
        return any_url

    def _derive(self, pattern: Relation | None) -> Iterable[tuple[Relation, RelationTarget]]:
        if pattern == ITEM:
            # Every Archive answers for the item itself.
            return ((ITEM, self.relations.item),)
        configured = self.identity.relations
        if configured is None:
            return self.relations.all(pattern)
        accepted = (relation for relation in configured if pattern is None or pattern.accepts(relation))
        derived = ((relation, self.relations.one(relation)) for relation in accepted)
        return ((relation, related) for relation, related in derived if related is not None)

    def _url(self, related: RelationTarget) -> str | None:
        """The value of the pair `url<relation>`, None if it is not known (CRIARPARURL)."""
        if self.variant == FILE_LIST_URL:
            return self.relations.file_list_url(related)
        if self.variant == FILE_URL:
            return self.relations.file_url(related, self.file_path)
        return self.relations.url(related)


def url_variant(file_path: str, verbs: Iterable[str]) -> int:
    """Return which URL is wanted: that of the item (1), of one of its files (2) or of its file list (3).

    The verb for the file list wins over a path, other verbs do not (SVC-09: a path beside verbs; AMB-39: a path
    beside a modifier); "/" is no path (SVC-13: climbing paths).
    """
    if GET_FILE_LIST in verbs:
        return FILE_LIST_URL
    return FILE_URL if file_path.strip("/") else ITEM_URL


def check_answers(
    holding: Holding, lookup: Lookup, identity: ArchiveIdentity, *, filtered: bool = True
) -> None:
    """Refuse an item about which an answer would be longer than resolvers read. Raises BadItem with the limits.

    `lookup` finds the other items; `filtered`: whether answers hold only what a request needs. Two answers are made:
    about all translations of the item, and about all its formats. An answer may still become too long later, when an
    item that this one links to changes, or gets links of its own: then the request is refused. See T10: huge answers.
    """
    few = len(holding.translations) <= _FEW and len(holding.formats) <= _FEW
    if few or holding.deleted:
        return

    def found(name: Name) -> Holding | None:
        return holding if name.canonical in holding.forms.canonicals else lookup(name)

    _check(len(holding.translations), 0, 0)  # before thousands are looked up
    # A request for a format that the item does not have is answered with all the formats that it has.
    absent = next(name for name in map(str, range(len(holding.formats) + 1)) if name not in holding.formats)
    for step in (Step(StepKind.TRANSLATION), Step(StepKind.METADATA, absent)):
        request = UrlRequest((), holding.forms.main, "", VerbList.of(Relation((step,))))
        try:
            pairs = url_list(found, identity, request, "0", filtered=filtered).pairs
        except AnswerTooLong:
            raise _too_many() from None
        _check(_relations(pairs), len(pairs), len(write_pairs(pairs)))


def _relations(pairs: Mapping[str, Value]) -> int:
    return max(
        sum(name.startswith(f"{word}.") for name in pairs) for word in (vocabulary.IBI, vocabulary.URL)
    )


def _check(relations: int, pairs: int, size: int) -> None:
    if relations > MOST_RELATIONS or pairs > MOST_PAIRS or size > LONGEST_ANSWER:
        raise _too_many()


def _too_many() -> BadItem:
    return BadItem(
        "so many translations or formats are more than a resolver reads: an answer about an item has at most "
        "{relations} of them, {pairs} pairs and {size} bytes",
        relations=MOST_RELATIONS,
        pairs=MOST_PAIRS,
        size=LONGEST_ANSWER,
    )
