"""URL lists: an Archive's answer about an item (R15 9.2, SVC-03 to SVC-05), and the choice of a URL from it.

This is the only module that makes the names of pairs from a word and the qualifier of a relation.
`find_wanted` chooses an entry by the reader's language (RES-06, RES-07, AMB-45 to AMB-47).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol import vocabulary as terms
from ibi.protocol.messages import is_key
from ibi.protocol.pair_list import PairList, Value, read_pairs, write_pairs
from ibi.protocol.relation import ITEM, Relation, Step, StepKind
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ibi.identifier.forms import IBI
    from ibi.protocol.language import LanguagePreference


MOST_RELATIONS: Final = 1_024
"""Names of pairs that are read as relations of one word, such as "url" (T10: huge answers); more are ignored."""

_Word = TypeVar("_Word", ItemState, ContentType)
_STATES: Final = {word.value: word for word in ItemState}
_CONTENT_TYPES: Final = {word.value: word for word in ContentType}


class Entry(NamedTuple):
    """The values of a URL list for the item at the end of a relation; None for an absent or invalid value."""

    url: str | None = None
    forms: IBIForms | None = None
    state: ItemState | None = None
    content_type: ContentType | None = None
    timestamp: str | None = None


class UrlList:
    """The answer of an Archive; false if it is empty, which means that the Archive does not know the item.

    No value of it is trusted: a pair whose value is outside its domain counts as absent.
    """

    __slots__ = ("__weakref__", "_last_entry", "_names", "_offered", "_related", "_state", "pairs")

    pairs: Mapping[str, Value]
    """The pairs as they came."""

    def __init__(self, pairs: Mapping[str, Value]) -> None:
        self.pairs = pairs
        # Parsed values are cached, because a resolution reads the same few pairs many times.
        self._names: dict[str, IBIForms | None] = {}
        self._related: dict[str, tuple[Relation, ...]] = {}
        self._offered: tuple[Relation, ...] | None = None
        self._last_entry: tuple[str, Entry] | None = None  # mostly of the item itself
        self._state: ItemState | Literal[False] | None = False  # False: not read yet

    @classmethod
    def read(cls, body: bytes) -> UrlList:
        """Read the body of an answer. Raises ParseError if it is no pair list."""
        return cls(read_pairs(body) if body else {})

    def body(self) -> bytes:
        """Return the body of an answer with these pairs."""
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
        """The address that the Archive claims to have; acknowledgments are never sent to it (AMB-54)."""
        return self._word(terms.ARCHIVE_ADDRESS)

    @property
    def archive_root(self) -> str | None:
        """The root of the URLs of the Archive, "https://archive.example", as it claims; not checked."""
        return self._word(terms.ARCHIVE_ROOT)

    @property
    def archive_service(self) -> IBIForms | None:
        """The names of the service of the Archive that answers."""
        return self._forms(terms.ARCHIVE_SERVICE)

    def is_of(self, service: IBI) -> bool:
        """Return whether the answer names the Archive with this service."""
        # Nearly every answer spells the name as it is registered; comparing texts then saves parsing.
        written = self.pairs.get(terms.ARCHIVE_SERVICE)
        if isinstance(service, UniformRepositoryName) and written == ("rep", service.text):
            return True
        named = self.archive_service
        return named is not None and named.names(service)

    @property
    def platform_software(self) -> IBIForms | None:
        """The names of the Archive's software; None if it has no IBI."""
        return self._forms(terms.PLATFORM_SOFTWARE)

    @property
    def forms(self) -> IBIForms | None:
        """The names of the item that was asked for."""
        return self._forms(terms.IBI)

    @property
    def state(self) -> ItemState | None:
        """The state of the item itself."""
        if self._state is False:
            self._state = self._one_of(terms.STATE, _STATES)
        return self._state

    @property
    def timestamp(self) -> str | None:
        """The moment of the last change of the item, or of its removal."""
        return self._word(terms.TIMESTAMP)

    @property
    def next_edition(self) -> IBIForms | None:
        """The next edition of the item, from which the search for the last edition continues."""
        return self._forms(terms.NEXT_EDITION)

    @property
    def farthest_edition(self) -> IBIForms | None:
        """An edition later than the next one, which saves the rounds in between (our extension)."""
        return self._forms(terms.FARTHEST_EDITION)

    @property
    def url_key(self) -> str | None:
        """The token that an acknowledgment of the URL carries back."""
        key = self._word(terms.URL_KEY)
        return key if key is not None and is_key(key) else None

    def entry(self, relation: Relation = ITEM) -> Entry:
        """Return the values for the item at the end of a relation."""
        qualifier = relation.qualifier if relation.steps else ""
        if self._last_entry is not None and self._last_entry[0] == qualifier:
            return self._last_entry[1]
        entry = Entry(
            self._word(terms.URL + qualifier),
            self._forms(terms.IBI + qualifier),
            self._one_of(terms.STATE + qualifier, _STATES),
            self._one_of(terms.CONTENT_TYPE + qualifier, _CONTENT_TYPES),
            self._word(terms.TIMESTAMP + qualifier),
        )
        self._last_entry = qualifier, entry
        return entry

    def relations(self) -> Iterator[Relation]:
        """Yield the relations with a URL, in the order of the answer."""
        for relation in self.relations_of(terms.URL):
            if self.url(relation) is not None:
                yield relation

    def offered(self) -> tuple[Relation, ...]:
        """Return the relations with a URL of an item that is not Deleted, in the order of the answer."""
        if self._offered is None:
            self._offered = tuple(
                relation
                for relation in self.relations()
                if self._one_of(terms.STATE + relation.qualifier, _STATES) is not ItemState.DELETED
            )
        return self._offered

    def url(self, relation: Relation) -> str | None:
        """Return the URL of the item at the end of a relation."""
        return self._word(terms.URL + relation.qualifier)

    def relations_of(self, word: str) -> tuple[Relation, ...]:
        """Return the relations for which the answer has a pair of this word; they are cached."""
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
        value = self.pairs.get(name)
        if isinstance(value, tuple):
            value = value[0] if len(value) == 1 else None
        return words.get(value) if value is not None else None

    def _forms(self, name: str) -> IBIForms | None:
        try:
            return self._names[name]
        except KeyError:
            value = self.pairs.get(name)
            found = self._names[name] = readable_forms(value) if isinstance(value, tuple) else None
            return found


