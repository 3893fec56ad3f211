"""What an Archive answers to a URL request (R15 chapter 9, Algorithms 1 and 2; pure).

A relation leads, step by step, from the item asked for to the item (or the page of metadata) whose URL is wanted:
room `related` takes the steps, this room puts them into a pair list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ibi.archive.access import nothing_withheld
from ibi.archive.related import Related, Walk
from ibi.protocol import vocabulary as say
from ibi.protocol.relation import ITEM, Kind, Relation, Step
from ibi.protocol.url_list import Entry, UrlList, entry_pairs, relations_of
from ibi.protocol.verb_list import GET_FILE_LIST, VerbList
from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.archive.access import Withheld
    from ibi.archive.related import Lookup
    from ibi.identifier.forms import IBIForms
    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.pair_list import PairList

ITEM_URL, FILE_URL, FILE_LIST_URL = 1, 2, 3
"""The variants of a URL (SVC-08)."""

_ALWAYS = frozenset({say.ARCHIVE_ADDRESS, say.IBI, say.ARCHIVE_SERVICE, say.PLATFORM_SOFTWARE})


@dataclass(frozen=True)
class ArchiveIdentity:
    """What an Archive says of itself in every answer.

    `relations`: the relations it answers for (SVC-07); None for all that can be derived from what it holds.
    `pages`: whether it has the pages and files of this software; without, items and metadata are where they say.
    """

    address: str
    service: IBIForms
    platform_software: IBIForms | None = None
    relations: tuple[Relation, ...] | None = None
    pages: bool = True

    @cached_property
    def pairs(self) -> PairList:
        """What every answer says."""
        return {
            say.ARCHIVE_ADDRESS: self.address,
            say.ARCHIVE_SERVICE: self.service.words,
            say.PLATFORM_SOFTWARE: self.platform_software.words if self.platform_software else (),
        }

    @cached_property
    def base(self) -> str:
        """What its URLs begin with: "http://archive.example:8080"."""
        return f"http://{self.address}"

    @cached_property
    def minimal(self) -> bool:
        """Whether it answers for items alone, as the smallest Archive does (CON-01)."""
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
    """The answer to a URL request: empty if the item is not held (SVC-03).

    With `filtered` only what the request needs is worked out and said (SVC-18): the same pairs that
    `filter_url_list` would leave of the full answer. `withheld`: of which items the reader may not have the data
    (SVC-10). Raises ParseError for verbs that form no relation (URL-10), but in a minimal Archive, which has a plain
    answer whatever is asked (CON-03).
    """
    wanted = ITEM if identity.minimal else request.verbs.relation
    holding = lookup(request.ibi)
    if holding is None:
        return UrlList({})
    pairs: PairList = identity.pairs | {say.IBI: holding.forms.words}
    if holding.deleted:
        return UrlList(pairs | {say.STATE: State.DELETED.value, say.TIMESTAMP: holding.timestamp})
    walk = Walk(lookup, identity.base if identity.pages else None, holding, withheld)
    variant = url_variant(request.file_path, request.verbs.verbs)
    if identity.minimal and not (variant == FILE_URL and holding.file(request.file_path)):
        variant = ITEM_URL
    builder = _Builder(walk, identity, request.file_path, variant, pairs)
    if filtered:
        builder.add_filtered(wanted, url_key)
    else:
        builder.add_all(url_key)
    return UrlList(pairs)


@dataclass(slots=True)
class _Builder:
    """The second half of Algorithm 2: the pairs of each relation."""

    walk: Walk
    identity: ArchiveIdentity
    file_path: str
    variant: int
    pairs: PairList

    def add_all(self, url_key: str) -> None:
        """All pairs of all relations (lines 17 to 32)."""
        self._add_next_edition()
        self.pairs[say.URL_KEY] = url_key
        self._add_relations(None)

    def add_filtered(self, wanted: Relation, url_key: str) -> None:
        """What `filter_url_list` would leave of that (SVC-19).

        Where a language or format was asked for that is not here, also those that are: nothing can be chosen among
        them, but a reader can be told (note 19).
        """
        if self._add_relations(wanted):
            self.pairs[say.URL_KEY] = url_key
            for lead in _open_leads(wanted):
                self._add_names(lead)
            return
        if _goes_to_last_edition(wanted):
            self._add_next_edition()
        for lead in wanted.leading():
            self._add_names(lead)
        if any(step.parameter for step in wanted.steps):
            self._add_others(wanted)

    def _add_names(self, pattern: Relation) -> None:
        for relation, related in self._derive(pattern):
            self.pairs.update(entry_pairs(relation, Entry(forms=related.forms)))

    def _add_others(self, wanted: Relation) -> None:
        for relation, related in self._derive(None):
            if relation.kinds == wanted.kinds:
                self.pairs.update(entry_pairs(relation, Entry(self._url(related), related.forms)))

    def _add_next_edition(self) -> None:
        edition = self.walk.edition
        if edition.following is not None:
            self.pairs[say.NEXT_EDITION] = edition.following.words

    def _add_relations(self, pattern: Relation | None) -> bool:
        """Add the pairs of every relation that the pattern accepts; tell whether a URL was among them."""
        any_url = False
        for relation, related in self._derive(pattern):
            url, holding = self._url(related), related.holding
            if url is None or holding is None:
                entry = Entry(url, related.forms)
            else:
                any_url = True
                kind = self._content_type(related)
                entry = Entry(url, related.forms, holding.state, kind, holding.timestamp)
            self.pairs.update(entry_pairs(relation, entry))
        return any_url

    def _derive(self, pattern: Relation | None) -> Iterator[tuple[Relation, Related]]:
        if pattern == ITEM:  # every Archive answers for the item itself
            yield ITEM, self.walk.item
            return
        configured = self.identity.relations
        if configured is None:
            yield from self.walk.all(pattern)
            return
        for relation in configured:
            if pattern is None or pattern.accepts(relation):
                related = self.walk.one(relation)
                if related is not None:
                    yield relation, related

    def _content_type(self, related: Related) -> ContentType:
        """What is at the URL: for who may not have the data, the page about them (SVC-10)."""
        return ContentType.METADATA if self.walk.is_withheld(related) else related.content_type

    def _url(self, related: Related) -> str | None:
        """The value of the pair `url<relation>`, None if it is not known (CRIARPARURL)."""
        if self.variant == FILE_LIST_URL:
            return self.walk.file_list_url(related)
        if self.variant == FILE_URL:
            return self.walk.file_url(related, self.file_path)
        return self.walk.url(related)


def url_variant(file_path: str, verbs: Iterable[str]) -> int:
    """Which URL is wanted: of the item (1), of one of its files (2) or of its file list (3).

    The file list wins over a path; a path holds beside other verbs (SVC-09, AMB-39); "/" is no path (SVC-13).
    """
    if GET_FILE_LIST in verbs:
        return FILE_LIST_URL
    return FILE_URL if file_path.strip("/") else ITEM_URL


def filter_url_list(pairs: PairList, verbs: Iterable[str]) -> PairList:
    """Remove the pairs that are useless for finishing a resolution (SVC-18, SVC-19).

    `verbs` as in a verb list; raises ParseError if they form no relation.
    """
    if pairs.get(say.STATE) == State.DELETED.value:
        return dict(pairs)
    wanted = VerbList(tuple(verbs)).relation
    kept = {name: value for name, value in pairs.items() if name in _ALWAYS}
    for word in (say.CONTENT_TYPE, say.IBI, say.STATE, say.TIMESTAMP):
        kept |= _qualified(pairs, word, wanted)
    urls = _qualified(pairs, say.URL, wanted)
    if urls:
        for lead in _open_leads(wanted):
            kept |= _qualified(pairs, say.IBI, lead)
        return kept | urls | {name: pairs[name] for name in (say.URL_KEY,) if name in pairs}
    if _goes_to_last_edition(wanted) and say.NEXT_EDITION in pairs:
        kept[say.NEXT_EDITION] = pairs[say.NEXT_EDITION]
    for lead in wanted.leading():
        kept |= _qualified(pairs, say.IBI, lead)
    return kept


def _qualified(pairs: PairList, word: str, pattern: Relation) -> PairList:
    """The pairs of a word whose relation the pattern accepts."""
    names = [word + relation.qualifier for relation in relations_of(pairs, word) if pattern.accepts(relation)]
    return {name: pairs[name] for name in names if name in pairs}


def _goes_to_last_edition(relation: Relation) -> bool:
    return any(step.kind is Kind.LAST_EDITION for step in relation.steps)


def _open_leads(relation: Relation) -> Iterator[Relation]:
    """Leading parts in which any language will do: a better one may be known by its name alone (note 38)."""
    return (lead for lead in relation.leading() if Step(Kind.TRANSLATION) in lead.steps)
