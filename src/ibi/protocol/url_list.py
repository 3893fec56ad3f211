"""URL lists: what an Archive answers about an item (R15 9.2, SVC-03 to SVC-05).

This is the only room that knows how the names of pairs are made from a word and a relation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol import vocabulary as say
from ibi.protocol.messages import is_key
from ibi.protocol.pair_list import PairList, Value, read_pairs, write_pairs
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ibi.identifier.forms import IBI

MOST_RELATIONS: Final = 1_024
"""Relations of one word that an answer may have: a full one, with the four pairs of each, has no room for more."""

_Word = TypeVar("_Word", State, ContentType)
_STATES: Final = {word.value: word for word in State}
_CONTENT_TYPES: Final = {word.value: word for word in ContentType}


class Entry(NamedTuple):
    """What a URL list says of the item at the end of one relation; None where it says nothing (that can be read)."""

    url: str | None = None
    forms: IBIForms | None = None
    state: State | None = None
    content_type: ContentType | None = None
    timestamp: str | None = None


class UrlList:
    """The answer of an Archive; false if it is empty, which means that the Archive does not know the item.

    Every byte of it is hostile until read: a pair whose value is not of its domain counts as absent.
    """

    __slots__ = ("__weakref__", "_names", "_offered", "_related", "_said", "pairs")

    pairs: Mapping[str, Value]
    """The pairs as they came."""

    def __init__(self, pairs: Mapping[str, Value]) -> None:
        self.pairs = pairs
        self._names: dict[str, IBIForms | None] = {}  # what was read of it, for the same is looked at often
        self._related: dict[str, tuple[Relation, ...]] = {}
        self._offered: tuple[Relation, ...] | None = None
        self._said: tuple[str, Entry] | None = None  # of what was looked at last: mostly the item itself

    @classmethod
    def read(cls, body: bytes) -> UrlList:
        """Read the body of an answer. Raises ParseError if it is no pair list."""
        return cls(read_pairs(body) if body else {})

    def body(self) -> bytes:
        """The body that says this."""
        return write_pairs(self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlList) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs.items()))

    def __repr__(self) -> str:
        return f"UrlList({dict(self.pairs)!r})"

    @property
    def archive_address(self) -> str | None:
        """Where the Archive says it is; acknowledgments never go there (AMB-54)."""
        return self._word(say.ARCHIVE_ADDRESS)

    @property
    def archive_service(self) -> IBIForms | None:
        """Which Archive answers."""
        return self._forms(say.ARCHIVE_SERVICE)

    def is_of(self, service: IBI) -> bool:
        """Whether it is in the name of the Archive with this service; mostly it is, in the very spelling."""
        said = self.pairs.get(say.ARCHIVE_SERVICE)
        if isinstance(service, UniformRepositoryName) and said == ("rep", str(service)):
            return True
        named = self.archive_service
        return named is not None and named.names(service)

    @property
    def platform_software(self) -> IBIForms | None:
        """The software it runs, None if that has no IBI."""
        return self._forms(say.PLATFORM_SOFTWARE)

    @property
    def forms(self) -> IBIForms | None:
        """The names of the item that was asked for."""
        return self._forms(say.IBI)

    @property
    def state(self) -> State | None:
        """The state of the item itself."""
        return self._one_of(say.STATE, _STATES)

    @property
    def timestamp(self) -> str | None:
        """When the item was last changed, or removed."""
        return self._word(say.TIMESTAMP)

    @property
    def next_edition(self) -> IBIForms | None:
        """The edition to go on with, where the last one is wanted and not known."""
        return self._forms(say.NEXT_EDITION)

    @property
    def url_key(self) -> str | None:
        """The token to thank with."""
        key = self._word(say.URL_KEY)
        return key if key is not None and is_key(key) else None

    def entry(self, relation: Relation = ITEM) -> Entry:
        """What is said of the item at the end of a relation."""
        qualifier = relation.qualifier
        if self._said is not None and self._said[0] == qualifier:
            return self._said[1]
        entry = Entry(
            self._word(say.URL + qualifier),
            self._forms(say.IBI + qualifier),
            self._one_of(say.STATE + qualifier, _STATES),
            self._one_of(say.CONTENT_TYPE + qualifier, _CONTENT_TYPES),
            self._word(say.TIMESTAMP + qualifier),
        )
        self._said = qualifier, entry
        return entry

    def relations(self) -> Iterator[Relation]:
        """The relations with a URL, in the order of the answer."""
        for relation in self.relations_of(say.URL):
            if self.url(relation) is not None:
                yield relation

    def offered(self) -> tuple[Relation, ...]:
        """The relations with a URL of an item that is not called deleted, in the order of the answer."""
        if self._offered is None:
            self._offered = tuple(
                relation
                for relation in self.relations()
                if self._one_of(say.STATE + relation.qualifier, _STATES) is not State.DELETED
            )
        return self._offered

    def url(self, relation: Relation) -> str | None:
        """Where the item at the end of a relation is."""
        return self._word(say.URL + relation.qualifier)

    def relations_of(self, word: str) -> tuple[Relation, ...]:
        """The relations for which a pair of this word is given; the names of all pairs are looked through once."""
        found = self._related.get(word)
        if found is None:
            found = self._related[word] = tuple(relations_of(self.pairs, word))
        return found

    def _word(self, name: str) -> str | None:
        value = self.pairs.get(name)
        if isinstance(value, tuple):
            return value[0] if len(value) == 1 else None
        return value

    def _one_of(self, name: str, words: Mapping[str, _Word]) -> _Word | None:
        word = self._word(name)
        return words.get(word) if word is not None else None

    def _forms(self, name: str) -> IBIForms | None:
        if name not in self._names:
            value = self.pairs.get(name)
            self._names[name] = readable_forms(value) if isinstance(value, tuple) else None
        return self._names[name]


def relations_of(pairs: Mapping[str, Value], word: str) -> Iterator[Relation]:
    """The relations for which a pair of this word ("url", "ibi", ...) is given.

    Names of other pairs are passed over, and so are spellings that no pair has (".translation(PT)"). At most
    MOST_RELATIONS names are looked at.
    """
    size = len(word)
    for name in [name for name in pairs if name.startswith(word)][:MOST_RELATIONS]:
        if name == word:
            yield ITEM
        elif name[size] == ".":  # as all qualifiers begin
            try:
                relation = Relation.from_qualifier(name[size:])
            except ParseError:
                continue
            if len(relation.qualifier) + size == len(name) and name.endswith(relation.qualifier):
                yield relation


def entry_pairs(relation: Relation, entry: Entry) -> PairList:
    """The pairs that say an entry: `ibi` wherever it is known, the others only together with a URL (SVC-03)."""
    qualifier = relation.qualifier
    pairs: PairList = {}
    if entry.forms is not None:
        pairs[say.IBI + qualifier] = entry.forms.words
    if entry.url is None:
        return pairs
    pairs[say.URL + qualifier] = entry.url
    if entry.content_type is not None:
        pairs[say.CONTENT_TYPE + qualifier] = entry.content_type.value
    if entry.state is not None:
        pairs[say.STATE + qualifier] = entry.state.value
    if entry.timestamp is not None:
        pairs[say.TIMESTAMP + qualifier] = entry.timestamp
    return pairs


def readable_forms(words: tuple[str, ...]) -> IBIForms | None:
    """The forms that can be read among the words of a value; older opaque ids in it are passed over."""
    texts = dict(zip(words[::2], words[1::2], strict=False))
    rep, ibip = texts.get("rep"), texts.get("ibip")
    try:
        name = UniformRepositoryName.parse(rep) if rep else None
    except ParseError:
        name = None
    try:
        label = IBIp.parse(ibip) if ibip else None
    except ParseError:
        label = None
    return IBIForms(name, label) if name or label else None