def relations_of(pairs: Mapping[str, Value], word: str) -> Iterator[Relation]:
    """Yield the relations for which there is a pair of this word ("url", "ibi", ...).

    Other names are ignored, and so are spellings that are not canonical (".translation(PT)"). At most
    MOST_RELATIONS names are read.
    """
    size = len(word)
    # Hostile answers may have thousands of names, and parsing a relation is expensive.
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
    """Return the pairs of an entry: `ibi` if it is known, the other pairs only if there is a URL (SVC-03)."""
    qualifier = relation.qualifier if relation.steps else ""
    pairs: PairList = {}
    if entry.forms is not None:
        pairs[terms.IBI + qualifier] = entry.forms.words
    if entry.url is None:
        return pairs
    pairs[terms.URL + qualifier] = entry.url
    if entry.content_type is not None:
        pairs[terms.CONTENT_TYPE + qualifier] = entry.content_type.value
    if entry.state is not None:
        pairs[terms.STATE + qualifier] = entry.state.value
    if entry.timestamp is not None:
        pairs[terms.TIMESTAMP + qualifier] = entry.timestamp
    return pairs


def readable_forms(words: tuple[str, ...]) -> IBIForms | None:
    """Read the forms in the words of a value; others are ignored, such as older opaque ids."""
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


class WantedEntry(NamedTuple):
    """The wanted item in an answer: the relation under which the answer gives it, and its entry."""

    relation: Relation
    entry: Entry


def find_wanted(
    answer: UrlList, relation: Relation, preference: LanguagePreference, usable: Iterable[Relation]
) -> WantedEntry | None:
    """Return the entry that a relation asks for, out of the usable relations of an answer; None if none fits.

    For a bare translation (`+`, which names no language), the reader's preference decides, step by step (RES-07:
    choice of a translation): first the translation in the best language; else one whose language the answer does not
    name; else the item itself, if the answer lists translations of it and one of them has the item's own name. If the
    best of all languages that the answer names has no usable relation (perhaps no URL), none fits, whatever others
    have. A language without a country (`pt`) also accepts one with a country (`pt-BR`, AMB-47).
    """
    candidates = [each for each in usable if relation.accepts(each)]
    for index, step in enumerate(relation.steps):
        if step.kind is not StepKind.TRANSLATION or not candidates:
            continue
        lead = Relation(candidates[0].steps[:index])
        languages = {candidate.steps[index].parameter for candidate in candidates}
        if step.parameter is None:
            languages |= _named(answer, lead, relation, index)
        chosen = _choose(answer, lead, step, languages, preference)
        candidates = [candidate for candidate in candidates if candidate.steps[index].parameter in chosen]
    return WantedEntry(candidates[0], answer.entry(candidates[0])) if candidates else None


def without_bare_translation(relation: Relation) -> Relation | None:
    """Return the relation without its last bare translation; None if it has none (AMB-46: ends at the item itself)."""
    for index in range(len(relation.steps) - 1, -1, -1):
        if relation.steps[index] == Step(StepKind.TRANSLATION):
            return Relation(relation.steps[:index] + relation.steps[index + 1 :])
    return None


def _named(answer: UrlList, lead: Relation, relation: Relation, index: int) -> set[str | None]:
    """Return the languages of translations of `lead` in an answer, with a URL or not (URL-11 (b), RES-09)."""
    upto = Relation(relation.steps[: index + 1])
    named = [Relation(each.steps[: index + 1]) for each in answer.relations_of(terms.IBI)]
    return {
        each.steps[index].parameter
        for each in named
        if upto.accepts(each) and each.steps[:index] == lead.steps
    }


def _choose(
    answer: UrlList, lead: Relation, step: Step, offered: set[str | None], preference: LanguagePreference
) -> tuple[str | None, ...]:
    """Return the parameter of the translation to take, as a tuple of one; empty if no translation fits."""
    languages = sorted(language for language in offered if language is not None)
    if step.parameter is not None:
        return (step.parameter if step.parameter in offered else languages[0],)
    best = preference.choose(languages)
    if best is not None:
        return (best,)
    if None in offered:
        return (None,)
    own = answer.entry(lead).forms
    for language in languages:
        translated = answer.entry(Relation((*lead.steps, Step(StepKind.TRANSLATION, language)))).forms
        if own is not None and translated is not None and own.shares(translated):
            return (language,)
    return ()
